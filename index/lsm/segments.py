"""Segments of SimHash: sorted tables of entries, cut into parts. This module reads them; `compaction` writes them.

A bucket is the entries of a table with an equal first block, side by side.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.kernels import bisect, scan
from index.kernels.scan import Spans
from index.lsm import memtable
from index.lsm.segment_directory import SegmentDirectory
from index.lsm.shape import Shape
from index.matching.distance import Matches
from index.matching.simhash import BLOCK_BITS
from index.storage.codec import segment_numbers
from index.storage.layout import Table
from index.storage.segments.compaction_state import CompactionState
from index.storage.store import Transaction


class Segments:
    """All segments, located by a `SegmentDirectory`."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._directory = SegmentDirectory(shape)

    def follow(self, transaction: Transaction, now: CompactionState) -> None:
        """Take over the segments written since the last call. now: compaction state of this transaction."""
        self._directory.follow(transaction, now)

    def __len__(self) -> int:
        return len(self._directory)

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
        """All entries within the distance, as `Memtable.hits` gives them."""
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
                # A later step may have found a nearer entry.
                still = distances == best[rows]
                rows, distances, hits = rows[still], distances[still], hits[still]
            numbers = self.numbers(transaction, hits)
            # An entry that has left table 0 is leaving the other tables, too.
            there = numbers != NO_NUMBER
            yield Matches(rows[there], distances[there], numbers[there])

    def numbers(self, transaction: Transaction, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Document numbers of fingerprints uint64 [n, words], uint64 [n]; NO_NUMBER where no entry has one."""
        numbers = np.full(len(fingerprints), NO_NUMBER)
        if not len(fingerprints) or not len(self):
            return numbers
        first = np.ascontiguousarray(fingerprints[:, :1])
        order = np.argsort(first[:, 0])
        spans, _ = self._spans(transaction, np.zeros(1, np.int64), first, first, order)
        entries = self._shape.entry_columns(0, memtable.NO_HASHES, fingerprints, numbers)
        segments, places = bisect.places_in_segments(entries, spans)
        for segment in np.unique(segments[segments >= 0]).tolist():
            value = transaction.existing(Table.SEGMENTS, self._directory.keys[segment])
            here = segments == segment
            numbers[here] = segment_numbers(value, places[here], self._shape.columns)
        return numbers

    def _spans(
        self,
        transaction: Transaction,
        tables: npt.NDArray[np.int64],
        lowest: npt.NDArray[np.uint64],
        highest: npt.NDArray[np.uint64],
        order: npt.NDArray[np.int64],
    ) -> tuple[Spans, npt.NDArray[np.int64]]:
        """Spans of entries in tables int64 [k] whose first two columns lie between those of two bounds, both included.

        lowest, highest  uint64 [n, k], four columns of each bound
        order            int64 [n * k], places of the bounds, ascending by table and lowest

        Also returns the part of `order` whose bounds enclose an entry.
        """
        directory, count = self._directory, len(self) + 1
        begins, ends, places = (np.zeros(lowest.shape, np.int64) for _ in range(3))
        bisect.fill_spans(tables, lowest, highest, order, directory.edges, directory.bounds, begins, ends)
        order = order[(begins < ends).reshape(-1)[order]]
        changes = np.bincount(begins.reshape(-1), minlength=count) - np.bincount(ends.reshape(-1), minlength=count)
        spans = Spans(begins, ends, places, directory.addresses(transaction, np.cumsum(changes[:-1]) > 0))
        keys, of_highest = ((each >> np.uint64(32)).astype(np.uint32) for each in (lowest, highest))
        breadth = int(of_highest.flat[0] - keys.flat[0]) + 1
        bisect.fill_places(keys, breadth, order, directory.firsts, directory.widths, spans)
        return spans, order[(begins < ends).reshape(-1)[order]]
