"""LMDB: opening, transactions, growing. The only importer of its client; what the bytes mean is not its business.

What it promises: a `write` happens wholly and is synced to disk when it returns, or not at all; writers of all
processes take turns; a `read` sees one moment. What it does not promise: fairness between writers, or that an
operation runs only once: a map that is too small is grown with no transaction open, and the operation runs again.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from threading import Lock
from typing import TypeVar

import lmdb

from index.errors import FormatUnknown, IndexDamaged, IndexFull, IndexInUse, IndexMissing, IndexProblem
from index.kernels.scan import address_of
from index.storage.layout import Table
from index.storage.open_directories import claim, release

MAP_BYTES_MIN = 2**20

HELD_WRITES = 32
"""A reading transaction is held over so many that write: it keeps what they free from being used again."""

HELD_SECONDS = 1.0
"""It is ended by the first operation after so long: this process may write seldom where others write much."""

DATA_FILE = "data.mdb"

# LMDB reports a write that stopped half-way, which is what a disk that fills up does to it, as EIO.
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError)

Result = TypeVar("Result")


def nothing() -> None:
    """The hook that does nothing."""


@dataclass(frozen=True, slots=True)
class CommitHooks:
    """Called around every commit of a write transaction, so that tests can fail or die at exactly these places.

    What `before_commit` raises aborts the transaction; what `after_commit` raises leaves it committed.
    """

    before_commit: Callable[[], None] = nothing
    after_commit: Callable[[], None] = nothing


class Transaction:
    """One LMDB transaction; valid only inside the operation that it was handed to."""

    def __init__(
        self,
        environment: lmdb.Environment,
        transaction: "lmdb.Transaction[memoryview]",
        tables: "Mapping[Table, lmdb._Database]",
        holding: "Holding | None" = None,
    ) -> None:
        self._environment = environment
        self._transaction = transaction
        self._tables = tables
        self._holding = holding
        self._placed: dict[Table, lmdb.Cursor[memoryview]] = {}

    def held(self) -> "Transaction":
        """A reading transaction that may be older than this one and lives longer; itself where this one only reads.

        Begun here if there is none: then it sees what this one saw at its beginning. Whoever keeps anything of it must
        see each time whether it is still the same one.
        """
        return self if self._holding is None else self._holding.transaction()

    def let_go(self) -> None:
        """End the transaction that is `held`; the next one that is asked for is a new one."""
        if self._holding is not None:
            self._holding.let_go()

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The value of a key (of many values the lowest), or None."""
        value = self.view(table, key)
        return None if value is None else bytes(value)

    def view(self, table: Table, key: bytes) -> memoryview | None:
        """The value of a key where it stands, or None. To be read before anything is written in this transaction."""
        return self._transaction.get(key, db=self._tables[table])

    def addresses(self, table: Table, keys: Sequence[bytes]) -> list[int]:
        """Where the values of these keys, which must exist, begin in memory. They stand there as a `view` does."""
        get, handle = self._transaction.get, self._tables[table]
        # Thousands are read in a batch; numpy's own way to an address takes eight times as long.
        views = [get(key, db=handle) for key in keys]
        assert None not in views, "a key has no value"
        return list(map(address_of, views))

    def get_many(self, table: Table, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """(key, value) for each of the keys that exists, in the order asked; of many values the lowest."""
        return [(bytes(key), bytes(value)) for key, value in self._cursor(table).getmulti(keys)]

    def first_values(self, table: Table, key: bytes, count_max: int) -> list[bytes]:
        """The lowest values of a key, at most `count_max`, ascending."""
        cursor = self._cursor(table)
        return [bytes(value) for value in islice(cursor.iternext_dup(), count_max)] if cursor.set_key(key) else []

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._transaction.put(key, value, db=self._tables[table])

    def add(self, table: Table, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add values to their keys, in a table of many values."""
        self._cursor(table).putmulti(list(zip(keys, values, strict=True)))

    def floor(self, table: Table, key: bytes) -> tuple[bytes, memoryview] | None:
        """The pair with the greatest key that is not above `key`, or None; the value as `view` gives it."""
        cursor = self._anywhere(table)
        found = cursor.set_range(key)
        if not (found and cursor.key() == key) and not (cursor.prev() if found else cursor.last()):
            return None
        return bytes(cursor.key()), cursor.value()

    def key_above(self, table: Table, key: bytes) -> bytes | None:
        """The least key above `key`, or None."""
        cursor = self._anywhere(table)
        if not cursor.set_range(key):
            return None
        if cursor.key() == key and not cursor.next_nodup():
            return None
        return bytes(cursor.key())

    def walk(self, table: Table, begin: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """All pairs from the key `begin` on, ascending; values as `view` gives them."""
        cursor = self._cursor(table)
        pairs = cursor.iternext() if not begin or cursor.set_range(begin) else iter(())
        return ((bytes(key), value) for key, value in pairs)

    def delete(self, table: Table, key: bytes, value: bytes = b"") -> bool:
        """Remove a key, of many values this one; whether it was there."""
        return self._transaction.delete(key, value, db=self._tables[table])

    def keys(self, table: Table, first: bytes = b"", last: bytes | None = None) -> list[bytes]:
        """All keys, ascending, or those from one to another, both included."""
        cursor = self._cursor(table)
        if first and not cursor.set_range(first):
            return []
        keys = map(bytes, cursor.iternext(values=False))
        return list(keys if last is None else takewhile(lambda key: key <= last, keys))

    def count(self, table: Table) -> int:
        """How many values the table holds."""
        return self._transaction.stat(self._tables[table])["entries"]

    def page_bytes(self, table: Table) -> int:
        """Bytes of the table's own pages; a key with very many values has further pages that are not counted."""
        stat = self._transaction.stat(self._tables[table])
        return stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])

    def used_bytes(self) -> int:
        """Bytes of the file that were ever used, free pages within it included."""
        return (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]

    def map_bytes(self) -> int:
        """Size of the memory map: what the file may grow to before the map is grown."""
        return self._environment.info()["map_size"]

    def _anywhere(self, table: Table) -> "lmdb.Cursor[memoryview]":
        """A cursor of which nobody relies on where it stands: to make one takes longer than to place it."""
        if table not in self._placed:
            self._placed[table] = self._cursor(table)
        return self._placed[table]

    def _cursor(self, table: Table) -> "lmdb.Cursor[memoryview]":
        return self._transaction.cursor(db=self._tables[table])


