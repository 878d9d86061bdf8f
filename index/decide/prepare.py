"""Preparation of a batch: check its columns, and compute all that needs no storage."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import Entries, Kind
from index.lsm.lookup import NearLookup, first_of_equals, lookup_of
from index.matching.frame import without_frames
from index.matching.host_sketch import NO_HOST, host_keys
from index.matching.minhash import mixed
from index.storage import log
from index.storage.parameters import Parameters

ROWS_AT_ONCE = 4_096
"""Rows decided at once: a chunk. Each takes time for its calls, so a whole batch of usual size is one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A chunk: consecutive undecided rows in a batch. Row numbers below are places among these rows.

    rows      int64 [n], rows of the batch
    near      int64 [m], NEAR rows
    lookup    of the NEAR rows; its row i is near[i]
    exact     int64 [e], EXACT rows
    firsts    int64 [n], first row of the same kind with an equal fingerprint; without hosts each row itself: only the
              guard asks
    hosts     uint64 [n], `host_keys`
    hashes    uint64 [n, tables], `Shape.hashes`; an EXACT row has a hash of its fingerprint in every table
    is_check  decide each row as if it came alone

    >>> from index import Source
    >>> words, zero = np.array([[5], [9], [5]], np.uint64), np.zeros(3, np.uint64)
    >>> columns = (Source("topic", 0),), zero.astype(np.uint32), np.arange(3, dtype=np.uint64), *np.zeros((2, 3), np.uint8), words
    >>> [chunk] = prepared(Entries(*columns, np.zeros(3, np.int64), ["a", "b", "c"], hosts=["h"] * 3), np.arange(3), Parameters())
    >>> chunk.firsts
    array([0, 1, 0])
    """

    rows: npt.NDArray[np.int64]
    entries: Entries
    near: npt.NDArray[np.int64]
    lookup: NearLookup
    exact: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    hosts: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    is_check: bool = False


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
    numbers, offsets = entries.source_numbers, entries.offsets
    if len(entries.sources) > 1:
        order = np.argsort(numbers, kind="stable")
        numbers, offsets = numbers[order], offsets[order]
    # By source, sources [0, 1, 0] with offsets [4, 7, 4] are 0: [4, 4], 1: [7]: unsound.
    if np.any((numbers[1:] == numbers[:-1]) & (offsets[1:] <= offsets[:-1])):
        raise ValueError("offsets must strictly increase within a source")


def stored_form(entries: Entries, parameters: Parameters) -> Entries:
    """Add digests, and fingerprints as stored, without frames. Raises ValueError for an unsound batch."""
    require_sound(entries, parameters)
    if entries.digests is None:
        entries = replace(entries, digests=digests_of(entries))
    if entries.host_digests is None:
        entries = replace(entries, host_digests=log.host_digests(entries))
    if parameters.stored_words == parameters.words:
        return entries
    return replace(entries, fingerprints=without_frames(entries.fingerprints, parameters.stored_words))


def digests_of(entries: Entries) -> npt.NDArray[np.uint64]:
    """A sound batch's digests, uint64 [n, 2]; without any, from fingerprints and looks alone."""
    if entries.digests is not None:
        return entries.digests
    looks = np.where((entries.kinds == Kind.NEAR)[:, None], entries.look_rows, np.uint8(0))
    octets = np.hstack([entries.kinds[:, None], np.ascontiguousarray(entries.fingerprints).view(np.uint8), looks])
    digests = [xxhash.xxh3_64_intdigest(row) for row in octets]
    # Without a text its substance is unknown: both digests are equal.
    return np.repeat(np.array(digests, np.uint64)[:, None], 2, axis=1)


def prepared_batch(entries: Entries, parameters: Parameters) -> tuple[Entries, list[Prepared]]:
    """A batch in `stored_form`, and its rows as `prepared`. Raises ValueError for an unsound batch."""
    entries = stored_form(entries, parameters)
    return entries, prepared(entries, np.arange(len(entries)), parameters)


def prepared(
    entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters, *, is_check: bool = False
) -> list[Prepared]:
    """Prepare rows of a sound batch, ROWS_AT_ONCE at a time; decide the results in order.

    is_check  decide each row as if it came alone: no row matches another in the batch
    """
    return [
        _prepared(_chunk_of(entries, some), some, parameters, is_check=is_check)
        for some in (rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE))
    ]


def prepared_whole(entries: Entries, parameters: Parameters) -> Prepared:
    """Prepare all rows of a sound batch as one chunk."""
    return _prepared(entries, np.arange(len(entries)), parameters, is_check=False)


def _chunk_of(entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    return entries if np.array_equal(rows, np.arange(len(entries))) else entries.take(rows)


def _prepared(entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters, *, is_check: bool) -> Prepared:
    near = np.flatnonzero(entries.kinds == Kind.NEAR)
    exact = np.flatnonzero(entries.kinds == Kind.EXACT)
    lookup = lookup_of(entries.fingerprints[near], parameters, parameters.distance_max)
    hashes = _hashes(lookup.hashes, near, entries.fingerprints, exact)
    hosts = host_keys(entries.hosts or [None] * len(entries))
    firsts = np.arange(len(rows))
    for rows_of_kind in (near, exact) if not is_check and (hosts != NO_HOST).any() else ():
        firsts[rows_of_kind] = rows_of_kind[first_of_equals(entries.fingerprints[rows_of_kind])]
    return Prepared(rows, entries, near, lookup, exact, firsts, hosts, hashes, is_check)


def _hashes(
    near_hashes: npt.NDArray[np.uint64],
    near: npt.NDArray[np.int64],
    fingerprints: npt.NDArray[np.uint64],
    exact: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """`Prepared.hashes` of all rows, from those of the NEAR rows, uint64 [m, tables]."""
    if len(near) == len(fingerprints):
        return near_hashes
    hashes = np.zeros((len(fingerprints), near_hashes.shape[1]), np.uint64)
    hashes[near] = near_hashes
    exact_hashes = np.zeros(len(exact), np.uint64)
    for word in fingerprints[exact].T:
        exact_hashes = mixed(exact_hashes ^ word)
    hashes[exact] = exact_hashes[:, None]
    return hashes
