"""Families while rows are decided: what they know, and what votes change, as columns."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from index.families.table import StoredFamilies, write_families
from index.kernels import families
from index.matching.minhash import pack_bins
from index.storage.store import Transaction


class OpenFamilies:
    """Families that rows may join, by place.

    bins     values in a signature
    count    families there are
    columns  by place, and with room for more than there are:
             heads       document number of the head; or, where the head is a row that has no number yet, -1 - row
             begun       whether any unequal page has voted, so that the file holds the family, or will
             known       whether the template is known
             changed     whether the file does not hold all of it
             counts      as the file has them: voters, dropped, relatives, made_unique, own_bins
             values      the values that lead, or the template, of a family that has begun
             leads       by how much these lead; meaningless once the template is known
             references  what relatives resemble, as a signature: the template where it is known, else the head
             there       whether it has one: a head may have left the log
             met         scratch of kernels
    """

    def __init__(self, words: int, bin_bits: int) -> None:
        """words: of a signature."""
        self.bins = bins = words * 64 // bin_bits
        self._bin_bits = bin_bits
        self.count = 0
        flags, numbers, octets = np.zeros(0, np.bool_), np.zeros(0, np.int64), np.zeros((0, bins), np.uint8)
        counts, references = np.zeros((0, 5), np.int64), np.zeros((0, words), np.uint64)
        self.columns = families.Families(
            numbers, flags, flags, flags, counts, octets, octets, flags, references, numbers
        )

    def make_room(self, more: int) -> None:
        """Let the columns have room for so many more families."""
        room, needed = len(self.columns.heads), self.count + more
        if needed > room:
            rooms = (np.zeros((max(needed, 2 * room), *each.shape[1:]), each.dtype) for each in self.columns)
            wide: list[npt.NDArray[Any]] = list(rooms)
            former_columns: Iterable[npt.NDArray[Any]] = self.columns
            for column, former in zip(wide, former_columns, strict=True):
                column[: self.count] = former[: self.count]
            self.columns = families.Families(*wide)
            self.columns.met[self.count :] = families.NONE

    def add(
        self,
        heads: npt.NDArray[np.int64],
        references: npt.NDArray[np.uint64],
        there: npt.NDArray[np.bool_],
        stored: StoredFamilies | None = None,
    ) -> npt.NDArray[np.int64]:
        """Take in families: gives their places, int64 [m].

        heads       int64 [m]
        references  uint64 [m, words], signatures of the heads; there: bool [m], whether it is known
        stored      what the file holds of some of them
        """
        self.make_room(len(heads))
        places = np.arange(self.count, self.count + len(heads))
        self.count += len(heads)
        columns = self.columns
        columns.heads[places], columns.references[places], columns.there[places] = heads, references, there
        if stored is not None and len(stored.places):
            begun = places[stored.places]
            columns.begun[begun], columns.known[begun], columns.counts[begun] = True, stored.known, stored.counts
            columns.values[begun], columns.leads[begun] = stored.values, stored.leads
            known = begun[stored.known]
            columns.there[known] = True
            columns.references[known] = pack_bins(columns.values[known], self._bin_bits)
        return places

    def add_to(
        self, family: int, *, dropped: int = 0, relatives: int = 0, made_unique: int = 0, own_bins: int = 0
    ) -> None:
        """Add to the counts of a family that has begun; a family that has not counts nothing."""
        if self.columns.begun[family]:
            self.columns.changed[family] = True
            # Of four numbers mostly one or two are not 0.
            for column, more in enumerate((dropped, relatives, made_unique, own_bins), families.DROPPED):
                if more:
                    self.columns.counts[family, column] += more

    def write(self, transaction: Transaction, heads: npt.NDArray[np.uint64]) -> None:
        """Store what the file does not hold. heads: uint64 [count], document number of each family's head."""
        columns = self.columns
        changed = np.flatnonzero(columns.changed[: self.count] & columns.begun[: self.count])
        changed = changed[np.argsort(heads[changed])]
        stored = StoredFamilies(
            changed, columns.known[changed], columns.counts[changed], columns.values[changed], columns.leads[changed]
        )
        write_families(transaction, heads[changed], stored)
