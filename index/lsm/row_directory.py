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


class RowPlace(NamedTuple):
    """A row's place in the log.

    batch  its batch's key
    row    place in the batch

    >>> first, second = RowPlace(LOG_KEY.pack(0, 0), row=7), RowPlace(LOG_KEY.pack(9, 10), row=0)
    >>> sorted([second, first]) == [first, second]
    True
    """

    batch: bytes
    row: int


class RowDirectory:
    """Batch keys, ascending; those that have left the log disappear eventually.

    Every lookup rereads from the first key that an earlier one may have seen uncommitted.

    >>> none = np.empty(0, np.uint64)
    >>> opened.store.read(lambda transaction: RowDirectory().places(transaction, none, LOG_KEY_BEGIN))
    []
    """

    def __init__(self) -> None:
        self._keys = np.empty((_KEYS_AT_LEAST, 2), np.uint64)
        self._count = self._committed = 0
        self._committed_to = LOG_KEY_BEGIN

    def places(self, transaction: Transaction, rows: npt.NDArray[np.uint64], committed_to: bytes) -> list[RowPlace]:
        """Places of rows, uint64 [n]; a place's batch may no longer exist, or have fewer rows.

        committed_to  batches below this key were committed before the transaction
        """
        self._take_over(transaction, committed_to)
        firsts = self._keys[: self._count, 1]
        batches = np.searchsorted(firsts, rows, side="right") - 1
        rows, batches = rows[batches >= 0], batches[batches >= 0]
        keys = [LOG_KEY.pack(*key) for key in self._keys[batches].tolist()]
        return list(map(RowPlace, keys, (rows - firsts[batches]).tolist()))

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
