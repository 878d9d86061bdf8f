"""The segment directory: keys and memory addresses of all segments.

A batch reads thousands of segments and writes a few. So the directory reads keys and addresses from the file once and keeps
them. The compaction state tells which segments were written between two transactions: those that the cursor passed.

LMDB guarantees the address of a value only for the life of its transaction. So addresses belong to a held snapshot
(`Transaction.held`), whose values do not move. A segment not written since is the same for every later transaction, which
may read it at that address. The current transaction gives the addresses of all other segments.
"""

from bisect import bisect_left, bisect_right
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from index.lsm.shape import Shape
from index.storage.layout import COMPACTION_KEY, Table
from index.storage.segments.compaction_state import CompactionState, segment_key, unpack_compaction
from index.storage.store import Transaction

Column = TypeVar("Column", bound=np.generic)

WRITTEN_PART = 16
"""The held snapshot is released once 1 / WRITTEN_PART of the segments was written since: it pins their old pages."""

_WORD_BYTES = 8


class SegmentDirectory:
    """Segments as of the last transaction followed, as columns of equal length.

    edges   int64 [tables + 1], first segment of each table
    bounds  uint64 [segments], first four columns of every segment's bound. Where two bounds are equal, entries between
            them may have the same four columns
    firsts  int64 [segments], first two columns of the bounds, a lower bound of the segment's entries
    widths  int64 [segments], first two columns of every entry lie less than this above `firsts`
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._compaction: CompactionState | None = None
        self._held: Transaction | None = None
        self.keys: list[bytes] = []
        self._addresses = np.empty(0, np.uint64)
        """Addresses in the held snapshot; 0: not read yet."""
        self._written = np.empty(0, np.bool_)
        """Which segments were written since the held snapshot."""
        self._checked = np.empty(0, np.bool_)
        """Which segments were checked because the one before them was wanted."""
        self._take(0, 0, [])

    def __len__(self) -> int:
        return len(self.keys)

    def follow(self, transaction: Transaction, now: CompactionState) -> None:
        """Take over the segments written since the last call. now: compaction state of this transaction."""
        written = written_between(self._compaction, now)
        self._compaction = now
        if written is None:
            return
        begin, end = self._places(*written)
        self._take(begin, end, transaction.keys(Table.SEGMENTS, *written))
        if np.count_nonzero(self._written) * WRITTEN_PART > len(self):
            transaction.let_go()

    def _places(self, first: bytes, last: bytes | None) -> tuple[int, int]:
        """Range of the segments from one key to another, begin and end; None: to the end."""
        return bisect_left(self.keys, first), len(self) if last is None else bisect_right(self.keys, last)

    def _take(self, begin: int, end: int, keys: list[bytes]) -> None:
        """Replace the segments begin <= place < end by these."""
        self.keys[begin:end] = keys
        count = len(keys)
        self._addresses = _replaced(self._addresses, begin, end, np.zeros(count, np.uint64))
        self._written = _replaced(self._written, begin, end, np.ones(count, np.bool_))
        self._checked = _replaced(self._checked, begin, end, np.zeros(count, np.bool_))
        raw = np.frombuffer(b"".join(self.keys), np.uint8).reshape(len(self), 1 + self._shape.bound_bytes)
        first_word = np.ascontiguousarray(raw[:, 1 : 1 + _WORD_BYTES])
        self.bounds = first_word.view(">u8")[:, 0].astype(np.uint64)
        self.edges = np.searchsorted(raw[:, 0], np.arange(self._shape.tables + 1))
        self.firsts = (self.bounds >> np.uint64(32)).astype(np.int64)
        behind = np.append(self.firsts[1:], 0)
        behind[self.edges[1:][np.diff(self.edges) > 0] - 1] = 2**32
        self.widths = np.maximum(behind - self.firsts, 1)

    def addresses(self, transaction: Transaction, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
        """Memory addresses of the wanted segments, bool [segments]: uint64 [segments]; any value for the others.

        Addresses hold until this transaction writes or ends. A key that was damaged shifts entries into the segment before
        it, and does not fit the seal of its value. So the segment behind each wanted one is checked, too.
        """
        behind = np.zeros_like(wanted)
        behind[1:] = wanted[:-1]
        for place in np.flatnonzero(behind & ~self._checked).tolist():
            transaction.existing(Table.SEGMENTS, self.keys[place])
        self._checked |= behind
        held = transaction.held()
        if held is not self._held:
            assert self._compaction is not None, "a transaction must begin with `follow`"
            self._held, self._addresses, self._written = (
                held,
                np.zeros(len(self), np.uint64),
                np.zeros(len(self), np.bool_),
            )
            written = written_between(unpack_compaction(held.get(Table.META, COMPACTION_KEY)), self._compaction)
            if written is not None:
                self._written[slice(*self._places(*written))] = True
        self._filled_in(held, wanted & ~self._written & (self._addresses == 0), self._addresses)
        return self._filled_in(transaction, wanted & self._written, self._addresses.copy())

    def _filled_in(
        self, transaction: Transaction, wanted: npt.NDArray[np.bool_], addresses: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint64]:
        """Fill in the addresses of wanted segments in this transaction."""
        places = np.flatnonzero(wanted)
        addresses[places] = transaction.addresses(Table.SEGMENTS, [self.keys[place] for place in places.tolist()])
        return addresses


def written_between(before: CompactionState | None, now: CompactionState) -> tuple[bytes, bytes | None] | None:
    """First and last key, both included, of segments that may have been written since `before`; None: none was.

    A last key of None means the end. Slices move in ascending order, and a segment that a slice cuts ends at the cursor.
    """
    if before is not None and now.version == before.version:
        return None
    if before is None or not before.is_moving or _memtable(before) != _memtable(now):
        return b"\0", None
    return segment_key(before.table, before.bound), segment_key(now.table, now.bound) if now.is_moving else None


def _memtable(state: CompactionState) -> tuple[int, int]:
    """End of the frozen memtable, which identifies it: every memtable ends beyond the one before."""
    return state.frozen_to, state.frozen_tombstones


def _replaced(column: npt.NDArray[Column], begin: int, end: int, by: npt.NDArray[Column]) -> npt.NDArray[Column]:
    return np.concatenate([column[:begin], by, column[end:]])
