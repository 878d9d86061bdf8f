"""Backup: copy the whole file, replace it, and check its pages.

A copy appears under its name only once it is complete and synced.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import lmdb

from index.errors import (
    AlreadyOpenError,
    FormatUnknownError,
    IndexDamagedError,
    IndexExistsError,
    IndexFullError,
    IndexInUseError,
    IndexMissingError,
)
from index.index import MAP_BYTES_INITIAL, Index, internals_of
from index.storage import data_file
from index.storage.data_file import DATA_FILE, DISK_FULL, claim, release, require_whole, room_in
from index.storage.file.fresh import UNFINISHED, fresh_file, keep_mode
from index.storage.file.lock_file import LOCK_BYTES, LOCK_FILE, HeldFiles
from index.storage.layout import Table, unpack_applied

FORMER_FILE = "data.mdb.former"
_REMAINS = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}" + re.escape(UNFINISHED))


def has_index(directory: Path) -> bool:
    """Whether a directory holds an index."""
    return (directory / DATA_FILE).is_file()


def copy(index: Index, directory: Path, *, compact: bool) -> int:
    """Copy a snapshot of an open index into a new directory; returns the bytes written.

    Writers continue meanwhile. `compact` omits free pages, and takes longer. The copy has the mode of the index. It is made in
    a folder next to the directory, with an unguessable name. What a killed copy left there goes. Raises IndexExistsError if the
    directory holds anything, IndexFullError, IndexDamagedError, OSError.
    """
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise IndexExistsError(f"{directory} exists and is not empty: name a new directory.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    store = internals_of(index).store
    with room_in(directory.parent), _folder_next_to(directory) as apart:
        unfinished = apart / directory.absolute().name
        unfinished.mkdir()
        with (unfinished / DATA_FILE).open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            store.copy_to(file.fileno(), compact=compact)
            keep_mode(file.fileno(), store.data)
            os.fsync(file.fileno())
        require_whole(unfinished / DATA_FILE)
        _sync(unfinished)
        size = (unfinished / DATA_FILE).stat().st_size
        unfinished.replace(directory)
    _sync(directory.parent)
    return size


@contextmanager
def _folder_next_to(directory: Path) -> Iterator[Path]:
    """A new folder next to another for the block, locked. Folders of killed processes, which are not locked, go first."""
    parent, name = directory.absolute().parent, directory.absolute().name
    for each in [
        entry for entry in parent.iterdir() if (found := _REMAINS.fullmatch(entry.name)) and found["name"] == name
    ]:
        _remove_remains(each, name)
    apart = parent / f".{name}.{secrets.token_hex(8)}{UNFINISHED}"
    apart.mkdir(mode=0o700)
    descriptor = os.open(apart, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield apart
    finally:
        os.close(descriptor)
        shutil.rmtree(apart, ignore_errors=True)


def _remove_remains(folder: Path, name: str) -> None:
    """Remove a folder that holds what a killed copy had made, and nothing else."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Each fails where there is something else.
            (folder / name / DATA_FILE).unlink(missing_ok=True)
            if (folder / name).exists():
                (folder / name).rmdir()
            folder.rmdir()
        finally:
            os.close(descriptor)


