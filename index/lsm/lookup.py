"""Lookups of entries near fingerprints: what shares a hash with one is a candidate, and every candidate is compared.

Candidates stream in portions. Segments hold only entry numbers; the log holds the fingerprints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.kernels import bins, sort
from index.kernels.scan import Probes
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape, shape_of
from index.matching.distance import Matches, Portion, hamming, nearest
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS, Banding
from index.storage import log
from index.storage.parameters import Parameters
from index.storage.store import Transaction

FINGERPRINTS_MAX = 2**17
"""Stored fingerprints read at once: 16 MiB at 128 bytes each."""


@dataclass(frozen=True, slots=True)
class NearLookup:
    """Lookup of entries near n fingerprints. Its construction computes everything that touches no storage.

    fingerprints  uint64 [n, words]
    hashes        uint64 [n, tables], `Shape.hashes`

    >>> fingerprints = np.array([[0b1011], [0b0001 << 40]], np.uint64)
    >>> len(lookup_of(fingerprints, Parameters(), distance_max=3))
    2
    """

    fingerprints: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    probes: Probes
    distance_max: int
    shape: Shape
    banding: Banding | None

    def __len__(self) -> int:
        return len(self.fingerprints)

    def matches(self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments) -> Iterator[Portion]:
        """All entries within the distance, with MinHash those that share a band: in portions, each pair once a portion."""
        for known, rows, members, numbers in self._candidates(transaction, memtables, segments):
            near = self._verified(known, rows, members, numbers)
            # With hashes as probes each pair comes once.
            yield (
                nearest(near, None) if self.probes.free else near,
                np.bincount(rows, minlength=len(self)),
            )

    def _candidates(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Fingerprints uint64 [k, words], rows and places int64 [m] of the pairs to compare, and the fingerprints' numbers."""
        for memtable in memtables:
            for rows, places in memtable.candidates(self.hashes, self.probes):
                yield memtable.fingerprints, rows, places, memtable.numbers
        for rows, entries in segments.candidates(transaction, self.hashes, self.probes):
            for known, here, members, numbers in stored_fingerprints(transaction, entries, self.fingerprints.shape[1]):
                yield known, rows[here], members, numbers

    def _verified(
        self,
        known: npt.NDArray[np.uint64],
        rows: npt.NDArray[np.int64],
        members: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.uint64],
    ) -> Matches:
        """Pairs of fingerprint rows[i] and known[members[i]], which has numbers[members[i]], within distance_max."""
        if self.banding is None:
            distances = hamming(self.fingerprints[rows], known[members])
        else:
            limits = self.banding.bin_bits, DISTANCE_UNITS, OWN_LIMITS
            # A page of the same template is a candidate too: the judge separates both.
            distances = bins.distances(self.fingerprints, known, rows, members, *limits).min(axis=0)
        near = distances <= self.distance_max
        return Matches(rows[near], distances[near], numbers[members[near]])


def lookup_of(fingerprints: npt.NDArray[np.uint64], parameters: Parameters, distance_max: int) -> NearLookup:
    """Lookup for entries within `distance_max` of fingerprints uint64 [n, words], in an index with these parameters."""
    shape = shape_of(parameters)
    hashes, probes = shape.hashes(fingerprints), shape.probes(distance_max)
    return NearLookup(fingerprints, hashes, probes, distance_max, shape, parameters.banding)


def stored_fingerprints(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
    """Fingerprints for documents, uint64 [n], FINGERPRINTS_MAX at a time; without those that have left the log.

    Yields fingerprints uint64 [k, words], places int64 [m] in `numbers`, each one's place in the fingerprints, and the
    distinct numbers uint64 [k].
    """
    distinct, members = np.unique(numbers, return_inverse=True)
    for start in range(0, len(distinct), FINGERPRINTS_MAX):
        some = distinct[start : start + FINGERPRINTS_MAX]
        stored = log.documents(transaction, some, words)
        here = np.flatnonzero((members >= start) & (members < start + len(some)))
        here = here[stored.there[members[here] - start]]
        yield stored.fingerprints, here, members[here] - start, some


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """First row with an equal fingerprint, for every row: uint64 [n, words] -> int64 [n]."""
    slots = np.full(4 << len(fingerprints).bit_length(), -1, np.int32)
    return sort.first_equals(fingerprints, slots)
