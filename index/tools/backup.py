"""The index as a file: whole copies of it, replacing it, and the soundness of the file's own structure.

A copy appears under its name when it is complete and synced, or not at all.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import lmdb
from lmdb import verify as lmdb_verify

from index.errors import AlreadyOpen, FormatUnknown, IndexDamaged, IndexExists, IndexInUse, IndexMissing
from index.index import Index
from index.storage.data_file import DATA_FILE, require_whole
from index.storage.layout import Table, unpack_applied
from index.storage.open_directories import claim, release

LOCK_FILE = "lock.mdb"
FORMER_FILE = "data.mdb.former"
_UNFINISHED = ".unfinished"


def copy(index: Index, directory: Path, *, compact: bool) -> int:
    """Copy an open index, as it is at this moment, into a new directory; returns the bytes written.

    Writers go on meanwhile. `compact` leaves free pages out, and takes longer. What a killed copy left behind is
    written over. Raises IndexExists where the directory holds anything, IndexFull, IndexDamaged, OSError.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise IndexExists(f"{directory} exists and is not empty: name a new directory.")
    unfinished = directory.with_name(directory.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    with ExitStack() as leftovers:
        leftovers.callback(shutil.rmtree, unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with (unfinished / DATA_FILE).open("wb") as file:
            index.copy_to(file.fileno(), compact=compact)
            os.fsync(file.fileno())
        require_whole(unfinished / DATA_FILE)
        _sync(unfinished)
        size = (unfinished / DATA_FILE).stat().st_size
        unfinished.replace(directory)
    _sync(directory.parent)
    return size


def replace(directory: Path, source: Path, *, keep_former: bool) -> tuple[int, int]:
    """Replace the index in `directory` by a compacted copy of the one in `source`; returns the bytes before and after.

    Both may be the same directory. Nobody may have the index in `directory` open; who opens it meanwhile waits.
    keep_former  the file that is replaced stays beside the new one as FORMER_FILE
    Raises IndexMissing, IndexInUse, AlreadyOpen, IndexDamaged, FormatUnknown, OSError.
    """
    for each in (directory, source):
        if not (each / DATA_FILE).is_file():
            raise IndexMissing(f"There is no index in {each}.")
    require_whole(source / DATA_FILE)
    data, unfinished = directory / DATA_FILE, directory / (DATA_FILE + _UNFINISHED)
    with _held(directory) as lock, ExitStack() as leftovers:
        leftovers.callback(unfinished.unlink, missing_ok=True)
        before = data.stat().st_size
        with unfinished.open("wb") as file:
            _copy_compacted(source, file.fileno(), locked=source.samefile(directory))
            os.fsync(file.fileno())
        require_whole(unfinished)
        if keep_former:
            (directory / FORMER_FILE).unlink(missing_ok=True)
            (directory / FORMER_FILE).hardlink_to(data)
        # What the lock file says of the former file must not be believed by a process that waits to open this one.
        # Emptied, it makes that process fail and try again if we die here; opening writes it anew if we do not.
        os.ftruncate(lock, 0)
        unfinished.replace(data)
        _sync(directory)
        # This process holds the lock that LMDB asks for, so it opens as the first one does.
        lmdb.open(os.fspath(directory), readonly=True).close()
        return before, data.stat().st_size


def remove_unused(directory: Path) -> bool:
    """Remove the files of an index into which nothing ever entered; returns whether no index is left.

    An index that any process has open stays, as does one that cannot be read.
    """
    if not (directory / DATA_FILE).is_file():
        return True
    try:
        with _held(directory):
            require_whole(directory / DATA_FILE)
            if _was_used(directory):
                return False
            (directory / DATA_FILE).unlink()
            (directory / LOCK_FILE).unlink()
    except (AlreadyOpen, FormatUnknown, IndexDamaged, IndexInUse, lmdb.Error, OSError):
        return False
    return True


def structure_problems(directory: Path) -> list[str]:
    """What is wrong with the file's pages, each in words; empty where all is well.

    While others write, call it inside a read of the index: that keeps the pages of the moment from being used again.
    """
    try:
        problems = lmdb_verify.verify(os.fspath(directory / DATA_FILE), subdir=False)  # type: ignore[no-untyped-call]
    except lmdb_verify.VerifyError as problem:
        problems = [problem]
    return [str(problem) for problem in problems]


def _copy_compacted(source: Path, file_descriptor: int, *, locked: bool) -> None:
    """`locked`: the source is already ours alone, and opening its lock file again would let go of it."""
    try:
        with lmdb.open(os.fspath(source), readonly=True, lock=not locked) as environment:
            environment.copyfd(file_descriptor, compact=True)
    except lmdb.Error as problem:
        raise IndexDamaged(f"The index in {source} cannot be copied: {problem}.") from problem


def _was_used(directory: Path) -> bool:
    """Whether a document, or how far an input was decided, stands in an index that is ours alone."""
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
    # Its tables were never made.
    return False


@contextmanager
def _held(directory: Path) -> Iterator[int]:
    """Hold the lock that LMDB takes, shared, in every process that has the index open, for this process alone.

    Gives the lock file's descriptor. Raises IndexInUse, AlreadyOpen.
    """
    identity = claim(directory)
    lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as problem:
            raise IndexInUse(f"The index in {directory} is open in another process: stop it first.") from problem
        yield lock
    finally:
        os.close(lock)
        release(identity)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