def replace(directory: Path, source: Path, *, keep_former: bool) -> tuple[int, int]:
    """Replace the index in `directory` by a compacted copy of `source`; returns the bytes before and after.

    Both may be the same directory. No process may have the index in `directory` open; a process that opens it meanwhile
    waits. The new file has the mode of the replaced one. Raises IndexMissingError, IndexInUseError, AlreadyOpenError,
    IndexFullError, IndexDamagedError, FormatUnknownError, OSError.

    keep_former  keep the replaced file as FORMER_FILE in the same directory
    """
    for each in (directory, source):
        if not has_index(each):
            raise IndexMissingError(f"There is no index in {each}.")
    # No other opening of the copy would accept another index format.
    map_bytes_max = max(MAP_BYTES_INITIAL, require_whole(source / DATA_FILE))
    Index.open(source, None, map_bytes_max=map_bytes_max, read_only=True).close()
    data = directory / DATA_FILE
    with _held(directory) as lock, room_in(directory), fresh_file(data, 0o600) as (unfinished, descriptor):
        before = data.stat().st_size
        _copy_compacted(source, descriptor, locked=source.samefile(directory))
        keep_mode(descriptor, data)
        os.fsync(descriptor)
        require_whole(unfinished)
        # Openings lock the data file for themselves.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        if keep_former:
            (directory / FORMER_FILE).unlink(missing_ok=True)
            (directory / FORMER_FILE).hardlink_to(data)
        # A process that waits to open this file must not trust the former lock file. If this process dies here, an empty lock
        # file makes the waiting process fail and retry; otherwise opening rewrites it.
        os.ftruncate(lock, 0)
        unfinished.replace(data)
        _sync(directory)
        os.posix_fallocate(lock, 0, LOCK_BYTES)
        # This process holds LMDB's lock, so it opens the file as its first process would.
        lmdb.open(os.fspath(directory), readonly=True).close()
        return before, data.stat().st_size


def remove_unused(directory: Path) -> bool:
    """Remove the files of an index that never held anything; returns whether no index is left.

    An index that is open anywhere stays, and so does an unreadable one.
    """
    if not (directory / DATA_FILE).is_file():
        return True
    try:
        with _held(directory):
            require_whole(directory / DATA_FILE)
            data_file.require_sound(directory / DATA_FILE, lambda: 0)
            if _was_used(directory):
                return False
            (directory / DATA_FILE).unlink()
            (directory / LOCK_FILE).unlink()
    except (AlreadyOpenError, FormatUnknownError, IndexDamagedError, IndexInUseError, lmdb.Error, OSError):
        return False
    return True


def structure_problems(directory: Path) -> list[str]:
    """Problems in the file's pages, in words; empty if the file is sound.

    While other processes write, call this inside a read of the index, which pins its snapshot's pages.
    """
    return data_file.structure_problems(directory / DATA_FILE)


def _copy_compacted(source: Path, file_descriptor: int, *, locked: bool) -> None:
    """locked: this process holds the source's lock; opening the lock file again would release it."""
    try:
        with lmdb.open(os.fspath(source), readonly=True, lock=not locked) as environment:
            with environment.begin():
                data_file.require_sound(source / DATA_FILE, lambda: environment.info()["last_txnid"])
            environment.copyfd(file_descriptor, compact=True)
    except lmdb.Error as problem:
        if isinstance(problem, lmdb.DiskError) or getattr(problem, "code", 0) in DISK_FULL:
            raise IndexFullError(
                f"The disk of the copy of {source} is full or failing: {problem}. Make room."
            ) from problem
        raise IndexDamagedError(f"The index in {source} cannot be copied: {problem}.") from problem


def _was_used(directory: Path) -> bool:
    """Whether an index holds a document or an applied offset; no other process may have it open."""
    with (
        lmdb.open(os.fspath(directory), readonly=True, lock=False, max_dbs=len(Table)) as environment,
        environment.begin() as transaction,
        suppress(lmdb.NotFoundError),
    ):
        log, applied = (
            environment.open_db(each.value, transaction, create=False) for each in (Table.LOG, Table.APPLIED)
        )
        offsets = (unpack_applied(value)[0] for _, value in transaction.cursor(applied))
        return transaction.stat(log)["entries"] > 0 or any(offsets)
    # No table was ever created.
    return False


@contextmanager
def _held(directory: Path) -> Iterator[int]:
    """Hold LMDB's lock exclusively; every process with the index open shares it.

    Yields the lock file's descriptor. Raises IndexInUseError, AlreadyOpenError.
    """
    with ExitStack() as holding:
        holding.callback(release, claim(directory))
        holding.callback(HeldFiles(directory, read_only=False).close)
        lock = os.open(directory / LOCK_FILE, os.O_RDWR)
        holding.callback(os.close, lock)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as problem:
            raise IndexInUseError(f"The index in {directory} is open in another process: stop it first.") from problem
        yield lock


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
