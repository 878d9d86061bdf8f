"""New files next to the ones that they replace.

    NAME.0123456789abcdef.unfinished   locked by the process that writes it, until it takes the name NAME

The name is unguessable, and an existing file or link is never opened: who may write into the folder cannot lead the content
elsewhere. A file with such a name and without a lock was left by a killed process. The next writer of NAME removes it.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED = ".unfinished"

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def fresh_file(path: Path, mode: int) -> Iterator[tuple[Path, int]]:
    """A new file for the block: its name and its descriptor. At the end it is gone, unless it was renamed. Raises OSError.

    mode  of the new file, before the umask

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, fresh_file(Path(folder) / "table", 0o600) as (name, descriptor):
    ...     _ = os.write(descriptor, b"words")
    ...     name.read_bytes()
    b'words'
    """
    _remove_remains(path)
    name, descriptor = _created(path, mode)
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)
        with suppress(OSError):
            name.unlink()


def keep_mode(descriptor: int, former: Path) -> None:
    """Give a new file the mode of the file that it replaces, and its owner as far as this process may."""
    with suppress(OSError):
        state = os.lstat(former)
        with suppress(PermissionError):
            os.fchown(descriptor, state.st_uid, state.st_gid)
        os.fchmod(descriptor, state.st_mode & 0o777)


def _created(path: Path, mode: int) -> tuple[Path, int]:
    while True:
        name = path.with_name(f"{path.name}.{secrets.token_hex(8)}{UNFINISHED}")
        descriptor = os.open(name, _FLAGS, mode)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another writer may have taken it for a remainder before it was locked.
        if os.fstat(descriptor).st_nlink:
            return name, descriptor
        os.close(descriptor)


def _remove_remains(path: Path) -> None:
    pattern = re.compile(re.escape(path.name) + "\\.[0-9a-f]{16}" + re.escape(UNFINISHED))
    with os.scandir(path.parent) as entries:
        remains = [
            entry.path for entry in entries if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    for each in remains:
        with suppress(OSError):
            descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(each)  # noqa: PTH108
            finally:
                os.close(descriptor)
