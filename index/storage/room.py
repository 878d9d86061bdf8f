"""How much room an index has: its file, its file system, and the limit that its owner sets."""

import shutil
from pathlib import Path
from typing import NamedTuple

from index.storage.data_file import DATA_FILE


class Room(NamedTuple):
    """An index's room at one moment.

    file_bytes  the index file's size; 0 if it is missing
    free_bytes  what its file system has free for this user
    bytes_max   the largest size that the file can reach: its limit, or less if the disk is full before

    >>> room_of(folder / "none", map_bytes_max=2**20).file_bytes
    0
    """

    file_bytes: int
    free_bytes: int
    bytes_max: int


def room_of(directory: Path, map_bytes_max: int | None) -> Room:
    """An index's room, also before the index is made. Raises OSError if the disk does not answer."""
    data = directory / DATA_FILE
    file_bytes = data.stat().st_size if data.is_file() else 0
    free_bytes = shutil.disk_usage(nearest_existing(directory)).free
    reachable = file_bytes + free_bytes
    return Room(file_bytes, free_bytes, reachable if map_bytes_max is None else min(map_bytes_max, reachable))


def nearest_existing(directory: Path) -> Path:
    """The folder itself, or its nearest parent that exists."""
    return next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())
