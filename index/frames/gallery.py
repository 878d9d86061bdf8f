"""Gallery: all documents that take part in decisions on some rows, including the rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.kernels import minhash, numbers
from index.session import ReadSession
from index.storage import documents, log

UNKNOWN = -1

ROW_ORDER = 2**63
"""Rows come after all indexed documents."""


class Column:
    """A column that grows at its end. Its capacity doubles, so appending copies each value only a few times."""

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
    """Places of numbers, uint64, in order of entry.

    >>> NumberTable().entered(np.array([7, 5, 7], np.uint64))
    array([0, 1, 0])
    """

    def __init__(self) -> None:
        self._slots, self._places = np.full(64, numbers.EMPTY, np.uint64), np.empty(64, np.int64)
        self.count = 0

    def found(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers, uint64 [m] -> int64 [m]; UNKNOWN for unknown ones."""
        return numbers.found(self._slots, self._places, asked)

    def entered(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers, uint64 [m] -> int64 [m]; unknown numbers get the next places."""
        places, self._slots, self._places, self.count = numbers.entered(self._slots, self._places, asked, self.count)
        return places


class Gallery:
    """Documents by place: first the rows, then indexed documents in request order.

    Columns, by place:
    fingerprints  uint64 [m, words]
    order         uint64 [m], entry order: a document's number, or ROW_ORDER + row
    roots         int64 [m], place of the root
    lost          bool [m], documents that no longer count; a document with a lost root does not count either
    """

    def __init__(self, session: ReadSession, fingerprints: npt.NDArray[np.uint64]) -> None:
        """Start with the fingerprints of the rows, uint64 [n, words]."""
        self._session = session
        self.rows = len(fingerprints)
        self._fingerprints = Column(fingerprints)
        self._order = Column(np.arange(ROW_ORDER, ROW_ORDER + self.rows, dtype=np.uint64))
        self._roots = Column(np.arange(self.rows))
        self._lost = Column(np.zeros(self.rows, np.bool_))
        self._numbers = NumberTable()
        self._gone: list[int] = []

    @property
    def columns(self) -> minhash.Documents:
        """All columns by place."""
        return minhash.Documents(*(each.values for each in (self._fingerprints, self._order, self._roots, self._lost)))

    def places(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of visible indexed documents: uint64 [m] -> int64 [m]."""
        session = self._session
        unknown = _ascending(asked[self._numbers.found(asked) == UNKNOWN])
        if len(unknown):
            roots, fingerprints = documents.counting(session.transaction, session.visibility, unknown, session.words)
            gone = roots == NO_NUMBER
            roots = np.where(gone, unknown, roots)
            # A root is its own root, so this needs no second round.
            others = _ascending(roots[roots != unknown])
            others = others[self._numbers.found(others) == UNKNOWN]
            others = others[unknown[np.searchsorted(unknown, others).clip(max=len(unknown) - 1)] != others]
            of_others, _ = log.fingerprints(session.transaction, others, session.words)
            added = np.concatenate([unknown, others])
            self._numbers.entered(added)
            self._fingerprints.extend(np.concatenate([fingerprints, of_others]))
            self._order.extend(added)
            self._roots.extend(self._of_numbers(np.concatenate([roots, others])))
            gone = np.concatenate([gone, np.zeros(len(others), np.bool_)])
            self._lost.extend(gone | np.isin(added, np.array(self._gone, np.uint64)))
        return self._of_numbers(asked)

    def _of_numbers(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places for documents requested before."""
        return self._numbers.found(asked) + self.rows

    def lose(self, order: int) -> None:
        """Exclude a document, by its order, and all documents whose root it is."""
        self._gone.append(order)
        self._set_lost(order, lost=True)

    def regain(self) -> None:
        """Revert all calls of `lose`."""
        for order in self._gone:
            self._set_lost(order, lost=False)
        self._gone.clear()

    def _set_lost(self, order: int, *, lost: bool) -> None:
        place = order - ROW_ORDER
        if place < 0:
            (found,) = self._numbers.found(np.array([order], np.uint64)).tolist()
            if found == UNKNOWN:
                return
            place = self.rows + found
        self._lost.values[place] = lost


def _ascending(asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Sort the numbers and drop repeats: ten times as fast as `np.unique`."""
    ordered = np.sort(asked)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
