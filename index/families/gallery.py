"""Gallery: all documents that decisions on some rows look at, the rows themselves among them, and their families."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.families.family import OpenFamilies
from index.families.table import heads_of, stored_families
from index.kernels import families, minhash, numbers
from index.matching.minhash import DISTANCE_UNITS
from index.session import ReadSession
from index.storage import documents, log

NOBODY = -1

NOT_ASKED = -2
"""Stands for the family of a document that nobody has asked for yet."""

SPAN_MAX = 8
"""Numbers that lie nearer to each other on average are told apart by a table of all between them."""

ROW_ORDER = 2**63
"""Rows come after all documents of the index."""


class Column:
    """A column that grows at its end; as its capacity doubles, appending copies each value but a few times."""

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
    """Places of numbers, uint64, in the order in which they were entered."""

    def __init__(self) -> None:
        self._slots, self._places = np.full(64, numbers.EMPTY, np.uint64), np.empty(64, np.int64)
        self.count = 0

    def found(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers, uint64 [m] -> int64 [m]; NOBODY of unknown ones."""
        return numbers.found(self._slots, self._places, asked)

    def entered(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of numbers, uint64 [m] -> int64 [m]; unknown ones get the next places."""
        places, self._slots, self._places, self.count = numbers.entered(self._slots, self._places, asked, self.count)
        return places


class Gallery:
    """Documents by place: the rows come first, then documents of the index as they are asked for.

    Columns, by place:
    signatures  uint64 [m, words]
    order       uint64 [m], in which documents entered, or would: the number of a document, ROW_ORDER + row
    roots       int64 [m], place of the root
    families    int64 [m], place of the family in `of_families`; NOBODY for rows that were not asked for
    lost        bool [m], documents that count no more; a document whose root is lost counts no more, either

    some_are_lost  whether any document is lost

    of_families    the families; of them, and with room for more:
    known          bool [families], whether the template is known
    references     uint64 [families, words], the template as a signature, where it is known, else the head
    """

    def __init__(self, session: ReadSession, signatures: npt.NDArray[np.uint64]) -> None:
        """signatures: uint64 [n, words] of the rows."""
        banding = session.parameters.banding
        assert banding is not None, "only MinHash signatures have families"
        self._session, self.bin_bits = session, banding.bin_bits
        self.rows = len(signatures)
        self._signatures = Column(signatures)
        self._order = Column(np.arange(ROW_ORDER, ROW_ORDER + self.rows, dtype=np.uint64))
        self._roots = Column(np.arange(self.rows))
        self._families = Column(np.full(self.rows, NOBODY, np.int64))
        self._lost = Column(np.zeros(self.rows, np.bool_))
        self._stamps = Column(np.zeros(self.rows, np.int64))
        self._columns: minhash.Documents | None = None
        self.of_families = OpenFamilies(session.words, self.bin_bits)
        self._numbers = NumberTable()
        self._family_of: dict[int, int] = {}
        self._gone: list[int] = []
        self.some_are_lost = False

    @property
    def signatures(self) -> npt.NDArray[np.uint64]:
        """See the class."""
        return self._signatures.values

    @property
    def order(self) -> npt.NDArray[np.uint64]:
        """See the class."""
        return self._order.values

    @property
    def roots(self) -> npt.NDArray[np.int64]:
        """See the class."""
        return self._roots.values

    @property
    def families(self) -> npt.NDArray[np.int64]:
        """See the class."""
        return self._families.values

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """See the class."""
        return self._lost.values

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """See the class."""
        return self.of_families.columns.known

    @property
    def references(self) -> npt.NDArray[np.uint64]:
        """See the class."""
        return self.of_families.columns.references

    @property
    def columns(self) -> minhash.Documents:
        """All columns by place, for kernels."""
        if self._columns is None:
            columns = (self._signatures, self._order, self._roots, self._families, self._lost, self._stamps)
            self._columns = minhash.Documents(*(column.values for column in columns))
        return self._columns

    def places(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of visible documents of the index: uint64 [m] -> int64 [m]."""
        self._load(asked)
        places = self._of_numbers(asked)
        waiting = np.unique(places[self.families[places] == NOT_ASKED])
        if len(waiting):
            heads = heads_of(self._session.transaction, self.order[waiting], self.order[self.roots[waiting]])
            self.families[waiting] = self._families_of(heads)
        return places

    def filed(self, asked: npt.NDArray[np.uint64], families: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """As `places`, of documents that are filed in these families, int64 [m]; NOBODY of those that are not visible."""
        if not len(asked):
            return np.empty(0, np.int64)
        distinct, each = _distinct(asked)
        of_distinct = np.empty(len(distinct), np.int64)
        of_distinct[each] = families
        visible = self._session.visibility.are(self._session.transaction, distinct)
        places = np.full(len(distinct), NOBODY, np.int64)
        self._load(distinct[visible])
        places[visible] = self._of_numbers(distinct[visible])
        self.families[places[visible]] = of_distinct[visible]
        return places[each]

    def _of_numbers(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of documents that were asked for before."""
        return self._numbers.found(asked) + self.rows

    def _load(self, asked: npt.NDArray[np.uint64]) -> None:
        """Take in documents that were not asked for before, and their roots."""
        session = self._session
        unknown = _ascending(asked[self._numbers.found(asked) == NOBODY])
        if not len(unknown):
            return
        roots, signatures = documents.counting(session.transaction, session.visibility, unknown, session.words)
        gone = roots == NO_NUMBER
        roots = np.where(gone, unknown, roots)
        # Roots stand for themselves.
        others = _ascending(roots[roots != unknown])
        others = others[self._numbers.found(others) == NOBODY]
        others = others[unknown[np.searchsorted(unknown, others).clip(max=len(unknown) - 1)] != others]
        of_others, _ = log.fingerprints(session.transaction, others, session.words)
        added, signatures = np.concatenate([unknown, others]), np.concatenate([signatures, of_others])
        self._columns = None
        self._numbers.entered(added)
        self._signatures.extend(signatures)
        self._order.extend(added)
        self._roots.extend(self._of_numbers(np.concatenate([roots, others])))
        self._families.extend(np.full(len(added), NOT_ASKED, np.int64))
        self._stamps.extend(np.zeros(len(added), np.int64))
        gone = np.concatenate([gone, np.zeros(len(others), np.bool_)])
        lost = gone | np.isin(added, np.array(self._gone, np.uint64))
        self._lost.extend(lost)
        self.some_are_lost |= bool(lost.any())

    def _families_of(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Families of heads, uint64 [m] -> int64 [m]."""
        distinct, each = np.unique(heads, return_inverse=True)
        places = np.array([self._family_of.get(head, NOBODY) for head in distinct.tolist()], np.int64)
        new = np.flatnonzero(places == NOBODY)
        if len(new):
            unknown = distinct[new]
            stored = stored_families(self._session.transaction, unknown, self.of_families.bins)
            signatures, there = self._heads(unknown)
            places[new] = self.of_families.add(unknown.astype(np.int64), signatures, there, stored)
            self._family_of.update(zip(unknown.tolist(), places[new].tolist(), strict=True))
        return places[each]

    def _heads(self, asked: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Signatures of heads, ascending uint64 [m] -> uint64 [m, words], visible or not; bool [m]: whether the log has them."""
        places = self._numbers.found(asked)
        there, signatures = places != NOBODY, np.zeros((len(asked), self._session.words), np.uint64)
        signatures[there] = self.signatures[self.rows + places[there]]
        left = np.flatnonzero(~there)
        if len(left):
            read = log.fingerprints(self._session.transaction, asked[left], self._session.words)
            signatures[left], there[left] = read
        return signatures, there

    def found_families(self, rows: npt.NDArray[np.int64]) -> None:
        """Give each of these rows that has none a family of its own."""
        rows = rows[self.families[rows] == NOBODY]
        if len(rows):
            there = np.ones(len(rows), np.bool_)
            self.families[rows] = self.of_families.add(-1 - rows, self.signatures[rows], there)

    def vote(self, family: int, row: int, voters: int) -> bool:
        """Count the vote of a row, unless the head is gone and nobody has voted; returns whether the template is known now.

        voters  votes that settle the template
        """
        return families.vote(self.of_families.columns, family, self.signatures, row, voters, self.bin_bits)

    def lose(self, order: int) -> None:
        """Let a document, by its order, count no more, nor what it is the root of."""
        self.some_are_lost = True
        self._gone.append(order)
        self._set_lost(order, lost=True)

    def regain(self) -> None:
        """Take back all calls of `lose`."""
        for order in self._gone:
            self._set_lost(order, lost=False)
        self._gone.clear()

    def _set_lost(self, order: int, *, lost: bool) -> None:
        place = order - ROW_ORDER
        if place < 0:
            (found,) = self._numbers.found(np.array([order], np.uint64)).tolist()
            if found == NOBODY:
                return
            place = self.rows + found
        self.lost[place] = lost

    def is_gone(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these documents `lose` has named, int64 [m] -> bool [m]."""
        return np.isin(self.order[places], np.array(self._gone, np.uint64))

    def distances(self, row: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Distance of a row to each of these places: int64 [m] -> int16 [m]."""
        rows = np.full(len(places), row, np.int64)
        return minhash.distances(self.signatures, self.signatures, rows, places, self.bin_bits, DISTANCE_UNITS)

    def apart(self, row: int, family: int) -> int:
        """Distance of a row to the reference of a family."""
        rows, of_families = np.array([row]), np.array([family])
        (apart,) = minhash.distances(
            self.signatures, self.references, rows, of_families, self.bin_bits, DISTANCE_UNITS
        ).tolist()
        return int(apart)


def _ascending(asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each of these numbers once, ascending. As `np.unique`, which is ten times as slow."""
    ordered = np.sort(asked)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _distinct(asked: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Each of some numbers once, uint64 [n], and the place of each number among them, int64 [m]."""
    lowest = asked.min()
    span = int(asked.max() - lowest) + 1
    if span > SPAN_MAX * len(asked):
        table = NumberTable()
        places = table.entered(asked)
        distinct = np.empty(table.count, np.uint64)
        distinct[places] = asked
        return distinct, places
    above = (asked - lowest).astype(np.int64)
    met = np.zeros(span, np.bool_)
    met[above] = True
    return np.flatnonzero(met).astype(np.uint64) + lowest, (np.cumsum(met) - 1)[above]
