"""Directory of rows: the log's batch keys in memory, since each key names its batch's first row."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.lsm.memtable import with_room
from index.storage.layout import LOG_KEY, LOG_KEY_BEGIN, Table
from index.storage.store import Transaction

STALE_MAX = 2
"""Keys are reread when there are this many times as many as batches."""

_KEYS_AT_LEAST = 1024


class RowPlaces(NamedTuple):
    """Places of m rows in the log.

    keys     keys of their batches, ascending and distinct
    batches  int64 [m], each row's batch, by place in `keys`
    rows     int64 [m], place in the batch

    >>> places = RowPlaces([b"0-9", b"10-19"], batches=np.array([1, 0]), rows=np.array([3, 7]))
    >>> [places.keys[batch] for batch in places.batches]
    [b'10-19', b'0-9']
    """

    keys: list[bytes]
    batches: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


class RowDirectory:
    """Batch keys, ascending; those that have left the log disappear eventually.

    Every lookup rereads from the first key that an earlier one may have seen uncommitted.

    >>> none = np.empty(0, np.uint64)
    >>> opened.store.read(lambda transaction: RowDirectory().places(transaction, none, LOG_KEY_BEGIN)).keys
    []
    """

    def __init__(self) -> None:
        self._keys = np.zeros((_KEYS_AT_LEAST, 2), np.uint64)
        self._count = self._committed = 0
        self._committed_to = LOG_KEY_BEGIN

    def places(self, transaction: Transaction, rows: npt.NDArray[np.uint64], committed_to: bytes) -> RowPlaces:
        """Places of rows, uint64 [m]; a place's batch may no longer exist, or have fewer rows.

        committed_to  batches below this key were committed before the transaction
        """
        self._take_over(transaction, committed_to)
        # No batch has a row before all known ones: the first one's row is below 0.
        batches = np.searchsorted(self._keys[: self._count, 1], rows, side="right") - 1
        batch_places, places = np.unique(np.maximum(batches, 0), return_inverse=True)
        keys = self._keys[batch_places]
        within = (rows - keys[places, 1]).astype(np.int64)
        return RowPlaces([LOG_KEY.pack(*key) for key in keys.tolist()], places, within)

    def _take_over(self, transaction: Transaction, committed_to: bytes) -> None:
        if self._committed > STALE_MAX * transaction.count(Table.LOG) + _KEYS_AT_LEAST:
            self._committed, self._committed_to = 0, LOG_KEY_BEGIN
        keys = transaction.keys(Table.LOG, self._committed_to)
        new = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64).reshape(-1, 2)
        self._count = self._committed + len(new)
        self._keys = with_room(self._keys, self._count)
        self._keys[self._committed : self._count] = new
        self._committed += sum(key < committed_to for key in keys)
        self._committed_to = committed_to
