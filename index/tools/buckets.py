"""Distribution of the entries, and sampled bucket sizes, in segments and memtables."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.lsm.hash_table import TreeStats
from index.lsm.shape import SchemeShape, shape_of
from index.lsm.simhash_shape import are_below, words_of
from index.lsm.tree import Tree
from index.matching.simhash import BLOCK_BITS
from index.session import ReadSession
from index.storage.store import Transaction

WINDOWS = 64
"""Equal parts of a first column's range; the first few values in each part are sampled."""

ENTRIES_MAX = 2**23
"""Entries sampled, approximately."""

_VALUES = 1 << BLOCK_BITS
_SHIFT = 64 - BLOCK_BITS


class BucketSizes(NamedTuple):
    """Bucket sizes in entries, including entries that compaction has yet to move or remove.

    A bucket is a table's entries with an equal block; for MinHash with an equal band hash, without empty buckets.

    buckets  number in all tables; None for MinHash, which does not know it
    sizes    int64 [n], sampled: all, or an even part of every table
    largest  largest sampled size, including the buckets under the value at which most segments begin
    """

    buckets: int | None
    sizes: npt.NDArray[np.int64]
    largest: int


def bucket_sizes(session: ReadSession, entries: int) -> tuple[TreeStats, BucketSizes]:
    """Entries by place, and bucket sizes; entries: approximate number in the index."""
    transaction, shape = session.transaction, shape_of(session.parameters)
    keys = _recent(session.tree, shape)
    step = _VALUES // WINDOWS
    width = max(1, min(step, step * ENTRIES_MAX // max(1, entries * shape.tables)))
    sizes = [
        _sizes(transaction, shape, table, first, first + width, keys[table])
        for table in range(shape.tables)
        for first in range(0, _VALUES, step)
    ]
    sampled = np.concatenate(sizes)
    largest = int(sampled.max()) if len(sampled) else 0
    hot = _hottest(transaction, shape)
    if hot is not None:
        table, value = hot
        largest = max(largest, int(_sizes(transaction, shape, table, value, value + 1, keys[table]).max()))
    return session.tree.stats(), BucketSizes(shape.buckets, sampled, largest)


def _recent(tree: Tree, shape: SchemeShape) -> list[npt.NDArray[np.uint64]]:
    """Each table's first words, uint64 [n], for entries outside its segments."""
    memtables, now = tree.memtables(), tree.compaction
    keys = [shape.hashes(memtable.fingerprints) for memtable in memtables]
    recent = []
    for table in range(shape.tables):
        words = [of_memtable[:, table] for of_memtable in keys]
        if now.is_moving and table <= now.table:
            # The last memtable is the frozen one: compaction has moved its entries below the cursor.
            frozen, moved = memtables[-1], table < now.table
            columns = shape.entry_columns(table, words[-1], frozen.fingerprints, frozen.numbers)
            words[-1] = words[-1][:0] if moved else words[-1][~are_below(words_of(columns), now.bound)]
        recent.append(np.concatenate(words))
    return recent


def _sizes(
    transaction: Transaction, shape: SchemeShape, table: int, first: int, end: int, words: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Sizes of the buckets with first <= first 16 bits < end; words: uint64 [n], for the entries outside the segments."""
    prefixes = shape.prefixes(table, searched=True)
    parts = [words, *(part for prefix in prefixes for part in _in_segments(transaction, shape, prefix, first, end))]
    return shape.bucket_sizes(np.concatenate([_between(part, first, end) for part in parts]), first, end)


def _between(words: npt.NDArray[np.uint64], first: int, end: int) -> npt.NDArray[np.uint64]:
    values = words >> np.uint64(_SHIFT)
    return words[(values >= np.uint64(first)) & (values < np.uint64(end))]


def _in_segments(
    transaction: Transaction, shape: SchemeShape, prefix: bytes, first: int, end: int
) -> Iterator[npt.NDArray[np.uint64]]:
    """First words, uint64 [n], from each segment that may hold one of these buckets."""
    begin = prefix + first.to_bytes(2, "big").ljust(shape.bound_bytes, b"\0")
    below = transaction.floor(shape.table, begin)
    begin = begin if below is None or not below[0].startswith(prefix) else below[0]
    for key, value in transaction.walk(shape.table, begin):
        if not key.startswith(prefix) or int.from_bytes(key[len(prefix) :][:2], "big") >= end:
            break
        yield shape.first_words(value)


def _hottest(transaction: Transaction, shape: SchemeShape) -> tuple[int, int] | None:
    """Table and first column at which most segments begin; None if no two segments share them."""
    bounds = ((key[0], key[-shape.bound_bytes :][:2]) for key in transaction.keys(shape.table))
    begun = Counter((table, int.from_bytes(first, "big")) for table, first in bounds)
    most = begun.most_common(1)
    return most[0][0] if most and most[0][1] > 1 else None
