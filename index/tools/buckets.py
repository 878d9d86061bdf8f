"""Bucket sizes, from a sample, and where the entries stand.

From the log come only the entries that do not stand in segments.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.lsm import compaction
from index.lsm.shape import Shape
from index.lsm.tree import Standing
from index.matching.simhash import BLOCK_BITS
from index.session import ReadSession
from index.storage import log, scan
from index.storage.codec import segment_column
from index.storage.layout import Change, Filing, Table
from index.storage.segments.band_codec import unpack_band_segment
from index.storage.segments.compaction_state import Level
from index.storage.store import Transaction

WINDOWS = 64
"""Equal parts of the values of a table's first column; the first few values of each part are sampled."""

ENTRIES_MAX = 2**23
"""Approximate number of entries sampled."""

_VALUES = 1 << BLOCK_BITS
_SHIFT = 64 - BLOCK_BITS
_LEVELS = (Level.FIRST, Level.LAST)


class BucketSizes(NamedTuple):
    """Sizes of buckets in entries, including entries that compaction has yet to move or remove.

    A bucket is the entries of a table with an equal block; MinHash: with an equal hash of a band, empty buckets left out.

    buckets  number of buckets in all tables; None for MinHash, where the number is not known
    sizes    int64 [n], sizes of the sampled buckets: all, or an even part of every table
    largest  largest size among the sampled buckets and those under the value at which most segments begin
    """

    buckets: int | None
    sizes: npt.NDArray[np.int64]
    largest: int


def bucket_sizes(session: ReadSession, entries: int) -> tuple[Standing, BucketSizes]:
    """Where the entries stand, and the sizes of the buckets; entries: approximate number in the index."""
    transaction, parameters = session.transaction, session.parameters
    shape = Shape.of(parameters)
    standing, keys = _recent(transaction, shape)
    step = _VALUES // WINDOWS
    width = max(1, min(step, step * ENTRIES_MAX // max(1, entries * shape.tables)))
    sizes = [
        _sizes(transaction, shape, table, first, first + width, keys[table])
        for table in range(shape.tables)
        for first in range(0, _VALUES, step)
    ]
    found = np.concatenate(sizes)
    largest = int(found.max()) if len(found) else 0
    hot = _hottest(transaction, shape)
    if hot is not None:
        table, value = hot
        largest = max(largest, int(_sizes(transaction, shape, table, value, value + 1, keys[table]).max()))
    return standing, BucketSizes(shape.tables * _VALUES if parameters.banding is None else None, found, largest)


def _recent(transaction: Transaction, shape: Shape) -> tuple[Standing, list[npt.NDArray[np.uint64]]]:
    """Where the entries stand, and by table the first words, uint64 [n], of entries outside its segments."""
    now = compaction.state(transaction)
    nothing = np.empty((0, shape.words), np.uint64), np.empty(0, np.uint64)
    frozen, active, removals = [nothing], [nothing], 0
    for batch in log.since(transaction, now.merged_to, shape.words):
        numbers, fingerprints = batch.numbers(), batch.fingerprints.astype(np.uint64)
        filed = (batch.rows["filing"][batch.entered()] == Filing.BLOCKS) & (numbers >= np.uint64(now.merged_to))
        old, new = filed & (numbers < np.uint64(now.frozen_to)), filed & (numbers >= np.uint64(now.frozen_to))
        frozen.append((fingerprints[old], numbers[old]))
        active.append((fingerprints[new], numbers[new]))
    for number, tombstone in scan.tombstones(transaction, shape.words):
        raised = tombstone.changes == Change.RAISED
        entries = tombstone.fingerprints[raised], tombstone.numbers[raised]
        (frozen if number < now.frozen_tombstones else active).append(entries)
        removals += int(np.count_nonzero(~raised))
    (frozen_fingerprints, frozen_numbers), (active_fingerprints, _) = (
        tuple(map(np.concatenate, zip(*each, strict=True))) for each in (frozen, active)
    )
    frozen_keys, keys = _first_words(shape, frozen_fingerprints), _first_words(shape, active_fingerprints)
    recent = []
    for table in range(shape.tables):
        of_table = frozen_keys[:, table]
        waiting = np.full(len(of_table), table > now.table)
        if table == now.table and now.is_moving:
            columns = shape.entry_columns(table, of_table, frozen_fingerprints, frozen_numbers)
            waiting = ~compaction.are_below(compaction.words_of(columns), now.bound)
        recent.append(np.concatenate([keys[:, table], of_table[waiting]]))
    standing = Standing(
        memtable_entries=len(keys),
        frozen_entries=len(frozen_keys),
        removals=removals,
        progress=compaction.progress(now, shape.tables),
        segments=transaction.count(Table.SEGMENTS),
    )
    return standing, recent


def _first_words(shape: Shape, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The first word of an entry of each table, up to what tells its bucket: uint64 [n, words] -> uint64 [n, tables]."""
    if shape.banding is not None:
        return shape.band_hashes(fingerprints)
    return shape.page_keys(fingerprints).astype(np.uint64) << np.uint64(32)


def _sizes(
    transaction: Transaction, shape: Shape, table: int, first: int, end: int, words: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Sizes of the buckets with first <= first 16 bits < end; words: uint64 [n], of the entries outside the segments."""
    prefixes = [bytes([table])] if shape.banding is None else [bytes([table, level]) for level in _LEVELS]
    parts = [words, *(part for prefix in prefixes for part in _in_segments(transaction, shape, prefix, first, end))]
    joined = np.concatenate([_between(part, first, end) for part in parts])
    if shape.banding is not None:
        return np.unique(joined, return_counts=True)[1]
    return np.bincount((joined >> np.uint64(_SHIFT)).astype(np.int64) - first, minlength=end - first)


def _between(words: npt.NDArray[np.uint64], first: int, end: int) -> npt.NDArray[np.uint64]:
    values = words >> np.uint64(_SHIFT)
    return words[(values >= np.uint64(first)) & (values < np.uint64(end))]


def _in_segments(
    transaction: Transaction, shape: Shape, prefix: bytes, first: int, end: int
) -> Iterator[npt.NDArray[np.uint64]]:
    """First words of the entries of the segments that may hold any of these buckets, uint64 [n] each."""
    begin = prefix + first.to_bytes(2, "big").ljust(shape.bound_bytes, b"\0")
    below = transaction.floor(Table.SEGMENTS, begin)
    begin = begin if below is None or not below[0].startswith(prefix) else below[0]
    for key, value in transaction.walk(Table.SEGMENTS, begin):
        if not key.startswith(prefix) or int.from_bytes(key[len(prefix) :][:2], "big") >= end:
            break
        if shape.banding is not None:
            yield unpack_band_segment(value)[0]
        else:
            yield segment_column(value, 0).astype(np.uint64) << np.uint64(_SHIFT)


def _hottest(transaction: Transaction, shape: Shape) -> tuple[int, int] | None:
    """Table and first column under which most segments begin; None where no two segments share them."""
    bounds = ((key[0], key[-shape.bound_bytes :][:2]) for key in transaction.keys(Table.SEGMENTS))
    begun = Counter((table, int.from_bytes(first, "big")) for table, first in bounds)
    most = begun.most_common(1)
    return most[0][0] if most and most[0][1] > 1 else None
