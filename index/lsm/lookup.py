"""Lookups of entries near fingerprints: what shares a hash with one is a candidate, and every candidate is compared.

Candidates stream in portions. Segments hold only entry numbers; the log holds the fingerprints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from index.kernels import minhash, sort
from index.kernels.bands import bands_of
from index.kernels.scan import Probes
from index.lsm.memtable import Memtable
from index.lsm.segments import Segments
from index.lsm.shape import Shape, shape_of
from index.matching.distance import Matches, Portion, hamming, joined, nearest, no_matches
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS, Banding
from index.storage import log
from index.storage.parameters import Parameters
from index.storage.store import Transaction

FINGERPRINTS_MAX = 2**17
"""Stored fingerprints read at once: 16 MiB at 128 bytes each."""


class Lookup(Protocol):
    """Lookup for n fingerprints. Its construction computes everything that touches no storage."""

    def __len__(self) -> int: ...

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments, limit: int | None
    ) -> Iterator[Portion]:
        """All entries within the distance, in portions, each pair once a portion; at most `limit` a row."""


@dataclass(frozen=True, slots=True)
class NearLookup:
    """Lookup of near entries.

    fingerprints  uint64 [n, words]
    hashes        uint64 [n, tables], `Shape.hashes`
    looks         uint8 [n, look bytes], for the second look, which decides which matches count; None: all count

    >>> fingerprints = np.array([[0b1011], [0b1001], [0b0001 << 40]], np.uint64)
    >>> matches, _ = lookup_of(fingerprints, Parameters(), distance_max=3).pairs(nearest_only=True)
    >>> matches.rows, matches.numbers, matches.distances
    (array([1, 2]), array([0, 1], dtype=uint64), array([1, 3], dtype=int16))
    """

    fingerprints: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    probes: Probes
    distance_max: int
    shape: Shape
    banding: Banding | None
    looks: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.fingerprints)

    def pairs(self, *, nearest_only: bool) -> Portion:
        """Matches among the n fingerprints; `numbers` are rows, each below its matching row. One a row if `nearest_only`.

        Ordered by row, distance, number. Equal fingerprints with equal looks have equal matches, so only the first is a
        match.
        """
        count, limit = len(self), 1 if nearest_only else None
        alike = self.fingerprints if self.looks is None else with_looks(self.fingerprints, self.looks)
        parts, compared = [no_matches()], np.zeros(count, np.int64)
        for rows, earlier in self._sharing(first_of_equals(alike) == np.arange(count)):
            compared += np.bincount(rows, minlength=count)
            parts.append(
                nearest(self._verified(self.fingerprints, rows, earlier, np.arange(count, dtype=np.uint64)), limit)
            )
        return joined(parts), compared

    def _sharing(self, leading: npt.NDArray[np.bool_]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Pairs to compare: rows and earlier leading rows, bool [n], in portions: int64 [m] each."""
        if not self.probes.free:
            yield minhash.sharing(bands_of(self.hashes, np.ones(len(self), np.bool_)), leading)
            return
        leaders, memtable = np.flatnonzero(leading), Memtable(self.shape)
        memtable.add(self.fingerprints[leaders], leaders.astype(np.uint64), self.hashes[leaders])
        for rows, places in memtable.candidates(self.hashes, self.probes):
            before = leaders[places] < rows
            yield rows[before], leaders[places[before]]

    def matches(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments, limit: int | None
    ) -> Iterator[Portion]:
        """As `Lookup`, but with MinHash only entries that share a band."""
        for known, rows, members, numbers in self._candidates(transaction, memtables, segments):
            near = self._verified(known, rows, members, numbers)
            yield nearest(near, limit), np.bincount(rows, minlength=len(self))

    def _candidates(
        self, transaction: Transaction, memtables: Sequence[Memtable], segments: Segments
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Fingerprints uint64 [k, words], rows and places int64 [m] of the pairs to compare, and the fingerprints' numbers."""
        for memtable in memtables:
            for rows, places in memtable.candidates(self.hashes, self.probes):
                yield memtable.fingerprints, rows, places, memtable.numbers
        for rows, of_rows in segments.candidates(transaction, self.hashes, self.probes):
            for known, here, members, numbers in stored_fingerprints(transaction, of_rows, self.fingerprints.shape[1]):
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
            distances = minhash.least_distances(self.fingerprints, known, rows, members, *limits)
        near = distances <= self.distance_max
        return Matches(rows[near], distances[near], numbers[members[near]])


def lookup_of(
    fingerprints: npt.NDArray[np.uint64],
    parameters: Parameters,
    distance_max: int,
    looks: npt.NDArray[np.uint8] | None = None,
) -> NearLookup:
    """Lookup for entries within `distance_max` of fingerprints uint64 [n, words], in an index with these parameters.

    looks  uint8 [n, look bytes], if a second look decides which entries count
    """
    shape = shape_of(parameters)
    hashes, probes = shape.hashes(fingerprints), shape.probes(distance_max)
    return NearLookup(fingerprints, hashes, probes, distance_max, shape, parameters.banding, looks)


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


def with_looks(fingerprints: npt.NDArray[np.uint64], looks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Fingerprints, uint64 [n, words], each followed by its look, uint8 [n, look bytes], in whole words."""
    padded = np.zeros((len(looks), -(-looks.shape[1] // 8) * 8), np.uint8)
    padded[:, : looks.shape[1]] = looks
    return np.hstack([fingerprints, padded.view(np.uint64)])


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """First row with an equal fingerprint, for every row: uint64 [n, words] -> int64 [n]."""
    slots = np.full(4 << len(fingerprints).bit_length(), -1, np.int32)
    return sort.first_equals(fingerprints, slots)
