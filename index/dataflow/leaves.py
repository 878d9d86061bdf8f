"""Stored documents in leaves of a few rows, so that reading one document does not read its batch."""

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.dataflow.rows import Rows, by_group, numbered, row_numbers

LEAF_BITS = 4
"""A leaf has 16 rows. This is part of the state's format and never changes."""

LEAF_ROWS = 2**LEAF_BITS

_LEAF = struct.Struct(">QQ")


def leaf_name(high: int, low: int) -> bytes:
    """Name of this document's leaf."""
    return _LEAF.pack(high, low >> LEAF_BITS)


def leaves_of(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]
) -> Iterator[tuple[bytes, npt.NDArray[np.intp]]]:
    """Each distinct leaf's name, with the places of its documents."""
    leaves = low >> np.uint64(LEAF_BITS)
    numbers, distinct = numbered(high, leaves)
    for leaf, places in by_group(numbers):
        place = distinct[leaf]
        yield leaf_name(int(high[place]), int(low[place])), places


def rows_in_leaf(low: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each document's place in its leaf, int64 [n]."""
    places: npt.NDArray[np.int64] = row_numbers(low) & (LEAF_ROWS - 1)
    return places


def distinct_pairs(pairs: Rows) -> Rows:
    """Each pair of documents once."""
    own, _ = numbered(pairs["high"], pairs["low"])
    of, _ = numbered(pairs["of_high"], pairs["of_low"])
    _, places = np.unique(np.stack([own, of]), axis=1, return_index=True)
    return pairs[places]
