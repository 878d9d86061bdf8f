"""Segments of ids: sorted by hash and row, cut into parts. Looking hashes up, and moving rows of a frozen memtable in.

Rows are only added, and never removed one by one. A row added later has a higher number, so it stands behind all rows with
the same hash. Rows that have left the log are dropped where a segment is written anew.
"""

from itertools import pairwise

import numpy as np

from index.kernels import ids
from index.lsm.id_memtable import Hashes, Hits, IdMemtable, Rows
from index.storage.codec import id_segment_rows, pack_id_segment, unpack_id_segment
from index.storage.layout import (
    ID_HASHES,
    IDS_KEY,
    STRIPE_HASHES,
    IdsState,
    Table,
    id_key,
    pack_ids_state,
    unpack_id_key,
    unpack_ids_state,
)
from index.storage.store import Transaction


def state(transaction: Transaction) -> IdsState:
    """How far ids have moved."""
    return unpack_ids_state(transaction.get(Table.META, IDS_KEY))


def progress(now: IdsState) -> float:
    """Part of all hashes that the cursor has passed, 0 to 1; 1 where nothing moves."""
    return 1.0 if now.cursor is None else now.cursor / ID_HASHES


class IdSegments:
    """The segments as one process sees them: their keys, which are read anew when rows have moved."""

    def __init__(self) -> None:
        self._state: IdsState | None = None
        self._keys: list[bytes] = []
        self._bounds = np.empty(0, np.uint64)
        self._checked: set[bytes] = set()
        """Keys of segments that were there, and fitted their seals."""

    def hits(self, transaction: Transaction, hashes: Hashes, limit: int) -> Hits:
        """Rows with these hashes, uint64 [n], ascending; at most `limit` each, the last ones."""
        self._follow(transaction)
        if not self._keys:
            return Hits(np.empty(0, np.int64), np.empty(0, np.uint64))
        firsts = np.searchsorted(hashes, self._bounds)
        # Rows with the hash of a bound may stand on both sides of it.
        lasts = np.searchsorted(hashes, np.append(self._bounds[1:], np.uint64(ID_HASHES)), side="right")[: len(firsts)]
        touched = np.flatnonzero(firsts < lasts)
        keys = [self._keys[place] for place in touched.tolist()]
        # A key that was damaged would leave its rows to the segment before it.
        behind = {self._keys[place] for place in (touched[touched + 1 < len(self._keys)] + 1).tolist()}
        for key in behind - self._checked:
            transaction.existing(Table.IDS, key)
        self._checked |= behind
        addresses = np.array(transaction.addresses(Table.IDS, keys), np.uint64)
        edges = firsts[touched], lasts[touched]
        return Hits(*ids.segment_hits(hashes, addresses, self._bounds[touched], *edges, limit))

    def _follow(self, transaction: Transaction) -> None:
        now = state(transaction)
        if now != self._state:
            self._state, self._keys = now, transaction.keys(Table.IDS)
            self._bounds = np.array([unpack_id_key(key)[0] for key in self._keys], np.uint64)


def move(
    transaction: Transaction,
    frozen: IdMemtable,
    segment_bytes: int,
    first_row: int,
    progress_min: float,
    slices_max: int,
) -> IdsState:
    """Move slices of the frozen memtable up to `progress_min`, at most `slices_max` of them; returns the new state.

    first_row  rows below it have left the log
    """
    now, capacity = state(transaction), id_segment_rows(segment_bytes)
    for _ in range(slices_max):
        if now.cursor is None or progress(now) >= progress_min:
            break
        cursor, more = _slice(transaction, now.cursor, frozen, capacity, first_row)
        now = now._replace(rows=now.rows + more, cursor=cursor)
        if cursor == ID_HASHES:
            now = now._replace(merged_to=now.frozen_to, cursor=None)
    transaction.put(Table.META, IDS_KEY, pack_ids_state(now))
    return now


def _slice(transaction: Transaction, cursor: int, frozen: IdMemtable, capacity: int, first_row: int) -> tuple[int, int]:
    """Move the first rows at or behind the cursor into their segment.

    Returns the new cursor, and how many rows more the segments have.
    """
    first_hashes, first_rows, following = frozen.between(cursor, ID_HASHES, 1)
    if not len(first_hashes):
        # Rows may follow: what was gathered may all stand before the cursor.
        return following, 0
    first_hash = int(first_hashes[0])
    stripe = first_hash - first_hash % STRIPE_HASHES
    key = id_key(first_hash, int(first_rows[0]))
    below = transaction.floor(Table.IDS, key)
    above = transaction.key_above(Table.IDS, key)
    end = stripe + STRIPE_HASHES
    if above is not None:
        end = min(end, unpack_id_key(above)[0])
    hashes, rows, cursor = frozen.between(first_hash, end, capacity)
    bound, before = (stripe, 0), 0
    if below is not None and unpack_id_key(below[0])[0] >= stripe:
        bound = unpack_id_key(below[0])
        # What is written anew gets a new seal, so damage since the last check would be sealed in.
        value = transaction.view(Table.IDS, below[0], anew=True)
        assert value is not None
        old_hashes, old_rows = unpack_id_segment(bound[0], value)
        before = len(old_rows)
        hashes, rows = _merged(old_hashes, old_rows, hashes, rows, first_row)
    parts = -(-len(rows) // capacity)
    for begin, last in pairwise([len(rows) * part // parts for part in range(parts + 1)]):
        own = bound if begin == 0 else (int(hashes[begin]), int(rows[begin]))
        segment = pack_id_segment(own[0], hashes[begin:last], rows[begin:last])
        transaction.put(Table.IDS, id_key(*own), segment)
    return cursor, len(rows) - before


def _merged(old_hashes: Hashes, old_rows: Rows, hashes: Hashes, rows: Rows, first_row: int) -> tuple[Hashes, Rows]:
    """Old rows without those below `first_row`, and new ones behind those with the same hash."""
    kept = old_rows >= np.uint64(first_row)
    old_hashes, old_rows = old_hashes[kept], old_rows[kept]
    places = np.searchsorted(old_hashes, hashes, side="right") + np.arange(len(hashes))
    is_new = np.zeros(len(old_hashes) + len(hashes), np.bool_)
    is_new[places] = True
    merged_hashes, merged_rows = np.empty(len(is_new), np.uint64), np.empty(len(is_new), np.uint64)
    merged_hashes[is_new], merged_rows[is_new] = hashes, rows
    merged_hashes[~is_new], merged_rows[~is_new] = old_hashes, old_rows
    return merged_hashes, merged_rows
