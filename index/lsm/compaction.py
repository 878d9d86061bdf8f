"""Compaction: entries move from the memtable into segments, slice by slice, within the transactions of batches.

A full memtable freezes, together with the removals since the last freeze. From then on every batch moves slices of the
frozen memtable, table by table and in order, until every table has all of its entries. Look-ups meanwhile read the whole
frozen memtable. So neither its progress matters, nor which process continues after a crash. This module never changes a
memtable: memtables follow the state that the next transaction finds in the file.

A memtable adds entries and removes others. An entry that is both added and removed, by its number, cancels out. Every
other removed entry leaves the segments. SimHash removes by fingerprint, which at most one entry there has. MinHash removes
by hash and number.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels import memtable
from index.lsm.bands import levels
from index.lsm.memtable import Memtable
from index.lsm.shape import Shape
from index.matching.simhash import BLOCK_BITS
from index.storage.codec import pack_segment, unpack_segment
from index.storage.layout import COMPACTION_KEY, TOMBSTONE_KEY, Table
from index.storage.segments.compaction_state import (
    CompactionState,
    Level,
    pack_compaction,
    segment_key,
    unpack_compaction,
)
from index.storage.store import Transaction

GROWTH = 32
"""The memtable freezes at `memtable_entries` or at 1 / GROWTH of the compacted entries, whichever is more.

Write amplification of SimHash: compaction rewrites about GROWTH segments for each new one. MinHash has levels (`bands.levels`).
"""

AHEAD = 1.25
"""A compaction ends by the time the next memtable is 1 / AHEAD full."""

SLICES_MAX = 32
"""Slices that one batch moves, at most: bounds the time of a batch, whatever the bound on its rows. MinHash has smaller ones."""

MEMTABLE_BYTES = 2**26
"""Approximate memory of a memtable where `memtable_entries` is None. The frozen memtable takes as much again."""

MEMTABLE_BYTES_MAX = 2**28
"""Approximate upper bound of a memtable's memory, in an index so large that `GROWTH` allows more entries."""


@dataclass(frozen=True, slots=True)
class TreeSizes:
    """When the memtable freezes, and how large segments grow. Sizes may differ from one opening to the next.

    memtable_entries  newest entries that stay in memory before compaction, more in a large index; None: as many as take
                      64 MiB, a million of 64 bits
    segment_bytes     largest size of a segment
    """

    memtable_entries: int | None = None
    segment_bytes: int = 2**20

    def __post_init__(self) -> None:
        if (self.memtable_entries is not None and self.memtable_entries < 1) or self.segment_bytes < 64:
            raise ValueError("memtable_entries must be at least 1 and segment_bytes at least 64")


