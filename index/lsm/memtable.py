"""The memtable: the newest entries, in memory, in pages of equal keys, until compaction has moved them into segments."""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from index.kernels import memtable, scan, sort
from index.kernels.scan import Pages
from index.lsm.shape import Shape
from index.matching.distance import Matches
from index.matching.simhash import BLOCK_BITS

Column = TypeVar("Column", bound=np.generic)

HITS_MAX = 2**20
"""Hits held at once: bounds their memory, however alike the fingerprints are."""

HOT_ENTRIES = 1024
"""Of a bucket with more entries, a look-up reads these and the parts that may hold the wanted next block.

Many times what chance brings: a memtable has some 40 entries for each bucket at most.
"""

NO_HASHES = np.empty(0, np.uint64)

_CAPACITY_AT_FIRST = 1024

GROWTH = 4
"""By how much a column grows that is full."""

_FILED_AT_ONCE = 2**16
"""Entries whose page keys are computed at once: bounds their memory."""


class Memtable:
    """Entries in order of arrival; `cut` takes back the last ones.

    The first look-up files entries in pages; the first look-up of equals hashes them. So bulk-loaded entries, which
    move into segments before any look-up, are never filed.
    """

    def __init__(self, shape: Shape, entries: int = _CAPACITY_AT_FIRST) -> None:
        """entries: expected ones; more are copied as they come, and memory that is not used yet costs nothing."""
        self._shape = shape
        self._count = 0
        self._fingerprints = np.empty((entries, shape.words), np.uint64)
        self._numbers = np.empty(entries, np.uint64)
        self._rests = np.empty((_CAPACITY_AT_FIRST if shape.banding else 0, shape.tables), np.uint8)
        """MinHash: bits of the hashes below those of a page key, by entry and band."""
        self._filed = self._hashed = 0
        self._hashes_ahead: list[npt.NDArray[np.uint64]] = []
        """MinHash: hashes of the bands of the entries to be filed next, where whoever added them knew them."""
        self._slots = np.full(2 * _CAPACITY_AT_FIRST, -1, np.int32)
        self._pages = Pages(
            heads=np.full((shape.tables, 1 << BLOCK_BITS), -1, np.int32),
            links=np.empty((_CAPACITY_AT_FIRST, 3), np.int32),
            following=np.empty((_CAPACITY_AT_FIRST, shape.page_entries), np.uint16),
            places=np.empty((_CAPACITY_AT_FIRST, shape.page_entries), np.int32),
            parts=np.empty((0, scan.PARTS), np.int32),
            firsts=np.empty(0, np.int32),
            used=np.zeros(2, np.int64),
        )

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """Fingerprints of all entries, uint64 [n, words]."""
        return self._fingerprints[: self._count]

    @property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """Numbers of all entries, uint64 [n]."""
        return self._numbers[: self._count]

    def add(
        self,
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        """Add entries: fingerprints uint64 [n, words], numbers uint64 [n].

        hashes  MinHash: `Shape.band_hashes` of the fingerprints, where they are known
        """
        begin, end = self._count, self._count + len(numbers)
        if hashes is not None:
            self._hashes_ahead.append(hashes)
        self._fingerprints = with_room(self._fingerprints, end)
        self._numbers = with_room(self._numbers, end)
        self._fingerprints[begin:end], self._numbers[begin:end] = fingerprints, numbers
        self._count = end

    def cut(self, count: int) -> None:
        """Take back all entries but the first `count`."""
        if count < self._count:
            self._hashes_ahead.clear()
        if count < self._filed:
            keys = self._shape.page_keys(self._fingerprints[count : self._filed])
            memtable.take_back(keys, self._pages)
            self._filed = count
        if count < self._hashed:
            sort.unhash_entries(self._fingerprints, count, self._hashed, self._slots)
            self._hashed = count
        self._count = min(count, self._count)

    def file(self) -> None:
        """File the entries added since the last call. A look-up files them, too, at the cost of its own latency."""
        ahead = None
        # Of no use unless all of them are known.
        if sum(map(len, self._hashes_ahead)) == self._count - self._filed < _FILED_AT_ONCE:
            ahead = np.concatenate(self._hashes_ahead) if self._hashes_ahead else None
        self._hashes_ahead.clear()
        while self._filed < self._count:
            begin, end = self._filed, min(self._count, self._filed + _FILED_AT_ONCE)
            keys = self._page_keys(begin, end, ahead)
            self._make_room(end, int(self._pages.used[0]) + keys.size)
            memtable.file_entries(keys, begin, self._pages, HOT_ENTRIES)
            self._filed = end

    def _make_room(self, entries: int, pages: int) -> None:
        """Let there be room for so many entries filed, in so many pages."""
        old, divisions = self._pages, entries * self._shape.tables // HOT_ENTRIES
        self._pages = old._replace(
            links=with_room(old.links, pages),
            following=with_room(old.following, pages),
            places=with_room(old.places, pages),
            parts=with_room(old.parts, divisions),
            firsts=with_room(old.firsts, divisions),
        )

    def _page_keys(self, begin: int, end: int, hashes: npt.NDArray[np.uint64] | None) -> npt.NDArray[np.uint32]:
        """Page keys of entries, uint32 [n, tables]; keeps the rests of their hashes, which may be known, uint64 [n, tables]."""
        if self._shape.banding is None:
            return self._shape.page_keys(self._fingerprints[begin:end])
        if hashes is None:
            hashes = self._shape.band_hashes(self._fingerprints[begin:end])
        self._rests = with_room(self._rests, end)
        self._rests[begin:end] = hashes >> np.uint64(24)
        return (hashes >> np.uint64(32)).astype(np.uint32)

    def equals(self, fingerprints: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All entries equal to fingerprints uint64 [n, words]: rows and places, int64 [m] each, ascending by row."""
        if 2 * self._count > len(self._slots):
            self._slots = np.full(4 << (self._count - 1).bit_length(), -1, np.int32)
            self._hashed = 0
        sort.hash_entries(self._fingerprints, self._hashed, self._count, self._slots)
        self._hashed = self._count
        return sort.equal_places(fingerprints, self._fingerprints, self._slots)

    def of_table(
        self, table: int, begin: int, end: int, count_max: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], int]:
        """Entries of a table whose first 16 bits v have begin <= v < end, in any order; those of MinHash mostly ascend.

        Stops before the next value once `count_max` entries are gathered. Returns entries as `Shape.entry_columns` gives
        them, numbers uint64 [m], and the first value not examined.
        """
        self.file()
        if self._shape.banding is not None:
            entries, stopped = memtable.gathered_bands(
                self._pages, self._rests, self._numbers, table, begin, end, count_max
            )
            return entries.T, entries[1], stopped
        places, _, stopped = memtable.gathered(self._pages, table, begin, end, count_max)
        numbers = self._numbers[places]
        return self._shape.entry_columns(table, NO_HASHES, self._fingerprints[places], numbers), numbers, stopped

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
        """SimHash: all entries within the distance, about HITS_MAX at a time. A pair found in several tables repeats.

        keys      uint32 [n, probes], of `simhash.probe_keys`
        allowed   int8 [probes], of `simhash.next_bits` for the same distance
        best      int16 [n], largest distance of a match; `nearest_only` lowers it to the nearest distance found, and
                  then may leave out farther hits found before
        compared  int64 [n], raised by the comparisons made
        ends      int64 [n], a row matches only the first `ends` entries; None: all entries
        """
        self.file()
        ends, row = np.full(len(fingerprints), self._count) if ends is None else ends, 0
        while row < len(fingerprints) and self._count:
            rows, distances, places, row = scan.scan_pages(
                fingerprints, keys, allowed, self._pages, self._fingerprints, ends, nearest_only, best, compared, row, HITS_MAX
            )  # fmt: skip
            yield Matches(rows, distances, self._numbers[places[:, 0].astype(np.int64)])

    def candidates(
        self, hashes: npt.NDArray[np.uint64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """MinHash: entries that share a hash with a row of `Shape.band_hashes`, uint64 [n, tables], each pair once.

        Yields rows and places, int64 [m] each, about HITS_MAX at a time. A row is never divided.
        """
        self.file()
        met, row = np.full(self._count, -1, np.int64), 0
        while row < len(hashes) and self._count:
            rows, places, row = scan.page_candidates(hashes, self._pages, self._rests, met, row, HITS_MAX)
            yield rows, places


def with_room(column: npt.NDArray[Column], count: int) -> npt.NDArray[Column]:
    """A column of at least `count` places that begins with `column`; `column` itself where it is long enough.

    Places that nobody writes to cost no memory, so it has many times as many: what there is is copied seldom.
    """
    if count <= len(column):
        return column
    larger = np.empty((max(count, GROWTH * len(column)), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger
