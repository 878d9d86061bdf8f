"""The table: all entries of a kind, in memtables and segments, as one process sees them.

An index has two: the `Tree` of fingerprints, and the `IdTable`.
"""

from collections.abc import Callable
from typing import NamedTuple

from index.lsm import compaction
from index.lsm.compaction import Compaction, MemtablePair, Reach, TreeSizes
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape
from index.storage import log
from index.storage.codec import Tombstones, unpack_tombstones
from index.storage.counters import counters_of
from index.storage.layout import LOG_KEY, TOMBSTONE_KEY, Counters, Table
from index.storage.segments.compaction_state import CompactionState
from index.storage.store import Transaction


class TreeStats(NamedTuple):
    """A table's entries.

    memtable_entries  entries in the memtable
    frozen_entries    entries in the frozen memtable, which compaction moves into segments
    removals          removed entries that segments may still hold
    progress          compaction progress, 0 to 1; 1 if none runs
    segments          in all tables

    >>> stats = TreeStats(memtable_entries=10, frozen_entries=500, removals=0, progress=0.25, segments=16)
    >>> f"{stats.progress:.0%} of {stats.frozen_entries} entries are in segments"
    '25% of 500 entries are in segments'
    """

    memtable_entries: int
    frozen_entries: int
    removals: int
    progress: float
    segments: int


class HashTable:
    """A table, as a process sees it. Every transaction begins with `follow`.

    Segments or the frozen memtable hold entries before `_frozen_to`; the active memtable holds those from there to
    `_end`. Entries that a transaction adds stay only after `committed`. A subclass has the shape's lookups.

    >>> from index import Parameters
    >>> from index.lsm.tree import Tree
    >>> tree = Tree(Parameters(), TreeSizes(memtable_entries=100))
    >>> tree.is_moving, [len(memtable) for memtable in tree.memtables()]
    (False, [0])
    """

    def __init__(
        self, shape: Shape, sizes: TreeSizes, new_pair: Callable[[Shape], MemtablePair] = MemtablePair
    ) -> None:
        """sizes: may change between transactions; new_pair: creates an empty memtable pair."""
        self._shape, self._new_pair = shape, new_pair
        self.sizes = sizes
        self._segments = Segments(shape.table, shape.tables)
        self._state: CompactionState | None = None
        self._begin_at(Reach(0, 0, 0))

    def _begin_at(self, reach: Reach) -> None:
        self._frozen: MemtablePair | None = None
        self._active = self._new_pair(self._shape)
        self._frozen_to = self._end = self._end_uncommitted = reach
        self._committed = self._active.counts()

    def _first_number(self, transaction: Transaction) -> int:  # noqa: ARG002
        """Rewriting a segment drops entries with lower numbers."""
        return 0

    def _reach(self, counters: Counters) -> Reach:
        """Everything in an index with these counters."""
        return Reach(counters.next_number, counters.journal_rows, counters.next_tombstone)

    def follow(self, transaction: Transaction) -> None:
        """Read entries that other processes committed; drop those that this process did not commit."""
        self._active.cut(*self._committed)
        self._end_uncommitted = self._end
        now = compaction.state(transaction, self._shape)
        frozen_to = Reach(now.frozen_to, now.frozen_rows, now.frozen_tombstones)
        if frozen_to != self._frozen_to:
            if not self._is_next(transaction, now):
                # The end of a compaction deletes its tombstones from the file.
                self._begin_at(Reach(now.merged_to, now.merged_rows, 0))
            self._load(transaction, frozen_to)
            self._frozen, self._active = self._active, self._new_pair(self._shape)
            self._frozen_to, self._committed = frozen_to, (0, 0)
        if not now.is_moving:
            self._frozen = None
        self._load(transaction, self._reach(counters_of(transaction)))
        self._segments.follow(transaction, now)
        self._state = now

    def file(self) -> None:
        """File all entries that `follow` read; otherwise the first lookup pays for it."""
        for pair in self._pairs():
            pair.added.file()

    def _is_next(self, transaction: Transaction, now: CompactionState) -> bool:
        """Whether the memtable frozen in the file begins at the end of the fully compacted one frozen here."""
        mine = self._frozen_to
        if not now.is_moving or (now.merged_to, now.merged_rows) != mine[:2]:
            return False
        return now.frozen_tombstones == mine.tombstone or (
            transaction.view(Table.TOMBSTONES, TOMBSTONE_KEY.pack(mine.tombstone)) is not None
        )

    def _load(self, transaction: Transaction, end: Reach) -> None:
        """Read the log and the tombstones up to `end` into the active memtable."""
        if self._end[:2] < end[:2]:
            last = LOG_KEY.pack(*end[:2])
            for batch in log.walk(transaction, self._shape.words, LOG_KEY.pack(*self._end[:2])):
                if batch.key >= last:
                    break
                self._active.added.add(*self._shape.entries_of(batch))
        if self._end.tombstone < end.tombstone:
            for key, value in transaction.walk(Table.TOMBSTONES, TOMBSTONE_KEY.pack(self._end.tombstone)):
                if TOMBSTONE_KEY.unpack(key)[0] >= end.tombstone:
                    break
                self._take_over(unpack_tombstones(value, self._shape.words))
        self._end = self._end_uncommitted = end
        self._committed = self._active.counts()

    def _take_over(self, tombstone: Tombstones) -> None:
        self._active.removed.add(tombstone.fingerprints, tombstone.numbers)

    @property
    def compaction(self) -> CompactionState:
        """Compaction state at the last `follow`."""
        assert self._state is not None, "a transaction must begin with `follow`"
        return self._state

    def _pairs(self) -> list[MemtablePair]:
        return [pair for pair in (self._active, self._frozen) if pair is not None]

    def memtables(self) -> list[Memtable]:
        """Memtables of added entries: the active one, and the frozen one if there is one."""
        return [pair.added for pair in self._pairs()]

    def end_batch(self, transaction: Transaction, counters: Counters) -> None:
        """Compact a little at a batch's end, see `compaction`; counters: those after the batch."""
        end = self._reach(counters)
        self._compaction(transaction).freeze_or_move(self._frozen, self._active, end)
        self._end_uncommitted = end

    def freeze(self, transaction: Transaction, counters: Counters) -> None:
        """Freeze the memtable, with all entries that these counters count. No compaction may run."""
        assert self._frozen is None
        if any(self._active.counts()):
            self._compaction(transaction).freeze(self._reach(counters))

    def move(self, transaction: Transaction) -> bool:
        """Move one slice of the frozen memtable, even while the active one is nearly empty; returns whether more is left."""
        return self._frozen is not None and self._compaction(transaction).move(self._frozen, 1.0, 1)

    def settle(self, transaction: Transaction) -> bool:
        """Move a segment to the last level if the first is too large; returns whether it was."""
        return self._compaction(transaction).settle()

    def _compaction(self, transaction: Transaction) -> Compaction:
        return Compaction(transaction, self.sizes, self._shape, self._first_number(transaction))

    @property
    def is_moving(self) -> bool:
        """Whether a compaction was running at the last `follow`."""
        return self._frozen is not None

    def committed(self) -> None:
        """Keep the entries that the committed transaction added."""
        self._committed, self._end = self._active.counts(), self._end_uncommitted
