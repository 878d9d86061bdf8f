"""Lookup of SimHash fingerprints: among themselves, in memory, in segments. Memory is bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.kernels import sort
from index.lsm.memtable import Memtable, MemtableShape
from index.lsm.segments import Segments
from index.matching.distance import Matches, joined, nearest, no_matches
from index.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class SimhashLookup:
    """Precomputed part of a lookup for n fingerprints; touches no storage.

    fingerprints  uint64 [n, words]
    keys          uint32 [n, probes], `simhash.probe_keys`
    allowed       int8 [probes], `simhash.next_bits`
    looks         uint8 [n, look bytes], for the second look, which decides which matches count; None: all count
    """

    fingerprints: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint32]
    allowed: npt.NDArray[np.int8]
    distance_max: int
    shape: MemtableShape
    looks: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.fingerprints)

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Matches among the fingerprints; `numbers` are rows, each below its matching row. And the comparisons, int64 [n].

        Ordered by row, distance, number; with `nearest_only` one match per row. Equal fingerprints with equal looks have
        equal matches, so only the first is returned.
        """
        rows = np.arange(len(self))
        alike = self.fingerprints if self.looks is None else _with_looks(self.fingerprints, self.looks)
        leaders = np.flatnonzero(first_of_equals(alike) == rows)
        memtable = Memtable(self.shape)
        memtable.add(self.fingerprints[leaders], leaders.astype(np.uint64))
        best, compared = self._nothing_yet()
        ends, limit = np.searchsorted(leaders, rows), 1 if nearest_only else None
        hits = memtable.hits(
            self.fingerprints, self.keys, self.allowed, best, compared, nearest_only=nearest_only, ends=ends
        )
        return joined([no_matches(), *(nearest(found, limit) for found in hits)]), compared

    def nearest(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Per row the nearest entry, the earliest among equally near ones, and the comparisons made, int64 [n].

        Requires that no entry is leaving the segments: its remains would hide others.
        """
        best, compared = self._nothing_yet()
        hits = self._hits(transaction, memtables, segments, best, compared, nearest_only=True)
        return nearest(joined([no_matches(), *(nearest(found, 1) for found in hits)]), 1), compared

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments
    ) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
        """All entries within the distance in portions, each pair at most once per portion, with the comparisons."""
        best, compared = self._nothing_yet()
        for found in self._hits(transaction, memtables, segments, best, compared, nearest_only=False):
            yield nearest(found, None), compared.copy()
            compared[:] = 0

    def _nothing_yet(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        return np.full(len(self), self.distance_max, np.int16), np.zeros(len(self), np.int64)

    def _hits(
        self,
        transaction: Transaction,
        memtables: Sequence[Memtable],
        segments: Segments,
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        *,
        nearest_only: bool,
    ) -> Iterator[Matches]:
        asked = self.fingerprints, self.keys, self.allowed, best, compared
        for memtable in memtables:
            yield from memtable.hits(*asked, nearest_only=nearest_only)
        yield from segments.hits(transaction, *asked, nearest_only=nearest_only)


def _with_looks(fingerprints: npt.NDArray[np.uint64], looks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Fingerprints and looks side by side as words, uint64 [n, w]."""
    padded = np.zeros((len(looks), -(-looks.shape[1] // 8) * 8), np.uint8)
    padded[:, : looks.shape[1]] = looks
    return np.hstack([fingerprints, padded.view(np.uint64)])


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """First row with an equal fingerprint, for every row: uint64 [n, words] -> int64 [n]."""
    slots = np.full(4 << len(fingerprints).bit_length(), -1, np.int32)
    return sort.first_equals(fingerprints, slots)
