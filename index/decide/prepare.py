"""Preparation of a batch: check its columns, and compute all that needs no storage."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import Entries, Kind
from index.lsm.lookup import NearLookup, first_of_equals, lookup_of
from index.matching.distance import Matches, joined, nearest, no_matches
from index.matching.frame import without_frames
from index.matching.host_sketch import host_keys
from index.storage import log
from index.storage.parameters import Parameters

ROWS_AT_ONCE = 2_048
"""Rows decided at once: at most 2 million pairs among them, however alike they are."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Consecutive undecided rows in a batch. Row numbers below are places among these rows.

    rows      int64 [n], rows of the batch
    near      int64 [m], NEAR rows
    lookup    of the NEAR rows; its row i is near[i]
    pairs     matches among these rows, as `NearLookup.pairs`; with a second look only those that count; with frames none,
              as the rule meets them by `hashes`
    compared  int64 [n], comparisons for the pairs
    exact     int64 [e], EXACT rows
    firsts    int64 [n], first row of the same kind with an equal fingerprint
    hosts     uint64 [n], `host_keys`
    hashes    uint64 [n, tables], NEAR rows' `Shape.hashes`
    alone     decide each row as if it came alone

    >>> from index import Source
    >>> words, zero = np.array([[5], [9], [5]], np.uint64), np.zeros(3, np.uint64)
    >>> columns = (Source("topic", 0),), zero.astype(np.uint32), np.arange(3, dtype=np.uint64), *np.zeros((2, 3), np.uint8), words
    >>> [portion] = prepared(Entries(*columns, np.zeros(3, np.int64), ["a", "b", "c"]), np.arange(3), Parameters())
    >>> portion.firsts
    array([0, 1, 0])
    """

    rows: npt.NDArray[np.int64]
    entries: Entries
    near: npt.NDArray[np.int64]
    lookup: NearLookup
    pairs: Matches
    compared: npt.NDArray[np.int64]
    exact: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    hosts: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    alone: bool = False


def require_sound(entries: Entries, parameters: Parameters, *, stored: bool = False) -> None:
    """Raise ValueError unless the columns fulfil the contract of `Entries`; stored: with frames."""
    count, words = len(entries), parameters.stored_words if stored else parameters.words
    columns = (entries.source_numbers, entries.kinds, entries.reasons, entries.times_ms, entries.ids, entries.hosts)
    if any(column is not None and len(column) != count for column in columns):
        raise ValueError("the columns of a batch differ in length")
    for name, values, dtype, *shape in (
        ("fingerprints", entries.fingerprints, np.uint64, count, words),
        ("looks", entries.look_rows, np.uint8, count, parameters.look_bytes),
        ("digests", entries.digests, np.uint64, count, 2),
        ("lengths", entries.lengths, np.uint32, count),
    ):
        if values is not None and (list(values.shape) != shape or values.dtype != dtype):
            raise ValueError(f"{name} must be {np.dtype(dtype)} {shape}")
    if count and int(entries.source_numbers.max()) >= len(entries.sources):
        raise ValueError("a row names a source that the batch does not list")
    if len(set(entries.sources)) != len(entries.sources):
        raise ValueError("the batch lists a source twice")
    order = np.argsort(entries.source_numbers, kind="stable")
    numbers, offsets = entries.source_numbers[order], entries.offsets[order]
    # By source, sources [0, 1, 0] with offsets [4, 7, 4] are 0: [4, 4], 1: [7]: unsound.
    if np.any((numbers[1:] == numbers[:-1]) & (offsets[1:] <= offsets[:-1])):
        raise ValueError("offsets must strictly increase within a source")


def stored_form(entries: Entries, parameters: Parameters) -> Entries:
    """Add digests, and fingerprints as stored, without frames. Raises ValueError for an unsound batch."""
    require_sound(entries, parameters)
    if entries.digests is None:
        entries = replace(entries, digests=_digests_of_fingerprints(entries))
    if entries.host_digests is None:
        entries = replace(entries, host_digests=log.host_digests(entries))
    if parameters.stored_words == parameters.words:
        return entries
    return replace(entries, fingerprints=without_frames(entries.fingerprints, parameters.stored_words))


def _digests_of_fingerprints(entries: Entries) -> npt.NDArray[np.uint64]:
    """Digests from fingerprints and looks alone, uint64 [n, 2]."""
    looks = np.where((entries.kinds == Kind.NEAR)[:, None], entries.look_rows, np.uint8(0))
    octets = np.hstack([entries.kinds[:, None], np.ascontiguousarray(entries.fingerprints).view(np.uint8), looks])
    digests = [xxhash.xxh3_64_intdigest(row) for row in octets]
    # Without a text its substance is unknown: both digests are equal.
    return np.repeat(np.array(digests, np.uint64)[:, None], 2, axis=1)


def prepared_batch(entries: Entries, parameters: Parameters) -> tuple[Entries, list[Prepared]]:
    """A batch in `stored_form`, and its rows as `prepared`. Raises ValueError for an unsound batch."""
    stored = stored_form(entries, parameters)
    return stored, prepared(stored, np.arange(len(stored)), parameters)


def prepared(
    entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters, *, alone: bool = False, pairs: bool = False
) -> list[Prepared]:
    """Prepare rows of a sound batch, ROWS_AT_ONCE at a time; decide the results in order.

    alone  decide each row as if it came alone: no row matches another in the batch
    pairs  also match rows with each other if frames are learnt
    """
    return [
        _prepared(_of_rows(entries, some), some, parameters, alone=alone, pairs=pairs)
        for some in (rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE))
    ]


def _of_rows(entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    return entries if np.array_equal(rows, np.arange(len(entries))) else entries.take(rows)


def _prepared(
    entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters, *, alone: bool, pairs: bool
) -> Prepared:
    near = np.flatnonzero(entries.kinds == Kind.NEAR)
    exact = np.flatnonzero(entries.kinds == Kind.EXACT)
    look, looks = parameters.look, entries.look_rows[near]
    lookup = lookup_of(entries.fingerprints[near], parameters, parameters.distance_max, None if look is None else looks)
    matches, compared = no_matches(), np.zeros(len(rows), np.int64)
    # With frames the rule itself meets pairs, by their band hashes.
    if not alone and (parameters.frames is None or pairs):
        matches, compared[near] = _pairs(lookup, looks, parameters)
        # Pairs name places among the NEAR rows: with near [0, 3, 4], the pair (2, 1) means rows (4, 3).
        earlier = near[matches.numbers.astype(np.int64)].astype(np.uint64)
        matches = Matches(near[matches.rows], matches.distances, earlier)
    firsts = np.arange(len(rows))
    if not alone:
        for of_kind in (near, exact):
            firsts[of_kind] = of_kind[first_of_equals(entries.fingerprints[of_kind])]
        # EXACT fingerprints [a, b, a]: firsts is [0, 1, 0], so row 2 matches row 0.
        repeats = exact[firsts[exact] < exact]
        equals = Matches(repeats, np.zeros(len(repeats), np.int16), firsts[repeats].astype(np.uint64))
        matches = joined([matches, equals])
    hosts, hashes = host_keys(entries.hosts or [None] * len(entries)), _spread(lookup.hashes, near, len(rows))
    return Prepared(rows, entries, near, lookup, matches, compared, exact, firsts, hosts, hashes, alone)


def _pairs(
    lookup: NearLookup, looks: npt.NDArray[np.uint8], parameters: Parameters
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Matches among the NEAR rows that count, and the comparisons, int64 [m]."""
    look = parameters.look
    if look is None:
        return lookup.pairs(nearest_only=parameters.insert == "all")
    pairs, compared = lookup.pairs(nearest_only=False)
    by_look, counts = look.judge(pairs.distances, looks[pairs.rows], looks[pairs.numbers.astype(np.int64)])
    return nearest(Matches(pairs.rows, by_look, pairs.numbers).take(counts), None), compared


def _spread(of_near: npt.NDArray[np.uint64], near: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.uint64]:
    """Spread NEAR rows' values, uint64 [m, ..], over all `count` rows."""
    if len(near) == count:
        return of_near
    wide = np.zeros((count, *of_near.shape[1:]), np.uint64)
    wide[near] = of_near
    return wide
