"""Folders of base sets and protected sets, as a person names them, and how a protected set's records were decoded."""

import os
from pathlib import Path
from typing import Any

import orjson

from index import DATA_FILE, Index
from streamer.errors import SettingsError
from streamer.settings.settings import Decode
from streamer.settings.settings import Index as IndexSettings
from streamer.transports.files.replacing import replacing

INDEX_FOLDER = "index"
"""A protected set's index, in the folder that a person names."""

NOTE = "set.json"
"""File that marks the folder of a protected set, and says how its records were decoded."""

_WITHIN = ("", INDEX_FOLDER, "index-data")
"""Folders, in one that a person names, that may hold its index. The last one is the default of `index.directory`."""

_NOT_NOTED = {*("registry_url", "registry_user", "registry_password", "registry_cafile", "registry_timeout_ms")}


def index_in(folder: Path) -> Path | None:
    """The index that a person means by `folder`, as a folder; None without one."""
    return next((folder / name for name in _WITHIN if (folder / name / DATA_FILE).is_file()), None)


def base_folders(settings: IndexSettings) -> tuple[Path, ...]:
    """Folders of the indexes that `index.base` names. Raises SettingsError.

    >>> base_folders(IndexSettings())
    ()
    """
    folders = tuple(map(_base_in, settings.base))
    for named, folder in zip(settings.base, folders, strict=True):
        if folder.resolve() == settings.directory.resolve():
            raise SettingsError(
                f"index.base: {named}: this is the index itself (index.directory): leave it out, or decide into another one."
            )
    return folders


def _base_in(folder: Path) -> Path:
    if (index := index_in(folder)) is not None:
        return index
    raise SettingsError(
        f"index.base: {folder}: there is no index. Name the folder that --index named when the set was filtered, by default "
        "index-data."
    )


def set_folders(settings: IndexSettings) -> dict[str, Path]:
    """Folders that `index.protected` names, by set. A folder that is named twice counts once.

    Raises SettingsError for a folder without a set, two sets of one name, the index itself, and a base set.

    >>> set_folders(IndexSettings())
    {}
    """
    folders: dict[str, Path] = {}
    own = {settings.directory.resolve(): "this is the index itself (index.directory)"}
    bases = {found.resolve(): "it is in index.base too, whose matches are dropped" for found in _found(settings.base)}
    for folder in dict.fromkeys(Path(os.path.realpath(named)) for named in settings.protected):
        index = folder / INDEX_FOLDER
        if not (index / DATA_FILE).is_file() or not (folder / NOTE).is_file():
            raise SettingsError(
                f"index.protected: {folder}: there is no protected set. Make one (streamer protect FILES --out "
                f"{folder}), or leave it out."
            )
        if why := (bases | own).get(index.resolve()):
            raise SettingsError(f"index.protected: {folder}: {why}: leave it out in one of both places.")
        if folder.name in folders:
            raise SettingsError(
                f"index.protected: {folders[folder.name]} and {folder} have one name, and reports would not tell them apart: "
                "rename one."
            )
        folders[folder.name] = folder
    return folders


def _found(bases: list[Path]) -> list[Path]:
    return [index for folder in bases if (index := index_in(folder)) is not None]


def secret_of(settings: IndexSettings) -> bytes | None:
    """The first protected set's secret, for a new index, whose fingerprints shall be comparable.

    None if there is an index already, or no set has one. Raises SettingsError as `set_folders`.
    """
    if (settings.directory / DATA_FILE).is_file():
        return None
    for folder in set_folders(settings).values():
        with Index.open(folder / INDEX_FOLDER, None, read_only=True) as index:
            if index.secret is not None:
                return index.secret
    return None


def write_note(folder: Path, decode: Decode) -> None:
    """Mark a folder as a protected set. Raises SettingsError if its other documents were decoded in another way."""
    noted = _noted(decode)
    path = folder / NOTE
    if path.is_file():
        if (before := _read(path)) != noted:
            differing = ", ".join(sorted(f"decode.{name}" for name in noted if noted[name] != before.get(name)))
            raise SettingsError(
                f"--out {folder}: its other documents were read by other settings ({differing}): name another --out, and both "
                "folders as sets."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(orjson.dumps({"format": 1, "decode": noted}, option=orjson.OPT_APPEND_NEWLINE))


def read_note(folder: Path, decode: Decode) -> Decode:
    """How a set's documents were decoded, with the settings of a registry from `decode`."""
    values = decode.model_dump(mode="python", include=_NOT_NOTED)
    return Decode.model_validate(values | _read(folder / NOTE), strict=False)


def _noted(decode: Decode) -> dict[str, Any]:
    return decode.model_dump(mode="json", exclude=_NOT_NOTED)


def _read(path: Path) -> dict[str, Any]:
    try:
        decode = orjson.loads(path.read_bytes())["decode"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SettingsError(
            f"{path}: cannot be read ({problem}): make the set again into another folder (streamer protect)."
        ) from problem
    return dict(decode)
