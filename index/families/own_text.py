"""What pages of a template are filed by: the keys of their own text, and who stands under them, as far as rows ask for it."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.families.gallery import NOBODY, Column, Gallery
from index.families.table import NO_OWN_KEY, POSTINGS_MAX, add_postings, read_postings
from index.kernels import minhash
from index.matching.minhash import unpack_bins
from index.matching.template import OWN_KEYS, key_order, own_bins_needed
from index.session import ReadSession, WriteSession

_KEY_BITS = 16


class OwnText:
    """Keys by slot: those of a family that any row has asked for, and the places of the documents under each."""

    def __init__(self, session: ReadSession, gallery: Gallery) -> None:
        self._session, self._gallery = session, gallery
        self._names = Column(np.empty(0, np.int64))
        self._places = Column(np.empty((0, POSTINGS_MAX), np.int64))
        self._counts = Column(np.empty(0, np.int64))
        self._slot_of: dict[int, int] = {}
        self._keys: dict[tuple[int, int], tuple[npt.NDArray[np.int64], int]] = {}
        self._chosen: dict[int, npt.NDArray[np.int64]] = {}

    @cached_property
    def needed(self) -> npt.NDArray[np.int64]:
        """How many bins of its own each row needs, int64 [rows]. Few batches meet a known template, and ask."""
        gallery = self._gallery
        return own_bins_needed(unpack_bins(gallery.signatures[: gallery.rows], gallery.bin_bits))

    @property
    def postings(self) -> minhash.Postings:
        """Who stands under each key, for kernels."""
        return minhash.Postings(self._places.values, self._counts.values)

    def keys(self, row: int, family: int) -> tuple[npt.NDArray[np.int64], int]:
        """Slots of a row's keys beside a family's template, int64 [m], those preferred first; how many bins it has of its own."""
        if (row, family) not in self._keys:
            self.ask(np.array([row]), np.array([family]))
        return self._keys[row, family]

    def ask(self, rows: npt.NDArray[np.int64], families: npt.NDArray[np.int64]) -> None:
        """Read what rows will ask for, all at once: pairs of a row and a family whose template is known, int64 [n] twice."""
        gallery = self._gallery
        keys, ends = minhash.own_keys(
            gallery.signatures[rows],
            gallery.references[families],
            self.needed[rows],
            *key_order(),
            NO_OWN_KEY,
            gallery.bin_bits,
        )
        begins = np.concatenate([[0], ends])[:-1]
        names = np.repeat(families << _KEY_BITS, ends - begins) | keys
        distinct, inverse = np.unique(names, return_inverse=True)
        slots = self._slots_of(distinct)[inverse]
        own = ends - begins
        own[keys[ends - 1] == NO_OWN_KEY] -= 1
        columns = (column.tolist() for column in (rows, families, begins, ends, own))
        for row, family, begin, end, count in zip(*columns, strict=True):
            self._keys[row, family] = slots[begin:end], count

    def _slots_of(self, names: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Slots of distinct pairs of a family and a key, int64 [m] -> int64 [m]; unknown ones are read."""
        slots = np.array([self._slot_of.get(name, NOBODY) for name in names.tolist()], np.int64)
        new = np.flatnonzero(slots == NOBODY)
        if len(new):
            slots[new] = np.arange(len(self._names.values), len(self._names.values) + len(new))
            self._slot_of.update(zip(names[new].tolist(), slots[new].tolist(), strict=True))
            self._names.extend(names[new])
            self._read(names[new])
        return slots

    def _read(self, names: npt.NDArray[np.int64]) -> None:
        gallery = self._gallery
        families, keys = names >> _KEY_BITS, names & ((1 << _KEY_BITS) - 1)
        heads = gallery.of_families.columns.heads[families]
        counts, places = np.zeros(len(names), np.int64), np.full((len(names), POSTINGS_MAX), NOBODY, np.int64)
        # What a row has founded has nothing in the file.
        stored = np.flatnonzero(heads >= 0)
        stored = stored[np.lexsort((keys[stored], heads[stored]))]
        of_stored, numbers = read_postings(self._session.transaction, heads[stored].astype(np.uint64), keys[stored])
        there = np.full((len(stored), POSTINGS_MAX), NOBODY, np.int64)
        there[np.arange(POSTINGS_MAX) < of_stored[:, None]] = gallery.filed(
            numbers, np.repeat(families[stored], of_stored)
        )
        counts[stored], places[stored] = of_stored, there
        self._places.extend(places)
        self._counts.extend(counts)

    def file(self, row: int, family: int) -> None:
        """File a row under its keys, unless it shares each of them with very many: first those that few others have."""
        slots, own = self.keys(row, family)
        chosen = minhash.file_by_own_text(row, slots, own, self.postings, OWN_KEYS)
        if len(chosen):
            self._chosen[row] = chosen

    def is_filed(self, row: int) -> bool:
        """Whether a row was filed."""
        return row in self._chosen

    @property
    def filed(self) -> Iterable[int]:
        """Rows that were filed."""
        return self._chosen.keys()

    def store(self, session: WriteSession, heads: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Store what rows are filed under.

        heads    uint64 [families], document number of each family's head
        numbers  uint64 [n], number of each row to be filed so, else NO_NUMBER
        """
        filed = [(row, slots) for row, slots in self._chosen.items() if numbers[row] != NO_NUMBER]
        if filed:
            names = self._names.values[np.concatenate([slots for _, slots in filed])]
            of_rows = np.repeat([row for row, _ in filed], [len(slots) for _, slots in filed])
            keys: npt.NDArray[Any] = names & ((1 << _KEY_BITS) - 1)
            add_postings(session.transaction, heads[names >> _KEY_BITS], keys, numbers[of_rows])
