"""Entry point of `python -m streamer` and of the command `streamer`."""

import faulthandler
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from streamer.observe.garbage import leave_modules_alone
from streamer.observe.standard_streams import open_standard_streams

# Here and not in `main`: the processes that this one spawns import this module before all others.
leave_modules_alone()

INDEX = Path(__file__).resolve().parents[1] / "index" / "__init__.py"
"""The `index` that came with this package: its name is so plain that others may have one."""


def main() -> None:
    """Run the command line. On another system than Linux, or if Python would import somebody else's `index`, exit with 78."""
    open_standard_streams()
    if sys.platform != "linux":
        print("streamer: runs on Linux alone; elsewhere use its container image (deploy/Dockerfile)", file=sys.stderr)
        sys.exit(os.EX_CONFIG)
    # A document that crashes a parser leaves a line for each frame; the next run names the suspected documents.
    faulthandler.enable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_interrupted)
    found = _index_found()
    if found != INDEX:
        print(
            f"streamer: Python imports `index` from {found or 'nowhere'} and not from {INDEX.parent}, where `streamer` "
            "has its own; take that folder off PYTHONPATH, leave it if it is the current one, or install into an "
            "environment that holds nothing else called `index`",
            file=sys.stderr,
        )
        sys.exit(os.EX_CONFIG)
    # Not before: everything behind this line imports `index`.
    from streamer.errors import FILE_LIMITS, TOO_MANY_FILES, StreamerError
    from streamer.packages import imports_named

    try:
        with imports_named():
            from streamer.cli.main import main as run_command_line

            try:
                run_command_line()
            finally:
                sys.stdout.flush()
    except StreamerError as error:
        print(f"streamer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in FILE_LIMITS:
            raise
        print(f"streamer: {TOO_MANY_FILES}", file=sys.stderr)
        sys.exit(os.EX_OSERR)


def _end_interrupted(_number: int, _frame: object) -> NoReturn:
    """End at once on Ctrl-C, with a line and no traceback; commands that can end in order have handlers of their own."""
    # Not print: the signal may come amid one.
    os.write(sys.stderr.fileno(), b"streamer: interrupted\n")
    # As `streamer.errors.EXIT_INTERRUPTED`, which imports `index`.
    raise SystemExit(128 + signal.SIGINT)


def _index_found() -> Path | None:
    """The file that `import index` would run; for a mere folder the folder, None if there is nothing."""
    spec = find_spec("index")
    if spec is None:
        return None
    locations = list(spec.submodule_search_locations or ())
    place = spec.origin if spec.has_location else next(iter(locations), None)
    return None if place is None else Path(place).resolve()


if __name__ == "__main__":
    main()
