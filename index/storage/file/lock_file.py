"""The lock file of an index: allocated on disk, held together with the data file, and the writer that it names.

LMDB separates writers by a mutex in the lock file, and readers by its slots. Two processes with two lock files would
overwrite each other's pages. So every process also locks the data file (flock, shared), creates a lock file only while
no process holds the data file, and compares the lock file with the opened one in every transaction.

The lock file begins with the data file's magic. The writers' mutex follows the first 64 bytes: a robust mutex of the
GNU C library, which begins with its thread's number. The two highest bits are flags.
"""

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from index.errors import IndexInUseError, IndexMissingError
from index.storage.data_file import DATA_FILE, MAGIC, identity_of, room_in
from index.storage.file.forks import OwnDescriptor

LOCK_FILE = "lock.mdb"

LOCK_BYTES = 8_192
"""Size of the lock file with LMDB's default: 126 readers."""

_COMMAND_SHOWN = 100
_MUTEX_AT, _THREAD_BITS = 64, 2**30 - 1

_TRIES, _PAUSE_SECONDS = 100, 0.02
"""Another process may be about to create the lock file."""


class HeldFiles:
    """The data file and lock file open in this process: held, and compared with those in the directory.

    >>> (folder / DATA_FILE).touch()
    >>> held = HeldFiles(folder, read_only=False)
    >>> (folder / DATA_FILE).unlink()
    >>> held.require_in_place()
    Traceback (most recent call last):
    index.errors.IndexMissingError: The index in ... was removed or replaced while it was in use. ...
    >>> held.close()
    """

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        """Hold the data file, and allocate the lock file on disk; creates a missing one.

        Closing the lock file releases every lock of this process on it: call this before LMDB opens it. Raises
        IndexInUseError if another process uses the index without a lock file, IndexFullError, OSError.
        """
        # Absolute paths: the process may change its current folder.
        self.data = (directory / DATA_FILE).absolute()
        self._lock = (directory / LOCK_FILE).absolute()
        self._read_only = read_only
        # Without write permission, LMDB reads without locks.
        self._without_lock = read_only and not os.access(directory, os.W_OK) and not self._lock.exists()
        self._held = OwnDescriptor(os.open(self.data, os.O_RDONLY))
        with ExitStack() as opening:
            opening.callback(self._held.close)
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
                fcntl.flock(self._held.number, (fcntl.LOCK_SH if made else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                # On a read-only disk, LMDB opens the lock file for reading only.
                with suppress(*((OSError,) if self._read_only else ())):
                    self._give_room()
                fcntl.flock(self._held.number, fcntl.LOCK_SH)
                return
            time.sleep(_PAUSE_SECONDS)
        raise IndexInUseError(f"{self._lock}: this file is missing, while another process uses the index. {_WAY_OUT}")

    def _give_room(self) -> None:
        """Allocate the file's blocks: a missing one would kill the process (SIGBUS)."""
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
            os.dup2(fresh, self._held.number, inheritable=False)
            os.close(fresh)
            fcntl.flock(self._held.number, fcntl.LOCK_SH)
        self.data_identity = identity

    def require_in_place(self) -> None:
        """Raise IndexMissingError if the data file was removed or replaced, and IndexInUseError as `require_lock` does.

        A read-only process may continue to read a replaced data file.
        """
        self.require_lock()
        if not self._read_only and identity_of(self.data) != self.data_identity:
            raise IndexMissingError(
                f"The index in {self.data.parent} was removed or replaced while it was in use. Put it back, or start "
                "again: what was delivered is then restored into a new one."
            )

    def require_lock(self) -> None:
        """Raise IndexInUseError if the lock file is not the opened one: another writer may be active.

        No other process opens a removed or replaced data file, so its lock file does not matter.
        """
        if self._without_lock or identity_of(self._lock) == self._lock_identity:
            return
        if identity_of(self.data) == self.data_identity:
            raise IndexInUseError(
                f"{self._lock}: this file was removed or replaced while the index was in use, so that writers no longer "
                f"take turns. The batch is not written. {_WAY_OUT}"
            )

    def close(self) -> None:
        """Release the data file."""
        # A child forked a moment ago may not have closed its copy yet.
        fcntl.flock(self._held.number, fcntl.LOCK_UN)
        self._held.close()


_WAY_OUT = "Stop every process that uses the index, and start again. A service restarts its workers by itself."


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that holds an index's writer lock: its id, its command line, and whether it is stopped.

    >>> print(Writer(process=4711, command="streamer run", stopped=True))
    process 4711 (streamer run) is stopped and holds the writer lock of the index: let it go on (kill -CONT 4711) or ...
    """

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
    """This machine's process that holds the writer lock, or None if there is none or it cannot be determined.

    LMDB waits for the lock without limit, and a stopped process never releases it.
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
        # The number may belong to another process by now, or to another container.
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
