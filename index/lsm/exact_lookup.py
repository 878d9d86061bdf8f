"""Lookup for equal fingerprints only, one step each: bulk-loaded entries come with their verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index.lsm.lookup import stored_fingerprints
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape, shape_of
from index.matching.distance import Matches, Portion, nearest
from index.storage.parameters import Parameters
from index.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class ExactLookup:
    """A `Lookup` at distance 0 for fingerprints uint64 [n, words]. Equals share every hash: one table is enough.

    >>> lookup = exact_lookup_of(np.array([[5], [9], [5]], np.uint64), Parameters())
    >>> len(lookup), lookup.shape.tables
    (3, 1)
    """

    fingerprints: npt.NDArray[np.uint64]
    shape: Shape

    def __len__(self) -> int:
        return len(self.fingerprints)

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments, limit: int | None
    ) -> Iterator[Portion]:
        """As `Lookup`."""
        asked = self.fingerprints
        for memtable in memtables:
            rows, places = memtable.equals(asked)
            yield self._portion(rows, memtable.numbers[places], limit)
        for rows, of_rows in segments.candidates(transaction, self.shape.hashes(asked), Shape.probes(self.shape, 0)):
            for known, here, members, numbers in stored_fingerprints(transaction, of_rows, self.shape.words):
                equal = (known[members] == asked[rows[here]]).all(axis=1)
                yield self._portion(rows[here[equal]], numbers[members[equal]], limit)

    def _portion(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint64], limit: int | None) -> Portion:
        equals = nearest(Matches(rows, np.zeros(len(rows), np.int16), numbers), limit)
        return equals, np.bincount(rows, minlength=len(self))


def exact_lookup_of(fingerprints: npt.NDArray[np.uint64], parameters: Parameters) -> ExactLookup:
    """Lookup for fingerprints uint64 [n, words] in an index with these parameters."""
    return ExactLookup(fingerprints, replace(shape_of(parameters), tables=1))
