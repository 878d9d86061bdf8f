"""Turn of one process at bringing an index up to date. The turn ends with its process, however that ends.

It is a lock on the data file (flock), which LMDB leaves alone: it locks a file of its own, and by another call. A file that
is removed or replaced takes its lock along, so a turn belongs to one file and not to a path.
"""

import fcntl
import os
from pathlib import Path


class Turn:
    """Turn at the index in one data file, for one opening of it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the turn, if no other process has it; returns whether this one has it now. Never waits.

        Raises OSError where the file is gone.
        """
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def give_back(self) -> None:
        """Let another process take the turn; nothing where this one has it not."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
