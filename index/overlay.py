"""The newest entries in memory, in pages of those with an equal block, until they stand in chunks."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from index import kernels
from index.blocks import BLOCK_BITS
from index.distance import Matches, joined, nearest, no_matches

Column = TypeVar("Column", bound=np.generic)

HITS_MAX = 2**20
"""Hits kept at once: bounds their memory, however alike the fingerprints are."""

_CAPACITY_AT_FIRST = 1024


class Overlay:
    """Entries in order of their numbers; the last ones can be taken back. The pages are as `kernels` files them."""

    def __init__(self, words: int) -> None:
        blocks = words * 64 // BLOCK_BITS
        self._count = 0
        self._fingerprints = np.empty((_CAPACITY_AT_FIRST, words), np.uint64)
        self._numbers = np.empty(_CAPACITY_AT_FIRST, np.uint64)
        self._heads = np.full((blocks, 1 << BLOCK_BITS), -1, np.int32)
        self._page_count = 0
        self._links = np.empty((_CAPACITY_AT_FIRST, 2), np.int32)
        self._following = np.empty((_CAPACITY_AT_FIRST, kernels.PAGE_ENTRIES), np.uint16)
        self._places = np.empty((_CAPACITY_AT_FIRST, kernels.PAGE_ENTRIES), np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Add entries, uint64 [n, words] and uint64 [n], with numbers above all there are."""
        begin, end = self._count, self._count + len(numbers)
        self._fingerprints = _with_room(self._fingerprints, end)
        self._numbers = _with_room(self._numbers, end)
        pages = self._page_count + len(numbers) * len(self._heads)
        self._links, self._following = _with_room(self._links, pages), _with_room(self._following, pages)
        self._places = _with_room(self._places, pages)
        self._fingerprints[begin:end], self._numbers[begin:end] = fingerprints, numbers
        self._count = end
        self._page_count = kernels.file_entries(
            self._fingerprints[:end], begin, self._heads, self._links, self._following, self._places, self._page_count
        )

    def cut(self, count: int) -> None:
        """Take back all entries but the first `count`."""
        filed = self._fingerprints[: self._count]
        self._page_count = kernels.take_back(filed, count, self._heads, self._links, self._page_count)
        self._count = count

    def of_block(
        self, block: int, begin: int, end: int, count_max: int
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int]:
        """The entries that have one of the values begin <= v < end in this block, in no promised order.

        Stops before a value once there are `count_max`. Gives uint64 [m, words], their numbers uint64 [m], and the
        first value that was not looked at.
        """
        places, stopped = kernels.gathered(self._heads[block], self._links, self._places, begin, end, count_max)
        return self._fingerprints[places], self._numbers[places], stopped

    def matches(
        self,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        ringed: npt.NDArray[np.bool_],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        limit: int | None,
        *,
        ends: npt.NDArray[np.int64] | None = None,
    ) -> Matches:
        """For every row its `limit` nearest entries, as `distance.nearest` gives them.

        keys      uint32 [n, probes], as `blocks.probe_keys` makes them
        ringed    bool [blocks], as `blocks.ringed` says for the same distance
        best      int16 [n], matches lie at most so far; where the limit is 1, lowered to the distance of the nearest
        compared  int64 [n], raised by the comparisons made
        ends      int64 [n], only the first so many entries are matches of the row; None: all are
        """
        ends = np.full(len(fingerprints), self._count) if ends is None else ends
        found, row = no_matches(), 0
        while row < len(fingerprints) and self._count:
            rows, distances, places, row = kernels.scan_pages(
                fingerprints,
                keys,
                self._fingerprints,
                self._heads,
                self._links,
                self._following,
                self._places,
                ends,
                ringed,
                limit == 1,
                best,
                compared,
                row,
                HITS_MAX,
            )
            numbers = self._numbers[places[:, 0].astype(np.int64)]
            found = joined([found, nearest(Matches(rows, distances, numbers), limit)])
        return found


def _with_room(column: npt.NDArray[Column], count: int) -> npt.NDArray[Column]:
    """A column of at least so many places that begins with this one; itself where it is long enough."""
    if count <= len(column):
        return column
    larger = np.empty((max(count, 2 * len(column)), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger
