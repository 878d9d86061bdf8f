"""The id table: the log rows that have an id.

An id's hash leads to row numbers, these to batches, and every hit is compared with the id in the log. So rows that have
left the log do not match, even if a segment still holds them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.checksums import NO_HASH
from index.lsm.compaction import MemtablePair, Reach, TreeSizes
from index.lsm.hash_table import HashTable
from index.lsm.memtable import NO_LIMIT
from index.lsm.row_directory import RowDirectory, RowPlace
from index.lsm.shape import IdShape, Shape, id_hashes
from index.storage import log
from index.storage.codec import pack_texts, unpack_ids
from index.storage.layout import LOG_KEY, Counters, Table, pack_text
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

    >>> opened.read(lambda session: session.ids.newest(session.transaction, ["a"]))
    [None]
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

    def find(self, transaction: Transaction, ids: Collection[str]) -> list[RowPlace]:
        """All rows with these ids, in log order."""
        wanted = {pack_text(id_): asked for asked, id_ in enumerate(ids)}
        hits = self._hits(transaction, _hashes_of(wanted), NO_LIMIT)
        return [place for _, place in self._verified(transaction, wanted, hits.rows)]

    def newest(self, transaction: Transaction, ids: Sequence[str]) -> list[RowPlace | None]:
        """The last row with each id, or None; reads at most a few rows per id."""
        hits = self._hits(transaction, id_hashes(*pack_texts(distinct := list(dict.fromkeys(ids)))), NEWEST_AT_FIRST)
        if not len(hits.rows):
            return [None] * len(ids)
        texts = list(map(pack_text, ids))
        wanted = {pack_text(id_): asked for asked, id_ in enumerate(distinct)}
        places = dict(self._verified(transaction, wanted, hits.rows))
        # Uncompared rows may follow rows with another id, or rows that have left the log.
        full = set(np.flatnonzero(np.bincount(hits.asked, minlength=1) >= NEWEST_AT_FIRST).tolist()) - places.keys()
        if full:
            wanted_still = {text: asked for text, asked in wanted.items() if asked in full}
            hits = self._hits(transaction, _hashes_of(wanted_still), NO_LIMIT)
            places.update(self._verified(transaction, wanted_still, hits.rows))
        return [places.get(wanted[text]) for text in texts]

    def latest(self, transaction: Transaction, ids: Sequence[str], limit: int) -> list[list[RowPlace]]:
        """The last rows with each id, newest first, at most `limit`."""
        texts = list(map(pack_text, ids))
        wanted = {text: asked for asked, text in enumerate(dict.fromkeys(texts))}
        places: list[list[RowPlace]] = [[] for _ in wanted]
        for asked, place in self._verified(
            transaction, wanted, self._hits(transaction, _hashes_of(wanted), limit).rows
        ):
            places[asked].append(place)
        return [places[wanted[text]][: -limit - 1 : -1] for text in texts]

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

    def _verified(
        self, transaction: Transaction, wanted: Mapping[bytes, int], rows: Rows
    ) -> Iterator[tuple[int, RowPlace]]:
        """The logged rows among `rows`, uint64 [n], with a wanted id, and that id's value; ascending."""
        places = self._directory.places(transaction, np.unique(rows), LOG_KEY.pack(*self._end[:2]))
        for key, of_batch in groupby(places, lambda place: place.batch):
            value = transaction.view(Table.LOG, key)
            if value is None:
                continue
            ends, texts = unpack_ids(value)
            for place in of_batch:
                if place.row >= len(ends):
                    # The row's batch has left the log, unless its batch's key is damaged.
                    transaction.key_above(Table.LOG, key)
                    continue
                begin = int(ends[place.row - 1]) if place.row else 0
                asked = wanted.get(bytes(texts[begin : int(ends[place.row])]))
                if asked is not None:
                    yield asked, place


def _hashes_of(texts: Collection[bytes]) -> Hashes:
    return id_hashes(b"".join(texts), np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))))
