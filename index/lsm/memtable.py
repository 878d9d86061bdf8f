"""The memtable: the newest entries in memory, in pages by key, until compaction moves them into segments."""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from index.kernels import memtable, scan
from index.kernels.scan import Pages, Probes
from index.lsm.shape import Shape
from index.matching.simhash import BLOCK_BITS

Column = TypeVar("Column", bound=np.generic)

HITS_MAX = 2**20
"""Hits held at once: bounds their memory, even for very similar fingerprints."""

NO_LIMIT = 2**62
"""All entries with a hash."""

HOT_ENTRIES = 1024
"""In a larger bucket, a lookup reads these entries and the parts that may hold the wanted next block.

Chance alone brings far fewer: at most some 40 entries per bucket.
"""

_CAPACITY_AT_FIRST = 1024

GROWTH = 4
"""Factor by which a full column grows."""

_FILED_AT_ONCE = 2**16
"""Entries filed at once: bounds the memory of their page keys."""


class Memtable:
    """Entries in order of arrival; `cut` removes the last ones.

    The first lookup files entries in pages, so bulk-loaded entries are never filed.

    rests  uint8 [capacity, tables], hash bits below those in a page key

    >>> from index.lsm.shape import SimhashShape
    >>> memtable = Memtable(SimhashShape(words=1, tables=4))
    >>> memtable.add(np.array([[5], [9], [5]], np.uint64), np.array([10, 11, 12], np.uint64))
    >>> memtable.cut(2)
    >>> memtable.numbers
    array([10, 11], dtype=uint64)
    """

    def __init__(self, shape: Shape, entries: int = _CAPACITY_AT_FIRST) -> None:
        """entries: expected number; unused memory costs nothing."""
        self._shape = shape
        self._count = 0
        self._fingerprints = np.empty((entries, shape.words), np.uint64)
        self._numbers = np.empty(entries, np.uint64)
        self.rests = np.empty((_CAPACITY_AT_FIRST, shape.tables), np.uint8)
        self._filed = 0
        self._met = np.empty(0, np.int64)
        self._hashes_ahead: list[npt.NDArray[np.uint64]] = []
        """Hashes for the entries to file next, if the caller of `add` knew them."""
        # A page's columns lie side by side: a filing or a look-up reads one or two lines of memory.
        self._cells = np.empty((_CAPACITY_AT_FIRST, 3 + shape.page_entries + -(-shape.page_entries // 2)), np.int32)
        self.pages = Pages(
            heads=np.full((shape.tables, 1 << BLOCK_BITS), -1, np.int32),
            **self._columns(),
            parts=np.empty((0, scan.PARTS), np.int32),
            firsts=np.empty(0, np.int32),
            used=np.zeros(2, np.int64),
        )

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """uint64 [n, words]."""
        return self._fingerprints[: self._count]

    @property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """uint64 [n]."""
        return self._numbers[: self._count]

    def add(
        self,
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        """Add entries: fingerprints uint64 [n, words], numbers uint64 [n].

        hashes  `Shape.hashes` of the fingerprints, if known
        """
        begin, end = self._count, self._count + len(numbers)
        if hashes is not None:
            self._hashes_ahead.append(hashes)
        self._fingerprints = with_room(self._fingerprints, end)
        self._numbers = with_room(self._numbers, end)
        self._fingerprints[begin:end], self._numbers[begin:end] = fingerprints, numbers
        self._count = end

    def cut(self, count: int) -> None:
        """Keep only the first `count` entries."""
        if count < self._count:
            self._hashes_ahead.clear()
        if count < self._filed:
            keys = _page_keys(self._shape.hashes(self._fingerprints[count : self._filed]))
            memtable.take_back(keys, self.pages)
            self._filed = count
        self._count = min(count, self._count)

    def file(self) -> None:
        """File the entries added since the last call. A lookup also files them, and is slower for it."""
        ahead = None
        # Useless unless all are known.
        if sum(map(len, self._hashes_ahead)) == self._count - self._filed < _FILED_AT_ONCE:
            ahead = np.concatenate(self._hashes_ahead) if self._hashes_ahead else None
        self._hashes_ahead.clear()
        while self._filed < self._count:
            begin, end = self._filed, min(self._count, self._filed + _FILED_AT_ONCE)
            hashes = self._shape.hashes(self._fingerprints[begin:end]) if ahead is None else ahead
            self.rests = with_room(self.rests, end)
            self.rests[begin:end] = hashes >> np.uint64(24)
            keys = _page_keys(hashes)
            self._make_room(end, int(self.pages.used[0]) + keys.size)
            memtable.file_entries(keys, begin, self.pages, HOT_ENTRIES)
            self._filed = end

    def _make_room(self, entries: int, pages: int) -> None:
        old, divisions = self.pages, entries * self._shape.tables // HOT_ENTRIES
        self._cells = with_room(self._cells, pages)
        self.pages = old._replace(
            **self._columns(),
            parts=with_room(old.parts, divisions),
            firsts=with_room(old.firsts, divisions),
        )

    def _columns(self) -> dict[str, Any]:
        """The page columns in `_cells`."""
        links, places, following = np.split(self._cells, [3, 3 + self._shape.page_entries], axis=1)
        return {"links": links, "places": places, "following": following.view(np.uint16)[:, : self._shape.page_entries]}

    def entries_of_table(self, table: int, begin: int, end: int, count_max: int) -> tuple[npt.NDArray[np.uint64], int]:
        """Entries in a table whose first 16 hash bits v have begin <= v < end: uint64 [2, m], mostly ascending.

        Stops before the next value once `count_max` entries are gathered. Also returns the first unexamined value.
        """
        self.file()
        return memtable.gathered(self.pages, self.rests, self._numbers, table, begin, end, count_max)

    def candidates(
        self, hashes: npt.NDArray[np.uint64], probes: Probes, limit: int = NO_LIMIT
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Entries that each row's probes name, by its hashes, uint64 [n, tables].

        Yields rows and places, int64 [m] each, about HITS_MAX at a time and never part of a row; per table a row's last
        `limit`. Each pair comes once if probes name hashes.
        """
        self.file()
        met, row = self._met[:0] if probes.free or hashes.shape[1] == 1 else self._none_met(), 0
        while row < len(hashes) and self._count:
            rows, places, row = scan.page_candidates(hashes, probes, self.pages, self.rests, met, row, HITS_MAX, limit)
            if len(met):
                met[places] = -1
            yield rows, places

    def _none_met(self) -> npt.NDArray[np.int64]:
        """For each entry, that no row has met it. The column is kept: each look-up resets what it touched."""
        if len(self._met) < self._count:
            self._met = np.full(self._count + self._count // 4, -1, np.int64)
        return self._met


def _page_keys(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Filing keys: the top 32 hash bits."""
    return (hashes >> np.uint64(32)).astype(np.uint32)


def with_room(column: npt.NDArray[Column], count: int) -> npt.NDArray[Column]:
    """A column with at least `count` places that begins with `column`; `column` itself if long enough.

    Unwritten places cost no memory, so it has many more, and copies are rare.
    """
    if count <= len(column):
        return column
    larger = np.empty((max(count, GROWTH * len(column)), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger
