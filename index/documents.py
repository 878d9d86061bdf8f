"""What became an entry: the tables `documents`, `buckets` and `exact`."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.blocks import bucket_count, buckets_of
from index.distance import Matches, joined, nearest, no_matches
from index.entry import NO_NUMBER, Entries, Kind, Position, Source
from index.layout import (
    Table,
    bucket_value_bytes,
    pack_bucket_keys,
    pack_bucket_values,
    pack_documents,
    pack_fingerprints,
    pack_numbers,
    unpack_buckets,
    unpack_documents,
    unpack_fingerprints,
    unpack_numbers,
)
from index.matching import CANDIDATES_MAX, Probes, nearest_in
from index.sources import streams_of
from index.store import Transaction


class Document(NamedTuple):
    """What the index remembers of one entry. `root` is its own number, or its original's."""

    number: int
    root: int
    id: str
    position: Position
    time_ms: int
    kind: Kind
    fingerprint: tuple[int, ...]


def read(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> dict[int, Document]:
    """The documents that have these numbers; numbers that were never given are left out."""
    distinct = np.unique(numbers)
    found = transaction.get_many(Table.DOCUMENTS, pack_numbers(distinct))
    own_numbers = unpack_numbers([key for key, _ in found]).tolist()
    columns, ids = unpack_documents([value for _, value in found], words)
    streams = streams_of(transaction, np.unique(columns["stream"]).tolist())
    rows = zip(
        own_numbers,
        ids,
        columns["root"].tolist(),
        columns["stream"].tolist(),
        columns["partition"].tolist(),
        columns["offset"].tolist(),
        columns["time_ms"].tolist(),
        columns["kind"].tolist(),
        columns["fingerprint"].tolist(),
        strict=True,
    )
    return {
        number: Document(
            number,
            root,
            id_,
            Position(Source(streams[stream], partition), offset),
            time_ms,
            Kind(kind),
            tuple(fingerprint),
        )
        for number, id_, root, stream, partition, offset, time_ms, kind, fingerprint in rows
    }


def roots(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.uint64]:
    """The root of each of these documents: uint64 [n] -> uint64 [n]. All must exist."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    found = transaction.get_many(Table.DOCUMENTS, pack_numbers(distinct))
    assert len(found) == len(distinct), "an entry has no document"
    columns, _ = unpack_documents([value for _, value in found], words)
    return columns["root"].astype(np.uint64)[inverse]


def write(
    transaction: Transaction,
    entries: Entries,
    streams: npt.NDArray[np.uint32],
    partitions: npt.NDArray[np.uint32],
    numbers: npt.NDArray[np.uint64],
    originals: npt.NDArray[np.uint64],
) -> None:
    """Note every row of `entries` as an entry, NEAR ones yet to be filed. `numbers` ascend, above all given before.

    streams, partitions  uint32 [n], where each row comes from
    originals            uint64 [n], the root of each row: its own number where it is unique
    """
    columns: dict[str, npt.NDArray[np.generic]] = {
        "root": originals,
        "offset": entries.offsets,
        "time_ms": entries.times_ms,
        "stream": streams,
        "partition": partitions,
        "kind": entries.kinds,
        "fingerprint": entries.fingerprints,
    }
    transaction.append(Table.DOCUMENTS, pack_numbers(numbers), pack_documents(columns, entries.ids))
    exact = entries.kinds == Kind.EXACT
    if exact.any():
        transaction.append(Table.EXACT, pack_fingerprints(entries.fingerprints[exact]), pack_numbers(numbers[exact]))


def file(transaction: Transaction, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
    """File SimHash fingerprints uint64 [n, words] under their blocks; numbers uint64 [n] ascend, above all filed before."""
    filed = buckets_of(fingerprints, numbers)
    transaction.append(Table.BUCKETS, pack_bucket_keys(filed.keys), pack_bucket_values(filed))


def fingerprints(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.uint64]:
    """The fingerprints of these documents: uint64 [n], distinct -> uint64 [n, words]. All must exist."""
    found = transaction.get_many(Table.DOCUMENTS, pack_numbers(numbers))
    assert len(found) == len(numbers), "an entry has no document"
    return unpack_fingerprints([value for _, value in found], words)


def nearest_entries(
    transaction: Transaction, probes: Probes, distance_max: int, limit: int
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Per probed row its `limit` nearest NEAR entries within `distance_max`, and the comparisons made, int64 [n].

    Buckets are read some keys at a time, as many as hold about CANDIDATES_MAX entries when all are equally full.
    """
    words = probes.fingerprints.shape[1]
    entries_per_bucket = 1 + transaction.count(Table.BUCKETS) // bucket_count(words)
    keys_at_once = max(1, CANDIDATES_MAX // entries_per_bucket)
    best, compared = no_matches(), np.zeros(len(probes.fingerprints), np.int64)
    for start in range(0, len(probes.keys), keys_at_once):
        part = probes.part(start, start + keys_at_once)
        rows = transaction.get_all_values(Table.BUCKETS, pack_bucket_keys(part.keys), bucket_value_bytes(words))
        matches, comparisons = nearest_in(part, unpack_buckets(rows, words), distance_max, limit)
        compared += comparisons
        if len(matches):
            best = nearest(joined([best, matches]), limit)
    return best, compared


def exact_numbers(transaction: Transaction, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The earliest EXACT entry with an equal fingerprint: uint64 [n, words] -> uint64 [n], NO_NUMBER where none is."""
    keys = pack_fingerprints(hashes)
    found = dict(transaction.get_many(Table.EXACT, sorted(set(keys))))
    missing = int(NO_NUMBER).to_bytes(8, "big")
    return unpack_numbers([found.get(key, missing) for key in keys])
