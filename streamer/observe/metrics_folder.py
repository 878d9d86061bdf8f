"""One process's metric files, with reserved disk space, restored after removal.

Cleaners for temporary files remove old files even from a running process, which continues in unlinked ones. So each
process keeps its files open and restores them from there.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from streamer.errors import NoRoomForMetrics

FILE_BYTES = 2**18
"""Initial size per process and metric type, enough for some 1,000 partitions; the file grows."""


class MetricsFolder:
    """One process's files in a shared folder, open until `close`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     folder = MetricsFolder(Path(directory), ["counter.db"])
    ...     (Path(directory) / "counter.db").unlink()
    ...     folder.restore(), folder.restore(), folder.close()
    (True, False, None)
    """

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        """Create the folder and missing files; existing ones keep their content. Raises NoRoomForMetrics.

        A memory-mapped page without disk space would kill the process (SIGBUS).
        """
        self._directory = directory
        self._files: dict[Path, int] = {}
        self._lock: int | None = None
        try:
            self._make_folder()
            for name in names:
                self._files[directory / name] = file = _open(directory / name)
                os.posix_fallocate(file, 0, FILE_BYTES)
        except OSError as error:
            self.close()
            raise self._unusable(error) from error

    def restore(self) -> bool:
        """Restore removed files with their current content; True if any was missing. Raises NoRoomForMetrics."""
        removed = [path for path, file in self._files.items() if not _is_in_place(path, file)]
        if not removed:
            return False
        try:
            self._make_folder()
            for path in removed:
                self._restore(path)
        except OSError as error:
            raise self._unusable(error) from error
        return True

    def _make_folder(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._directory.lstat().st_uid != os.geteuid():
            raise PermissionError(0, "it belongs to another user", os.fspath(self._directory))
        # systemd-tmpfiles skips a locked folder.
        lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if self._lock is not None:
            os.close(self._lock)
        self._lock = lock

    def _restore(self, path: Path) -> None:
        former = self._files[path]
        # The scraped process reads all *.db files, so only a complete copy gets that name.
        copy = path.with_suffix(".new")
        copy.unlink(missing_ok=True)
        file = _open(copy)
        size = max(FILE_BYTES, os.fstat(former).st_size)
        try:
            os.posix_fallocate(file, 0, size)
            os.write(file, os.pread(former, size, 0))
            copy.replace(path)
        except OSError:
            os.close(file)
            raise
        self._files[path] = file
        os.close(former)

    def _unusable(self, error: OSError) -> NoRoomForMetrics:
        return NoRoomForMetrics(
            f"cannot write metrics to {self._directory.parent}: {error.strerror}: make room there, or set TMPDIR to another "
            "folder"
        )

    def close(self) -> None:
        """Close the files, which stay."""
        for file in (*self._files.values(), *([] if self._lock is None else [self._lock])):
            os.close(file)
        self._files, self._lock = {}, None


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_in_place(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except OSError:
        return False
