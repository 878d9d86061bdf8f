"""Turn of one process to bring an index up to date. The turn ends with its process, however that ends.

A lock of an open file description (F_OFD_SETLK) on the data file. LMDB locks another file, and
`storage.file.lock_file` locks this one by flock, so they do not conflict. A removed or replaced file keeps its lock:
a turn belongs to a file, not to a path. A forked child does not inherit the turn.
"""

import fcntl
import os
import struct
from pathlib import Path

from index.storage.file.forks import OwnDescriptor

_EXCLUSIVE = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""struct flock: an exclusive lock on the whole file; it names no process."""

_NO_LOCK = struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


class Turn:
    """Turn at the index in one data file, for one opening.

    >>> one, other = Turn(folder / "data.mdb"), Turn(folder / "data.mdb")
    >>> one.take(create=True), other.take()
    (True, False)
    >>> one.give_back()
    >>> other.take()
    True
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: OwnDescriptor | None = None

    def take(self, *, create: bool = False) -> bool:
        """Take the turn if it is free; returns whether this process has it. Never waits.

        Raises OSError if the file is gone, and cannot be created or may not be.
        """
        if self._lock is not None and self._lock.is_open:
            return True
        descriptor = os.open(self._file, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o666)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _EXCLUSIVE)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = OwnDescriptor(descriptor)
        return True

    def give_back(self) -> None:
        """Release the turn; does nothing without one."""
        if self._lock is not None and self._lock.is_open:
            # Unlocked first: a child forked a moment ago may not have closed its copy yet.
            fcntl.fcntl(self._lock.number, fcntl.F_OFD_SETLK, _NO_LOCK)
            self._lock.close()
