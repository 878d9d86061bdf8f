"""The newest entries in memory, linked by the values of their blocks, until they stand in chunks."""

import numpy as np
import numpy.typing as npt

from index import kernels
from index.blocks import BLOCK_BITS
from index.distance import Matches, joined, nearest, no_matches

HITS_MAX = 2**20
"""Hits kept at once: bounds their memory, however alike the fingerprints are."""

_CAPACITY_AT_FIRST = 1024


class Overlay:
    """Entries in order of their numbers; the last ones can be taken back."""

    def __init__(self, words: int) -> None:
        blocks = words * 64 // BLOCK_BITS
        self._count = 0
        self._fingerprints = np.empty((_CAPACITY_AT_FIRST, words), np.uint64)
        self._numbers = np.empty(_CAPACITY_AT_FIRST, np.uint64)
        self._heads = np.full((blocks, 1 << BLOCK_BITS), -1, np.int32)
        self._nexts = np.empty((blocks, _CAPACITY_AT_FIRST), np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Add entries, uint64 [n, words] and uint64 [n], with numbers above all there are."""
        begin, end = self._count, self._count + len(numbers)
        if end > len(self._numbers):
            self._grow(max(end, 2 * len(self._numbers)))
        self._fingerprints[begin:end] = fingerprints
        self._numbers[begin:end] = numbers
        self._count = end
        kernels.link(self._fingerprints[:end], self._heads, self._nexts, begin)

    def _grow(self, capacity: int) -> None:
        count = self._count
        fingerprints = np.empty((capacity, self._fingerprints.shape[1]), np.uint64)
        numbers, nexts = np.empty(capacity, np.uint64), np.empty((len(self._nexts), capacity), np.int32)
        fingerprints[:count], numbers[:count] = self._fingerprints[:count], self._numbers[:count]
        nexts[:, :count] = self._nexts[:, :count]
        self._fingerprints, self._numbers, self._nexts = fingerprints, numbers, nexts

    def cut(self, count: int) -> None:
        """Take back all entries but the first `count`."""
        kernels.unlink(self._fingerprints[: self._count], self._heads, self._nexts, count)
        self._count = count

    def of_block(
        self, block: int, begin: int, end: int, count_max: int
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int]:
        """The entries that have one of the values begin <= v < end in this block, in no promised order.

        Stops before a value once there are `count_max`. Gives uint64 [m, words], their numbers uint64 [m], and the
        first value that was not looked at.
        """
        places, stopped = kernels.gathered(self._heads[block], self._nexts[block], begin, end, count_max)
        return self._fingerprints[places], self._numbers[places], stopped

    def matches(
        self,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        limit: int,
    ) -> Matches:
        """For every row its `limit` nearest entries, as `distance.nearest` gives them.

        keys      uint32 [n, probes], as `blocks.probe_keys` makes them
        best      int16 [n], matches lie at most so far; where the limit is 1, lowered to the distance of the nearest
        compared  int64 [n], raised by the comparisons made
        """
        found, row = no_matches(), 0
        while row < len(fingerprints) and self._count:
            rows, distances, places, row = kernels.scan_chains(
                fingerprints,
                keys,
                self._fingerprints,
                self._heads,
                self._nexts,
                limit == 1,
                best,
                compared,
                row,
                HITS_MAX,
            )
            numbers = self._numbers[places[:, 0].astype(np.int64)]
            found = joined([found, nearest(Matches(rows, distances, numbers), limit)])
        return found
