"""MinHash lookups: an entry that shares a band is a candidate, and every candidate is verified.

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
from index.matching.distance import Matches, Portion, nearest
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS, Banding
from index.storage import log
from index.storage.store import Transaction

SIGNATURES_MAX = 2**17
"""Stored signatures read at once: 16 MiB at 128 bytes each."""


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

    def pairs(self, *, nearest_only: bool) -> Portion:
        """As `tree.Lookup`, among signatures that share a band."""
        count = len(self)
        leading = first_of_equals(self.signatures) == np.arange(count)
        rows, earlier = minhash.sharing(minhash.bands_of(self.hashes, np.ones(count, np.bool_)), leading)
        matches = self._verified(self.signatures, rows, earlier, np.arange(count, dtype=np.uint64))
        return nearest(matches, 1 if nearest_only else None), np.bincount(rows, minlength=count)

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: HashSegments, limit: int | None
    ) -> Iterator[Portion]:
        """As `tree.Lookup`, but only entries that share a band."""
        for known, rows, members, numbers in self._candidates(transaction, memtables, segments):
            near = self._verified(known, rows, members, numbers)
            yield nearest(near, limit), np.bincount(rows, minlength=len(self))

    def _candidates(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: HashSegments
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Signatures uint64 [k, words], rows and places int64 [m] of the pairs to compare, and the signatures' numbers."""
        for memtable in memtables:
            for rows, places in memtable.candidates(self.hashes):
                yield memtable.fingerprints, rows, places, memtable.numbers
        for rows, of_rows in segments.candidates(transaction, self.hashes):
            for known, here, members, numbers in stored_signatures(transaction, of_rows, self.signatures.shape[1]):
                yield known, rows[here], members, numbers

    def _verified(
        self,
        known: npt.NDArray[np.uint64],
        rows: npt.NDArray[np.int64],
        members: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.uint64],
    ) -> Matches:
        """Pairs of signature rows[i] and known[members[i]], which has numbers[members[i]], within distance_max."""
        distances = minhash.least_distances(
            self.signatures, known, rows, members, self.banding.bin_bits, DISTANCE_UNITS, OWN_LIMITS
        )
        near = distances <= self.distance_max
        return Matches(rows[near], distances[near], numbers[members[near]])


def stored_signatures(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
    """Signatures for documents, uint64 [n], SIGNATURES_MAX at a time; without those that have left the log.

    Yields signatures uint64 [k, words], places int64 [m] in `numbers`, each one's place in the signatures, and the
    distinct numbers uint64 [k].
    """
    distinct, members = np.unique(numbers, return_inverse=True)
    for start in range(0, len(distinct), SIGNATURES_MAX):
        some = distinct[start : start + SIGNATURES_MAX]
        known, there = log.fingerprints(transaction, some, words)
        here = np.flatnonzero((members >= start) & (members < start + len(some)))
        here = here[there[members[here] - start]]
        yield known, here, members[here] - start, some
