"""All NEAR entries that are filed by blocks, wherever they stand: in chunks, in the frozen run, in the overlay."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from index.lsm import compaction, minhash_lookup, simhash_lookup
from index.lsm.compaction import Merging, Run
from index.lsm.memtable import Overlay
from index.lsm.segments import Chunks
from index.lsm.shape import Shape
from index.matching.distance import Matches, joined, nearest, no_matches
from index.storage import log
from index.storage.codec import Amendment, pack_amendment, unpack_amendment
from index.storage.layout import AMENDMENT_KEY, COUNTERS_KEY, Change, Filing, Merge, Table, unpack_counters
from index.storage.parameters import Parameters
from index.storage.store import Transaction

Portion = tuple[Matches, npt.NDArray[np.int64]]


class Wanted(Protocol):
    """The look-up of n fingerprints: all of it that needs no store is computed when it is made."""

    def __len__(self) -> int: ...

    def pairs(self, *, nearest_only: bool) -> Portion:
        """Matches among the n fingerprints, as `matching.Probes.pairs` gives them, and the comparisons, int64 [n]."""

    def nearest(self, transaction: Transaction, overlays: Sequence[Overlay], chunks: Chunks) -> Portion:
        """As `matching.Probes.nearest`."""

    def matches(self, transaction: Transaction, overlays: Sequence[Overlay], chunks: Chunks) -> Iterator[Portion]:
        """As `matching.Probes.matches`."""


def wanted(
    fingerprints: npt.NDArray[np.uint64],
    parameters: Parameters,
    distance_max: int,
    looks: npt.NDArray[np.uint8] | None = None,
) -> Wanted:
    """How entries within `distance_max` of fingerprints uint64 [n, words] are found in an index of these parameters.

    looks  uint8 [n, look bytes], where a second look decides which of them count
    """
    shape = Shape.of(parameters)
    if shape.banding is None:
        return simhash_lookup.probes_of(fingerprints, distance_max, shape, looks)
    return minhash_lookup.banded(fingerprints, distance_max, shape)


class Standing(NamedTuple):
    """Where the entries stand.

    overlay_entries  in memory, not on their way into chunks
    frozen_entries   in memory, on their way
    removals         entries that left and may still stand in chunks
    progress         how far the frozen ones have come, 0 to 1; 1 where there are none
    chunks           how many there are, of all tables
    """

    overlay_entries: int
    frozen_entries: int
    removals: int
    progress: float
    chunks: int


class _Reach(NamedTuple):
    """Document numbers and amendments below these."""

    number: int
    amendment: int


class Search:
    """What a process keeps in memory of the entries. Every transaction begins with `follow`.

    What is below `_frozen_to` stands in chunks or in the frozen run, the rest up to `_end` in the active one. What a
    transaction adds counts only after `committed`.
    """

    def __init__(self, parameters: Parameters, merging: Merging, new_run: Callable[[Shape], Run] = Run) -> None:
        """merging may be set anew between two transactions; new_run: what the newest entries are kept in."""
        self._shape = Shape.of(parameters)
        self._new_run = new_run
        self.merging = merging
        self._chunks = Chunks(self._shape)
        self._merge: Merge | None = None
        self._begin_at(_Reach(0, 0))

    def _begin_at(self, reach: _Reach) -> None:
        self._frozen: Run | None = None
        self._active = self._new_run(self._shape)
        self._frozen_to = self._end = self._end_uncommitted = reach
        self._committed = self._active.counts()

    def follow(self, transaction: Transaction) -> None:
        """Take over what other processes have committed, and forget what was not committed here."""
        self._active.cut(*self._committed)
        self._end_uncommitted = self._end
        now = compaction.state(transaction)
        frozen_to = _Reach(now.frozen_to, now.frozen_amendments)
        if frozen_to != self._frozen_to:
            if not self._is_next(transaction, now):
                # Amendments that have moved are gone from the file.
                self._begin_at(_Reach(now.merged_to, 0))
            self._load(transaction, frozen_to)
            self._frozen, self._active = self._active, self._new_run(self._shape)
            self._frozen_to, self._committed = frozen_to, (0, 0)
        if not now.is_moving:
            self._frozen = None
        counters = unpack_counters(transaction.get(Table.META, COUNTERS_KEY))
        self._load(transaction, _Reach(counters.next_number, counters.next_amendment))
        self._chunks.follow(transaction, now)
        self._merge = now

    def file(self) -> None:
        """Make everything ready to be looked up that `follow` took over; else the first look-up does it."""
        for run in (self._active, self._frozen):
            if run is not None:
                run.added.file()

    def _is_next(self, transaction: Transaction, now: Merge) -> bool:
        """Whether what is moving now begins where what was frozen here ends: all before has moved, nothing behind."""
        mine = self._frozen_to
        if not now.is_moving or now.merged_to != mine.number:
            return False
        return now.frozen_amendments == mine.amendment or (
            transaction.view(Table.AMENDMENTS, AMENDMENT_KEY.pack(mine.amendment)) is not None
        )

    def _load(self, transaction: Transaction, end: _Reach) -> None:
        """Read on to there, into the active run."""
        words = self._shape.words
        if self._end.number < end.number:
            for batch in log.since(transaction, self._end.number, words):
                if batch.first_number >= end.number:
                    break
                numbers = np.arange(batch.first_number, batch.first_number + len(batch.fingerprints), dtype=np.uint64)
                new = (numbers >= self._end.number) & (numbers < end.number)
                new &= batch.rows["filing"][batch.entered()] == Filing.BLOCKS
                self._active.added.add(batch.fingerprints[new].astype(np.uint64), numbers[new])
        if self._end.amendment < end.amendment:
            for key, value in transaction.walk(Table.AMENDMENTS, AMENDMENT_KEY.pack(self._end.amendment)):
                if AMENDMENT_KEY.unpack(key)[0] >= end.amendment:
                    break
                self._take_over(unpack_amendment(value, words))
        self._end = self._end_uncommitted = end
        self._committed = self._active.counts()

    def _take_over(self, amendment: Amendment) -> None:
        raised = amendment.changes == Change.RAISED
        for run, rows in ((self._active.added, raised), (self._active.removed, ~raised)):
            run.add(amendment.fingerprints[rows], amendment.numbers[rows])

    def nearest(self, transaction: Transaction, wanted: Wanted) -> Portion:
        """Per row the nearest entry, the earliest among equally near ones, and the comparisons made, int64 [n].

        Retired entries count as long as they stand anywhere.
        """
        if self._frozen is None or not len(self._frozen.removed):
            return wanted.nearest(transaction, *self._places())
        best, compared = no_matches(), np.zeros(len(wanted), np.int64)
        for found, comparisons in self.matches(transaction, wanted):
            best = nearest(joined([best, found]), 1)
            compared += comparisons
        return best, compared

    def matches(self, transaction: Transaction, wanted: Wanted) -> Iterator[Portion]:
        """All entries within the distance, some at a time, each pair at most once in a portion, with the comparisons.

        About `overlay.HITS_MAX` in a portion. Nothing may be written before the last one was taken.
        """
        return wanted.matches(transaction, *self._places())

    def _places(self) -> tuple[list[Overlay], Chunks]:
        assert self._merge is not None, "a transaction must begin with `follow`"
        return [run.added for run in (self._active, self._frozen) if run is not None], self._chunks

    def add(self, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Entries of a batch under way, uint64 [n, words] and uint64 [n]: from now on they are found."""
        self._active.added.add(fingerprints, numbers)

    def amend(self, transaction: Transaction, number: int, amendment: Amendment) -> None:
        """Note the amendment with this number, the next one: what is raised is found from now on."""
        transaction.put(Table.AMENDMENTS, AMENDMENT_KEY.pack(number), pack_amendment(amendment))
        self._take_over(amendment)

    def advance(self, transaction: Transaction, next_number: int, next_amendment: int) -> None:
        """The end of a batch, before its commit: entries move on, see `merging`. Both: behind all of the batch."""
        compaction.advance(transaction, self.merging, self._frozen, self._active, next_number, next_amendment)
        self._end_uncommitted = _Reach(next_number, next_amendment)

    def freeze(self, transaction: Transaction, next_number: int, next_amendment: int) -> None:
        """Freeze all below these numbers that stands in no chunk. Nothing may be on its way into one."""
        assert self._frozen is None
        if any(self._active.counts()):
            compaction.freeze(transaction, self._shape, next_number, next_amendment)

    def move(self, transaction: Transaction) -> bool:
        """Move a slice of what is frozen, however the active run stands; whether there is more.

        Nothing is looked up behind it in this transaction.
        """
        frozen = self._frozen
        return frozen is not None and compaction.move(transaction, self.merging, frozen, 1.0, 1).is_moving

    @property
    def is_moving(self) -> bool:
        """Whether anything was on its way into chunks at the last `follow`."""
        return self._frozen is not None

    def committed(self) -> None:
        """What was added counts."""
        self._committed, self._end = self._active.counts(), self._end_uncommitted

    def standing(self) -> Standing:
        """Where the entries stood at the last `follow`, and what was added since."""
        assert self._merge is not None, "a transaction must begin with `follow`"
        runs = [run for run in (self._active, self._frozen) if run is not None]
        return Standing(
            overlay_entries=len(self._active.added),
            frozen_entries=len(self._frozen.added) if self._frozen is not None else 0,
            removals=sum(len(run.removed) for run in runs),
            progress=compaction.progress(self._merge, self._shape.tables),
            chunks=len(self._chunks),
        )
