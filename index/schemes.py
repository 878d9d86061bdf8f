"""What depends on how fingerprints are compared: SimHash by bits within a distance, MinHash by similarity over bands.

A scheme files entries under block keys, finds candidates by them, and says how far apart two fingerprints are. All else
- journal, verdicts, policies, documents - does not know which scheme it serves.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from index import documents, signatures
from index.bands import band_keys, signature_distances
from index.blocks import buckets_of
from index.distance import Matches, hamming
from index.layout import pack_band_keys, pack_bucket_keys, pack_bucket_values, pack_numbers
from index.matching import Probes, pairs_within, probes_of
from index.parameters import Parameters
from index.signatures import Banded
from index.store import Transaction


class Search(Protocol):
    """The look-up of n fingerprints: all of it that needs no store is computed when it is made."""

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Matches among the n fingerprints, as `matching.pairs_within` gives them, and the comparisons, int64 [n]."""

    def entries(self, transaction: Transaction, limit: int) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Per fingerprint its `limit` nearest NEAR entries, nearest and earliest first, and the comparisons, int64 [n]."""


@dataclass(frozen=True, slots=True)
class _SimHashSearch:
    probes: Probes
    distance_max: int

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
        return pairs_within(self.probes, self.distance_max, nearest_only=nearest_only)

    def entries(self, transaction: Transaction, limit: int) -> tuple[Matches, npt.NDArray[np.int64]]:
        return documents.nearest_entries(transaction, self.probes, self.distance_max, limit)


@dataclass(frozen=True, slots=True)
class _MinHashSearch:
    wanted: Banded
    parameters: Parameters
    distance_max: int

    def pairs(self, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
        assert self.parameters.banding is not None
        return signatures.similar_pairs(
            self.wanted, self.parameters.banding, self.distance_max, nearest_only=nearest_only
        )

    def entries(self, transaction: Transaction, limit: int) -> tuple[Matches, npt.NDArray[np.int64]]:
        assert self.parameters.banding is not None
        return signatures.similar_entries(transaction, self.wanted, self.parameters.banding, self.distance_max, limit)


def search_for(fingerprints: npt.NDArray[np.uint64], parameters: Parameters, distance_max: int) -> Search:
    """How entries within `distance_max` of fingerprints uint64 [n, words] are found in an index of these parameters."""
    if parameters.banding is None:
        return _SimHashSearch(probes_of(fingerprints, distance_max), distance_max)
    return _MinHashSearch(signatures.banded(fingerprints, parameters.banding), parameters, distance_max)


def filing(
    fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64], parameters: Parameters
) -> tuple[list[bytes], list[bytes]]:
    """The keys and values of the table `buckets` under which NEAR documents stand, in no promised order.

    uint64 [n, words], uint64 [n] -> n * parameters.blocks pairs.
    """
    if parameters.banding is None:
        places = buckets_of(fingerprints, numbers)
        return pack_bucket_keys(places.keys), pack_bucket_values(places)
    keys = band_keys(fingerprints, parameters.banding)
    return pack_band_keys(keys.reshape(-1)), pack_numbers(np.repeat(numbers, parameters.blocks))


def file(
    transaction: Transaction,
    fingerprints: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.uint64],
    parameters: Parameters,
) -> None:
    """Make NEAR documents findable: uint64 [n, words], uint64 [n] ascending, above all filed before."""
    if parameters.banding is None:
        documents.file(transaction, fingerprints, numbers)
    else:
        signatures.file(transaction, fingerprints, numbers, parameters.banding)


def distances(
    left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64], parameters: Parameters
) -> npt.NDArray[np.int16]:
    """How far apart fingerprints are, row by row: uint64 [n, words] twice -> int16 [n]."""
    if parameters.banding is None:
        return hamming(left, right)
    return signature_distances(left, right, parameters.banding.bin_bits)
