"""SimHash lookups: among the fingerprints, in memory, in segments. Memory is bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from index.kernels import sort
from index.lsm.memtable import Memtable, MemtableShape
from index.lsm.segments import Segments
from index.matching.distance import Portion, joined, nearest, no_matches
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

    def pairs(self, *, nearest_only: bool) -> Portion:
        """As `tree.Lookup`. Equal fingerprints with equal looks have equal matches, so only the first is a match."""
        rows = np.arange(len(self))
        alike = self.fingerprints if self.looks is None else with_looks(self.fingerprints, self.looks)
        leaders = np.flatnonzero(first_of_equals(alike) == rows)
        memtable = Memtable(self.shape)
        memtable.add(self.fingerprints[leaders], leaders.astype(np.uint64))
        best, compared = self._nothing_yet()
        ends, limit = np.searchsorted(leaders, rows), 1 if nearest_only else None
        hits = memtable.hits(
            self.fingerprints, self.keys, self.allowed, best, compared, nearest_only=nearest_only, ends=ends
        )
        return joined([no_matches(), *(nearest(matches, limit) for matches in hits)]), compared

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments, limit: int | None
    ) -> Iterator[Portion]:
        """As `tree.Lookup`. A limit of 1 requires that no entry is leaving the segments: its remains would hide others."""
        best, compared = self._nothing_yet()
        asked, nearest_only = (self.fingerprints, self.keys, self.allowed, best, compared), limit == 1
        parts = [memtable.hits(*asked, nearest_only=nearest_only) for memtable in memtables]
        for matches in chain(*parts, segments.hits(transaction, *asked, nearest_only=nearest_only)):
            yield nearest(matches, limit), compared.copy()
            compared[:] = 0

    def _nothing_yet(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        return np.full(len(self), self.distance_max, np.int16), np.zeros(len(self), np.int64)


def with_looks(fingerprints: npt.NDArray[np.uint64], looks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Fingerprints, uint64 [n, words], each followed by its look, uint8 [n, look bytes], in whole words."""
    padded = np.zeros((len(looks), -(-looks.shape[1] // 8) * 8), np.uint8)
    padded[:, : looks.shape[1]] = looks
    return np.hstack([fingerprints, padded.view(np.uint64)])


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """First row with an equal fingerprint, for every row: uint64 [n, words] -> int64 [n]."""
    slots = np.full(4 << len(fingerprints).bit_length(), -1, np.int32)
    return sort.first_equals(fingerprints, slots)
