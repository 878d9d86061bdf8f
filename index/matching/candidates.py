"""Candidates: rows, and the indexed documents that take part in their decisions. Pure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels import minhash, numbers

UNKNOWN = -1

ROW_ORDER = 2**63
"""Rows come after all indexed documents."""


class Column:
    """A column that grows at its end; its capacity doubles, so appending is cheap.

    >>> column = Column(np.array([1, 2]))
    >>> column.extend(np.array([3]))
    >>> column.values
    array([1, 2, 3])
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._room = values.copy()
        self.values = self._room

    def extend(self, values: npt.NDArray[Any]) -> None:
        """Append values."""
        begin, end = len(self.values), len(self.values) + len(values)
        if end > len(self._room):
            self._room = np.concatenate([self.values, np.zeros((end, *self._room.shape[1:]), self._room.dtype)])
        self._room[begin:end] = values
        self.values = self._room[:end]


class NumberTable:
    """Places of uint64 numbers, in order of entry.

    >>> NumberTable().entered(np.array([7, 5, 7], np.uint64))
    array([0, 1, 0])
    """

    def __init__(self) -> None:
        self._slots, self._places = np.full(64, numbers.EMPTY, np.uint64), np.empty(64, np.int64)
        self.count = 0

    def found(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers: uint64 [m] -> int64 [m]; UNKNOWN for unknown ones."""
        return numbers.found(self._slots, self._places, asked)

    def entered(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers: uint64 [m] -> int64 [m]; unknown numbers get the next places."""
        places, self._slots, self._places, self.count = numbers.entered(self._slots, self._places, asked, self.count)
        return places


class CandidateSet:
    """Documents by place: first the rows, then indexed documents in request order.

    fingerprints  uint64 [m, words]
    order         uint64 [m], entry order: a document's number, or ROW_ORDER + row
    roots         int64 [m], place of the root
    lost          bool [m], documents that no longer count
    lengths       int64 [m], letters; 0 if unknown

    >>> candidates = CandidateSet(np.zeros((2, 1), np.uint64), np.zeros((2, 0), np.uint8))
    >>> candidates.add(np.array([40, 7], np.uint64))
    >>> candidates.places(np.array([7, 40], np.uint64)), candidates.unknown(np.array([7, 8], np.uint64))
    (array([3, 2]), array([8], dtype=uint64))
    """

    def __init__(
        self,
        fingerprints: npt.NDArray[np.uint64],
        looks: npt.NDArray[np.uint8],
        lengths: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Start with the rows: fingerprints uint64 [n, words], looks uint8 [n, look bytes], lengths int64 [n]."""
        self.rows = len(fingerprints)
        self._lengths = Column(np.zeros(self.rows, np.int64) if lengths is None else lengths)
        self._fingerprints, self._looks = Column(fingerprints), Column(looks)
        self._order = Column(np.arange(ROW_ORDER, ROW_ORDER + self.rows, dtype=np.uint64))
        self._roots = Column(np.arange(self.rows))
        self._lost = Column(np.zeros(self.rows, np.bool_))
        self._numbers = NumberTable()

    @property
    def columns(self) -> minhash.Documents:
        """All columns by place."""
        columns = self._fingerprints, self._order, self._roots, self._lost, self._lengths
        return minhash.Documents(*(each.values for each in columns))

    def unknown(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Documents without a place, uint64 [m] -> uint64 [k], ascending and distinct."""
        return ascending(asked[self._numbers.found(asked) == UNKNOWN])

    def add(
        self,
        added: npt.NDArray[np.uint64],
        fingerprints: npt.NDArray[np.uint64] | None = None,
        looks: npt.NDArray[np.uint8] | None = None,
        lengths: npt.NDArray[np.int64] | None = None,
        roots: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        """Add indexed documents, uint64 [k], distinct and unknown.

        fingerprints, looks  None: no distance to these documents will be needed
        lengths              None: unknown, 0
        roots                uint64 [k], numbers of known or added documents; None: all are their own roots
        """
        if not len(added):
            return
        self._numbers.entered(added)
        columns = (self._fingerprints, fingerprints), (self._looks, looks), (self._lengths, lengths)
        for column, values in columns:
            column.extend(np.zeros((len(added), *column.values.shape[1:]), np.uint8) if values is None else values)
        self._order.extend(added)
        self._roots.extend(self.places(added if roots is None else roots))
        self._lost.extend(np.zeros(len(added), np.bool_))

    def places(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of known indexed documents: uint64 [m] -> int64 [m]."""
        return self._numbers.found(asked) + self.rows

    def is_lost(self, place: int) -> bool:
        """Whether a document no longer counts."""
        return bool(self._lost.values[place])

    def exclude(self, numbers: npt.NDArray[np.uint64]) -> None:
        """Exclude known indexed documents, uint64 [m]."""
        self._lost.values[self.places(numbers)] = True

    def distances(
        self, compare: Callable[..., npt.NDArray[np.int16]], rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int16]:
        """`Parameters.root_distances` of rows to documents at these places: int64 [m] twice -> int16 [m]."""
        fingerprints, looks = self._fingerprints.values, self._looks.values
        return compare(fingerprints[rows], fingerprints[places], looks[rows], looks[places])


def ascending(asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Sort numbers and drop repeats, ten times as fast as `np.unique`."""
    ordered = np.sort(asked)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
