"""SimHash segments: sorted tables, cut into parts. This module reads them; `simhash_shape` writes them.

A bucket is a table's entries with an equal first block, side by side.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.kernels import bisect, scan
from index.kernels.scan import Spans
from index.lsm import memtable
from index.lsm.segment_places import SegmentPlaces
from index.matching.distance import Matches
from index.matching.simhash import BLOCK_BITS, blocks_of
from index.storage.codec import segment_numbers
from index.storage.file.tree_place import ValuePlaces
from index.storage.layout import Table
from index.storage.store import Transaction


class Segments(SegmentPlaces):
    """All SimHash segments."""

    def __init__(self, tables: int) -> None:
        self._tables = tables
        super().__init__(Table.SEGMENTS, [bytes([table]) for table in range(tables)], 2 * tables)

    def _take(self, places: ValuePlaces) -> None:
        super()._take(places)
        # A bound's first two columns are a lower bound for the entries; all lie less than `widths` above it.
        self._firsts = (self.bounds >> np.uint64(32)).astype(np.int64)
        following = np.append(self._firsts[1:], 0)
        following[self.edges[1:][np.diff(self.edges) > 0] - 1] = 2**32
        self._widths = np.maximum(following - self._firsts, 1)

    def hits(
        self,
        transaction: Transaction,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        allowed: npt.NDArray[np.int8],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        *,
        nearest_only: bool,
    ) -> Iterator[Matches]:
        """All entries within the distance, as in `Memtable.hits`."""
        if not len(self) or not len(keys):
            return
        lowest = (keys & np.uint32(0xFFFF)).astype(np.uint64) << np.uint64(48)
        tables = (keys[0] >> np.uint32(BLOCK_BITS)).astype(np.int64)
        order, turn = np.argsort(keys, axis=None), 0
        spans, order = self._spans(transaction, tables, lowest, lowest | np.uint64(2**48 - 1), order)
        while turn < len(order):
            rows, distances, hits, turn = scan.scan_segments(
                fingerprints, keys, allowed, spans, order, nearest_only, best, compared, turn, memtable.HITS_MAX
            )
            if nearest_only:
                # A later step may have lowered `best`.
                still = distances == best[rows]
                rows, distances, hits = rows[still], distances[still], hits[still]
            numbers = self.numbers(transaction, hits)
            # An entry that has left table 0 is also leaving the other tables.
            there = numbers != NO_NUMBER
            yield Matches(rows[there], distances[there], numbers[there])

    def numbers(self, transaction: Transaction, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Document numbers for fingerprints uint64 [n, words], uint64 [n]; NO_NUMBER without an entry."""
        numbers = np.full(len(fingerprints), NO_NUMBER)
        if not len(fingerprints) or not len(self):
            return numbers
        first = np.ascontiguousarray(fingerprints[:, :1])
        order = np.argsort(first[:, 0])
        spans, _ = self._spans(transaction, np.zeros(1, np.int64), first, first, order)
        segments, places = bisect.places_in_segments(blocks_of(fingerprints), spans)
        for segment in np.unique(segments[segments >= 0]).tolist():
            value = transaction.existing(Table.SEGMENTS, self.key(segment))
            here = segments == segment
            numbers[here] = segment_numbers(value, places[here], self._tables)
        return numbers

    def _spans(
        self,
        transaction: Transaction,
        tables: npt.NDArray[np.int64],
        lowest: npt.NDArray[np.uint64],
        highest: npt.NDArray[np.uint64],
        order: npt.NDArray[np.int64],
    ) -> tuple[Spans, npt.NDArray[np.int64]]:
        """Spans of entries in tables int64 [k] with their first two columns between two bounds, both included.

        lowest, highest  uint64 [n, k], four columns of each bound
        order            int64 [n * k], places of the bounds, ascending by table and lowest

        Also returns the part of `order` with bounds that enclose an entry.
        """
        addresses = self.take_over(transaction)
        begins, ends, places = (np.zeros(lowest.shape, np.int64) for _ in range(3))
        bisect.fill_spans(tables, lowest, highest, order, self.edges, self.bounds, begins, ends)
        order = order[(begins < ends).reshape(-1)[order]]
        self.require_sound(transaction, begins, ends, addresses)
        spans = Spans(begins, ends, places, addresses)
        keys, of_highest = ((each >> np.uint64(32)).astype(np.uint32) for each in (lowest, highest))
        breadth = int(of_highest.flat[0] - keys.flat[0]) + 1
        bisect.fill_places(keys, breadth, order, self._firsts, self._widths, spans)
        return spans, order[(begins < ends).reshape(-1)[order]]
