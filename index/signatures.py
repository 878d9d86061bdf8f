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

SIGNATURES_MAX = 2**17
"""Signatures of entries read at once: 16 MiB of them at 128 bytes, and 32 MiB to note who meets whom."""

ROWS_MAX = 256
"""Documents looked up at once, fewer where their buckets are full."""

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
    count, words = wanted.signatures.shape
    best, compared = no_matches(), np.zeros(count, np.int64)
    begin, rows_at_once = 0, ROWS_MAX
    while begin < count:
        part = Banded(wanted.signatures[begin : begin + rows_at_once], wanted.keys[begin : begin + rows_at_once])
        keys = np.unique(part.keys)
        found = transaction.get_all_values(Table.BUCKETS, pack_band_keys(keys), NUMBER_BYTES)
        bucket_keys, bucket_numbers = unpack_band_buckets(found)
        numbers, members = np.unique(bucket_numbers, return_inverse=True)
        for start in range(0, len(numbers), SIGNATURES_MAX):
            some = numbers[start : start + SIGNATURES_MAX]
            here = (members >= start) & (members < start + len(some))
            known = documents.fingerprints(transaction, some, words)
            matches, comparisons = _similar_in(
                part, bucket_keys[here], members[here] - start, known, banding, distance_max
            )
            compared[begin : begin + rows_at_once] += comparisons
            if len(matches):
                matches = Matches(matches.rows + begin, matches.distances, some[matches.numbers.astype(np.int64)])
                best = nearest(joined([best, matches]), limit)
        begin += rows_at_once
        rows_at_once = (
            max(1, rows_at_once // 2) if len(found) > BUCKET_BYTES_WISHED else min(2 * rows_at_once, ROWS_MAX)
        )
    return best, compared


def _similar_in(
    part: Banded,
    bucket_keys: npt.NDArray[np.uint64],
    members: npt.NDArray[np.int64],
    known: npt.NDArray[np.uint64],
    banding: Banding,
    distance_max: int,
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Compare signatures with those members of their buckets that are known; `numbers` are rows of `known`.

    bucket_keys  uint64 [p], ascending
    members      int64 [p], the row of `known` that is filed under each key
    known        uint64 [k, words]
    """
    starts = np.searchsorted(bucket_keys, part.keys.reshape(-1), side="left")
    sizes = np.searchsorted(bucket_keys, part.keys.reshape(-1), side="right") - starts
    # A pair may share many bands, and sorting the repetitions out would cost more than comparing does.
    meets = np.zeros((len(part.keys), len(known)), np.bool_)
    for wanting, candidates in _listed(starts, sizes):
        meets[wanting // part.keys.shape[1], members[candidates]] = True
    rows, others = np.nonzero(meets)
    found = [no_matches(), *_verified(part.signatures, known, rows, others, banding, distance_max)]
    return joined(found), np.bincount(rows, minlength=len(part.keys))


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
    sizes = np.searchsorted(sorted_keys, wanted.keys.reshape(-1), side="right") - starts
    meets = np.zeros((count, count), np.bool_)
    for wanting, candidates in _listed(starts, sizes):
        meets[wanting // wanted.keys.shape[1], sorted_rows[candidates]] = True
    rows, earlier = np.nonzero(np.tril(meets, -1))
    found = [no_matches(), *_verified(wanted.signatures, wanted.signatures, rows, earlier, banding, distance_max)]
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
    left: npt.NDArray[np.uint64],
    right: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
    banding: Banding,
    distance_max: int,
) -> Iterator[Matches]:
    """Of the pairs left[rows[i]], right[others[i]] those within distance_max; `numbers` are rows of `right`."""
    for start in range(0, len(rows), COMPARED_MAX):
        of_left, of_right = rows[start : start + COMPARED_MAX], others[start : start + COMPARED_MAX]
        distances = signature_distances(left[of_left], right[of_right], banding.bin_bits)
        near = distances <= distance_max
        yield Matches(of_left[near], distances[near], of_right[near].astype(np.uint64))
