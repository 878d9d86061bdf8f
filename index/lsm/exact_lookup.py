"""Lookup for equal fingerprints only, one step each: bulk-loaded entries come with their verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index.lsm.memtable import Memtable
from index.lsm.shape import SchemeShape, shape_of
from index.lsm.simhash_lookup import first_of_equals
from index.matching.distance import Matches, Portion, nearest
from index.storage.parameters import Parameters
from index.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class ExactLookup:
    """A `tree.Lookup` at distance 0 for fingerprints uint64 [n, words]."""

    fingerprints: npt.NDArray[np.uint64]
    shape: SchemeShape

    def __len__(self) -> int:
        return len(self.fingerprints)

    def pairs(self, *, nearest_only: bool) -> Portion:  # noqa: ARG002
        """Every row that equals an earlier one, with the first equal row."""
        firsts = first_of_equals(self.fingerprints)
        rows = np.flatnonzero(firsts != np.arange(len(self)))
        return self._portion(rows, firsts[rows].astype(np.uint64), None)

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Any, limit: int | None
    ) -> Iterator[Portion]:
        """As `tree.Lookup`."""
        for memtable in memtables:
            rows, places = memtable.equals(self.fingerprints)
            yield self._portion(rows, memtable.numbers[places], limit)
        for rows, numbers in self.shape.equals(transaction, segments, self.fingerprints):
            yield self._portion(rows, numbers, limit)

    def _portion(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint64], limit: int | None) -> Portion:
        equals = nearest(Matches(rows, np.zeros(len(rows), np.int16), numbers), limit)
        return equals, np.bincount(rows, minlength=len(self))


def exact_lookup_of(fingerprints: npt.NDArray[np.uint64], parameters: Parameters) -> ExactLookup:
    """Lookup for fingerprints uint64 [n, words] in an index with these parameters."""
    return ExactLookup(fingerprints, shape_of(parameters))
