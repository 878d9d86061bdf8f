"""Lookup of equal fingerprints only, one step each: bulk-loaded entries come with their verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index.lsm.memtable import Memtable
from index.lsm.shape import SchemeShape, shape_of
from index.lsm.simhash_lookup import first_of_equals
from index.matching.distance import Matches, joined, nearest, no_matches
from index.storage.parameters import Parameters
from index.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class ExactLookup:
    """Lookup of n fingerprints at distance 0, a `tree.Lookup`.

    fingerprints  uint64 [n, words]
    """

    fingerprints: npt.NDArray[np.uint64]
    shape: SchemeShape

    def __len__(self) -> int:
        return len(self.fingerprints)

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:  # noqa: ARG002
        """Every row that equals an earlier one, with the first equal row; see `SimhashLookup.pairs`."""
        firsts = first_of_equals(self.fingerprints)
        rows = np.flatnonzero(firsts != np.arange(len(self)))
        return Matches(rows, np.zeros(len(rows), np.int16), firsts[rows].astype(np.uint64)), self._compared(rows)

    def nearest(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Any
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        """As `SimhashLookup.nearest`."""
        found = joined([no_matches(), *(each for each, _ in self.matches(transaction, memtables, segments))])
        return nearest(found, 1), self._compared(found.rows)

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Any
    ) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
        """As `SimhashLookup.matches`."""
        for memtable in memtables:
            rows, places = memtable.equals(self.fingerprints)
            yield self._portion(rows, memtable.numbers[places])
        for rows, numbers in self.shape.equals(transaction, segments, self.fingerprints):
            yield self._portion(rows, numbers)

    def _portion(
        self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint64]
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        found = nearest(Matches(rows, np.zeros(len(rows), np.int16), numbers), None)
        return found, self._compared(rows)

    def _compared(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.bincount(rows, minlength=len(self))


def exact_lookup_of(fingerprints: npt.NDArray[np.uint64], parameters: Parameters) -> ExactLookup:
    """Lookup of entries equal to fingerprints uint64 [n, words], in an index with these parameters."""
    return ExactLookup(fingerprints, shape_of(parameters))
