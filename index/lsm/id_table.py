"""The id table: the log rows that have an id.

An id's hash leads to row numbers, these to batches, and every hit is compared with the id in the log. So rows that have
left the log do not match, even if a segment still holds them.
"""

from collections.abc import Callable, Collection, Sequence
from operator import eq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.checksums import NO_HASH
from index.lsm.compaction import MemtablePair, Reach, TreeSizes
from index.lsm.hash_table import HashTable
from index.lsm.memtable import NO_LIMIT
from index.lsm.row_directory import RowDirectory, RowPlaces
from index.lsm.shape import IdShape, Shape, id_hashes
from index.storage import log
from index.storage.codec import pack_texts
from index.storage.layout import LOG_KEY, Counters, Table
from index.storage.store import Transaction

NEWEST_AT_FIRST = 4
"""Rows with the same hash that are compared first if only the newest with the same id counts."""

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.uint64]


class Hits(NamedTuple):
    """Rows that share a hash with n ids.

    asked  int64 [m], place of the id
    rows   uint64 [m], row numbers

    >>> hits = Hits(asked=np.array([0, 0, 1]), rows=np.array([4, 9, 7], np.uint64))
    >>> hits.rows[hits.asked == 0]
    array([4, 9], dtype=uint64)
    """

    asked: npt.NDArray[np.int64]
    rows: Rows


class IdTable(HashTable):
    """All ids, as a process sees them. Every transaction begins with `follow`.

    >>> opened.read(lambda session: session.ids.newest(session.transaction, ["a"])).rows
    array([], dtype=uint64)
    """

    def __init__(self, sizes: TreeSizes, new_pair: Callable[[Shape], MemtablePair] = MemtablePair) -> None:
        """As `HashTable`."""
        super().__init__(IdShape(), sizes, new_pair)
        self._directory = RowDirectory()

    def add(self, transaction: Transaction, key: bytes) -> None:
        """Add the rows of the batch just logged under a key; later lookups match them."""
        self._active.added.add(*self._shape.entries_of(log.read(transaction, key, self._shape.words)))

    def _reach(self, counters: Counters) -> Reach:
        # Ids have no tombstones.
        return super()._reach(counters)._replace(tombstone=0)

    def _first_number(self, transaction: Transaction) -> int:
        first = transaction.key_above(Table.LOG, b"\0")
        return self._end.rows if first is None else int(LOG_KEY.unpack(first)[1])

    def find(self, transaction: Transaction, ids: Collection[str]) -> Hits:
        """All rows with these ids, which are distinct, in log order."""
        return self._found(transaction, list(ids), NO_LIMIT)[0]

    def newest(self, transaction: Transaction, ids: Sequence[str]) -> Hits:
        """The last row with each id, if any, by id; reads at most a few rows per id."""
        found, may_have_more = self._found(transaction, ids, NEWEST_AT_FIRST)
        # Unread rows may follow rows with another id, or rows that have left the log.
        left = np.flatnonzero(may_have_more & (np.bincount(found.asked, minlength=len(ids)) == 0))
        if len(left):
            again, _ = self._found(transaction, [ids[place] for place in left.tolist()], NO_LIMIT)
            asked = np.concatenate([found.asked, left[again.asked]])
            found = Hits(asked, np.concatenate([found.rows, again.rows]))
        return _last(found, 1)

    def latest(self, transaction: Transaction, ids: Sequence[str], limit: int) -> Hits:
        """The last rows with each id, by id, newest first, at most `limit` each."""
        return _last(self._found(transaction, ids, limit)[0], limit)

    def places(self, transaction: Transaction, rows: Rows) -> RowPlaces:
        """Places of rows, uint64 [m]."""
        return self._directory.places(transaction, rows, LOG_KEY.pack(*self._end[:2]))

    def _found(self, transaction: Transaction, ids: Sequence[str], limit: int) -> tuple[Hits, npt.NDArray[np.bool_]]:
        """Rows with these ids among those that `_hits` gives, in log order; and whether it may lack some, bool [n]."""
        hits = self._hits(transaction, id_hashes(*pack_texts(ids)), limit)
        if not len(hits.rows):
            return hits, np.zeros(len(ids), np.bool_)
        order = np.lexsort(hits)
        asked, rows = hits.asked[order], hits.rows[order]
        # A memtable and a segment may both have a row.
        first = (np.diff(asked, prepend=-1) != 0) | (np.diff(rows, prepend=np.uint64(NO_LIMIT)) != 0)
        asked, rows = asked[first], rows[first]
        places = self.places(transaction, rows)
        values, counts = log.values_of(transaction, places.keys)[:, places.batches]
        for batch in np.unique(places.batches[(places.rows >= counts) & (values > 0)]).tolist():
            # The row's batch has left the log, unless its batch's key is damaged.
            transaction.key_above(Table.LOG, places.keys[batch])
        there = np.flatnonzero((places.rows >= 0) & (places.rows < counts))
        wanted = [ids[place] for place in asked[there].tolist()]
        there = there[np.fromiter(map(eq, log.ids_at(values[there], places.rows[there]), wanted), np.bool_, len(there))]
        return Hits(asked[there], rows[there]), np.bincount(hits.asked, minlength=len(ids)) >= limit

    def _hits(self, transaction: Transaction, hashes: Hashes, limit: int) -> Hits:
        """Rows with these hashes, uint64 [n]; the last `limit` per hash from each memtable and segment."""
        asked = np.flatnonzero(hashes != NO_HASH)
        wanted, probes = hashes[asked, None], self._shape.probes(0)
        found = self._segments.candidates(transaction, wanted, probes, limit)
        parts = [Hits(np.empty(0, np.int64), np.empty(0, np.uint64))]
        for memtable in self.memtables():
            parts += (
                Hits(asked[some], memtable.numbers[at]) for some, at in memtable.candidates(wanted, probes, limit)
            )
        parts += (Hits(asked[some], rows) for some, rows in found)
        return Hits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _last(hits: Hits, limit: int) -> Hits:
    """The last `limit` rows for each id, by id, newest first."""
    order = np.lexsort((~hits.rows, hits.asked))
    asked, rows = hits.asked[order], hits.rows[order]
    among = np.arange(len(asked)) - np.searchsorted(asked, asked) < limit
    return Hits(asked[among], rows[among])
