"""Full scans of the tables, for verification, export and forgetting."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.storage import layout
from index.storage.store import Transaction


def forgotten(transaction: Transaction) -> npt.NDArray[np.uint64]:
    """Documents retired one by one: their numbers, uint64 [n], ascending."""
    return layout.unpack_numbers(transaction.keys(layout.Table.RETIRED))


def exact(transaction: Transaction, words: int) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Fingerprints uint64 [n, words] and numbers uint64 [n] of EXACT entries, ascending by key, in portions.

    Omits keys without a fingerprint's length.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in transaction.walk(layout.Table.EXACT):
        if len(key) != 8 * words:
            continue
        keys.append(key)
        values.append(bytes(value))
        if len(keys) == 2**16:
            yield _fingerprints(keys, words), layout.unpack_numbers(values)
            keys, values = [], []
    yield _fingerprints(keys, words), layout.unpack_numbers(values)


def _fingerprints(keys: list[bytes], words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(b"".join(keys), "<u8").astype(np.uint64).reshape(-1, words)


def runs(transaction: Transaction) -> Iterator[tuple[int, int, int, layout.JournalRun]]:
    """Journal runs: stream number, partition, first offset, run."""
    for key, value in transaction.walk(layout.Table.JOURNAL):
        yield *layout.JOURNAL_KEY.unpack(key), layout.unpack_journal_run(bytes(value))


def last_offset(transaction: Transaction, stream: int, partition: int) -> int:
    """A source's last journaled offset; it must have a run."""
    below = transaction.floor(layout.Table.JOURNAL, layout.JOURNAL_KEY.pack(stream, partition, 2**64 - 1))
    assert below is not None, "the source has no run"
    return layout.unpack_journal_run(bytes(below[1])).last


def journaled_sources(transaction: Transaction) -> list[tuple[int, int]]:
    """Every journaled source: stream number and partition."""
    sources: list[tuple[int, int]] = []
    key = transaction.key_above(layout.Table.JOURNAL, b"\0")
    while key is not None:
        stream, partition, _ = layout.JOURNAL_KEY.unpack(key)
        sources.append((stream, partition))
        key = transaction.key_above(layout.Table.JOURNAL, layout.JOURNAL_KEY.pack(stream, partition, 2**64 - 1))
    return sources


def numbered_streams(transaction: Transaction) -> dict[int, tuple[str, str]]:
    """Stream and name by the stream's number, ascending."""
    return {
        layout.NUMBER_KEY.unpack(key)[0]: layout.unpack_stream(bytes(value))
        for key, value in transaction.walk(layout.Table.STREAMS)
    }


def applied_offsets(transaction: Transaction) -> dict[tuple[int, int], int]:
    """Applied offsets by stream number and partition."""
    applied = {}
    for key, value in transaction.walk(layout.Table.APPLIED):
        stream, partition = layout.SOURCE_KEY.unpack(key)
        applied[stream, partition] = layout.unpack_applied(bytes(value))[0]
    return applied


class Age(NamedTuple):
    """A source's progress in record time.

    watermark_ms   -1: unknown
    expired_below  the source's entries below this number have expired

    >>> age = Age(watermark_ms=1_000, expired_below=7)
    >>> np.array([4, 6, 7, 9]) < age.expired_below
    array([ True,  True, False, False])
    """

    watermark_ms: int
    expired_below: int


def ages(transaction: Transaction) -> dict[tuple[int, int], Age]:
    """Ages by stream number and partition, for every source in `times`."""
    horizon = layout.unpack_horizon(transaction.get(layout.Table.META, layout.HORIZON_KEY))
    expired = {(stream, partition): number for stream, partition, number, _ in horizon.sources.tolist()}
    by_source = {}
    for key, value in transaction.walk(layout.Table.TIMES):
        source = layout.SOURCE_KEY.unpack(key)
        by_source[source] = Age(layout.unpack_times(bytes(value)).watermark_ms, expired.get(source, 0))
    return by_source
