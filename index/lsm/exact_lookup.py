"""Look-up of equal fingerprints alone, one step each: bulk-loaded entries come with their verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.lsm.bands.segments import BandSegments
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape
from index.lsm.simhash_lookup import first_of_equals
from index.matching.distance import Matches, joined, nearest, no_matches
from index.storage import log
from index.storage.parameters import Parameters
from index.storage.store import Transaction

SIGNATURES_MAX = 2**17
"""Stored signatures read at once: 16 MiB at 128 bytes each."""


@dataclass(frozen=True, slots=True)
class ExactLookup:
    """Look-up of n fingerprints at distance 0, a `tree.Lookup`.

    fingerprints  uint64 [n, words]
    """

    fingerprints: npt.NDArray[np.uint64]
    shape: Shape

    def __len__(self) -> int:
        return len(self.fingerprints)

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:  # noqa: ARG002
        """Every row that equals an earlier one, with the first row that equals it; see `SimhashLookup.pairs`."""
        firsts = first_of_equals(self.fingerprints)
        rows = np.flatnonzero(firsts != np.arange(len(self)))
        return Matches(rows, np.zeros(len(rows), np.int16), firsts[rows].astype(np.uint64)), self._compared(rows)

    def nearest(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments | BandSegments
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        """As `SimhashLookup.nearest`."""
        found = joined([no_matches(), *(each for each, _ in self.matches(transaction, memtables, segments))])
        return nearest(found, 1), self._compared(found.rows)

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments | BandSegments
    ) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
        """As `SimhashLookup.matches`."""
        for memtable in memtables:
            rows, places = memtable.equals(self.fingerprints)
            yield self._portion(rows, memtable.numbers[places])
        if isinstance(segments, Segments):
            numbers = segments.numbers(transaction, self.fingerprints)
            rows = np.flatnonzero(numbers != NO_NUMBER)
            yield self._portion(rows, numbers[rows])
            return
        # Equal signatures share every band, so the first band is enough.
        assert self.shape.banding is not None
        one_band = replace(self.shape, banding=replace(self.shape.banding, bands=1))
        for rows, numbers in segments.candidates(transaction, one_band.band_hashes(self.fingerprints)):
            distinct, members = np.unique(numbers, return_inverse=True)
            for start in range(0, len(distinct), SIGNATURES_MAX):
                some = distinct[start : start + SIGNATURES_MAX]
                known, there = log.fingerprints(transaction, some, self.shape.words)
                here = np.flatnonzero((members >= start) & (members < start + len(some)))
                here = here[there[members[here] - start]]
                equal = (known[members[here] - start] == self.fingerprints[rows[here]]).all(axis=1)
                yield self._portion(rows[here[equal]], numbers[here[equal]])

    def _portion(
        self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint64]
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        found = nearest(Matches(rows, np.zeros(len(rows), np.int16), numbers), None)
        return found, self._compared(rows)

    def _compared(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.bincount(rows, minlength=len(self))


def exact_lookup_of(fingerprints: npt.NDArray[np.uint64], parameters: Parameters) -> ExactLookup:
    """Look-up of the entries equal to fingerprints uint64 [n, words], in an index of these parameters."""
    return ExactLookup(fingerprints, Shape.of(parameters))
