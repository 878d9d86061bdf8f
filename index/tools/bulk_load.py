"""Bulk load: many entries at once, sorted and written as segments.

Entries come with their verdicts; nothing is compared. The log stores them in batches as usual, so an interrupted load
can start again. Memory only gathers and sorts entries; a full portion moves into segments at once. Fewer portions
rewrite fewer segments, so portions grow with the index. Other processes may have the index open, and write. Each holds
all uncompacted entries in its memtable, which takes more memory than here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from index.decide import give_back, restore
from index.decide.restore import NO_ENDS, Restored
from index.entry import Entries, Position, Source
from index.index import Index, internals_of
from index.kernels import sort
from index.lsm.compaction import Gathered, MemtablePair
from index.lsm.id_table import IdTable
from index.lsm.levels import divided
from index.lsm.memtable import Memtable
from index.lsm.shape import Shape, shape_of
from index.lsm.tree import Tree
from index.matching.simhash import BLOCK_BITS
from index.session import Result, WriteSession
from index.storage.segments.hash_codec import NO_ENTRIES
from index.storage.segments.hash_codec import Entries as HashEntries

MOVING_SECONDS = 0.1
"""Compaction time in one transaction; other writers may wait for it."""

PORTION_BYTES = 2**28
"""Approximate memory for a portion's entries; compaction takes half as much again."""

PORTION_BYTES_MAX = 2**30
"""Approximate maximum, in a large index."""

PORTION_ENTRIES_MAX = 2**23
"""Maximum entries in a portion."""

GROWTH = 4
"""A portion is full at PORTION_BYTES or at 1 / GROWTH of the earlier entries, whichever is more."""

ROOM = 1.5
"""Room of a portion relative to the previous one: it may hold a quarter more, and a batch."""

STRIPE_ENTRIES = 2**20
"""Approximate entries sorted at once: takes some 40 ms of a transaction."""


