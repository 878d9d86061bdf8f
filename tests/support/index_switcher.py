"""A process that replaces an index by a compacted copy of another, and kills itself at a given place.

    python -m tests.support.index_switcher DIRECTORY SOURCE PLACE

PLACE names the function of the operating system before whose call it dies: `copyfd`, `fsync`, `ftruncate`, `replace`,
`open`, or `never`.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from index.tools import backup


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(directory: str, source: str, place: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    if place in {"fsync", "ftruncate"}:
        setattr(os, place, die)
    elif place == "replace":
        Path.replace = die  # type: ignore[assignment,method-assign]
    elif place == "copyfd":
        backup._copy_compacted = die
    elif place == "open":
        # After the file was replaced, before the lock file is written anew.
        replaced = Path.replace

        def then_die(path: Path, target: Any) -> Path:
            replaced(path, target)
            die()
            return path

        Path.replace = then_die  # type: ignore[method-assign]
    before, after = backup.replace(Path(directory), Path(source), keep_former=directory != source)
    print(before, after, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
