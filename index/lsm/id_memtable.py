"""The memtable of ids: hashes of the ids of the newest rows, in memory, until they have moved into segments."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import ids, sort
from index.lsm.memtable import with_room
from index.storage.layout import ID_HASHES

_CAPACITY_AT_FIRST = 1024

_ROWS_IN_STRIPE = 2_048
"""Approximate number of rows sorted at once."""

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.uint64]


class Hits(NamedTuple):
    """Rows whose id may be one of n asked for: it has the same hash.

    asked  int64 [m], which one
    rows   uint64 [m], row numbers
    """

    asked: npt.NDArray[np.int64]
    rows: Rows


class IdMemtable:
    """Hashes of consecutive rows from `begin` on; `cut` takes back the last ones.

    The first look-up hashes rows into slots, so rows that move into segments before any look-up never are.
    """

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self._count = self._entered = 0
        self._hashes = np.empty(_CAPACITY_AT_FIRST, np.uint64)
        self._previous = np.empty(_CAPACITY_AT_FIRST, np.int32)
        self._slots = np.full(2 * _CAPACITY_AT_FIRST, -1, np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, first_row: int, hashes: Hashes) -> None:
        """Add the hashes of rows from `first_row` on, uint64 [n]; rows left out before them have left the log."""
        begin = first_row - self.begin
        end = begin + len(hashes)
        self._hashes = with_room(self._hashes, end)
        self._hashes[self._count : begin], self._hashes[begin:end] = ids.NO_HASH, hashes
        self._count = end

    def cut(self, count: int) -> None:
        """Take back all rows but the first `count`."""
        if count < self._entered:
            ids.take_out(self._hashes, count, self._entered, self._slots, self._previous)
            self._entered = count
        self._count = min(count, self._count)

    def hits(self, hashes: Hashes, limit: int) -> Hits:
        """Rows with these hashes, uint64 [n], at most `limit` each, the last ones."""
        if 2 * self._count > len(self._slots):
            self._slots = np.full(4 << (self._count - 1).bit_length(), -1, np.int32)
            self._entered = 0
        self._previous = with_room(self._previous, len(self._hashes))
        ids.enter(self._hashes, self._entered, self._count, self._slots, self._previous)
        self._entered = self._count
        asked, places = ids.memtable_hits(hashes, self._hashes, self._slots, self._previous, limit)
        return Hits(asked, places.astype(np.uint64) + np.uint64(self.begin))

    def between(self, begin: int, end: int, count_max: int) -> tuple[Hashes, Rows, int]:
        """Rows whose hash h has begin <= h < end, ascending by hash and row; only once nothing is added any more.

        Stops early once `count_max` rows are gathered, of which some may stand before `begin`: none returned is not none left.
        Returns hashes uint64 [m], rows uint64 [m], and the hash at which to go on; `end`: nothing is left.
        """
        begins, places = self._stripes
        shift = (ID_HASHES // (len(begins) - 1)).bit_length() - 1
        first, behind = begin >> shift, (end - 1 >> shift) + 1
        last = min(behind, max(first + 1, int(np.searchsorted(begins, begins[first] + count_max))))
        some = places[begins[first] : begins[last]]
        hashes = self._hashes[some]
        inside = (hashes >= np.uint64(begin)) & (hashes < np.uint64(end))
        hashes, some = hashes[inside], some[inside]
        order = np.argsort(hashes, kind="stable")
        rows = some[order].astype(np.uint64) + np.uint64(self.begin)
        return hashes[order], rows, end if last == behind else last << shift

    @cached_property
    def _stripes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """Places by the high bits of their hashes: where each value of these bits begins, and the places."""
        bits = min(16, (self._count // _ROWS_IN_STRIPE).bit_length())
        there = np.flatnonzero(self._hashes[: self._count] != ids.NO_HASH).astype(np.uint32)
        places, begins = sort.by_top_bits(self._hashes[there] << np.uint64(24), bits)
        return begins, there[places]
