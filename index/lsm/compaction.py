"""Compaction: entries move from the memtable into segments, slice by slice, within batch transactions.

A full memtable freezes, with the removals since the last freeze. Later batches move slices of it, table by table.
Lookups meanwhile read all of it, so neither its progress matters nor which process continues after a crash. This module
never changes a memtable: memtables follow the state that the next transaction reads from the file.

An entry both added and removed, by number, cancels out. Every other removed entry leaves the segments, by hash and
number.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.lsm import levels
from index.lsm.memtable import Memtable
from index.lsm.shape import Shape
from index.matching.simhash import BLOCK_BITS
from index.storage.layout import TOMBSTONE_KEY, Table
from index.storage.segments.compaction_state import (
    BOUND_BYTES,
    CompactionState,
    Level,
    pack_compaction,
    unpack_compaction,
)
from index.storage.segments.hash_codec import Entries, segment_capacity
from index.storage.store import Transaction

GROWTH = 16
"""The memtable freezes at `memtable_entries` or at 1 / GROWTH of the compacted entries, whichever is more."""

AHEAD = 1.25
"""A compaction ends by the time the next memtable is 1 / AHEAD full."""

SLICES_MAX = 64
"""Maximum slices per batch: bounds its time."""

MEMTABLE_BYTES = 2**26
"""Approximate memtable memory if `memtable_entries` is None. The frozen memtable takes as much again."""

MEMTABLE_BYTES_MAX = 2**28
"""Approximate maximum memtable memory, in an index so large that `GROWTH` allows more entries."""


Gathered = tuple[Entries, Entries, bytes | None]
"""Entries to add and to remove, and the end of their range; see `MemtablePair.entries_of_table`."""


class Reach(NamedTuple):
    """A log and tombstone range's end: the key of the next batch, and the next tombstone.

    >>> Reach(number=10, rows=40, tombstone=0) < Reach(number=12, rows=41, tombstone=0)
    True
    """

    number: int
    rows: int
    tombstone: int


@dataclass(frozen=True, slots=True)
class TreeSizes:
    """When the memtable freezes, and how large segments grow. Sizes may change between openings.

    >>> TreeSizes(memtable_entries=0)
    Traceback (most recent call last):
    ValueError: memtable_entries must be at least 1 and segment_bytes at least 64

    memtable_entries  newest entries kept in memory before compaction, more in a large index; None: as many as 64 MiB hold, a
                      million with 64 bits
    segment_bytes     largest segment size
    """

    memtable_entries: int | None = None
    segment_bytes: int = 2**20

    def __post_init__(self) -> None:
        if (self.memtable_entries is not None and self.memtable_entries < 1) or self.segment_bytes < 64:
            raise ValueError("memtable_entries must be at least 1 and segment_bytes at least 64")


class MemtablePair:
    """Two memtables since the previous pair: entries filed by blocks, and entries removed.

    >>> from index.lsm.shape import SimhashShape
    >>> pair = MemtablePair(SimhashShape(words=1, tables=4))
    >>> pair.added.add(np.array([[9 << 48], [5 << 48]], np.uint64), np.array([0, 1], np.uint64))
    >>> pair.removed.add(np.array([[9 << 48]], np.uint64), np.array([0], np.uint64))
    >>> [entries[1].tolist() for entries in pair.entries_of_table(0, bytes(BOUND_BYTES), None, 10)[:2]]
    [[1], []]
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.added = Memtable(shape)
        self.removed = Memtable(shape)

    def counts(self) -> tuple[int, int]:
        """Entries added and removed."""
        return len(self.added), len(self.removed)

    def cut(self, added: int, removed: int) -> None:
        """Keep only the first `added` and the first `removed` entries."""
        self.added.cut(added)
        self.removed.cut(removed)

    @cached_property
    def _cancelled(self) -> npt.NDArray[np.uint64]:
        """Numbers both added and removed, ascending; valid only once the pair is frozen."""
        if not len(self.removed):
            return np.empty(0, np.uint64)
        return np.intersect1d(self.added.numbers, self.removed.numbers, assume_unique=True)

    def entries_of_table(self, table: int, begin: bytes, end: bytes | None, count_max: int) -> Gathered:
        """Entries to add to a table and to remove from it, in [begin, end) (end None: the table's end).

        Returns both, uint64 [2, n] ascending, and the end, earlier if there are over `count_max` entries to add. It never
        divides a bucket.
        """
        values_begin = int.from_bytes(begin[:2], "big")
        values_end = 1 << BLOCK_BITS if end is None else int.from_bytes(end[:2], "big") + 1
        new, stopped = self.added.entries_of_table(table, values_begin, values_end, count_max)
        if stopped < values_end:
            cut = stopped.to_bytes(2, "big").ljust(len(begin), b"\0")
            end = cut if end is None else min(cut, end)
        old, _ = self.removed.entries_of_table(table, values_begin, stopped, len(self.removed) + 1)
        if len(self._cancelled):
            new, old = (each[:, ~np.isin(each[1], self._cancelled)] for each in (new, old))
        return ordered(new, begin, end), ordered(old, begin, end), end


