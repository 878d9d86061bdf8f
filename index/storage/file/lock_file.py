"""The lock file of an index: made with room, held together with the data file, and the writer that it names.

LMDB keeps its writers apart by a mutex in the lock file, and its readers by the slots in it. Two processes that have two
lock files would write over each other's pages. So every process that opens an index locks the data file too (flock,
shared), and a lock file is made only while no process holds the data file. A process that has the index open compares the
lock file with the one it opened, at every transaction.

The lock file begins with the magic of the data file. The writers' mutex follows the first 64 bytes, and begins with the
number of the thread that holds it (a robust mutex of the GNU C library; its two highest bits are flags).
"""

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from index.errors import IndexInUse, IndexMissing
from index.storage.data_file import DATA_FILE, MAGIC, identity_of, room_in

LOCK_FILE = "lock.mdb"

LOCK_BYTES = 8_192
"""Size of the lock file of an environment with LMDB's default of 126 readers."""

_COMMAND_SHOWN = 100
_MUTEX_AT, _THREAD_BITS = 64, 2**30 - 1

_TRIES, _PAUSE_SECONDS = 100, 0.02
"""Another process may be about to make the lock file."""


class HeldFiles:
    """The data file and the lock file that this process has open: held, and compared with those in the directory."""

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        """Hold the data file, and give the lock file room on the disk; make it where it is missing.

        Closing the lock file lets go of every lock that this process has on it: call before LMDB opens it.
        Raises IndexInUse where a process uses the index without a lock file. Raises IndexFull and OSError.
        """
        # The paths as they are now: the process may change its current folder.
        self.data = (directory / DATA_FILE).absolute()
        self._lock = (directory / LOCK_FILE).absolute()
        self._read_only = read_only
        # LMDB reads without locks where it may not write.
        self._without_lock = read_only and not os.access(directory, os.W_OK) and not self._lock.exists()
        self._descriptor = os.open(self.data, os.O_RDONLY)
        with ExitStack() as opening:
            opening.callback(os.close, self._descriptor)
            if not self._without_lock:
                self._hold()
            opening.pop_all()
        self.data_identity = identity_of(self.data)
        # LMDB keeps the file open, so no other file gets its number.
        self._lock_identity = identity_of(self._lock)

    def _hold(self) -> None:
        for _ in range(_TRIES):
            made = self._lock.exists()
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor, (fcntl.LOCK_SH if made else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                # LMDB opens a lock file that it may not write only for reading, on a disk that takes no writes.
                with suppress(*((OSError,) if self._read_only else ())):
                    self._give_room()
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
                return
            time.sleep(_PAUSE_SECONDS)
        raise IndexInUse(f"{self._lock}: this file is missing, while another process uses the index. {_WAY_OUT}")

    def _give_room(self) -> None:
        """Have the disk set its blocks aside, for which a missing one would kill the process (SIGBUS)."""
        with room_in(self._lock.parent):
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                os.posix_fallocate(descriptor, 0, LOCK_BYTES)
            finally:
                os.close(descriptor)

    def take_over(self) -> None:
        """Hold the data file that LMDB opened: opening may have waited for a process that replaced it."""
        identity = identity_of(self.data)
        if identity == self.data_identity:
            return
        with suppress(FileNotFoundError):
            fresh = os.open(self.data, os.O_RDONLY)
            os.dup2(fresh, self._descriptor, inheritable=False)
            os.close(fresh)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.data_identity = identity

    def require_in_place(self) -> None:
        """Raise IndexMissing where the data file is not the one that was opened, and IndexInUse as `require_lock` does.

        A process that only reads may go on reading a data file that was replaced.
        """
        self.require_lock()
        if not self._read_only and identity_of(self.data) != self.data_identity:
            raise IndexMissing(
                f"The index in {self.data.parent} was removed or replaced while it was in use. Put it back, or start "
                "again: what was delivered is then restored into a new one."
            )

    def require_lock(self) -> None:
        """Raise IndexInUse where the lock file is not the one that was opened: another writer may be at work.

        No other process finds a data file that was removed or replaced, so its lock file does not matter.
        """
        if self._without_lock or identity_of(self._lock) == self._lock_identity:
            return
        if identity_of(self.data) == self.data_identity:
            raise IndexInUse(
                f"{self._lock}: this file was removed or replaced while the index was in use, so that writers no longer "
                f"take turns. The batch is not written. {_WAY_OUT}"
            )

    def close(self) -> None:
        """Let go of the data file."""
        os.close(self._descriptor)


_WAY_OUT = "Stop every process that uses the index, and start again. A service restarts its workers by itself."


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that holds the writer lock of an index: its number, what it runs, and whether it is stopped."""

    process: int
    command: str
    stopped: bool

    def __str__(self) -> str:
        state = "is stopped and" if self.stopped else "runs and"
        ways = f"let it go on (kill -CONT {self.process}) or end" if self.stopped else "wait for it, or end"
        return (
            f"process {self.process} ({self.command}) {state} holds the writer lock of the index: {ways} it "
            f"(kill -KILL {self.process}), which loses nothing"
        )


def writer_of(directory: Path) -> Writer | None:
    """The process of this machine that holds the writer lock, while it does; None where that cannot be told.

    LMDB waits for the lock without limit, and a stopped process never gives it back.
    """
    try:
        with (directory / LOCK_FILE).open("rb") as file:
            begin, status = file.read(_MUTEX_AT + 4), os.fstat(file.fileno())
        magic, thread = int.from_bytes(begin[:4], "little"), int.from_bytes(begin[_MUTEX_AT:], "little") & _THREAD_BITS
        if magic != MAGIC or not thread:
            return None
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{thread}/status").read_text().splitlines())
        process = Path("/proc") / fields["Tgid"].strip()
        words = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
        # The number may be another process's by now, or that of another container.
        has_it_open = any(_same_file(descriptor, status) for descriptor in process.joinpath("fd").iterdir())
    except (OSError, KeyError):
        return None
    return (
        Writer(int(process.name), " ".join(words)[:_COMMAND_SHOWN], fields["State"].split()[0] in "Tt")
        if has_it_open
        else None
    )


def _same_file(descriptor: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), status)
    except OSError:
        return False
