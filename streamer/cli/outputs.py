"""Output of commands: tables or JSON, and files. Errors name the path, and a failed command leaves no useless files."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click
import orjson
from rich.console import Console, RenderableType
from rich.measure import Measurement

from index import errors
from streamer.errors import DeliveryDoubtful, OutputUnwritable, StreamerError

_HARMFUL = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_ANY_COLUMNS = 100_000

_FAILURES = (
    StreamerError,
    errors.NeardupIndexError,
    click.ClickException,
    click.exceptions.Exit,
    SystemExit,
    KeyboardInterrupt,
)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into OutputUnwritable with the path."""
    try:
        yield
    except OSError as problem:
        raise OutputUnwritable(f"{path}: {problem.strerror}.") from problem


EXIT_NO = 1
"""Exit code of a command whose answer is no: not sound, or nothing matches."""

AS_JSON = "streamer.as_json"
"""Key of --json in the `meta` of a command's context."""


def show(content: object, table: RenderableType, *, soft_wrap: bool = True) -> None:
    """Print a command's result, as JSON if it has the option --json, else as a table: in a file or pipe as wide as its words,
    and at most PIPE_COLUMNS.

    soft_wrap  whether lines outside of tables may exceed the terminal
    """
    # Reading options needs no tables.
    from streamer.explain.plain_table import PIPE_COLUMNS, PipeConsole

    if wants_json():
        click.echo(json_text(content))
    else:
        console = Console() if sys.stdout.isatty() else PipeConsole()
        if isinstance(console, PipeConsole):
            needed = Measurement.get(console, console.options.update(max_width=_ANY_COLUMNS), table).maximum
            console.width = min(needed, PIPE_COLUMNS)
        console.print(table, soft_wrap=soft_wrap, highlight=False)


def wants_json() -> bool:
    """Whether the current command has the option --json."""
    return bool(click.get_current_context().meta[AS_JSON])


def json_text(content: object) -> str:
    """JSON for a terminal: control characters stay escaped."""
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
    return _HARMFUL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_page(path: Path | None, page: Callable[[], str]) -> None:
    """Write a page, if it has a path. Call it last: an unwritable page must not lose the figures."""
    if path is not None:
        with writing(path):
            path.write_text(page(), encoding="utf-8")


def require_absent(path: Path, *, force: bool) -> None:
    """Raise OutputUnwritable for an existing `path`, unless `force`."""
    if not force and os.path.lexists(path):
        raise OutputUnwritable(f"{path}: exists already: name another file, or overwrite it with --force.")


@dataclass(kw_only=True)
class NoLeftovers:
    """Context manager that removes a failed command's new files; existing files stay.

    index    folder of an index; stays once a document entered it
    output   folder of filtered lines; stays once a line was delivered, or if the index stays
    scratch  files and folders that are useless until the command succeeds

    All stay after an unexpected error, and after a doubtful delivery, which only they can settle.

    >>> from streamer.errors import NoDocuments
    >>> with suppress(NoDocuments), NoLeftovers(scratch=[folder / "table"]):
    ...     (folder / "table").touch()
    ...     raise NoDocuments
    >>> (folder / "table").exists()
    False
    """

    index: Path | None = None
    output: Path | None = None
    scratch: Sequence[Path] = ()

    def __enter__(self) -> Self:
        from index import DATA_FILE

        folders = [each for each in (self.index, self.output) if each is not None]
        parents = {each for folder in folders for each in (folder.absolute(), *folder.absolute().parents)}
        parents |= {each for path in self.scratch for each in path.absolute().parents}
        self._new_folders = sorted((each for each in parents if not os.path.lexists(each)), reverse=True)
        self._new_scratch = [path for path in self.scratch if not os.path.lexists(path)]
        self._new_index = self.index if self.index and not os.path.lexists(self.index / DATA_FILE) else None
        self._files_before: set[str] = set()
        if self.output:
            from streamer.transports.files.output_folder import files_of

            self._files_before = files_of(self.output)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, _FAILURES) or isinstance(error, DeliveryDoubtful):
            return
        if isinstance(error, SystemExit) and not error.code:
            return
        for path in self._new_scratch:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()
        self._remove_unused()
        for folder in self._new_folders:
            # A non-empty folder stays.
            with suppress(OSError):
                folder.rmdir()

    def _remove_unused(self) -> None:
        from index.tools import remove_unused
        from streamer.transports.files.output_folder import remove_undelivered

        if self._new_index is not None and not remove_unused(self._new_index):
            # The output folder identifies a pipe's stream, so it stays with the index that decided it.
            return
        if self.output is not None:
            remove_undelivered(self.output, self._files_before)
