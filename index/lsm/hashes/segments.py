"""Lookups in hash segments.

A lookup reads a few lines: a segment's head, a part's start, and its rests. A process checks the searched words when it
first meets a segment, and every page of numbers that it reads. Chance matches are rare at 40 bits and need no filter.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.kernels import bisect, hash_segments
from index.lsm import memtable
from index.lsm.segment_places import SegmentPlaces
from index.storage.layout import Table
from index.storage.segments.compaction_state import HASH_KEY, Level
from index.storage.store import Transaction


class HashSegments(SegmentPlaces):
    """A hash table's segments."""

    def __init__(self, table: Table, tables: int) -> None:
        prefixes = [bytes([number, level]) for number in range(tables) for level in Level]
        super().__init__(table, prefixes, HASH_KEY.size - len(prefixes[0]))

    def candidates(
        self, transaction: Transaction, hashes: npt.NDArray[np.uint64], limit: int = memtable.NO_LIMIT
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Entries that share a hash with a row in hashes uint64 [n, k]: rows int64 [m], numbers uint64 [m].

        The hashes belong to the first k tables. A portion holds at most HITS_MAX, ordered by row and number, each pair
        once; each segment gives the `limit` highest numbers per hash.
        """
        addresses = self.take_over(transaction)
        if not len(addresses) or not len(hashes):
            return
        tables = hashes.shape[1]
        # Table by table, each in entry order; every hash in both levels.
        columns = np.arange(2 * tables)
        order = (np.argsort(hashes, axis=0).repeat(2, axis=1) * len(columns) + columns).T.reshape(-1)
        hashes = hashes.repeat(2, axis=1)
        begins, ends = np.zeros(hashes.shape, np.int64), np.zeros(hashes.shape, np.int64)
        of_tables = columns // 2 * len(Level) + columns % 2
        bisect.fill_spans(of_tables, hashes, hashes, order, self.edges, self.bounds, begins, ends)
        order = order[(begins < ends).reshape(-1)[order]]
        self.require_sound(transaction, begins, ends, addresses)
        turn, passed = 0, 0
        while turn < len(order):
            rows, numbers, turn, passed, unsound = hash_segments.candidates(
                hashes, begins, ends, addresses, order, turn, passed, memtable.HITS_MAX, limit
            )
            self._require(transaction, unsound)
            by_row = np.lexsort((numbers, rows))
            rows, numbers = rows[by_row], numbers[by_row]
            again = (rows[1:] == rows[:-1]) & (numbers[1:] == numbers[:-1])
            first = np.concatenate([np.ones(min(1, len(rows)), np.bool_), ~again])
            yield rows[first], numbers[first]

    def _check(
        self, transaction: Transaction, wanted: npt.NDArray[np.bool_], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """As `SegmentPlaces`, but only the searched words, by the head's checksum."""
        words = np.ascontiguousarray(self._places.keys[:, self._prefix_bytes :]).view(">u8")
        prefixes = np.ascontiguousarray(self._places.keys[:, : self._prefix_bytes]).view(">u2")
        keys = np.column_stack([prefixes, words]).astype(np.uint64)
        self._require(
            transaction, hash_segments.first_unsound(wanted, addresses, self._places.sizes, keys, self._known)
        )

    def _require(self, transaction: Transaction, unsound: int) -> None:
        if unsound >= 0:
            key = self.key(unsound).hex()
            table = self._table.value.decode()
            raise transaction.damaged(f"the value of {key} in table {table} is not what was written")
