"""The memtable: the newest entries in memory, in pages of entries with an equal key, until they stand in segments."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from index.kernels import memtable, scan, sort
from index.kernels.scan import Pages
from index.lsm.shape import Shape
from index.matching.distance import Matches
from index.matching.simhash import BLOCK_BITS

Column = TypeVar("Column", bound=np.generic)

HITS_MAX = 2**20
"""Hits kept at once: bounds their memory, however alike the fingerprints are."""

_CAPACITY_AT_FIRST = 1024

_FILED_AT_ONCE = 2**16
"""Entries whose page keys are computed at once: bounds their memory."""


class Memtable:
    """Entries in the order in which they were added; the last ones can be taken back.

    They are filed in pages by the first look-up, and hashed by the first look-up of equal ones: entries that come in by
    the million and move on are never filed.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._count = 0
        self._fingerprints = np.empty((_CAPACITY_AT_FIRST, shape.words), np.uint64)
        self._numbers = np.empty(_CAPACITY_AT_FIRST, np.uint64)
        self._filed = self._hashed = self._page_count = 0
        self._slots = np.full(2 * _CAPACITY_AT_FIRST, -1, np.int32)
        self._pages = Pages(
            heads=np.full((shape.tables, 1 << BLOCK_BITS), -1, np.int32),
            links=np.empty((_CAPACITY_AT_FIRST, 2), np.int32),
            following=np.empty((_CAPACITY_AT_FIRST, shape.page_entries), np.uint16),
            places=np.empty((_CAPACITY_AT_FIRST, shape.page_entries), np.int32),
        )

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """Those of all entries, uint64 [n, words]."""
        return self._fingerprints[: self._count]

    @property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """Those of all entries, uint64 [n]."""
        return self._numbers[: self._count]

    def add(self, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Add entries, uint64 [n, words] and uint64 [n]."""
        begin, end = self._count, self._count + len(numbers)
        self._fingerprints = _with_room(self._fingerprints, end)
        self._numbers = _with_room(self._numbers, end)
        self._fingerprints[begin:end], self._numbers[begin:end] = fingerprints, numbers
        self._count = end

    def cut(self, count: int) -> None:
        """Take back all entries but the first `count`."""
        if count < self._filed:
            keys = self._shape.page_keys(self._fingerprints[count : self._filed])
            self._page_count = memtable.take_back(keys, self._pages, self._page_count)
            self._filed = count
        if count < self._hashed:
            sort.unhash_entries(self._fingerprints, count, self._hashed, self._slots)
            self._hashed = count
        self._count = min(count, self._count)

    def file(self) -> None:
        """File the entries added since the last time; a look-up does it, too, but then somebody waits."""
        while self._filed < self._count:
            begin, end = self._filed, min(self._count, self._filed + _FILED_AT_ONCE)
            room = self._page_count + (end - begin) * self._shape.tables
            heads, links, following, places = self._pages
            self._pages = Pages(heads, _with_room(links, room), _with_room(following, room), _with_room(places, room))
            keys = self._shape.page_keys(self._fingerprints[begin:end])
            self._page_count = memtable.file_entries(keys, begin, self._pages, self._page_count)
            self._filed = end

    def equals(self, fingerprints: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All entries equal to fingerprints uint64 [n, words]: rows and places, int64 [m], ascending by row."""
        if 2 * self._count > len(self._slots):
            self._slots = np.full(4 << (self._count - 1).bit_length(), -1, np.int32)
            self._hashed = 0
        sort.hash_entries(self._fingerprints, self._hashed, self._count, self._slots)
        self._hashed = self._count
        return sort.equal_places(fingerprints, self._fingerprints, self._slots)

    def of_table(
        self, table: int, begin: int, end: int, count_max: int
    ) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64], int]:
        """The entries whose first column in this table is one of begin <= v < end, in no promised order.

        Stops before a value once there are `count_max`. Gives uint16 [m, columns], their numbers uint64 [m], and the
        first value that was not looked at.
        """
        self.file()
        places, keys, stopped = memtable.gathered(self._pages, table, begin, end, count_max)
        numbers = self._numbers[places]
        # The columns of MinHash are hash and number alone; to collect signatures takes longer than all else here.
        fingerprints = self._fingerprints[places if self._shape.banding is None else places[:0]]
        return self._shape.entry_columns(table, keys, fingerprints, numbers), numbers, stopped

    def hits(
        self,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        allowed: npt.NDArray[np.int8],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        *,
        nearest_only: bool,
        ends: npt.NDArray[np.int64] | None = None,
    ) -> Iterator[Matches]:
        """SimHash: all entries within the distance, about HITS_MAX at a time, a pair as often as it is found.

        keys      uint32 [n, probes], as `simhash.probe_keys` makes them
        allowed   int8 [probes], as `simhash.next_bits` says for the same distance
        best      int16 [n], matches lie at most so far; with `nearest_only` lowered to the distance of the nearest;
                  hits found before that are farther may be left out
        compared  int64 [n], raised by the comparisons made
        ends      int64 [n], only the first so many entries are matches of the row; None: all are
        """
        self.file()
        ends, row = np.full(len(fingerprints), self._count) if ends is None else ends, 0
        while row < len(fingerprints) and self._count:
            rows, distances, places, row = scan.scan_pages(
                fingerprints, keys, allowed, self._pages, self._fingerprints, ends, nearest_only, best, compared, row, HITS_MAX
            )  # fmt: skip
            yield Matches(rows, distances, self._numbers[places[:, 0].astype(np.int64)])

    def candidates(
        self, page_keys: npt.NDArray[np.uint32]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """MinHash: entries that share a key with a row of page keys uint32 [n, tables], each once: rows and places, int64 [m].

        About HITS_MAX at a time; all of a row at once.
        """
        self.file()
        met, row = np.full(self._count, -1, np.int64), 0
        while row < len(page_keys) and self._count:
            rows, places, row = scan.page_candidates(page_keys, self._pages, met, row, HITS_MAX)
            yield rows, places


def _with_room(column: npt.NDArray[Column], count: int) -> npt.NDArray[Column]:
    """A column of at least so many places that begins with this one; itself where it is long enough."""
    if count <= len(column):
        return column
    larger = np.empty((max(count, 2 * len(column)), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger
