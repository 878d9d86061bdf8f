"""LMDB: opening, transactions, growing. Only this module and `backup` import its client; it never interprets values.

Guaranteed: a `write` is complete and synced to disk when it returns, or changes nothing. Writers of all processes take
turns. A `read` sees one snapshot. Not guaranteed: fairness between writers, and that an operation runs only once. If
the map is too small, it grows with no transaction open, and the operation runs again.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import lmdb

from index import errors
from index.storage import data_file
from index.storage.data_file import DATA_FILE, DISK_FULL, WAY_OUT, claim, release
from index.storage.file.checksums import CHECKSUM, Checksums, checksum_of, first_wrong, with_checksums
from index.storage.file.commit_hooks import CommitHooks, nothing
from index.storage.file.forks import register
from index.storage.file.lock_file import HeldFiles, writer_of
from index.storage.file.neighbours import neighbours
from index.storage.file.tree_place import TreePlace, tree_place
from index.storage.layout import Table

MAP_BYTES_MIN = 2**20
FORK_WAIT_SECONDS = 10.0
"""How long a fork waits for the calls of other threads."""

_MAP_STEP_BYTES = 2**16

_BEYOND_REACH = {
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EMFILE, errno.ENFILE),
}
_abandoned: list[lmdb.Environment] = []
"""Environments that a child could not close: collecting them would end its parent's transactions."""

_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError)

Result = TypeVar("Result")


@dataclass(eq=False)
class Transaction:
    """One LMDB transaction, valid only inside the operation that receives it.

    Every value has a checksum. Reads check and remove it, and raise IndexDamagedError on a mismatch. A value `read_in_parts`
    is checked once per process, and on `recheck`. A missing key's neighbours are checked: a damaged key would be one of
    them.

    >>> opened.store.write(lambda transaction: transaction.put(Table.META, b"a", b"1"))
    >>> opened.store.read(lambda transaction: (transaction.get(Table.META, b"a"), transaction.get(Table.META, b"b")))
    (b'1', None)
    """

    _environment: lmdb.Environment
    _transaction: "lmdb.Transaction[memoryview]"
    _tables: "Mapping[Table, lmdb._Database]"
    _checksums: Checksums
    writes: bool = False
    _placed: "dict[Table, lmdb.Cursor[memoryview]]" = field(default_factory=dict)
    # Views that callers keep, by name; cleared when this transaction writes.
    kept: dict[str, Any] = field(default_factory=dict)

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The key's value (the lowest of many), or None."""
        value = self.view(table, key)
        return None if value is None else bytes(value)

    def view(self, table: Table, key: bytes, *, recheck: bool = False) -> memoryview | None:
        """As `get`, as a view of the map. Valid until this transaction writes."""
        value = self._transaction.get(key, db=self._tables[table])
        if value is None:
            self._require_missing(table, key)
            return None
        return self._content(table, key, value, recheck=recheck)

    def existing(self, table: Table, key: bytes) -> memoryview:
        """As `view`, for a key that another value names. Raises IndexDamagedError if it is missing."""
        value = self.view(table, key)
        if value is None:
            raise self.damaged(f"table {table.value.decode()} lacks {key.hex()}")
        return value

    def get_many(self, table: Table, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """(key, value) for every key that exists, in the given order; the lowest of many values."""
        raw = [(bytes(key), value) for key, value in self._cursor(table).getmulti(keys)]
        self._require_fitting(table, raw)
        pairs = [(key, bytes(value[: -CHECKSUM.size])) for key, value in raw]
        if len(pairs) < len(keys):
            near = neighbours(self._anywhere(table), sorted(set(keys)), {key for key, _ in pairs})
            self._require_fitting(table, near.items())
        return pairs

    def first_values(self, table: Table, key: bytes, count_max: int) -> list[bytes]:
        """A key's lowest values, at most `count_max`, ascending."""
        cursor = self._cursor(table)
        if not cursor.set_key(key):
            self._require_missing(table, key)
            return []
        return [bytes(self._content(table, key, value)) for value in islice(cursor.iternext_dup(), count_max)]

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        """Set a key's value."""
        self.kept.clear()
        stored, handle = value + self._checksums.of(table, key, value), self._tables[table]
        # LMDB would keep the pages of a longer value from this transaction (`data_file.structure_problems`).
        if len(self._transaction.get(key, b"", db=handle)) > len(stored):
            self._transaction.delete(key, db=handle)
        self._transaction.put(key, stored, db=handle)

    def put_all(self, table: Table, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Set distinct keys' values."""
        self.kept.clear()
        cursor = self._cursor(table)
        stored = dict(zip(keys, with_checksums(table, keys, values), strict=True))
        for key in [bytes(key) for key, old in cursor.getmulti(keys) if len(old) > len(stored[bytes(key)])]:
            self._transaction.delete(key, db=self._tables[table])  # as in `put`
        cursor.putmulti(stored.items())

    def add(self, table: Table, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add values: to existing keys in tables with many values per key, else under new keys."""
        self.kept.clear()
        self._cursor(table).putmulti(list(zip(keys, with_checksums(table, keys, values), strict=True)))

    def floor(self, table: Table, key: bytes, *, recheck: bool = False) -> tuple[bytes, memoryview] | None:
        """The pair with the greatest key not above `key`, or None; the value is a `view`."""
        cursor = self._anywhere(table)
        is_above = cursor.set_range(key)
        if not (cursor.key() == key or cursor.prev() if is_above else cursor.last()):
            return None
        place, value = cursor.item()
        key = bytes(place)
        return key, self._content(table, key, value, recheck=recheck)

    def key_above(self, table: Table, key: bytes) -> bytes | None:
        """The least key above `key`, or None."""
        cursor = self._anywhere(table)
        if not cursor.set_range(key):
            return None
        if cursor.key() == key and not cursor.next_nodup():
            return None
        above = bytes(cursor.key())
        self._content(table, above, cursor.value())
        return above

    def walk(self, table: Table, begin: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """All pairs from the key `begin` on, ascending; each value is a `view`."""
        cursor = self._cursor(table)
        pairs = cursor.iternext() if not begin or cursor.set_range(begin) else iter(())
        return ((bytes(key), self._content(table, bytes(key), value)) for key, value in pairs)

    def raw(self, table: Table) -> Iterator[tuple[bytes, memoryview]]:
        """All stored pairs, ascending: values with their checksums, unchecked."""
        return ((bytes(key), value) for key, value in self._cursor(table))

    def delete(self, table: Table, key: bytes, value: bytes = b"") -> bool:
        """Remove a key, or one of its many values; returns whether it existed."""
        self.kept.clear()
        stored = value + checksum_of(table, key, value) if table.many_values and value else value
        return self._transaction.delete(key, stored, db=self._tables[table])

    def keys(self, table: Table, first: bytes = b"", last: bytes | None = None) -> list[bytes]:
        """Keys from `first` to `last`, both included, ascending; by default all. Their values are not checked."""
        cursor = self._cursor(table)
        if first and not cursor.set_range(first):
            return []
        keys = map(bytes, cursor.iternext(values=False))
        return list(keys if last is None else takewhile(lambda key: key <= last, keys))

    def last_keys(self, table: Table, count_max: int) -> list[bytes]:
        """The greatest keys, at most `count_max`, ascending. Their values are not checked."""
        return [*map(bytes, islice(self._cursor(table).iterprev(values=False), count_max))][::-1]

    def count(self, table: Table) -> int:
        """Values in a table."""
        return self._transaction.stat(self._tables[table])["entries"]

    def page_bytes(self, table: Table) -> int:
        """Bytes in a table's own pages; excludes further pages for a key with very many values."""
        stat = self._transaction.stat(self._tables[table])
        return stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])

    def used_bytes(self) -> int:
        """File bytes ever used, free pages included."""
        return (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]

    def map_bytes(self) -> int:
        """Memory map's size: a larger file needs a larger map."""
        return self._environment.info()["map_size"]

    def _content(self, table: Table, key: bytes, value: memoryview, *, recheck: bool = False) -> memoryview:
        if not self._checksums.fits(table, key, value, recheck=recheck):
            raise self.damaged(f"the value of {key.hex()} in table {table.value.decode()} is not what was written")
        return value[: -CHECKSUM.size]

    def _require_missing(self, table: Table, key: bytes) -> None:
        self.floor(table, key)
        self.key_above(table, key)

    def _require_fitting(self, table: Table, pairs: Iterable[tuple[bytes, memoryview]]) -> None:
        """Check values with their checksums, from a table that is not `read_in_parts`."""
        wrong = first_wrong(table, pairs)
        if wrong is not None:
            self._content(table, *wrong)

    def tree_of(self, table: Table) -> TreePlace:
        """A table's place at the last commit, before any write in this transaction."""
        # A writing transaction may have moved the path to the table.
        with self._environment.begin(buffers=True) if self.writes else nullcontext(self._transaction) as own:
            return tree_place(own.get(table.value, b""), self._environment.stat()["psize"])

    def damaged(self, problem: str) -> errors.IndexDamagedError:
        """The error for content that was never written."""
        return errors.IndexDamagedError(f"The index in {self._environment.path()} is damaged: {problem}. {WAY_OUT}")

    def _anywhere(self, table: Table) -> "lmdb.Cursor[memoryview]":
        """A shared cursor at any place: creating a cursor takes longer than placing it."""
        if table not in self._placed:
            self._placed[table] = self._cursor(table)
        return self._placed[table]

    def _cursor(self, table: Table) -> "lmdb.Cursor[memoryview]":
        return self._transaction.cursor(db=self._tables[table])


class Store:
    """One open LMDB environment. Threads may share it and take turns. After `close`, and in a forked child, every call
    but `close` raises IndexClosedError. A child may open the directory itself.

    >>> store = Store(folder, map_bytes_initial=2**20, map_bytes_max=2**20, read_only=False, hooks=CommitHooks())
    >>> store.prepare(Table)
    >>> store.write(lambda transaction: transaction.put(Table.META, b"a", b"1"))
    >>> store.read(lambda transaction: transaction.count(Table.META))
    1
    >>> store.close()
    """

    def __init__(
        self, directory: Path, *, map_bytes_initial: int, map_bytes_max: int, read_only: bool, hooks: CommitHooks
    ) -> None:
        """Open or create.

        Raises IndexMissingError, AlreadyOpenError, IndexInUseError, IndexDamagedError, IndexFullError, FormatUnknownError.
        Raises OSError if the directory cannot be created, written or read.
        """
        if not MAP_BYTES_MIN <= map_bytes_initial <= map_bytes_max:
            raise ValueError(f"{MAP_BYTES_MIN} <= map_bytes_initial <= map_bytes_max must hold")
        self._directory, self._map_bytes_max = directory, map_bytes_max
        self._read_only, self._hooks = read_only, hooks
        self._turn, self._is_quiet = Lock(), False
        self._is_open = self._is_inherited = False
        self._tables: dict[Table, lmdb._Database] = {}
        self._checksums = Checksums()
        if read_only and not (directory / DATA_FILE).is_file():
            raise errors.IndexMissingError(f"There is no index in {directory}: correct index.directory, or fill one.")
        if not read_only:
            directory.mkdir(parents=True, exist_ok=True)
        register(self)
        with self._turn:
            self._open(map_bytes_initial)

    def _open(self, map_bytes_initial: int) -> None:
        directory, read_only = self._directory, self._read_only
        self._identity = claim(directory)
        with ExitStack() as opening:
            opening.callback(release, self._identity)
            if not read_only:
                data_file.create(directory)
            data_file.require_whole(directory / DATA_FILE)
            self._files = HeldFiles(directory, read_only=read_only)
            opening.callback(self._files.close)
            writer = None if read_only else writer_of(directory)
            if writer is not None and writer.stopped:
                raise errors.IndexInUseError(f"{directory}: {writer}.")
            self._environment = self._opened(map_bytes_initial)
            opening.callback(self._environment.close)
            self._files.take_over()
            self._size = data_file.require_uncut(self._files.data, self._files.data_identity, 0)
            # This transaction pins the pages read here, whatever other processes write.
            with self._begin(write=False):
                data_file.require_sound(self._files.data, lambda: self._environment.info()["last_txnid"])
            opening.pop_all()
        self._is_open = True
        # A killed reader would keep freed pages in use.
        self._environment.reader_check()

    def _opened(self, map_bytes: int) -> lmdb.Environment:
        try:
            return lmdb.open(
                os.fspath(self._directory),
                map_size=map_bytes - map_bytes % _MAP_STEP_BYTES,
                max_dbs=len(Table),
                readonly=self._read_only,
            )
        except (lmdb.VersionMismatchError, lmdb.InvalidError) as problem:
            # The file was LMDB's a moment ago.
            raise self._damaged(problem) from problem
        except lmdb.InvalidParameterError as problem:
            # LMDB's error for an empty lock file: a killed `backup.replace` leaves one.
            raise errors.IndexInUseError(
                f"The index in {self._directory} was being replaced, and that was broken off. Open it again."
            ) from problem
        except lmdb.Error as problem:
            code = getattr(problem, "code", 0)
            if code in _BEYOND_REACH:
                raise OSError(code, os.strerror(code), os.fspath(self._directory)) from problem
            raise self._named(problem) from problem

    def require_open(self) -> None:
        """Raise IndexClosedError after `close` and in a forked child."""
        if self._is_inherited:
            raise errors.IndexClosedError(
                f"The index in {self._directory} was opened by the parent of this process. Open it again in this process."
            )
        if not self._is_open:
            raise errors.IndexClosedError(f"The index in {self._directory} is closed. Open it again.")

    @contextmanager
    def _using(self) -> Iterator[None]:
        """This thread's turn at the open environment."""
        with self._turn:
            self.require_open()
            yield

    def before_fork(self) -> None:
        """Wait for other threads' calls, at most FORK_WAIT_SECONDS: a child cannot end their transactions."""
        self._is_quiet = self._turn.acquire(timeout=FORK_WAIT_SECONDS)

    def after_fork(self, *, in_child: bool) -> None:
        """Go on in the parent; close the file in the child, or keep it unused if a transaction is still open."""
        if in_child:
            if self._is_open and self._is_quiet:
                self._release(in_child=True)
            elif self._is_open:
                _abandoned.append(self._environment)
            self._is_inherited = self._is_inherited or self._is_open
            self._is_open, self._turn = False, Lock()
        elif self._is_quiet:
            self._turn.release()

    def is_new(self) -> bool:
        """Whether the file is still empty. Raises FormatUnknownError if another program stored something."""
        with self._using():
            try:
                self._open_tables([Table.META], create=False)
            except lmdb.NotFoundError as problem:
                if self._environment.stat()["entries"]:
                    raise errors.FormatUnknownError(f"{self._directory} holds tables of another program.") from problem
                return True
            return False

    def prepare(self, tables: Iterable[Table]) -> None:
        """Make tables usable; creates missing ones, or raises FormatUnknownError if the store is read-only."""
        try:
            with self._using():
                self._open_tables(tables, create=not self._read_only)
        except lmdb.NotFoundError as problem:
            raise errors.FormatUnknownError(f"The index in {self._directory} lacks a table.") from problem

    def _open_tables(self, tables: Iterable[Table], *, create: bool) -> None:
        with self._begun(write=not self._read_only) as transaction:
            # A handle opened inside a reading transaction dies with it; without one, py-lmdb keeps the handle.
            inside = None if self._read_only else transaction
            for table in tables:
                many = table.many_values
                self._tables[table] = self._environment.open_db(
                    table.value, txn=inside, dupsort=many, dupfixed=many, create=create
                )

    def read(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run `operation` on one snapshot. Raises IndexDamagedError, and IndexInUseError as `write` does.

        Raises IndexMissingError unless the store is read-only: a service that only reads must also notice a missing index.
        """
        with self._using():
            with self._begun(write=False) as transaction:
                result = operation(Transaction(self._environment, transaction, self._tables, self._checksums))
            self._files.require_in_place()
            return result

    def write(self, operation: Callable[[Transaction], Result], committed: Callable[[], None] = nothing) -> Result:
        """Run `operation` and commit its writes, or nothing if it raises. It may run again from the start.

        `committed` runs once, after the commit and before another thread's turn.

        Raises IndexFullError, IndexDamagedError, and NeardupIndexError if the store is read-only; IndexMissingError if the
        file was moved or replaced: a write into it is complete, but lost when this process ends; IndexInUseError, before
        any write, if the lock file changed.
        """
        if self._read_only:
            raise errors.NeardupIndexError(f"The index in {self._directory} was opened for reading only.")
        with self._using():
            while True:
                try:
                    with self._begun(write=True) as transaction:
                        own = Transaction(self._environment, transaction, self._tables, self._checksums, writes=True)
                        self._files.require_lock()
                        result = operation(own)
                        self._hooks.before_commit()
                        self._files.require_lock()
                    break
                except lmdb.MapFullError:
                    self._grow()
            committed()
            self._files.require_in_place()
            self._hooks.after_commit()
            return result

    def check_again(self) -> None:
        """Forget which values this process has checked."""
        with self._using():
            self._checksums.forget()

    @property
    def data(self) -> Path:
        """The data file."""
        return self._files.data

    def copy_to(self, file_descriptor: int, *, compact: bool) -> None:
        """Write a snapshot while others may write; `compact` omits free pages. Raises IndexFullError, IndexDamagedError."""
        with self._using():
            try:
                self._environment.copyfd(file_descriptor, compact=compact)
            except lmdb.Error as problem:
                raise self._named(problem) from problem

    def readers(self) -> list[tuple[int, int | None]]:
        """Every reader: process id and read transaction, None between two reads."""
        with self._using():
            lines = [line.split() for line in self._environment.readers().splitlines()]
        columns = [line for line in lines if line and line[0].isdecimal()]
        return [(int(pid), int(state) if state.isdecimal() else None) for pid, _, state in columns]

    @contextmanager
    def _begun(self, *, write: bool) -> Iterator["lmdb.Transaction[memoryview]"]:
        """A transaction that commits at the end, or aborts on an exception. MapFullError passes through."""
        try:
            with self._begin(write=write) as transaction:
                yield transaction
        except (lmdb.MapFullError, lmdb.NotFoundError):
            raise
        except lmdb.Error as problem:
            raise self._named(problem) from problem

    def _begin(self, *, write: bool) -> "lmdb.Transaction[memoryview]":
        self._size = data_file.require_uncut(self._files.data, self._files.data_identity, self._size)
        while True:
            try:
                return self._environment.begin(write=write, buffers=True)
            except lmdb.MapResizedError:
                # Another process has grown the map: adopt its size.
                self._environment.set_mapsize(0)

    def _grow(self) -> None:
        now = self._environment.info()["map_size"]
        limit = self._map_bytes_max - self._map_bytes_max % _MAP_STEP_BYTES
        if now >= limit:
            raise errors.IndexFullError(
                f"The index in {self._directory} may not grow beyond index.map_bytes_max = {self._map_bytes_max} bytes. "
                "Raise the setting; nothing of this batch was kept."
            )
        self._environment.set_mapsize(min(now * 2, limit))

    def _named(self, problem: lmdb.Error) -> Exception:
        """The index's error for an LMDB error, or the LMDB error itself for a broken invariant."""
        if isinstance(problem, lmdb.DiskError) or getattr(problem, "code", 0) in DISK_FULL:
            return errors.IndexFullError(
                f"The disk that holds the index in {self._directory} is full or failing: {problem}. "
                "Make room; nothing of this batch was kept."
            )
        if isinstance(problem, lmdb.PanicError):
            failed = f"Writing the index in {self._directory} failed half-way"
            return errors.IndexDamagedError(f"{failed}; open it again: {problem}.")
        if isinstance(problem, _DAMAGED):
            return self._damaged(problem)
        return problem

    def _damaged(self, problem: lmdb.Error) -> errors.IndexDamagedError:
        return errors.IndexDamagedError(f"The index in {self._directory} is damaged: {problem}. {WAY_OUT}")

    def close(self) -> None:
        """Close the files; further calls do nothing."""
        with self._turn:
            if self._is_open:
                self._is_open = False
                self._release()

    def _release(self, *, in_child: bool = False) -> None:
        self._environment.close()
        # A child has closed its copy by itself, and may not unlock its parent's.
        if not in_child:
            self._files.close()
        release(self._identity)
