"""The files in which one process counts its metrics: made with room on the disk, and made again when they are removed.

Cleaners of temporary files remove what is old, also under a running process. Its counts go on in files that have no name,
and the process that is scraped does not see them. So each process holds its files open, and copies them back.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from streamer.errors import NoRoomForMetrics

FILE_BYTES = 2**18
"""Room for the series of one process and one type: for some 1,000 partitions. Its file grows when there are more."""


class MetricsFolder:
    """Files of one process in a folder that several processes share, held open until `close`."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        """Make the folder and the files that are missing; those that exist keep their content.

        Raises NoRoomForMetrics: the files are mapped, and a page for which the disk has no room would kill the process
        (SIGBUS).
        """
        self._directory = directory
        self._files: dict[Path, int] = {}
        self._lock: int | None = None
        try:
            self._make_folder()
            for name in names:
                self._files[directory / name] = file = _made(directory / name)
                os.posix_fallocate(file, 0, FILE_BYTES)
        except OSError as error:
            self.close()
            raise self._unusable(error) from error

    def restore(self) -> bool:
        """Make removed files again, with the content that they have by now; whether any was removed.

        Raises NoRoomForMetrics.
        """
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
        # systemd-tmpfiles leaves a folder alone that is locked.
        lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if self._lock is not None:
            os.close(self._lock)
        self._lock = lock

    def _restore(self, path: Path) -> None:
        former = self._files[path]
        # The process that is scraped reads whole files only, and those that end in .db.
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        file = _made(fresh)
        size = max(FILE_BYTES, os.fstat(former).st_size)
        try:
            os.posix_fallocate(file, 0, size)
            os.write(file, os.pread(former, size, 0))
            fresh.replace(path)
        except OSError:
            os.close(file)
            raise
        self._files[path] = file
        os.close(former)

    def _unusable(self, error: OSError) -> NoRoomForMetrics:
        return NoRoomForMetrics(
            f"the processes count their metrics in {self._directory.parent}, which cannot be used: {error.strerror}: make "
            "room there, or name another folder in TMPDIR"
        )

    def close(self) -> None:
        """Let go of the files, which stay."""
        for file in (*self._files.values(), *([] if self._lock is None else [self._lock])):
            os.close(file)
        self._files, self._lock = {}, None


def _made(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_in_place(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except OSError:
        return False
