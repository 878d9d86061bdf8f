"""Folders, globs and URLs as inputs."""

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from index import DATA_FILE
from streamer.errors import InputUnreadable
from streamer.transports.files import store
from streamer.transports.files.formats import KINDS, kind_of
from streamer.transports.files.remote import Input, Remote, is_url, plain_url

SIDE_FOLDERS = {
    *("_temporary", "_delta_log", "_delta_index", "_change_data", "_symlink_format_manifest", "_spark_metadata"),
    "__MACOSX",
}
"""Folders in which Spark, Delta Lake, Hive and archives of macOS keep what is no data. Others begin with a dot (.hoodie)."""

_NAMED_MAX = 5


class NoInput(Exception):
    """A folder or a glob that cannot be read as a whole. The message says why."""


def input_files(given: Path, out: Path | None = None) -> list[Path]:
    """Files that a folder or a glob means, ordered by the bytes in their paths; any other name as it is.

    An existing name is no glob. A folder gives its files with a suffix in KINDS at any depth. Hidden files and folders,
    indexes, `out` and SIDE_FOLDERS stay out; so do other files whose name begins with _, such as _SUCCESS. A glob matches any
    visible file; ** matches folders at any depth, and a side folder only by its own name.

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
    if is_glob:
        matches = [match for match in matches if not _is_beside(match, given)]
    files = {match for match in matches if not match.is_dir()}
    if "**" not in given.parts:
        files |= {file for match in matches if match.is_dir() for file in _files_in(match, out)}
    kept = [file for file in files if out is None or out.resolve() not in file.resolve().parents]
    if not kept:
        raise NoInput(f"{given}: {'no file matches' if is_glob else 'the folder has no file to read'}")
    return sorted(kept, key=os.fsencode)


def remote_files(address: str) -> list[Input]:
    """Objects that a URL means, ordered by the bytes in their URLs, by the rules for folders and globs here.

    Raises NoInput, SettingsError, InputUnreadable, InputLost.

    >>> from streamer.errors import SettingsError
    >>> try:
    ...     remote_files("ftp://corpora.example/a.jsonl")
    ... except SettingsError as error:
    ...     print(error)
    ftp://corpora.example/a.jsonl: ftp:// is not read. Name a file, or a URL that begins with s3 or https.
    """
    try:
        found = list(store.objects(address))
    except store.Absent as error:
        raise NoInput(str(error)) from error
    parts = address.split("/")
    paths = [PurePosixPath(each.path) for each in found]
    tables = {path.parent for path in paths if path.name == "version-hint.text" or path.name.endswith(".metadata.json")}
    files, others = list[Remote](), list[str]()
    for (remote, _, is_named), path in zip(found, paths, strict=True):
        is_beside = (
            "metadata" not in parts and {folder for folder in path.parents if folder.name == "metadata"} & tables
        )
        is_hidden = "/." not in address and any(part.startswith(".") for part in path.parts)
        is_note = path.name.startswith("_") and kind_of(remote) not in KINDS and not parts[-1].startswith("_")
        if is_beside or is_hidden or is_note or (SIDE_FOLDERS - {*parts}) & {*path.parts}:
            continue
        if is_named or kind_of(remote) in KINDS:
            files.append(remote)
        else:
            others.append(remote.url)
    if others:
        raise _not_inputs(plain_url(address).rstrip("/"), others)
    if not files:
        raise NoInput(f"{plain_url(address)}: no object there is a file to read")
    files.sort(key=lambda remote: remote.url.encode())
    return [*files]


def named_input(name: str) -> Input | None:
    """The input with this name in a checkpoint; None if it is not at hand any more. Raises SettingsError, InputLost.

    >>> named_input("-") is None, named_input("/dev/null") is None
    (True, True)
    """
    if not is_url(name):
        return Path(name) if Path(name).is_file() else None
    # A URL that needed a signature is refused without it.
    with suppress(store.Absent, InputUnreadable):
        return next((found.remote for found in store.objects(name) if found.is_named), None)
    return None


def _files_in(given: Path, out: Path | None) -> Iterator[Path]:
    others: list[str] = []
    for folder, folders, names in os.walk(given, onerror=_refuse):
        inner = [Path(folder, name) for name in folders if not name.startswith(".")]
        inner = [path for path in inner if not _is_side_folder(path)]
        others += [str(path) for path in inner if path.is_symlink()]
        folders[:] = [path.name for path in inner if not (path / DATA_FILE).exists() and not _is_same(path, out)]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.is_file() and kind_of(path) in KINDS:
                yield path
            elif not path.name.startswith("_"):
                others.append(str(path))
    if others:
        raise _not_inputs(given, others)


def _not_inputs(given: object, others: list[str]) -> NoInput:
    more = f" and {len(others) - _NAMED_MAX:,} more" if len(others) > _NAMED_MAX else ""
    return NoInput(
        f"{given}: no inputs, by their names: {', '.join(sorted(others)[:_NAMED_MAX])}{more}. Name the files to read by a "
        f"quoted glob, such as '{given}/**/*.jsonl'"
    )


def _is_side_folder(path: Path) -> bool:
    """Whether a folder holds what a program notes of its data: SIDE_FOLDERS, and `metadata` of an Iceberg table."""
    if path.name in SIDE_FOLDERS:
        return True
    return path.name == "metadata" and any(
        each.name == "version-hint.text" or each.name.endswith(".metadata.json") for each in path.iterdir()
    )


def _is_beside(match: Path, given: Path) -> bool:
    """Whether a match of a glob is a note such as _SUCCESS, or in a side folder, and the glob does not name it."""
    if (
        match.name.startswith("_")
        and kind_of(match) not in KINDS
        and not given.name.startswith("_")
        and match.is_file()
    ):
        return True
    folders = [match, *match.parents]
    return any(
        each.name not in given.parts and each.name in {*SIDE_FOLDERS, "metadata"} and _is_side_folder(each)
        for each in folders
        if each.is_dir()
    )


def _refuse(error: OSError) -> None:
    raise error


def _is_same(path: Path, out: Path | None) -> bool:
    return out is not None and out.exists() and path.samefile(out)
