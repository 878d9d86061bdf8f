"""Directories that this process has open. LMDB's locks belong to the process: a second opening would break them."""

from pathlib import Path
from threading import Lock

from index.errors import AlreadyOpen

_open_directories: set[tuple[int, int]] = set()
_open_directories_turn = Lock()


def claim(directory: Path) -> tuple[int, int]:
    """Register a directory as open; gives its identity for `release`. Raises AlreadyOpen."""
    status = directory.stat()
    identity = (status.st_dev, status.st_ino)
    with _open_directories_turn:
        if identity in _open_directories:
            raise AlreadyOpen(f"The index in {directory} is already open in this process; share that one.")
        _open_directories.add(identity)
    return identity


def release(identity: tuple[int, int]) -> None:
    """Undo `claim`."""
    with _open_directories_turn:
        _open_directories.discard(identity)
