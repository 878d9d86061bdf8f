"""Full scans of the tables, for verification, export and forgetting."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.storage import log
from index.storage.codec import Tombstones, unpack_tombstones
from index.storage.layout import (
    HORIZON_KEY,
    JOURNAL_KEY,
    NUMBER_KEY,
    SOURCE_KEY,
    TOMBSTONE_KEY,
    JournalRun,
    Table,
    unpack_applied,
    unpack_horizon,
    unpack_journal_run,
    unpack_numbers,
    unpack_stream,
    unpack_times,
)
from index.storage.store import Transaction

PORTION_BATCHES = 16
"""Log batches in one portion."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Documents from consecutive batches, row by row.

    numbers  uint64 [n], ascending
    columns  structured [n]: root, offset, time_ms, stream, partition, kind, filing, fingerprint (uint64 [words])
    ids      n document ids
    """

    numbers: npt.NDArray[np.uint64]
    columns: npt.NDArray[np.void]
    ids: list[str]


def columns_type(words: int) -> np.dtype[np.void]:
    """The dtype of `Stored.columns`."""
    return np.dtype(
        [
            ("root", "u8"),
            ("offset", "u8"),
            ("time_ms", "i8"),
            ("stream", "u4"),
            ("partition", "u4"),
            ("kind", "u1"),
            ("filing", "u1"),
            ("fingerprint", "u8", (words,)),
        ]
    )


def portion(transaction: Transaction, words: int, first: int) -> Stored | None:
    """Documents in the next PORTION_BATCHES batches from number `first` on; None after the last document."""
    parts: list[Stored] = []
    for batch in log.since(transaction, first, words):
        if batch.end_number > first and batch.end_number > batch.first_number:
            parts.append(of_batch(batch, np.flatnonzero(batch.numbers() >= np.uint64(first))))
        if len(parts) == PORTION_BATCHES:
            break
    if not parts:
        return None
    return Stored(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.columns for part in parts]),
        [id_ for part in parts for id_ in part.ids],
    )


def of_batch(batch: log.Batch, places: npt.NDArray[np.intp]) -> Stored:
    """Documents at these places, int64 [m], among those that entered with a batch."""
    at = batch.entered()[places]
    rows, sources = batch.rows[at], batch.sources[batch.rows["source"][at]]
    columns = np.empty(len(at), columns_type(batch.fingerprints.shape[1]))
    for name in ("offset", "time_ms", "kind", "filing"):
        columns[name] = rows[name]
    columns["root"], columns["fingerprint"] = rows["number"], batch.fingerprints[places]
    columns["stream"], columns["partition"] = sources["stream"], sources["partition"]
    return Stored(batch.numbers()[places], columns, batch.ids(at))


def stored(transaction: Transaction, words: int) -> Iterator[Stored]:
    """All documents, ascending by number, a portion at a time."""
    first = 0
    while (found := portion(transaction, words, first)) is not None:
        yield found
        first = int(found.numbers[-1]) + 1


def forgotten(transaction: Transaction) -> npt.NDArray[np.uint64]:
    """Documents retired one by one: their numbers, uint64 [n], ascending."""
    return unpack_numbers(transaction.keys(Table.RETIRED))


def aside(
    transaction: Transaction, table: Table, words: int
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Fingerprints uint64 [n, words] and numbers uint64 [n] from EXACT or REPEATS, ascending by key, in portions.

    Omits keys without a fingerprint's length.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in transaction.walk(table):
        if len(key) != 8 * words:
            continue
        keys.append(key)
        values.append(bytes(value))
        if len(keys) == 2**16:
            yield _fingerprints(keys, words), unpack_numbers(values)
            keys, values = [], []
    yield _fingerprints(keys, words), unpack_numbers(values)


def _fingerprints(keys: list[bytes], words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(b"".join(keys), "<u8").astype(np.uint64).reshape(-1, words)


def tombstones(transaction: Transaction, words: int) -> Iterator[tuple[int, Tombstones]]:
    """Tombstones that wait for compaction, with their number, ascending."""
    for key, value in transaction.walk(Table.TOMBSTONES):
        yield TOMBSTONE_KEY.unpack(key)[0], unpack_tombstones(value, words)


def runs(transaction: Transaction) -> Iterator[tuple[int, int, int, JournalRun]]:
    """Journal runs: stream number, partition, first offset, run."""
    for key, value in transaction.walk(Table.JOURNAL):
        yield *JOURNAL_KEY.unpack(key), unpack_journal_run(bytes(value))


def last_offset(transaction: Transaction, stream: int, partition: int) -> int:
    """A source's last journaled offset; it must have a run."""
    below = transaction.floor(Table.JOURNAL, JOURNAL_KEY.pack(stream, partition, 2**64 - 1))
    assert below is not None, "the source has no run"
    return unpack_journal_run(bytes(below[1])).last


def journaled_sources(transaction: Transaction) -> list[tuple[int, int]]:
    """Every journaled source: stream number and partition."""
    sources: list[tuple[int, int]] = []
    key = transaction.key_above(Table.JOURNAL, b"\0")
    while key is not None:
        stream, partition, _ = JOURNAL_KEY.unpack(key)
        sources.append((stream, partition))
        key = transaction.key_above(Table.JOURNAL, JOURNAL_KEY.pack(stream, partition, 2**64 - 1))
    return sources


def numbered_streams(transaction: Transaction) -> dict[int, tuple[str, str]]:
    """Stream and name by the stream's number, ascending."""
    return {NUMBER_KEY.unpack(key)[0]: unpack_stream(bytes(value)) for key, value in transaction.walk(Table.STREAMS)}


def applied_offsets(transaction: Transaction) -> dict[tuple[int, int], int]:
    """Applied offsets by stream number and partition."""
    applied = {}
    for key, value in transaction.walk(Table.APPLIED):
        stream, partition = SOURCE_KEY.unpack(key)
        applied[stream, partition] = unpack_applied(bytes(value))[0]
    return applied


class Age(NamedTuple):
    """A source's progress in record time.

    watermark_ms   -1: unknown
    expired_below  the source's entries below this number have expired
    """

    watermark_ms: int
    expired_below: int


def ages(transaction: Transaction) -> dict[tuple[int, int], Age]:
    """Ages by stream number and partition, for every source in `times`."""
    horizon = unpack_horizon(transaction.get(Table.META, HORIZON_KEY))
    expired = {(stream, partition): number for stream, partition, number, _ in horizon.sources.tolist()}
    of_sources = {}
    for key, value in transaction.walk(Table.TIMES):
        source = SOURCE_KEY.unpack(key)
        of_sources[source] = Age(unpack_times(bytes(value)).watermark_ms, expired.get(source, 0))
    return of_sources
