"""Lookup of MinHash signatures: an entry that shares a band is a candidate, and every candidate is verified.

Candidates stream in portions. Segments hold only entry numbers; the log holds the signatures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.kernels import minhash
from index.lsm.hashes.segments import HashSegments
from index.lsm.memtable import Memtable
from index.lsm.simhash_lookup import first_of_equals
from index.matching.distance import Matches, joined, nearest, no_matches
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS, Banding
from index.storage import log
from index.storage.store import Transaction

SIGNATURES_MAX = 2**17
"""Stored signatures read at once: 16 MiB at 128 bytes each."""

COMPARED_MAX = 2**16
"""Signature pairs compared at once: 128 bytes for each side, and as much again for intermediate results."""


@dataclass(frozen=True, slots=True)
class MinhashLookup:
    """Precomputed part of a lookup for n signatures; touches no storage.

    signatures  uint64 [n, words]
    hashes      uint64 [n, bands], `MinhashShape.hashes`
    """

    signatures: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    distance_max: int
    banding: Banding

    def __len__(self) -> int:
        return len(self.signatures)

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Matches among the signatures that share a band, as in `SimhashLookup.pairs`."""
        count = len(self)
        leading = first_of_equals(self.signatures) == np.arange(count)
        rows, earlier = minhash.sharing(self.hashes, leading)
        found = joined([no_matches(), *self._verified(self.signatures, rows, earlier)])
        return nearest(found, 1 if nearest_only else None), np.bincount(rows, minlength=count)

    def nearest(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: HashSegments
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        """As `SimhashLookup.nearest`, but only among entries that share a band."""
        best, compared = no_matches(), np.zeros(len(self), np.int64)
        for found, comparisons in self._portions(transaction, memtables, segments, 1):
            best = nearest(joined([best, found]), 1)
            compared += comparisons
        return best, compared

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: HashSegments
    ) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
        """As `SimhashLookup.matches`, but only entries that share a band."""
        return self._portions(transaction, memtables, segments, None)

    def _portions(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: HashSegments, limit: int | None
    ) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
        """Per row the `limit` nearest entries in each portion, as in `distance.nearest`."""
        for memtable in memtables:
            for rows, places in memtable.candidates(self.hashes):
                found = joined([no_matches(), *self._verified(memtable.fingerprints, rows, places)])
                numbers = memtable.numbers[found.numbers.astype(np.int64)]
                yield self._portion(Matches(found.rows, found.distances, numbers), rows, limit)
        for rows, of_rows in segments.candidates(transaction, self.hashes):
            for known, here, members, some in stored_signatures(transaction, of_rows, self.signatures.shape[1]):
                found = joined([no_matches(), *self._verified(known, rows[here], members)])
                numbers = some[found.numbers.astype(np.int64)]
                yield self._portion(Matches(found.rows, found.distances, numbers), rows[here], limit)

    def _portion(
        self, found: Matches, compared_rows: npt.NDArray[np.int64], limit: int | None
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        return nearest(found, limit), np.bincount(compared_rows, minlength=len(self))

    def _verified(
        self, known: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
    ) -> Iterator[Matches]:
        """Signature pairs rows[i] and known[others[i]] within distance_max; `numbers` holds values of `others`."""
        for start in range(0, len(rows), COMPARED_MAX):
            of_rows, of_known = rows[start : start + COMPARED_MAX], others[start : start + COMPARED_MAX]
            distances = minhash.least_distances(
                self.signatures, known, of_rows, of_known, self.banding.bin_bits, DISTANCE_UNITS, OWN_LIMITS
            )
            near = distances <= self.distance_max
            yield Matches(of_rows[near], distances[near], of_known[near].astype(np.uint64))


def stored_signatures(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
    """Signatures of documents, uint64 [n], SIGNATURES_MAX at a time; without those that have left the log.

    Yields signatures uint64 [k, words], places int64 [m] in `numbers`, the place of each in the signatures, and the distinct
    numbers uint64 [k].
    """
    distinct, members = np.unique(numbers, return_inverse=True)
    for start in range(0, len(distinct), SIGNATURES_MAX):
        some = distinct[start : start + SIGNATURES_MAX]
        known, there = log.fingerprints(transaction, some, words)
        here = np.flatnonzero((members >= start) & (members < start + len(some)))
        here = here[there[members[here] - start]]
        yield known, here, members[here] - start, some