class BulkLoader:
    """Bulk loader for an open index, portion by portion; call `finish` after the last document.

    >>> from index import Parameters, Verdict
    >>> numbers, bytes_, times = np.zeros((2, 1), np.uint64), np.zeros((2, 1), np.uint8), np.zeros(1, np.int64)
    >>> columns = (Source("topic", 0),), numbers[0].astype(np.uint32), numbers[0], *bytes_, numbers[:1], times, ["a"]
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     loader = BulkLoader(index)
    ...     loader.restore(Entries(*columns), np.array([Verdict.UNIQUE], np.uint8), [None])
    ...     loader.finish()
    Restored(restored=1, already_known=0, without_original=0)
    """

    def __init__(self, index: Index, portion_entries: int | None = None) -> None:
        """portion_entries: a portion's entries; None: as many as PORTION_BYTES hold, more in a large index."""
        self._index, self._portion_entries = index, portion_entries
        self.parameters = index.parameters
        opened = internals_of(index)
        self._memtable_entries = portion_entries or PORTION_BYTES // _entry_bytes(shape_of(index.parameters))
        self._tree = Tree(index.parameters, opened.tree.sizes, self._new_pair)
        self._ids = IdTable(opened.ids.sizes, self._new_pair)
        self._opened = replace(opened, tree=self._tree, ids=self._ids)
        self._begin_portion()

    def _new_pair(self, shape: Shape) -> "SortedPair":
        return SortedPair(shape, int(ROOM * self._memtable_entries))

    def _begin_portion(self) -> None:
        shape = shape_of(self.parameters)
        least, most = PORTION_BYTES // _entry_bytes(shape), PORTION_BYTES_MAX // _entry_bytes(shape)
        there = self._index.statistics().entries
        entries = self._portion_entries or max(least, min(there // GROWTH, most))
        self._memtable_entries = min(entries, PORTION_ENTRIES_MAX)
        self._tree.sizes = replace(self._tree.sizes, memtable_entries=self._memtable_entries)
        self._ids.sizes = replace(self._ids.sizes, memtable_entries=self._memtable_entries)

    def write(self, operation: Callable[[WriteSession], Result]) -> Result:
        """As `OpenIndex.write`; afterwards a full portion moves into segments. Raises IndexFullError, IndexDamagedError."""
        result = self._opened.write(operation)
        if self._tree.stats().memtable_entries >= self._memtable_entries:
            self._end_portion()
        return result

    def restore(
        self,
        entries: Entries,
        verdicts: npt.NDArray[np.uint8],
        originals: Sequence[Position | None],
        ends: Mapping[Source, int] = NO_ENDS,
    ) -> Restored:
        """Enter documents with known verdicts, as `Index.restore`; best some 10,000 at a time."""
        restore.require_restorable(entries, verdicts, originals, self.parameters)
        return self.write(lambda session: restore.restore(session, entries, verdicts, originals, ends))

    def give_back(self, entries: Entries, *, delivered: bool) -> npt.NDArray[np.bool_]:
        """Enter given-back documents, as `Index.give_back`."""
        return self.write(lambda session: give_back.give_back(session, entries, delivered=delivered))

    def finish(self) -> None:
        """Move all entries into segments. Otherwise every process that opens the index holds them in memory."""
        self._end_portion()
        self._tree.sizes = self._ids.sizes = internals_of(self._index).tree.sizes
        self._repeat(
            lambda session: session.tree.settle(session.transaction) or session.ids.settle(session.transaction)
        )
        self._begin_portion()

    def _end_portion(self) -> None:
        self._move()

        def freeze(session: WriteSession) -> None:
            for table in (session.tree, session.ids):
                if not table.is_moving:
                    table.freeze(session.transaction, session.counters)

        self._opened.write(freeze)
        self._move()
        self._begin_portion()

    def _move(self) -> None:
        self._repeat(lambda session: session.tree.move(session.transaction) or session.ids.move(session.transaction))

    def _repeat(self, step: Callable[[WriteSession], bool]) -> None:
        """Repeat a step until it returns False, in transactions so short that other writers wait little."""

        def operation(session: WriteSession) -> bool:
            end = time.monotonic() + MOVING_SECONDS
            while step(session):
                if time.monotonic() >= end:
                    return True
            return False

        while self._opened.write(operation):
            pass


class SortedPair(MemtablePair):
    """Memtable pair without pages for equal keys; sorts one stripe of a table at a time.

    >>> from index import Parameters
    >>> pair = SortedPair(shape_of(Parameters()))
    >>> pair.added.add(np.array([[9], [5]], np.uint64) << np.uint64(48), np.array([0, 1], np.uint64))
    >>> added, removed, end = pair.entries_of_table(0, bytes(16), None, 10)
    >>> added[1].tolist(), end
    ([1, 0], None)
    """

    def __init__(self, shape: Shape, entries: int = 1) -> None:
        """entries: expected number."""
        super().__init__(shape)
        self.added = Memtable(shape, max(1, entries))

    def entries_of_table(self, table: int, begin: bytes, end: bytes | None, count_max: int) -> Gathered:
        """As `MemtablePair.entries_of_table`; may end earlier, with a stripe."""
        stripe_bits = min(BLOCK_BITS, (max(self.counts()) // STRIPE_ENTRIES).bit_length())
        first_value = int.from_bytes(begin[:2], "big")
        stripe = first_value >> (BLOCK_BITS - stripe_bits)
        end = _earlier(end, stripe + 1 << (BLOCK_BITS - stripe_bits), len(begin))
        added, removed = (divided(each.stripe(table, stripe, stripe_bits), begin)[1] for each in self._sorted)
        added = divided(added, end)[0]
        if added.shape[1] > count_max:
            value = int(added[0, count_max] >> np.uint64(64 - BLOCK_BITS))
            end = _earlier(end, max(value, first_value + 1), len(begin))
        return divided(added, end)[0], divided(removed, end)[0], end

    @cached_property
    def _sorted(self) -> tuple["_Sorted", "_Sorted"]:
        return _Sorted(self.shape, self.added, self._cancelled), _Sorted(self.shape, self.removed, self._cancelled)


class _Sorted:
    """Entries in segment form; holds one sorted stripe."""

    def __init__(self, shape: Shape, memtable: Memtable, without: npt.NDArray[np.uint64]) -> None:
        """without: numbers of the entries to leave out."""
        fingerprints, self._numbers = memtable.fingerprints, memtable.numbers
        if len(without):
            left = ~np.isin(self._numbers, without)
            fingerprints, self._numbers = fingerprints[left], self._numbers[left]
        if (self._numbers[1:] < self._numbers[:-1]).any():
            # Raised entries come after later ones. Entries with one hash are sorted by place.
            ascending = np.argsort(self._numbers)
            fingerprints, self._numbers = fingerprints[ascending], self._numbers[ascending]
        self._columns, self._table = shape.sorting_columns(fingerprints), -1
        self._places, self._begins = np.empty(0, np.uint32), np.zeros(1, np.int64)
        self._asked, self._stripe = (-1, -1), NO_ENTRIES

    def stripe(self, table: int, stripe: int, stripe_bits: int) -> HashEntries:
        """A table's entries in a stripe, uint64 [2, n] ascending."""
        if self._asked != (table, stripe):
            if self._table != table:
                self._table = table
                self._places, self._begins = sort.by_top_bits(self._columns[table], stripe_bits)
            begin, end = self._begins[stripe : stripe + 2].tolist()
            hashes, order = sort.by_high_bits(self._columns[table], self._places[begin:end])
            self._asked, self._stripe = (table, stripe), np.stack([hashes, self._numbers[order]])
        return self._stripe


def _earlier(end: bytes | None, value: int, size: int) -> bytes | None:
    """The earlier bound: `end` (None: the table's end) or the first with this first column."""
    if value == 1 << BLOCK_BITS:
        return end
    bound = value.to_bytes(2, "big").ljust(size, b"\0")
    return bound if end is None else min(bound, end)


def _entry_bytes(shape: Shape) -> int:
    """Approximate bytes per entry in memory: fingerprint, number, hash slots, place, and hashes."""
    return 8 * shape.words + 8 + 12 + 4 + 8 * shape.tables
