"""The outcome of a decision: verdicts on rows, and the documents they name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Verdict, standing_for_themselves

ROW_ORDER = 2**63
"""Rows come after all indexed documents."""


@dataclass(frozen=True)
class Outcome:
    """Verdicts on n rows.

    verdicts      uint8 [n], `Verdict` values
    distances     int16 [n], distance to the match, or with insert = "root" to its root, or NO_DISTANCE
    entering      bool [n], whether the row becomes an entry; these rows get ascending numbers
    first_number  the first of these numbers
    orders        uint64 [n], order (`Documents.order`) of the document that a row names; its own, or NO_NUMBER for none
    former        by UPDATE row that replaces no entry: origin or row of the version it names
    marks         uint8 [n], what the ids of rows say besides: `index.kernels.versions.Plan`
    returns       uint8 [n], how often an id has returned to an earlier substance
    strangers     uint8 [n], how often in a row an id came with a text that has nothing in common with the one before
    ratios        uint16 [n], as in `Decisions`
    equal_texts   bool [n], duplicates with their original's normalised text

    >>> orders = np.array([ROW_ORDER, ROW_ORDER], np.uint64)
    >>> verdicts = np.array([Verdict.UNIQUE, Verdict.DUPLICATE], np.uint8)
    >>> Outcome(verdicts, np.array([-1, 2], np.int16), np.array([True, False]), first_number=10, orders=orders).originals
    array([10, 10], dtype=uint64)
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    entering: npt.NDArray[np.bool_]
    first_number: int
    orders: npt.NDArray[np.uint64]
    former: Mapping[int, tuple[str, int, int, int] | int] = field(default_factory=dict)
    marks: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros((), np.uint8))
    returns: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros((), np.uint8))
    strangers: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros((), np.uint8))
    ratios: npt.NDArray[np.uint16] = field(default_factory=lambda: np.zeros((), np.uint16))
    equal_texts: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((), np.bool_))

    @cached_property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """Number of an entering row, else NO_NUMBER: uint64 [n]."""
        numbers = np.full(len(self.entering), NO_NUMBER, np.uint64)
        end = self.first_number + np.count_nonzero(self.entering)
        numbers[self.entering] = np.arange(self.first_number, end, dtype=np.uint64)
        return numbers

    @cached_property
    def named(self) -> npt.NDArray[np.uint64]:
        """Number of the document that a row names, else NO_NUMBER: uint64 [n]."""
        # First number 10, rows 0 and 2 of three enter: ROW_ORDER + 2 is number 11, and 7 is document 7.
        named, rows = self.orders.copy(), self.orders - np.uint64(ROW_ORDER)
        rows[rows == np.arange(len(rows), dtype=np.uint64)] = NO_NUMBER
        in_batch = rows < np.uint64(len(rows))
        named[self.orders >= np.uint64(ROW_ORDER)] = NO_NUMBER
        named[in_batch] = self.numbers[rows[in_batch].astype(np.int64)]
        return named

    @property
    def originals(self) -> npt.NDArray[np.uint64]:
        """Number of the original; a row's own number if it is one; else NO_NUMBER: uint64 [n]."""
        originals: npt.NDArray[np.uint64] = np.where(standing_for_themselves(self.verdicts), self.numbers, self.named)
        return originals

    @property
    def replaced(self) -> npt.NDArray[np.uint64]:
        """Orders of the versions that UPDATE rows replace, uint64 [k]."""
        updates = np.flatnonzero((self.verdicts == Verdict.UPDATE) & (self.orders != NO_NUMBER))
        orders, own = self.orders[updates], updates.astype(np.uint64) + np.uint64(ROW_ORDER)
        replaced: npt.NDArray[np.uint64] = orders[orders != own]
        return replaced
