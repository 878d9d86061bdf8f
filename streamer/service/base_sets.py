"""Folders of base sets, as a person names them."""

from pathlib import Path

from index import DATA_FILE
from streamer.errors import SettingsError
from streamer.settings.settings import Index

_WITHIN = ("", "index", "index-data")
"""Folders, in one that a person names, that may hold its index. The last one is the default of `index.directory`."""


def base_folders(settings: Index) -> tuple[Path, ...]:
    """Folders of the indexes that `index.base` names. Raises SettingsError.

    >>> base_folders(Index())
    ()
    """
    folders = tuple(map(_index_in, settings.base))
    for named, folder in zip(settings.base, folders, strict=True):
        if folder.resolve() == settings.directory.resolve():
            raise SettingsError(
                f"index.base: {named}: this is the index itself (index.directory): leave it out, or decide into another one."
            )
    return folders


def _index_in(folder: Path) -> Path:
    for name in _WITHIN:
        if (folder / name / DATA_FILE).is_file():
            return folder / name
    raise SettingsError(
        f"index.base: {folder}: there is no index. Name the folder that --index named when the set was filtered, by default "
        "index-data."
    )