def ordered(entries: Entries, begin: bytes, end: bytes | None) -> Entries:
    """Entries between two bounds, ascending: uint64 [2, n] in any order -> uint64 [2, m]."""
    hashes, numbers = entries
    if not ((hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (numbers[1:] > numbers[:-1]))).all():
        entries = entries[:, np.lexsort((numbers, hashes))]
    return levels.divided(levels.divided(entries, begin)[1], end)[0]


def state(transaction: Transaction, shape: Shape) -> CompactionState:
    """A table's stored compaction state."""
    return unpack_compaction(transaction.get(Table.META, shape.state_key))


def progress(now: CompactionState, tables: int) -> float:
    """Share of all tables' key space that the cursor has passed, 0 to 1; 1 if no compaction runs."""
    if not now.is_moving:
        return 1.0
    return (now.table + int.from_bytes(now.bound[:2], "big") / (1 << BLOCK_BITS)) / tables


@dataclass(frozen=True, slots=True)
class Compaction:
    """Compaction of a table within one writing transaction, which must not look anything up afterwards.

    first_number  rewriting drops entries with lower numbers

    >>> from index.lsm.shape import shape_of
    >>> opened.store.write(lambda now: Compaction(now, TreeSizes(), shape_of(opened.parameters), 0).settle())
    False
    """

    transaction: Transaction
    sizes: TreeSizes
    shape: Shape
    first_number: int

    def freeze_or_move(self, frozen: MemtablePair | None, active: MemtablePair, end: Reach) -> None:
        """At a batch's `end`: freeze a full active memtable, or move slices of the frozen one."""
        full = max(active.counts()) / self._memtable_entries(state(self.transaction, self.shape))
        if frozen is not None:
            self.move(frozen, min(1.0, AHEAD * full), SLICES_MAX)
        elif full >= 1:
            self.freeze(end)

    def freeze(self, end: Reach) -> None:
        """Freeze all entries and tombstones before this end; no memtable may be frozen."""
        begun = state(self.transaction, self.shape)._replace(
            frozen_to=end.number,
            frozen_rows=end.rows,
            frozen_tombstones=end.tombstone,
            table=0,
            bound=bytes(BOUND_BYTES),
        )
        self._put(begun)

    def move(self, frozen: MemtablePair, progress_min: float, slices_max: int) -> bool:
        """Move frozen slices up to `progress_min`, at most `slices_max`; returns whether more are left."""
        now = state(self.transaction, self.shape)
        before, capacity, target = now.first_entries, segment_capacity(self.sizes.segment_bytes), self._levels()
        for _ in range(slices_max):
            if progress(now, self.shape.tables) >= progress_min:
                break
            end = target.bound_above(now.table, Level.FIRST, now.bound)
            added, removed, end = frozen.entries_of_table(now.table, now.bound, end, levels.first_capacity(capacity))
            now = _moved_on(target.move_in(now, added, removed), end, self.shape)
        now = self._settled(now, levels.SETTLED_SHARE * (now.first_entries - before))
        if not now.is_moving:
            for key in self.transaction.keys(Table.TOMBSTONES):
                if TOMBSTONE_KEY.unpack(key)[0] < now.frozen_tombstones:
                    self.transaction.delete(Table.TOMBSTONES, key)
        self._put(now)
        return now.is_moving

    def settle(self) -> bool:
        """Move a segment from the first level to the last if the first has too many entries; returns whether it had."""
        now = state(self.transaction, self.shape)
        after = self._settled(now, 1)
        self._put(after)
        return after.version != now.version

    def _settled(self, now: CompactionState, entries_max: int) -> CompactionState:
        """State after about `entries_max` entries, or all excess ones, have left the first level."""
        entries, tables = now.first_entries + now.last_entries, self.shape.tables
        first_max = levels.first_entries_max(tables, self._memtable_entries(now), entries)
        return self._levels().settle(now, tables, first_max, entries_max)

    def _memtable_entries(self, now: CompactionState) -> int:
        return _memtable_entries(self.sizes, self.shape, now.first_entries + now.last_entries)

    def _levels(self) -> levels.Levels:
        capacity = segment_capacity(self.sizes.segment_bytes)
        return levels.Levels(self.transaction, self.shape.table, capacity, self.first_number)

    def _put(self, now: CompactionState) -> None:
        self.transaction.put(Table.META, self.shape.state_key, pack_compaction(now))


def _memtable_entries(sizes: TreeSizes, shape: Shape, compacted_entries: int) -> int:
    """Entries at which a memtable freezes; compacted_entries: those in all tables."""
    wished = sizes.memtable_entries or MEMTABLE_BYTES // shape.memtable_bytes
    return max(wished, min(compacted_entries // shape.tables // GROWTH, MEMTABLE_BYTES_MAX // shape.memtable_bytes))


def _moved_on(now: CompactionState, end: bytes | None, shape: Shape) -> CompactionState:
    now = now._replace(version=now.version + 1)
    if end is not None:
        return now._replace(bound=end)
    if now.table + 1 < shape.tables:
        return now._replace(table=now.table + 1, bound=bytes(BOUND_BYTES))
    return now._replace(merged_to=now.frozen_to, merged_rows=now.frozen_rows, table=0, bound=b"")