class MemtablePair:
    """Two memtables: entries filed by blocks, and entries removed, since the pair before."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.added = Memtable(shape)
        self.removed = Memtable(shape)

    def counts(self) -> tuple[int, int]:
        """Number of entries added, and of entries removed."""
        return len(self.added), len(self.removed)

    def cut(self, added: int, removed: int) -> None:
        """Take back all but the first `added` and the first `removed` entries."""
        self.added.cut(added)
        self.removed.cut(removed)

    @cached_property
    def _cancelled(self) -> npt.NDArray[np.uint64]:
        """Numbers both added and removed, ascending; valid only once the pair is frozen."""
        if not len(self.removed):
            return np.empty(0, np.uint64)
        return np.intersect1d(self.added.numbers, self.removed.numbers, assume_unique=True)

    def of_table(
        self, table: int, begin: bytes, end: bytes | None, count_max: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], npt.NDArray[Any], bytes | None]:
        """Entries of a table to add and to remove, from bound `begin` to below bound `end` (None: the end of the table).

        Returns the entries to add, [columns, n] of `Shape.entry_columns`, ascending; their numbers, uint64 [n]; the entries to
        remove, [columns, m] ascending; and the bound at which all of them end. That bound is earlier than `end` where more
        than `count_max` entries are to be added. It never divides a bucket.
        """
        values_begin = int.from_bytes(begin[:2], "big")
        values_end = 1 << BLOCK_BITS if end is None else int.from_bytes(end[:2], "big") + 1
        new, numbers, stopped = self.added.of_table(table, values_begin, values_end, count_max)
        if stopped < values_end:
            cut = stopped.to_bytes(2, "big").ljust(len(begin), b"\0")
            end = cut if end is None else min(cut, end)
        old, old_numbers, _ = self.removed.of_table(table, values_begin, stopped, len(self.removed) + 1)
        new, numbers = self._left(new, numbers, begin, end)
        old, _ = self._left(old, old_numbers, begin, end)
        return new, numbers, old, end

    def _left(
        self, entries: npt.NDArray[Any], numbers: npt.NDArray[np.uint64], begin: bytes, end: bytes | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64]]:
        """Entries [n, columns] between two bounds, without the cancelled ones: [columns, m] ascending.

        Also their numbers, uint64 [m].
        """
        if self.shape.banding is not None:
            return self._left_of_band(entries.T, begin, end)
        words = words_of(entries)
        inside = ~are_below(words, begin)
        if len(self._cancelled):
            inside &= ~np.isin(numbers, self._cancelled)
        if end is not None:
            inside &= are_below(words, end)
        order = np.flatnonzero(inside)
        order = order[_ascending(words[order])]
        return np.ascontiguousarray(entries[order].T), numbers[order]

    def _left_of_band(
        self, entries: npt.NDArray[np.uint64], begin: bytes, end: bytes | None
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """As `_left`, of entries of MinHash, uint64 [2, n]."""
        hashes, numbers = entries
        if not ((hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (numbers[1:] > numbers[:-1]))).all():
            entries = entries[:, _ascending(entries.T)]
        _, entries = levels.divided(entries, begin)
        entries, _ = levels.divided(entries, end)
        if len(self._cancelled):
            entries = entries[:, ~np.isin(entries[1], self._cancelled)]
        return np.ascontiguousarray(entries), entries[1]


def state(transaction: Transaction) -> CompactionState:
    """Stored state of the compaction."""
    return unpack_compaction(transaction.get(Table.META, COMPACTION_KEY))


def progress(now: CompactionState, tables: int) -> float:
    """Part of the key space of all tables that the cursor has passed, 0 to 1; 1 where no compaction runs."""
    if not now.is_moving:
        return 1.0
    return (now.table + int.from_bytes(now.bound[:2], "big") / (1 << BLOCK_BITS)) / tables


def freeze_or_move(
    transaction: Transaction,
    sizes: TreeSizes,
    frozen: MemtablePair | None,
    active: MemtablePair,
    next_number: int,
    next_tombstone: int,
) -> None:
    """Freeze the active memtable when it is full, or move slices of the frozen one; at the end of a batch's transaction.

    next_number, next_tombstone  first numbers after those of this batch
    """
    shape = active.shape
    full = max(active.counts()) / _memtable_entries(sizes, shape, _compacted_entries(transaction, sizes, shape))
    if frozen is not None:
        slices_max = SLICES_MAX if shape.banding is None else SLICES_MAX * levels.FIRST_SHARE
        move(transaction, sizes, frozen, min(1.0, AHEAD * full), slices_max)
    elif full >= 1:
        freeze(transaction, shape, next_number, next_tombstone)


def freeze(transaction: Transaction, shape: Shape, next_number: int, next_tombstone: int) -> None:
    """Freeze all entries and tombstones below these numbers; requires that no memtable is frozen."""
    begun = state(transaction)._replace(frozen_to=next_number, frozen_tombstones=next_tombstone, table=0)
    transaction.put(Table.META, COMPACTION_KEY, pack_compaction(begun._replace(bound=bytes(shape.bound_bytes))))


def move(
    transaction: Transaction, sizes: TreeSizes, frozen: MemtablePair, progress_min: float, slices_max: int
) -> CompactionState:
    """Move slices of the frozen memtable up to `progress_min`, at most `slices_max` of them; returns the new state."""
    now, shape = state(transaction), frozen.shape
    before = now.first_entries
    for _ in range(slices_max):
        if progress(now, shape.tables) >= progress_min:
            break
        capacity = shape.segment_entries(sizes.segment_bytes)
        now = (_slice if shape.banding is None else _band_slice)(transaction, now, frozen, capacity)
    if shape.banding is not None:
        now = _settled(transaction, now, sizes, shape, levels.SETTLED_SHARE * (now.first_entries - before))
    if not now.is_moving:
        for key in transaction.keys(Table.TOMBSTONES):
            if TOMBSTONE_KEY.unpack(key)[0] < now.frozen_tombstones:
                transaction.delete(Table.TOMBSTONES, key)
    transaction.put(Table.META, COMPACTION_KEY, pack_compaction(now))
    return now


def _compacted_entries(transaction: Transaction, sizes: TreeSizes, shape: Shape) -> int:
    """Approximate number of entries in segments, in all tables."""
    if shape.banding is None:
        return transaction.count(Table.SEGMENTS) * shape.segment_entries(sizes.segment_bytes)
    now = state(transaction)
    return now.first_entries + now.last_entries


def settle(transaction: Transaction, sizes: TreeSizes, shape: Shape) -> bool:
    """Move a segment of the first level of MinHash into the last where the first has too many; returns whether it had."""
    now = state(transaction)
    after = now if shape.banding is None else _settled(transaction, now, sizes, shape, 1)
    transaction.put(Table.META, COMPACTION_KEY, pack_compaction(after))
    return after.version != now.version


def _settled(
    transaction: Transaction, now: CompactionState, sizes: TreeSizes, shape: Shape, entries_max: int
) -> CompactionState:
    """State after about `entries_max` entries have left the first level of MinHash, or all that it has too many."""
    entries = now.first_entries + now.last_entries
    memtable_entries = _memtable_entries(sizes, shape, entries)
    first_max = levels.first_entries_max(shape.tables, memtable_entries, entries)
    return levels.settle(
        transaction, now, shape.tables, first_max, shape.segment_entries(sizes.segment_bytes), entries_max
    )


def _band_slice(transaction: Transaction, now: CompactionState, frozen: MemtablePair, capacity: int) -> CompactionState:
    """MinHash: move the frozen entries of the segment of the first level at the cursor, or the first of them."""
    end = levels.bound_above(transaction, now.table, Level.FIRST, now.bound)
    added, _, removed, end = frozen.of_table(now.table, now.bound, end, levels.first_capacity(capacity))
    return _moved_on(levels.move_in(transaction, now, added, removed, capacity), end, frozen.shape)


def _memtable_entries(sizes: TreeSizes, shape: Shape, compacted_entries: int) -> int:
    """Number of entries at which a memtable freezes; compacted_entries: approximate number, in all tables."""
    wished = sizes.memtable_entries or MEMTABLE_BYTES // shape.memtable_bytes
    return max(wished, min(compacted_entries // shape.tables // GROWTH, MEMTABLE_BYTES_MAX // shape.memtable_bytes))


def _slice(transaction: Transaction, now: CompactionState, frozen: MemtablePair, capacity: int) -> CompactionState:
    """Move the frozen entries of the segment at the cursor, or the first of them; returns the new state.

    Where no segment begins at the cursor, the space up to the next segment is empty.
    """
    shape = frozen.shape
    numbered = shape.numbered and now.table == 0
    key = segment_key(now.table, now.bound)
    # What is written anew gets a new seal, so damage since the last check would be sealed in.
    value = transaction.view(Table.SEGMENTS, key, anew=True)
    above = transaction.key_above(Table.SEGMENTS, key)
    segment_end = above[1:] if above is not None and above[0] == now.table else None
    new, new_numbers, removed, end = frozen.of_table(now.table, now.bound, segment_end, capacity)
    if not new.size and not removed.size and end == segment_end:
        return _moved_on(now, end, shape)
    old, old_numbers = np.empty((shape.columns, 0), np.uint16), np.empty(0, np.uint64)
    if value is not None:
        old, old_numbers = unpack_segment(value, shape.columns, numbered=numbered)
    kept = old.shape[1]
    if end is not None and end != segment_end:
        # One slice does not move all entries of this segment. Cutting it puts the cursor at a bound again.
        kept = int(np.searchsorted(old[0], int.from_bytes(end[:2], "big")))
        if kept < old.shape[1]:
            rest = pack_segment(old[:, kept:], old_numbers[kept:])
            transaction.put(Table.SEGMENTS, segment_key(now.table, end), rest)
    columns, numbers = memtable.merged(
        np.ascontiguousarray(old[:, :kept]),
        old_numbers[:kept],
        new,
        new_numbers[: len(new_numbers) * numbered],
        removed,
    )
    count = columns.shape[1]
    parts = -(-count // capacity)
    if not parts and value is not None:
        transaction.delete(Table.SEGMENTS, key)
    for first, last in pairwise([count * part // max(1, parts) for part in range(parts + 1)]):
        bound = now.bound if first == 0 else columns[:, first].astype(">u2").tobytes()
        transaction.put(
            Table.SEGMENTS, segment_key(now.table, bound), pack_segment(columns[:, first:last], numbers[first:last])
        )
    return _moved_on(now, end, shape)


def _moved_on(now: CompactionState, end: bytes | None, shape: Shape) -> CompactionState:
    """State after a slice that ended at this bound."""
    now = now._replace(version=now.version + 1)
    if end is not None:
        return now._replace(bound=end)
    if now.table + 1 < shape.tables:
        return now._replace(table=now.table + 1, bound=bytes(shape.bound_bytes))
    return now._replace(merged_to=now.frozen_to, table=0, bound=b"")


def _ascending(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Sort order of entries, uint64 [n, words]; the first word mostly decides."""
    order = np.argsort(words[:, 0])
    first = words[order, 0]
    return np.lexsort(words.T[::-1]) if (first[1:] == first[:-1]).any() else order


def words_of(entries: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Pack entries, uint16 [n, columns], four columns to a zero-padded word: uint64 [n, words], which sort alike.

    Those of MinHash, uint64 [n, 2], are such words.
    """
    if entries.dtype == np.uint64:
        return entries
    filled = np.zeros((len(entries), -(-entries.shape[1] // 4) * 4), ">u2")
    filled[:, : entries.shape[1]] = entries
    return filled.view(">u8").astype(np.uint64)


def are_below(words: npt.NDArray[np.uint64], bound: bytes) -> npt.NDArray[np.bool_]:
    """Which entries, uint64 [n, words] of `words_of`, sort before a bound: bool [n]; words beyond the bound are ignored."""
    of_bound = words_of(np.frombuffer(bound, ">u2").astype(np.uint16)[None])[0]
    below = np.zeros(len(words), np.bool_)
    for word in range(len(of_bound) - 1, -1, -1):
        below = (words[:, word] < of_bound[word]) | ((words[:, word] == of_bound[word]) & below)
    return below