class Holding:
    """A reading transaction that is kept open over several that write, so that what it gave stays where it is.

    LMDB promises that of all values that a reading transaction gives, until it ends or the map is resized. Pages that
    others free meanwhile are not used again: so it is ended soon.
    """

    def __init__(self, environment: lmdb.Environment, tables: "Mapping[Table, lmdb._Database]") -> None:
        self._environment = environment
        self._tables = tables
        self._held: tuple[lmdb.Transaction[memoryview], Transaction] | None = None
        self._writes = 0
        self._until = 0.0

    def transaction(self) -> Transaction:
        """The one that is open; a new one where none is."""
        if self._held is None:
            own = self._environment.begin(buffers=True)
            self._held = own, Transaction(self._environment, own, self._tables)
            self._writes, self._until = 0, time.monotonic() + HELD_SECONDS
        return self._held[1]

    def let_go(self) -> None:
        """End it, if one is open."""
        if self._held is not None:
            self._held[0].abort()
            self._held = None

    def grow_old(self, *, write: bool) -> None:
        """An operation begins: end what was held over so many writes, or so long, that it is time."""
        self._writes += write
        if self._writes > HELD_WRITES or time.monotonic() > self._until:
            self.let_go()


class Store:
    """One open LMDB environment. Threads may share it: their calls take turns. It must not cross a fork."""

    def __init__(
        self, directory: Path, *, map_bytes_initial: int, map_bytes_max: int, read_only: bool, hooks: CommitHooks
    ) -> None:
        """Open or create. Raises IndexMissing, AlreadyOpen, IndexInUse, IndexDamaged, FormatUnknown."""
        if not MAP_BYTES_MIN <= map_bytes_initial <= map_bytes_max:
            raise ValueError(f"{MAP_BYTES_MIN} <= map_bytes_initial <= map_bytes_max must hold")
        self._directory = directory
        self._map_bytes_max = map_bytes_max
        self._read_only = read_only
        self._hooks = hooks
        self._turn = Lock()
        self._tables: dict[Table, lmdb._Database] = {}
        if read_only and not (directory / DATA_FILE).is_file():
            raise IndexMissing(f"There is no index in {directory}.")
        if not read_only:
            directory.mkdir(parents=True, exist_ok=True)
        self._identity = claim(directory)
        self._is_open = False
        try:
            self._environment = self._opened(map_bytes_initial)
            self._holding = Holding(self._environment, self._tables)
            self._is_open = True
        finally:
            if not self._is_open:
                release(self._identity)
        # A reader that was killed would keep freed pages from being used again.
        self._environment.reader_check()

    def _opened(self, map_bytes: int) -> lmdb.Environment:
        try:
            return lmdb.open(
                os.fspath(self._directory),
                map_size=_whole_pages(map_bytes),
                max_dbs=len(Table),
                readonly=self._read_only,
            )
        except (lmdb.VersionMismatchError, lmdb.InvalidError) as problem:
            raise FormatUnknown(
                f"{self._directory / DATA_FILE} is not a file this program can read: {problem}"
            ) from problem
        except lmdb.InvalidParameterError as problem:
            # What LMDB says of an empty lock file: `copies.replace` leaves one where it is killed.
            raise IndexInUse(
                f"The index in {self._directory} was being replaced, and that was broken off. Open it again."
            ) from problem
        except lmdb.Error as problem:
            raise self._named(problem) from problem

    def is_new(self) -> bool:
        """Whether nothing was ever stored. Raises FormatUnknown where another program stored something."""
        try:
            self._open_tables([Table.META], create=False)
        except lmdb.NotFoundError as problem:
            if self._environment.stat()["entries"]:
                raise FormatUnknown(f"{self._directory / DATA_FILE} holds tables of another program.") from problem
            return True
        return False

    def prepare(self, tables: Iterable[Table]) -> None:
        """Make tables usable, creating what is missing. Raises FormatUnknown where that may not be done."""
        try:
            self._open_tables(tables, create=not self._read_only)
        except lmdb.NotFoundError as problem:
            raise FormatUnknown(f"The index in {self._directory} lacks a table.") from problem

    def _open_tables(self, tables: Iterable[Table], *, create: bool) -> None:
        with self._turn, self._begun(write=not self._read_only) as transaction:
            # A handle that is opened inside a reading transaction dies with it; without one py-lmdb keeps it.
            inside = None if self._read_only else transaction
            for table in tables:
                many = table.many_values
                self._tables[table] = self._environment.open_db(
                    table.value, txn=inside, dupsort=many, dupfixed=many, create=create
                )

    def read(self, operation: Callable[[Transaction], Result]) -> Result:
        """JournalRun `operation` on one moment's state. Raises IndexDamaged."""
        with self._turn, self._begun(write=False) as transaction:
            self._holding.grow_old(write=False)
            return operation(Transaction(self._environment, transaction, self._tables))

    def write(self, operation: Callable[[Transaction], Result], committed: Callable[[], None] = nothing) -> Result:
        """JournalRun `operation` and commit what it did, or nothing if it raises. It may be run again from the start.

        `committed` is called once it is, before any other thread has its turn. Raises IndexFull, IndexDamaged.
        """
        if self._read_only:
            raise IndexProblem(f"The index in {self._directory} was opened for reading only.")
        with self._turn:
            while True:
                try:
                    with self._begun(write=True) as transaction:
                        self._holding.grow_old(write=True)
                        result = operation(Transaction(self._environment, transaction, self._tables, self._holding))
                        self._hooks.before_commit()
                    break
                except lmdb.MapFullError:
                    self._grow()
            committed()
            self._hooks.after_commit()
            return result

    def copy_to(self, file_descriptor: int, *, compact: bool) -> None:
        """Write one moment's state into a file; others may go on to write. `compact` leaves free pages out.

        Raises IndexFull where the file cannot be written, IndexDamaged.
        """
        with self._turn:
            try:
                self._environment.copyfd(file_descriptor, compact=compact)
            except lmdb.Error as problem:
                raise self._named(problem) from problem

    def readers(self) -> list[tuple[int, int | None]]:
        """Who is reading: process id, and the transaction whose state is read, None between two reads."""
        lines = self._environment.readers().splitlines()
        columns = [line.split() for line in lines if line.split()[:1] and line.split()[0].isdecimal()]
        return [(int(pid), int(state) if state.isdecimal() else None) for pid, _, state in columns]

    @contextmanager
    def _begun(self, *, write: bool) -> Iterator["lmdb.Transaction[memoryview]"]:
        """A transaction that commits at the end, or aborts on what is raised. MapFullError passes through."""
        try:
            with self._begin(write=write) as transaction:
                yield transaction
        except (lmdb.MapFullError, lmdb.NotFoundError):
            raise
        except lmdb.Error as problem:
            raise self._named(problem) from problem

    def _begin(self, *, write: bool) -> "lmdb.Transaction[memoryview]":
        while True:
            try:
                return self._environment.begin(write=write, buffers=True)
            except lmdb.MapResizedError:
                # Another process has grown the map beyond ours: take over its size.
                self._holding.let_go()
                self._environment.set_mapsize(0)

    def _grow(self) -> None:
        self._holding.let_go()
        now = self._environment.info()["map_size"]
        limit = _whole_pages(self._map_bytes_max)
        if now >= limit:
            raise IndexFull(
                f"The index in {self._directory} may not grow beyond index.map_bytes_max = {self._map_bytes_max} bytes. "
                "Raise the setting; nothing of this batch was kept."
            )
        self._environment.set_mapsize(min(now * 2, limit))

    def _named(self, problem: lmdb.Error) -> Exception:
        """The error of ours that an LMDB error means; itself where it means a broken invariant."""
        if isinstance(problem, lmdb.DiskError) or getattr(problem, "code", 0) in _DISK_FULL:
            return IndexFull(
                f"The disk that holds the index in {self._directory} is full or failing: {problem}. "
                "Make room; nothing of this batch was kept."
            )
        if isinstance(problem, lmdb.PanicError):
            return IndexDamaged(f"Writing the index in {self._directory} failed half-way; open it again: {problem}.")
        if isinstance(problem, _DAMAGED):
            return IndexDamaged(f"The index in {self._directory} is damaged: {problem}. Restore it, or build it anew.")
        return problem

    def close(self) -> None:
        """Let go of the files; further calls do nothing."""
        with self._turn:
            if self._is_open:
                self._is_open = False
                self._holding.let_go()
                self._environment.close()
                release(self._identity)


def _whole_pages(size: int) -> int:
    return size - size % 65_536
