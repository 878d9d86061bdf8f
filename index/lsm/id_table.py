"""The table of ids: which rows of the log have an id, wherever their hashes stand: in memtables, or in segments.

The rows of the log are numbered. The hash of an id leads to row numbers, these to batches, and every hit is compared with
the id in the log. So what has left the log is not found, though its row may still stand in a segment.

A full memtable freezes and moves into segments, slice by slice, within the transactions of batches, as that of the tree does
(see `compaction`). Look-ups meanwhile read all of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from index.kernels import ids as kernels
from index.lsm import id_segments
from index.lsm.compaction import AHEAD, MEMTABLE_BYTES, MEMTABLE_BYTES_MAX, SLICES_MAX, TreeSizes
from index.lsm.id_memtable import Hashes, Hits, IdMemtable, Rows
from index.lsm.id_segments import IdSegments
from index.lsm.row_directory import RowDirectory, RowPlace
from index.storage import log
from index.storage.codec import pack_texts, unpack_ids
from index.storage.layout import IDS_KEY, LOG_KEY, LOG_KEY_BEGIN, Table, pack_ids_state, pack_text
from index.storage.store import Transaction

GROWTH = 16
"""The memtable freezes at its least size or at 1 / GROWTH of the rows in segments, whichever is more."""

MEMTABLE_ROW_BYTES = 24
"""Approximate memory of a row: its hash, its slots, and the place before it with the same hash."""

NEWEST_AT_FIRST = 4
"""Rows with the same hash that are compared at first where only the newest with the same id counts."""

_ALL = 2**62


class IdTable:
    """View that one process has of all ids. Every transaction begins with `follow`.

    Rows below `_frozen_to` stand in segments or in the frozen memtable; rows from there to below `_end` stand in the active
    memtable; both are keys of the log. Rows that a transaction adds stay only after `committed`.
    """

    def __init__(self, words: int, sizes: TreeSizes) -> None:
        """words: 64-bit words of a fingerprint; sizes: may be replaced between two transactions."""
        self._words = words
        self.sizes = sizes
        self._directory = RowDirectory()
        self._segments = IdSegments()
        self._begin_at(LOG_KEY_BEGIN)

    def _begin_at(self, key: bytes) -> None:
        self._frozen: IdMemtable | None = None
        self._active = IdMemtable(_row_of(key))
        self._frozen_to = self._end = self._end_uncommitted = key
        self._committed = 0

    def follow(self, transaction: Transaction, end: bytes) -> None:
        """Take over the rows that other processes committed; drop those that this process did not commit.

        end  the key that the next batch will have
        """
        self._active.cut(self._committed)
        self._end_uncommitted = self._end
        now = id_segments.state(transaction)
        if now.frozen_to != self._frozen_to:
            if now.cursor is None or now.merged_to != self._frozen_to:
                self._begin_at(now.merged_to)
            self._load(transaction, now.frozen_to)
            self._frozen, self._active = self._active, IdMemtable(_row_of(now.frozen_to))
            self._frozen_to, self._committed = now.frozen_to, 0
        if now.cursor is None:
            self._frozen = None
        self._load(transaction, end)

    def _load(self, transaction: Transaction, end: bytes) -> None:
        """Read the log up to the key `end` into the active memtable."""
        if self._end < end:
            for batch in log.walk(transaction, self._words, self._end):
                if batch.key >= end:
                    break
                self._add(batch)
        self._end = self._end_uncommitted = end
        self._committed = len(self._active)

    def add(self, transaction: Transaction, key: bytes) -> None:
        """Add the rows of the batch that was just logged under a key; look-ups find them from now on."""
        self._add(log.read(transaction, key, self._words))

    def _add(self, batch: log.Batch) -> None:
        ends, texts = unpack_ids(batch.value)
        self._active.add(_row_of(batch.key), hashes_of(texts, ends))

    def find(self, transaction: Transaction, ids: Collection[str]) -> list[RowPlace]:
        """All rows with one of these ids, in the order of the log."""
        wanted = {pack_text(id_): asked for asked, id_ in enumerate(ids)}
        hits = self._hits(transaction, _hashes_of(wanted), _ALL)
        return [place for _, place in self._verified(transaction, wanted, hits.rows)]

    def newest(self, transaction: Transaction, ids: Sequence[str]) -> list[RowPlace | None]:
        """The last row with each id, or None; reads at most a few rows for each of them."""
        hits = self._hits(transaction, hashes_of(*pack_texts(distinct := list(dict.fromkeys(ids)))), NEWEST_AT_FIRST)
        if not len(hits.rows):
            return [None] * len(ids)
        texts = list(map(pack_text, ids))
        wanted = {pack_text(id_): asked for asked, id_ in enumerate(distinct)}
        found = dict(self._verified(transaction, wanted, hits.rows))
        # Rows that were not looked at may follow rows with another id, or rows that have left the log.
        full = set(np.flatnonzero(np.bincount(hits.asked, minlength=1) >= NEWEST_AT_FIRST).tolist()) - found.keys()
        if full:
            wanted_still = {text: asked for text, asked in wanted.items() if asked in full}
            hits = self._hits(transaction, _hashes_of(wanted_still), _ALL)
            found.update(self._verified(transaction, wanted_still, hits.rows))
        return [found.get(wanted[text]) for text in texts]

    def latest(self, transaction: Transaction, ids: Sequence[str], limit: int) -> list[list[RowPlace]]:
        """The last rows with each id, the newest first, at most `limit` of them."""
        texts = list(map(pack_text, ids))
        wanted = {text: asked for asked, text in enumerate(dict.fromkeys(texts))}
        found: list[list[RowPlace]] = [[] for _ in wanted]
        for asked, place in self._verified(
            transaction, wanted, self._hits(transaction, _hashes_of(wanted), limit).rows
        ):
            found[asked].append(place)
        return [found[wanted[text]][: -limit - 1 : -1] for text in texts]

    def _hits(self, transaction: Transaction, hashes: Hashes, limit: int) -> Hits:
        """Rows with these hashes, uint64 [n], at most `limit` in each place where they stand, the last ones."""
        parts = [memtable.hits(hashes, limit) for memtable in (self._active, self._frozen) if memtable is not None]
        order = np.argsort(hashes)
        order = order[hashes[order] != kernels.NO_HASH]
        in_segments = self._segments.hits(transaction, hashes[order], limit)
        parts.append(Hits(order[in_segments.asked], in_segments.rows))
        return Hits(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _verified(
        self, transaction: Transaction, wanted: Mapping[bytes, int], rows: Rows
    ) -> Iterator[tuple[int, RowPlace]]:
        """Of rows, uint64 [n], those in the log whose id is wanted, with the value wanted of it; ascending."""
        places = self._directory.places(transaction, np.unique(rows), self._end)
        for key, of_batch in groupby(places, lambda place: place.batch):
            value = transaction.view(Table.LOG, key)
            if value is None:
                continue
            ends, texts = unpack_ids(value)
            for place in of_batch:
                if place.row >= len(ends):
                    # The row stood in a batch that has left the log, unless the key of its batch is damaged.
                    transaction.key_above(Table.LOG, key)
                    continue
                begin = int(ends[place.row - 1]) if place.row else 0
                asked = wanted.get(bytes(texts[begin : int(ends[place.row])]))
                if asked is not None:
                    yield asked, place

    def end_batch(self, transaction: Transaction, end: bytes) -> None:
        """Freeze the memtable when it is full, or move slices of the frozen one; at the end of a transaction.

        end  the key that the next batch will have
        """
        full = len(self._active) / _memtable_rows(self.sizes, id_segments.state(transaction).rows)
        if self._frozen is not None:
            self._move(transaction, min(1.0, AHEAD * full), SLICES_MAX)
        elif full >= 1:
            self.freeze(transaction, end)
        self._end_uncommitted = end

    def freeze(self, transaction: Transaction, end: bytes) -> None:
        """Freeze the memtable: all rows below the key `end`. Requires that none is frozen."""
        assert self._frozen is None
        if len(self._active):
            frozen = id_segments.state(transaction)._replace(frozen_to=end, cursor=0)
            transaction.put(Table.META, IDS_KEY, pack_ids_state(frozen))

    def move(self, transaction: Transaction) -> bool:
        """Move one slice of the frozen memtable, however full the active one is; returns whether more is left."""
        return self._frozen is not None and self._move(transaction, 1.0, 1)

    def _move(self, transaction: Transaction, progress_min: float, slices_max: int) -> bool:
        assert self._frozen is not None
        first = transaction.key_above(Table.LOG, b"\0")
        first_row = _row_of(self._end if first is None else first)
        now = id_segments.move(transaction, self._frozen, self.sizes.segment_bytes, first_row, progress_min, slices_max)
        return now.cursor is not None

    @property
    def is_moving(self) -> bool:
        """Whether a memtable was moving at the last `follow`."""
        return self._frozen is not None

    def committed(self) -> None:
        """Keep the rows that the committed transaction added."""
        self._committed, self._end = len(self._active), self._end_uncommitted


def hashes_of(texts: bytes | memoryview, ends: npt.NDArray[np.uint32] | npt.NDArray[np.int64]) -> Hashes:
    """Hashes of the texts, one behind the other, with these ends: uint64 [n]."""
    size = int(ends[-1]) if len(ends) else 0
    return kernels.hashes(np.frombuffer(texts if size else bytes(1), np.uint8, size), ends.astype(np.int64))


def _hashes_of(texts: Collection[bytes]) -> Hashes:
    return hashes_of(b"".join(texts), np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))))


def _row_of(key: bytes) -> int:
    """The row with which the batch of a key begins."""
    return int(LOG_KEY.unpack(key)[1])


def _memtable_rows(sizes: TreeSizes, in_segments: int) -> int:
    """Number of rows at which a memtable freezes; in_segments: number of rows there."""
    wished = sizes.memtable_entries or MEMTABLE_BYTES // MEMTABLE_ROW_BYTES
    return max(wished, min(in_segments // GROWTH, MEMTABLE_BYTES_MAX // MEMTABLE_ROW_BYTES))
