"""The tree: all NEAR entries filed by blocks, in the memtable, in the frozen memtable and in segments."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from index.lsm import compaction, minhash_lookup, simhash_lookup
from index.lsm.bands.segments import BandSegments
from index.lsm.compaction import MemtablePair, TreeSizes
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape
from index.matching.distance import Matches, joined, nearest, no_matches
from index.storage import log
from index.storage.codec import Tombstones, pack_tombstones, unpack_tombstones
from index.storage.layout import COUNTERS_KEY, TOMBSTONE_KEY, Change, Filing, Table, unpack_counters
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import CompactionState
from index.storage.store import Transaction

Portion = tuple[Matches, npt.NDArray[np.int64]]


class Lookup(Protocol):
    """Look-up of n fingerprints. Its construction computes everything that touches no storage."""

    def __len__(self) -> int: ...

    def pairs(self, *, nearest_only: bool) -> Portion:
        """Matches among the n fingerprints and the comparisons, int64 [n], as `SimhashLookup.pairs` gives them."""

    def nearest(self, transaction: Transaction, memtables: Sequence[Memtable], segments: Any) -> Portion:
        """As `SimhashLookup.nearest`."""

    def matches(self, transaction: Transaction, memtables: Sequence[Memtable], segments: Any) -> Iterator[Portion]:
        """As `SimhashLookup.matches`."""


def lookup_of(
    fingerprints: npt.NDArray[np.uint64],
    parameters: Parameters,
    distance_max: int,
    looks: npt.NDArray[np.uint8] | None = None,
) -> Lookup:
    """Look-up of the entries within `distance_max` of fingerprints uint64 [n, words], in an index of these parameters.

    looks  uint8 [n, look bytes], where a second look decides which entries count
    """
    shape = Shape.of(parameters)
    if shape.banding is None:
        return simhash_lookup.simhash_lookup_of(fingerprints, distance_max, shape, looks)
    return minhash_lookup.minhash_lookup_of(fingerprints, distance_max, shape)


class Standing(NamedTuple):
    """Where the entries stand.

    memtable_entries  entries in the memtable
    frozen_entries    entries in the frozen memtable, which compaction moves into segments
    removals          removed entries that segments may still hold
    progress          progress of the compaction, 0 to 1; 1 where none runs
    segments          segments of all tables
    """

    memtable_entries: int
    frozen_entries: int
    removals: int
    progress: float
    segments: int


class _Reach(NamedTuple):
    """End of a range of documents and tombstones: those below these numbers."""

    number: int
    tombstone: int


class Tree:
    """View that one process has of all entries. Every transaction begins with `follow`.

    Entries below `_frozen_to` stand in segments or in the frozen memtable; entries from there to below `_end` stand in the
    active memtable. Entries that a transaction adds stay only after `committed`.
    """

    def __init__(
        self, parameters: Parameters, sizes: TreeSizes, new_pair: Callable[[Shape], MemtablePair] = MemtablePair
    ) -> None:
        """sizes: may be replaced between two transactions; new_pair: makes an empty pair of memtables."""
        self._shape = Shape.of(parameters)
        self._new_pair = new_pair
        self.sizes = sizes
        self._segments = (Segments if self._shape.banding is None else BandSegments)(self._shape)
        self._compaction: CompactionState | None = None
        self._begin_at(_Reach(0, 0))

    def _begin_at(self, reach: _Reach) -> None:
        self._frozen: MemtablePair | None = None
        self._active = self._new_pair(self._shape)
        self._frozen_to = self._end = self._end_uncommitted = reach
        self._committed = self._active.counts()

    def follow(self, transaction: Transaction) -> None:
        """Take over the entries that other processes committed; drop those that this process did not commit."""
        self._active.cut(*self._committed)
        self._end_uncommitted = self._end
        now = compaction.state(transaction)
        frozen_to = _Reach(now.frozen_to, now.frozen_tombstones)
        if frozen_to != self._frozen_to:
            if not self._is_next(transaction, now):
                # The end of a compaction deletes its tombstones from the file.
                self._begin_at(_Reach(now.merged_to, 0))
            self._load(transaction, frozen_to)
            self._frozen, self._active = self._active, self._new_pair(self._shape)
            self._frozen_to, self._committed = frozen_to, (0, 0)
        if not now.is_moving:
            self._frozen = None
        counters = unpack_counters(transaction.get(Table.META, COUNTERS_KEY))
        self._load(transaction, _Reach(counters.next_number, counters.next_tombstone))
        self._segments.follow(transaction, now)
        self._compaction = now

    def file(self) -> None:
        """File all entries that `follow` took over; else the first look-up pays for it."""
        for pair in (self._active, self._frozen):
            if pair is not None:
                pair.added.file()

    def _is_next(self, transaction: Transaction, now: CompactionState) -> bool:
        """Whether the memtable frozen in the file begins where the one frozen here, now wholly compacted, ends."""
        mine = self._frozen_to
        if not now.is_moving or now.merged_to != mine.number:
            return False
        return now.frozen_tombstones == mine.tombstone or (
            transaction.view(Table.TOMBSTONES, TOMBSTONE_KEY.pack(mine.tombstone)) is not None
        )

    def _load(self, transaction: Transaction, end: _Reach) -> None:
        """Read the log and the tombstones up to `end` into the active memtable."""
        words = self._shape.words
        if self._end.number < end.number:
            for batch in log.since(transaction, self._end.number, words):
                if batch.first_number >= end.number:
                    break
                numbers = np.arange(batch.first_number, batch.first_number + len(batch.fingerprints), dtype=np.uint64)
                new = (numbers >= self._end.number) & (numbers < end.number)
                new &= batch.rows["filing"][batch.entered()] == Filing.BLOCKS
                self._active.added.add(batch.fingerprints[new].astype(np.uint64), numbers[new])
        if self._end.tombstone < end.tombstone:
            for key, value in transaction.walk(Table.TOMBSTONES, TOMBSTONE_KEY.pack(self._end.tombstone)):
                if TOMBSTONE_KEY.unpack(key)[0] >= end.tombstone:
                    break
                self._take_over(unpack_tombstones(value, words))
        self._end = self._end_uncommitted = end
        self._committed = self._active.counts()

    def _take_over(self, tombstone: Tombstones) -> None:
        raised = tombstone.changes == Change.RAISED
        for memtable, rows in ((self._active.added, raised), (self._active.removed, ~raised)):
            memtable.add(tombstone.fingerprints[rows], tombstone.numbers[rows])

    def nearest(self, transaction: Transaction, lookup: Lookup) -> Portion:
        """Per row the nearest entry, the earliest among equally near ones, and the comparisons made, int64 [n].

        Retired entries match, too, as long as a memtable or a segment holds them.
        """
        if self._frozen is None or not len(self._frozen.removed):
            return lookup.nearest(transaction, *self._places())
        best, compared = no_matches(), np.zeros(len(lookup), np.int64)
        for found, comparisons in self.matches(transaction, lookup):
            best = nearest(joined([best, found]), 1)
            compared += comparisons
        return best, compared

    def matches(self, transaction: Transaction, lookup: Lookup) -> Iterator[Portion]:
        """All entries within the distance in portions, each pair at most once in a portion, with the comparisons.

        A portion holds about `memtable.HITS_MAX` matches. The caller must not write before the last portion is taken.
        """
        return lookup.matches(transaction, *self._places())

    def _places(self) -> tuple[list[Memtable], Segments | BandSegments]:
        assert self._compaction is not None, "a transaction must begin with `follow`"
        return [pair.added for pair in (self._active, self._frozen) if pair is not None], self._segments

    def add(
        self,
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        """Add entries of the current batch, as `Memtable.add`; look-ups find them from now on."""
        self._active.added.add(fingerprints, numbers, hashes)

    def bury(self, transaction: Transaction, number: int, tombstone: Tombstones) -> None:
        """Store a tombstone under `number`, the next one; look-ups find the entries that it raises from now on."""
        transaction.put(Table.TOMBSTONES, TOMBSTONE_KEY.pack(number), pack_tombstones(tombstone))
        self._take_over(tombstone)

    def end_batch(self, transaction: Transaction, next_number: int, next_tombstone: int) -> None:
        """Compact a little at the end of a batch, see `compaction`; both numbers come after all numbers of the batch."""
        compaction.freeze_or_move(transaction, self.sizes, self._frozen, self._active, next_number, next_tombstone)
        self._end_uncommitted = _Reach(next_number, next_tombstone)

    def freeze(self, transaction: Transaction, next_number: int, next_tombstone: int) -> None:
        """Freeze the memtable: all entries below these numbers. Requires that no compaction runs."""
        assert self._frozen is None
        if any(self._active.counts()):
            compaction.freeze(transaction, self._shape, next_number, next_tombstone)

    def move(self, transaction: Transaction) -> bool:
        """Move one slice of the frozen memtable, however full the active one is; returns whether more is left.

        This transaction must not look anything up afterwards.
        """
        frozen = self._frozen
        return frozen is not None and compaction.move(transaction, self.sizes, frozen, 1.0, 1).is_moving

    def settle(self, transaction: Transaction) -> bool:
        """Move a segment to a lower level, where levels are larger than they ought to be; returns whether one was.

        This transaction must not look anything up afterwards.
        """
        return compaction.settle(transaction, self.sizes, self._shape)

    @property
    def is_moving(self) -> bool:
        """Whether a compaction was running at the last `follow`."""
        return self._frozen is not None

    def committed(self) -> None:
        """Keep the entries that the committed transaction added."""
        self._committed, self._end = self._active.counts(), self._end_uncommitted

    def standing(self) -> Standing:
        """Where the entries stood at the last `follow`, with those added since."""
        assert self._compaction is not None, "a transaction must begin with `follow`"
        pairs = [pair for pair in (self._active, self._frozen) if pair is not None]
        return Standing(
            memtable_entries=len(self._active.added),
            frozen_entries=len(self._frozen.added) if self._frozen is not None else 0,
            removals=sum(len(pair.removed) for pair in pairs),
            progress=compaction.progress(self._compaction, self._shape.tables),
            segments=len(self._segments),
        )
