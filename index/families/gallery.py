"""Gallery: all documents that decisions on some rows look at, the rows themselves among them, and their families."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.families.family import OpenFamily
from index.families.table import heads_of, read_families
from index.kernels import minhash
from index.matching.minhash import DISTANCE_UNITS, pack_bins, unpack_bins
from index.matching.template import Bins
from index.session import ReadSession
from index.storage import documents, log

NOBODY = -1

ROW_ORDER = 2**63
"""Rows come after all documents of the index."""


class _Column:
    """A column that grows at its end; as its capacity doubles, appending copies each value but a few times."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._room = values.copy()
        self.values = self._room

    def extend(self, values: npt.NDArray[Any]) -> None:
        begin, end = len(self.values), len(self.values) + len(values)
        if end > len(self._room):
            self._room = np.concatenate([self.values, np.zeros((end, *self._room.shape[1:]), self._room.dtype)])
        self._room[begin:end] = values
        self.values = self._room[:end]


class Gallery:
    """Documents by place: the rows come first, then documents of the index as they are asked for.

    Columns, by place:
    signatures  uint64 [m, words]
    bins        uint8 [m, bins]
    order       uint64 [m], in which documents entered, or would: the number of a document, ROW_ORDER + row
    roots       int64 [m], place of the root
    families    int64 [m], place of the family in `of_families`; NOBODY for rows that were not asked for

    known       bool [families], whether the template is known
    """

    def __init__(self, session: ReadSession, signatures: npt.NDArray[np.uint64]) -> None:
        """signatures: uint64 [n, words] of the rows."""
        banding = session.parameters.banding
        assert banding is not None, "only MinHash signatures have families"
        self._session, self.bin_bits = session, banding.bin_bits
        self.rows = len(signatures)
        self._signatures = _Column(signatures)
        self._bins = _Column(unpack_bins(signatures, self.bin_bits))
        self._order = _Column(np.arange(ROW_ORDER, ROW_ORDER + self.rows, dtype=np.uint64))
        self._roots = _Column(np.arange(self.rows))
        self._counts = _Column(np.ones(self.rows, np.bool_))
        self._families = _Column(np.full(self.rows, NOBODY, np.int64))
        self._known = _Column(np.zeros(0, np.bool_))
        self.of_families: list[OpenFamily] = []
        self._place_of: dict[int, int] = {}
        self._family_of: dict[int, int] = {}

    @property
    def signatures(self) -> npt.NDArray[np.uint64]:
        """See the class."""
        return self._signatures.values

    @property
    def bins(self) -> Bins:
        """See the class."""
        return self._bins.values

    @property
    def order(self) -> npt.NDArray[np.uint64]:
        """See the class."""
        return self._order.values

    @property
    def roots(self) -> npt.NDArray[np.int64]:
        """See the class."""
        return self._roots.values

    @property
    def counts(self) -> npt.NDArray[np.bool_]:
        """See the class."""
        return self._counts.values

    @property
    def families(self) -> npt.NDArray[np.int64]:
        """See the class."""
        return self._families.values

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """See the class."""
        return self._known.values

    def places(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of visible documents of the index: uint64 [m] -> int64 [m]."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        unknown = [number for number in distinct.tolist() if number not in self._place_of]
        if unknown:
            self._load(np.array(unknown, np.uint64))
        return np.array([self._place_of[number] for number in distinct.tolist()], np.int64)[inverse]

    def _load(self, numbers: npt.NDArray[np.uint64]) -> None:
        session = self._session
        roots = documents.counting_roots(session.transaction, session.visibility, numbers, session.words)
        gone = set(numbers[roots == NO_NUMBER].tolist())
        roots = np.where(roots == NO_NUMBER, numbers, roots)
        heads = heads_of(session.transaction, numbers, roots)
        wanted = np.unique(np.concatenate([numbers, roots, heads]))
        wanted = wanted[[number not in self._place_of for number in wanted.tolist()]]
        signatures, there = log.fingerprints(session.transaction, wanted, session.words)
        wanted, signatures = wanted[there], signatures[there]
        begin = len(self._order.values)
        self._place_of.update(zip(wanted.tolist(), range(begin, begin + len(wanted)), strict=True))
        self._signatures.extend(signatures)
        self._bins.extend(unpack_bins(signatures, self.bin_bits))
        self._order.extend(wanted)
        self._counts.extend(np.array([number not in gone for number in wanted.tolist()], np.bool_))
        self._load_families({*heads.tolist(), *wanted.tolist()})
        # Roots and heads stand for themselves.
        root_of = dict(zip(numbers.tolist(), roots.tolist(), strict=True))
        head_of = dict(zip(roots.tolist(), heads.tolist(), strict=True)) | dict(
            zip(numbers.tolist(), heads.tolist(), strict=True)
        )
        of_wanted = [(root_of.get(number, number), head_of.get(number, number)) for number in wanted.tolist()]
        self._roots.extend(np.array([self._place_of[root] for root, _ in of_wanted], np.int64))
        self._families.extend(np.array([self._family_of[head] for _, head in of_wanted], np.int64))

    def _load_families(self, heads: set[int]) -> None:
        unknown = sorted(heads - self._family_of.keys())
        stored = read_families(self._session.transaction, unknown)
        for head in unknown:
            family = stored.get(head)
            template = pack_bins(family.values[None], self.bin_bits) if family is not None and family.is_known else None
            self._family_of[head] = len(self.of_families)
            self.of_families.append(OpenFamily(head, family, template))
        added = [self.of_families[self._family_of[head]].template is not None for head in unknown]
        self._known.extend(np.array(added, np.bool_))

    def found_families(self, rows: npt.NDArray[np.int64]) -> None:
        """Give each of these rows that has none a family of its own."""
        for row in rows[self.families[rows] == NOBODY].tolist():
            self.families[row] = len(self.of_families)
            self.of_families.append(OpenFamily(-1 - row))
            self._known.extend(np.zeros(1, np.bool_))

    def head_bins(self, family: OpenFamily) -> Bins | None:
        """Bins of a family's head, uint8 [bins]; None where it has left the log."""
        place = -1 - family.head if family.head < 0 else self._place_of.get(family.head)
        return None if place is None else self.bins[place]

    def reference(self, family: int) -> npt.NDArray[np.uint64] | None:
        """What relatives of a family resemble, uint64 [1, words]: its template, or its head; None where the head is gone."""
        chosen = self.of_families[family]
        if chosen.template is not None:
            return chosen.template
        head = self.head_bins(chosen)
        return None if head is None else pack_bins(head[None], self.bin_bits)

    def distances(self, row: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Distance of a row to each of these places: int64 [m] -> int16 [m]."""
        return self.distances_to(row, self.signatures, places)

    def distances_to(
        self, row: int, signatures: npt.NDArray[np.uint64], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int16]:
        """Distance of a row to some of these signatures, uint64 [k, words] and int64 [m] -> int16 [m]."""
        rows = np.full(len(places), row, np.int64)
        return minhash.distances(self.signatures, signatures, rows, places, self.bin_bits, DISTANCE_UNITS)
