"""Distribution of the entries, and sampled bucket sizes, in segments and memtables."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.lsm.hash_table import TreeStats
from index.lsm.levels import are_below
from index.lsm.shape import Shape, shape_of
from index.lsm.tree import Tree
from index.matching.simhash import BLOCK_BITS
from index.session import ReadSession
from index.storage.segments.compaction_state import BOUND_BYTES, Level
from index.storage.segments.hash_codec import unpack_hash_segment
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

    >>> sampled = BucketSizes(buckets=1_000, sizes=np.array([0, 3, 1, 0]), largest=40)
    >>> float(sampled.sizes.mean() * sampled.buckets)
    1000.0
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


def _recent(tree: Tree, shape: Shape) -> list[npt.NDArray[np.uint64]]:
    """Each table's hashes, uint64 [n], for entries outside its segments."""
    memtables, now = tree.memtables(), tree.compaction
    hashes = [shape.hashes(memtable.fingerprints).T for memtable in memtables]
    if now.is_moving:
        # The last memtable is the frozen one: compaction has moved its entries below the cursor.
        frozen, *others = hashes[-1], *hashes[:-1]
        left = [~are_below(np.stack([frozen[now.table], memtables[-1].numbers]), now.bound)]
        moved, all_left = np.zeros_like(left[0]), np.ones_like(left[0])
        by_table = [moved] * now.table + left + [all_left] * (shape.tables - now.table - 1)
        return [
            np.concatenate([*(each[table] for each in others), frozen[table, here]])
            for table, here in enumerate(by_table)
        ]
    return [np.concatenate([each[table] for each in hashes]) for table in range(shape.tables)]


def _sizes(
    transaction: Transaction, shape: Shape, table: int, first: int, end: int, hashes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Sizes of the buckets with first <= first 16 bits < end; hashes: uint64 [n], for the entries outside the segments."""
    parts = [hashes]
    for level in (Level.FIRST, Level.LAST):
        parts += _in_segments(transaction, shape, bytes([table, level]), first, end)
    return shape.bucket_sizes(np.concatenate([_between(part, first, end) for part in parts]), first, end)


def _between(hashes: npt.NDArray[np.uint64], first: int, end: int) -> npt.NDArray[np.uint64]:
    values = hashes >> np.uint64(_SHIFT)
    return hashes[(values >= np.uint64(first)) & (values < np.uint64(end))]


def _in_segments(
    transaction: Transaction, shape: Shape, prefix: bytes, first: int, end: int
) -> Iterator[npt.NDArray[np.uint64]]:
    """Hashes, uint64 [n], from each segment that may hold one of these buckets."""
    begin = prefix + first.to_bytes(2, "big").ljust(BOUND_BYTES, b"\0")
    below = transaction.floor(shape.table, begin)
    begin = begin if below is None or not below[0].startswith(prefix) else below[0]
    for key, value in transaction.walk(shape.table, begin):
        if not key.startswith(prefix) or int.from_bytes(key[len(prefix) :][:2], "big") >= end:
            break
        yield unpack_hash_segment(value)[0]


def _hottest(transaction: Transaction, shape: Shape) -> tuple[int, int] | None:
    """Table and first column at which most segments begin; None if no two segments share them."""
    bounds = ((key[0], key[2:4]) for key in transaction.keys(shape.table))
    most = Counter((table, int.from_bytes(first, "big")) for table, first in bounds).most_common(1)
    return most[0][0] if most and most[0][1] > 1 else None
