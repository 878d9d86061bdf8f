"""Folders and globs as inputs."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from index.tools import DATA_FILE
from streamer.transports.files.formats import KINDS, kind_of

_NAMED_MAX = 5


class NoInput(Exception):
    """A folder or a glob that cannot be read as a whole. The message says why."""


def input_files(given: Path, out: Path | None = None) -> list[Path]:
    """Files that a folder or a glob means, ordered by the bytes in their paths; any other name as it is.

    An existing name is no glob. A folder gives its files with a suffix in KINDS at any depth. Hidden files and folders,
    indexes, and `out` stay out; so do other files whose name begins with _, such as _SUCCESS. A glob matches any visible
    file; ** matches folders at any depth.

    Raises NoInput without a file, and for a folder with other files or links to folders. Raises OSError for an unreadable
    folder.

    >>> input_files(Path("-"))
    [PosixPath('-')]
    """
    is_glob = not os.path.lexists(given) and glob.has_magic(str(given))
    if not given.is_dir() and not is_glob:
        return [given]
    # Path.glob takes no absolute patterns.
    found = glob.glob(str(given), recursive=True) if is_glob else [given]  # noqa: PTH207
    matches = [Path(match) for match in found]
    files = {match for match in matches if not match.is_dir()}
    if "**" not in given.parts:
        files |= {file for match in matches if match.is_dir() for file in _files_in(match, out)}
    kept = [file for file in files if out is None or out.resolve() not in file.resolve().parents]
    if not kept:
        raise NoInput(f"{given}: {'no file matches' if is_glob else 'the folder has no file to read'}")
    return sorted(kept, key=os.fsencode)


def _files_in(given: Path, out: Path | None) -> Iterator[Path]:
    others: list[str] = []
    for folder, folders, names in os.walk(given, onerror=_refuse):
        inner = [Path(folder, name) for name in folders if not name.startswith(".")]
        others += [str(path) for path in inner if path.is_symlink()]
        folders[:] = [path.name for path in inner if not (path / DATA_FILE).exists() and not _is_same(path, out)]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.is_file() and kind_of(path) in KINDS:
                yield path
            elif not path.name.startswith("_"):
                others.append(str(path))
    if others:
        more = f" and {len(others) - _NAMED_MAX:,} more" if len(others) > _NAMED_MAX else ""
        raise NoInput(
            f"{given}: no inputs, by their names: {', '.join(sorted(others)[:_NAMED_MAX])}{more}. Name the files to read by a "
            f"quoted glob, such as '{given}/**/*.jsonl'"
        )


def _refuse(error: OSError) -> None:
    raise error


def _is_same(path: Path, out: Path | None) -> bool:
    return out is not None and out.exists() and path.samefile(out)
