"""What became an entry: documents by their number, and the entries that are filed by their whole fingerprint."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import log
from index.distance import Matches, joined, nearest
from index.entry import NO_NUMBER, Kind, Position, Source
from index.layout import Table, pack_fingerprints, pack_numbers, unpack_numbers
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
    documents: dict[int, Document] = {}
    streams: dict[int, str] = {}
    for batch, places, own_numbers in log.holding(transaction, np.unique(numbers), words):
        rows = batch.rows[places]
        sources = batch.sources[rows["source"]]
        stream_numbers = sources["stream"].tolist()
        unknown = set(stream_numbers) - streams.keys()
        if unknown:
            streams |= streams_of(transaction, unknown)
        columns = zip(
            own_numbers.tolist(),
            rows["number"].tolist(),
            batch.ids(places),
            stream_numbers,
            sources["partition"].tolist(),
            rows["offset"].tolist(),
            rows["time_ms"].tolist(),
            rows["kind"].tolist(),
            rows["fingerprint"].tolist(),
            strict=True,
        )
        for number, root, id_, stream, partition, offset, time_ms, kind, fingerprint in columns:
            position = Position(Source(streams[stream], partition), offset)
            documents[number] = Document(number, root, id_, position, time_ms, Kind(kind), tuple(fingerprint))
    return documents


def roots(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.uint64]:
    """The root of each of these documents: uint64 [n] -> uint64 [n]. All must exist."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    found = [batch.rows["number"][places] for batch, places, _ in log.holding(transaction, distinct, words)]
    of_distinct = np.concatenate([np.empty(0, np.uint64), *found])
    assert len(of_distinct) == len(distinct), "an entry has no document"
    return of_distinct[inverse]


def file_aside(
    transaction: Transaction, table: Table, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]
) -> None:
    """File entries, uint64 [n, words] and uint64 [n], by their whole fingerprint: EXACT or REPEATS."""
    if len(numbers):
        transaction.add(table, pack_fingerprints(fingerprints), pack_numbers(numbers))


def exact_numbers(transaction: Transaction, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The earliest EXACT entry with an equal fingerprint: uint64 [n, words] -> uint64 [n], NO_NUMBER where none is."""
    keys = pack_fingerprints(fingerprints)
    found = dict(transaction.get_many(Table.EXACT, sorted(set(keys))))
    missing = int(NO_NUMBER).to_bytes(8, "big")
    return unpack_numbers([found.get(key, missing) for key in keys])


def with_repeats(transaction: Transaction, matches: Matches, words: int, limit: int) -> Matches:
    """Matches of entries filed by blocks, and of their equals that are not; per row the `limit` nearest."""
    if not len(matches) or not transaction.count(Table.REPEATS):
        return matches
    found = read(transaction, matches.numbers, words)
    parts = [matches]
    for place, number in enumerate(matches.numbers.tolist()):
        [key] = pack_fingerprints(np.array([found[number].fingerprint], np.uint64))
        repeats = unpack_numbers(transaction.first_values(Table.REPEATS, key, limit))
        parts.append(
            Matches(
                np.full(len(repeats), matches.rows[place]),
                np.full(len(repeats), matches.distances[place]),
                repeats,
            )
        )
    return nearest(joined(parts), limit)
