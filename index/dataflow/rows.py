"""Message and state rows: record arrays, whose bytes are stored and sent.

A document has a 128-bit key for its place in the order, unique and never reused. `high` is its batch's time in
milliseconds and partition, `low` its batch's first offset and its row there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from index.matching.minhash import mixed
from index.storage.parameters import Parameters

Rows = npt.NDArray[np.void]
"""A record array with one of the dtypes below."""

PARTITION_BITS = ROW_BITS = 16
TIME_MAX = 2 ** (64 - PARTITION_BITS) - 1
PARTITION_MAX = 2**PARTITION_BITS - 1
OFFSET_MAX = 2 ** (64 - ROW_BITS) - 1
ROW_MAX = 2**ROW_BITS - 1

PAGE_BITS = 40
"""A page is the number of a block or band times 2^40, plus the value to look up there."""

ADDS, ASKS = 1, 2
"""Uses of a claim: enter under the key, and ask for earlier documents. Most do both."""

_KEY = [("high", "<u8"), ("low", "<u8")]
_PAIR = [*_KEY, ("of_high", "<u8"), ("of_low", "<u8"), ("distance", "<i2")]

CANDIDATE = np.dtype(_PAIR)
"""A document and an earlier one, with the distance if known, else NO_DISTANCE."""

REJECT = np.dtype(_PAIR)
"""A document and its original."""

NAMED = np.dtype([*_KEY, ("offset", "<u8"), ("partition", "<u4"), ("source", "<u4"), ("distance", "<i2")])
"""A document and its original's position; source: place among the message's texts."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Records that depend on the length of fingerprints and looks."""

    near_claim: np.dtype[np.void]
    near_entry: np.dtype[np.void]
    exact_claim: np.dtype[np.void]
    exact_entry: np.dtype[np.void]
    signature: np.dtype[np.void]
    recalled: np.dtype[np.void]
    hit: np.dtype[np.void]
    settled: np.dtype[np.void]

    @classmethod
    def of(cls, parameters: Parameters) -> "Layout":
        """Records of a flow with these parameters.

        A MinHash claim holds its band's hash, a SimHash claim the whole fingerprint. If that leaves open whether two
        documents are alike in everything compared, `alike` holds a hash of it all. A hit carries what the rule needs.
        """
        fingerprint = ("fingerprint", "<u8", (parameters.words,))
        look: list[Any] = [("look", "u1", (parameters.look_bytes,))] if parameters.look_bytes else []
        whole: list[Any] = [fingerprint, *look]
        filed: list[Any] = [("words", "<u8", (1,)), ("alike", "<u8")]
        if parameters.banding is None:
            filed = [("words", "<u8", (parameters.words,)), *([("alike", "<u8")] if look else [])]
        exact: list[Any] = [("words", "<u8", (parameters.words,))]
        asked: list[Any] = [*_KEY, ("page", "<u8"), ("use", "u1")]
        of_root: list[Any] = []
        if parameters.root is not None:
            of_root = [*whole, *((f"of_{name}", *rest) for name, *rest in whole)]
        return cls(
            near_claim=np.dtype([*asked, *filed]),
            near_entry=np.dtype([*_KEY, *filed]),
            exact_claim=np.dtype([*asked, *exact]),
            exact_entry=np.dtype([*_KEY, *exact]),
            signature=np.dtype([*_KEY, *whole]),
            recalled=np.dtype([*_PAIR, *((f"of_{name}", *rest) for name, *rest in whole)]),
            hit=np.dtype([*_PAIR, *of_root]),
            settled=np.dtype([*_PAIR[:-1], *whole]),
        )


def rows_of(contents: Iterable[bytes], kind: np.dtype[np.void]) -> Rows:
    """Concatenated messages as read-only rows."""
    return np.frombuffer(b"".join(contents), kind)


def document_keys(time_ms: int, partition: int, begin: int, count: int) -> tuple[int, npt.NDArray[np.uint64]]:
    """Keys of a batch's rows: high, and low uint64 [count]. Raises ValueError beyond a key's range."""
    for value, most, what in (
        (time_ms, TIME_MAX, "time"),
        (partition, PARTITION_MAX, "partition"),
        (begin, OFFSET_MAX, "offset"),
        (count, ROW_MAX, "number of rows"),
    ):
        if not 0 <= value <= most:
            raise ValueError(f"a batch has the {what} {value}; the flow takes 0 to {most}")
    return time_ms << PARTITION_BITS | partition, np.uint64(begin << ROW_BITS) + np.arange(count, dtype=np.uint64)


def partitions(high: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each document's partition, int64 [n]."""
    return (high & np.uint64(PARTITION_MAX)).astype(np.int64)


def row_numbers(low: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Row of each document in its batch, int64 [n]."""
    return (low & np.uint64(ROW_MAX)).astype(np.int64)


def shard_of_batches(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[np.int64]:
    """Shard that stores each document, int64 [n]: one for a whole batch."""
    return shard_of(high * np.uint64(0x9E3779B97F4A7C15) + (low >> np.uint64(ROW_BITS)), shards)


def shard_of(numbers: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[np.int64]:
    """Each number's shard, int64 [n], evenly spread."""
    return (mixed(numbers) % np.uint64(shards)).astype(np.int64)


def by_group(groups: npt.NDArray[Any]) -> Iterable[tuple[int, npt.NDArray[np.intp]]]:
    """Each distinct number with its places, in order."""
    order = np.argsort(groups, kind="stable")
    values, begins = np.unique(groups[order], return_index=True)
    bounds = [*begins.tolist(), len(order)]
    return ((value, order[begin:end]) for value, (begin, end) in zip(values.tolist(), pairwise(bounds), strict=True))


def numbered(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Rank of each document's key, int64 [n], equal for equal keys; and one place for each distinct key, in order."""
    order = np.lexsort((low, high))
    new = np.ones(len(order), np.bool_)
    new[1:] = (high[order[1:]] != high[order[:-1]]) | (low[order[1:]] != low[order[:-1]])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers, order[new]
