"""Finding similar MinHash signatures: whoever shares a band is a candidate, and every candidate is verified.

A bucket of the table `buckets` holds the numbers of the documents with one block key; their signatures stand in
`documents` and are fetched for candidates only. Candidates are read, compared and forgotten some at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import documents
from index.bands import Banding, band_keys, signature_distances
from index.distance import Matches, joined, nearest, no_matches
from index.layout import NUMBER_BYTES, Table, pack_band_keys, pack_numbers, unpack_band_buckets
from index.matching import first_of_equals
from index.store import Transaction

CANDIDATES_MAX = 2**20
"""Candidates listed at once: bounds a slice's arrays to about 50 MiB, however full the buckets are."""

COMPARED_MAX = 2**16
"""Signatures compared at once: 128 bytes each on both sides, and as much again for what is computed of them."""

BUCKET_BYTES_WISHED = 2**24
"""Bytes of buckets read at once, by the experience of the read before."""


@dataclass(frozen=True, slots=True)
class Banded:
    """n signatures and their block keys.

    signatures  uint64 [n, words]
    keys        uint64 [n, bands]
    """

    signatures: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]


def banded(signatures: npt.NDArray[np.uint64], banding: Banding) -> Banded:
    """Signatures uint64 [n, words] with their block keys."""
    return Banded(signatures, band_keys(signatures, banding))


def file(
    transaction: Transaction, signatures: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64], banding: Banding
) -> None:
    """File documents under their block keys: uint64 [n, words], uint64 [n] ascending, above all filed before."""
    keys = band_keys(signatures, banding)
    order = np.argsort(keys.reshape(-1), kind="stable")
    transaction.append(
        Table.BUCKETS, pack_band_keys(keys.reshape(-1)[order]), pack_numbers(numbers[order // banding.bands])
    )


def similar_entries(
    transaction: Transaction, wanted: Banded, banding: Banding, distance_max: int, limit: int
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Per signature the `limit` nearest entries that share a band and lie within distance_max, as `distance.nearest`
    gives them, and the comparisons made, int64 [n].
    """
    count = len(wanted.signatures)
    best, compared = no_matches(), np.zeros(count, np.int64)
    begin, rows_at_once = 0, 256
    while begin < count:
        end = min(begin + rows_at_once, count)
        keys, places = np.unique(wanted.keys[begin:end], return_inverse=True)
        found = transaction.get_all_values(Table.BUCKETS, pack_band_keys(keys), NUMBER_BYTES)
        bucket_keys, numbers = unpack_band_buckets(found)
        starts = np.searchsorted(bucket_keys, keys, side="left")
        sizes = np.searchsorted(bucket_keys, keys, side="right") - starts
        starts, sizes = starts[places.reshape(-1)], sizes[places.reshape(-1)]
        for wanting, candidates in _listed(starts, sizes):
            # A pair that shares several bands is compared once a slice; all bands of a row stand side by side.
            distinct, which = np.unique(numbers[candidates], return_inverse=True)
            pairs = np.unique((begin + wanting // wanted.keys.shape[1]) * len(distinct) + which)
            rows, which = np.divmod(pairs, len(distinct))
            compared += np.bincount(rows, minlength=count)
            matches = _verified(transaction, wanted, rows, distinct[which], banding, distance_max)
            if len(matches):
                best = nearest(joined([best, matches]), limit)
        begin = end
        rows_at_once = max(1, rows_at_once // 2) if len(found) > BUCKET_BYTES_WISHED else min(2 * rows_at_once, 256)
    return best, compared


def similar_pairs(
    wanted: Banded, banding: Banding, distance_max: int, *, nearest_only: bool
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Matches among the signatures themselves: `numbers` are rows, each below the row it was found for.

    Ordered by row, distance, number. Of equal signatures only the first is found, as by `matching.pairs_within`. With
    `nearest_only` one match a row. Also int64 [n]: the comparisons made for each row. Memory: n * n bytes.
    """
    count = len(wanted.signatures)
    leaders = np.flatnonzero(first_of_equals(wanted.signatures) == np.arange(count))
    leader_keys = wanted.keys[leaders].reshape(-1)
    order = np.argsort(leader_keys, kind="stable")
    sorted_keys, sorted_rows = leader_keys[order], leaders[order // max(1, wanted.keys.shape[1])]
    starts = np.searchsorted(sorted_keys, wanted.keys.reshape(-1), side="left")
    # Within a bucket the rows ascend: only those before the row itself are candidates.
    sizes = np.searchsorted(sorted_keys, wanted.keys.reshape(-1), side="right") - starts
    meets = np.zeros((count, count), np.bool_)
    for wanting, candidates in _listed(starts, sizes):
        meets[wanting // wanted.keys.shape[1], sorted_rows[candidates]] = True
    rows, earlier = np.nonzero(np.tril(meets, -1))
    found = [no_matches()]
    for start in range(0, len(rows), COMPARED_MAX):
        here = slice(start, start + COMPARED_MAX)
        distances = signature_distances(
            wanted.signatures[rows[here]], wanted.signatures[earlier[here]], banding.bin_bits
        )
        near = distances <= distance_max
        found.append(Matches(rows[here][near], distances[near], earlier[here][near].astype(np.uint64)))
    return nearest(joined(found), 1 if nearest_only else None), np.bincount(rows, minlength=count)


def _listed(
    starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Write out the ranges starts[i] ... starts[i] + sizes[i] - 1: (i, place) columns, CANDIDATES_MAX at most at a time."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, CANDIDATES_MAX):
        places = np.arange(start, min(start + CANDIDATES_MAX, total))
        first, last = np.searchsorted(ends, places[[0, -1]], side="right").tolist()
        edges = np.clip(np.append(ends[first:last], places[-1] + 1), start, None)
        owners = np.repeat(np.arange(first, last + 1), np.diff(edges, prepend=start))
        yield owners, places - (ends[owners] - sizes[owners]) + starts[owners]


def _verified(
    transaction: Transaction,
    wanted: Banded,
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint64],
    banding: Banding,
    distance_max: int,
) -> Matches:
    """Of the candidate pairs those within distance_max."""
    found = [no_matches()]
    for start in range(0, len(rows), COMPARED_MAX):
        of_rows, of_numbers = rows[start : start + COMPARED_MAX], numbers[start : start + COMPARED_MAX]
        distinct, inverse = np.unique(of_numbers, return_inverse=True)
        known = documents.fingerprints(transaction, distinct, wanted.signatures.shape[1])
        distances = signature_distances(wanted.signatures[of_rows], known[inverse], banding.bin_bits)
        near = distances <= distance_max
        found.append(Matches(of_rows[near], distances[near], of_numbers[near]))
    return joined(found)
