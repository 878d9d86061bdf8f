"""Message and state rows: record arrays, whose bytes are stored and sent.

A document has a key for its place in the order, unique and never reused: 80 bits. `high` is its batch's time in milliseconds
and partition, and no two batches of a partition have the same time. `low` is its row there.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import Verdict
from index.matching.minhash import mixed
from index.session import Longer, Retention
from index.storage.parameters import Parameters

Rows = npt.NDArray[np.void]
"""A record array with one of the dtypes below."""

PARTITION_BITS = ROW_BITS = 16
TIME_MAX = 2 ** (64 - PARTITION_BITS) - 1
PARTITION_MAX = 2**PARTITION_BITS - 1
ROW_MAX = 2**ROW_BITS - 1

PAGE_BITS = 40
"""A page is the number of a block or band times 2^40, plus the value to look up there."""

EXACT_PAGES = 2**62
"""From here on pages are those of EXACT documents: plus a hash of the fingerprint."""

LEAF_BITS = 4
"""Leaves store 16 rows, so that reading a document does not read its batch. The state's format has this number."""

LEAF_ROWS = 2**LEAF_BITS

_LEAF = struct.Struct(">QH")

ADDS, ASKS, STAYS = 1, 2, 4
"""Uses of a claim: enter under the key, and ask for earlier documents. Most do both. STAYS: enter whatever is alike."""

KEY_FIELDS = [("high", "<u8"), ("low", "<u2")]
_BOTH = [*KEY_FIELDS, ("earlier_high", "<u8"), ("earlier_low", "<u2")]
_VERDICT = [("distance", "<i2"), ("verdict", "u1")]
_PAIR = [*_BOTH, *_VERDICT]

PAIR = np.dtype(_PAIR)
"""A document and an earlier one, or its original.

Until it is known the distance is NO_DISTANCE. The verdict is then DUPLICATE, or UPDATE for its page's first record.
From RESOLVE on it is a `verdict_bytes`.
"""

RECALLED_ONLY = Verdict.GIVEN_BACK
"""Verdict in a seed's PAIR: a document and the one that it repeated or belongs to, however near they are."""

HISTORY = np.dtype(
    [
        *((f"named_{part}", kind) for part, kind in KEY_FIELDS),
        ("host", "<u4"),
        *((name, "u1") for name in ("returns", "strangers")),
        *((name, "?") for name in ("entered", "gone", "given_back")),
    ]
)
"""What an index said about a record: the key for the document that it is, repeated or belongs to, or UNNAMED without one; its
host's digest; columns from the log; whether it became an entry, whether that one counts no more, and whether it was given back
or replaced such a one."""

RECORDED = np.dtype([*KEY_FIELDS, ("history", HISTORY)])
"""A seed's document, and its history."""

UNNAMED = 2**64 - 1
"""In place of a high key."""

NAMED = np.dtype([*KEY_FIELDS, ("offset", "<u8"), ("partition", "<u4"), ("letters", "<u4"), *_VERDICT])
"""A document, and its original's position and letters."""

RECORD = np.dtype([*KEY_FIELDS, ("page", "<u8")])
"""A document and its page: a digest for its id on its host."""

TAG = np.dtype([("page", "<u8"), ("names", "<u8", (2,)), ("digests", "<u8", (2,)), ("kind", "u1")])
"""What entries that leave need: a document's page, or 0 without a usable id, its `name_digests`, its text's digests, and its
kind."""

FOLLOWER = np.dtype([*KEY_FIELDS, ("later_high", "<u8"), ("later_low", "<u2"), ("tag", TAG)])
"""A document without an earlier one alike to it, and a later one alike to it that entered."""


@dataclass(frozen=True, slots=True)
class Retained:
    """How long entries count, and the epochs by which what has expired is removed.

    retention  as in an index
    epoch_ms   an epoch's length in the log's time
    """

    retention: Retention
    epoch_ms: int

    def epochs(self, highs: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Documents' epochs by their high keys, int64 in any shape."""
        return (highs >> np.uint64(PARTITION_BITS)).astype(np.int64) // self.epoch_ms


@dataclass(frozen=True, slots=True)
class Layout:
    """Records that depend on the length of fingerprints and looks, and on whether letters are compared.

    `whole` is all that is compared between documents.

    leaves   whether entries may leave, so that documents have tags: by updates or retention
    recalls  whether RECALL and VERIFY are in use
    """

    leaves: bool
    recalls: bool
    whole: np.dtype[np.void]
    claim: np.dtype[np.void]
    entry: np.dtype[np.void]
    signature: np.dtype[np.void]
    kept: np.dtype[np.void]
    page: np.dtype[np.void]
    recalled: np.dtype[np.void]
    hit: np.dtype[np.void]
    settled: np.dtype[np.void]

    @classmethod
    def of(cls, parameters: Parameters, longer: Longer | None, *, leaves: bool = False) -> "Layout":
        """Records of a flow with these settings.

        A MinHash claim's page is the band's whole hash, and `words` a digest for all that is compared. A SimHash
        claim holds the whole fingerprint. If that leaves open whether two documents are alike in everything compared, `alike`
        holds a digest for it all. An EXACT document has one page for its fingerprint, and in `words` as much as fits.
        """
        is_banded = parameters.banding is not None
        recalls = leaves or is_banded or parameters.look is not None
        letters, digests = int(leaves or longer is not None), int(recalls and not is_banded)
        whole = _compared(parameters.stored_words, parameters.look_bytes, letters)
        words = parameters.words if parameters.banding is None else 1
        left_open = [("letters", "<u4", (letters * (not recalls),)), ("alike", "<u8", (digests,))]
        filed: list[Any] = [("words", "<u8", (words,)), *left_open]
        asked: list[Any] = [*KEY_FIELDS, ("page", "<u8"), ("use", "u1")]
        own: list[Any] = [("whole", whole), ("tag", TAG, (int(leaves),))]
        earlier: list[Any] = [(f"earlier_{name}", *kind) for name, *kind in own]
        return cls(
            leaves=leaves,
            recalls=recalls,
            whole=whole,
            claim=np.dtype([*asked, *filed]),
            entry=np.dtype([*KEY_FIELDS, *filed]),
            signature=np.dtype([*KEY_FIELDS, *own]),
            kept=np.dtype([("low", "<u2"), *own]),
            page=np.dtype([*KEY_FIELDS, ("host", "<u8"), *own]),
            recalled=np.dtype([*_PAIR, *earlier]),
            hit=np.dtype([*_PAIR, *own, *earlier]),
            settled=np.dtype([*_BOTH, *earlier]),
        )


def _compared(words: int, look_bytes: int, letters: int) -> np.dtype[np.void]:
    return np.dtype([("fingerprint", "<u8", (words,)), ("look", "u1", (look_bytes,)), ("letters", "<u4", (letters,))])


def rows_of(contents: Iterable[bytes], kind: np.dtype[np.void]) -> Rows:
    """Concatenated messages as read-only rows."""
    return np.frombuffer(b"".join(contents), kind)


def document_keys(time_ms: int, partition: int, count: int) -> tuple[int, npt.NDArray[np.uint16]]:
    """Keys of a batch's rows: high, and low uint16 [count]. Raises ValueError beyond a key's range."""
    for value, most, what in (
        (time_ms, TIME_MAX, "time"),
        (partition, PARTITION_MAX, "partition"),
        (count, ROW_MAX, "number of rows"),
    ):
        if not 0 <= value <= most:
            raise ValueError(f"a batch has the {what} {value}; the flow takes 0 to {most}")
    return time_ms << PARTITION_BITS | partition, np.arange(count, dtype=np.uint16)


def name_digests(id_: str) -> tuple[int, int]:
    """What a document is forgotten by: digests of its id, and of the id's beginning up to the first slash, 0 without one.

    >>> name_digests("tenant/a")[1] == name_digests("tenant/b")[1] == name_digests("tenant/")[1]
    True
    """
    octets = id_.encode("utf-8", "surrogatepass")
    end = octets.find(b"/") + 1
    # A beginning is never taken for an id.
    return xxhash.xxh3_64_intdigest(octets), xxhash.xxh3_64_intdigest(octets[:end], 1) if end else 0


def partitions(high: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each document's partition, int64 [n]."""
    return (high & np.uint64(PARTITION_MAX)).astype(np.int64)


def shard_of_batches(high: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[Any]:
    """Shard that stores each document, as `shard_of`: one for a whole batch."""
    return shard_of(high * np.uint64(0x9E3779B97F4A7C15), shards)


def shard_of(numbers: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[Any]:
    """Each number's shard, [n] in the shortest type, evenly spread."""
    # numpy sorts up to 16 bits by radix.
    return (mixed(numbers) % np.uint64(shards)).astype(np.min_scalar_type(shards - 1))


def run_begins(*ascending: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Where runs of equal rows begin, intp [runs]; columns [n]."""
    new = np.ones(len(ascending[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ascending])
    return np.flatnonzero(new)


def places_in_runs(begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places in runs with these begins and lengths, run after run, int64 [sum of lengths].

    >>> places_in_runs(np.array([5, 1]), np.array([2, 3]))
    array([5, 6, 1, 2, 3])
    """
    places: npt.NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)
    return places


def by_group(groups: npt.NDArray[Any]) -> Iterable[tuple[int, npt.NDArray[np.intp]]]:
    """Each distinct number with its places, in order."""
    order = np.argsort(groups, kind="stable")
    begins = run_begins(groups[order])
    bounds = pairwise([*begins.tolist(), len(order)])
    return ((value, order[slice(*each)]) for value, each in zip(groups[order[begins]].tolist(), bounds, strict=True))


def packed_by_group(rows: Rows, groups: npt.NDArray[Any]) -> Iterable[tuple[int, bytes]]:
    """Each distinct number with the bytes of its rows, in order."""
    order = np.argsort(groups, kind="stable")
    begins, content = run_begins(groups[order]), np.take(rows, order).tobytes()
    bounds = pairwise([*(begins * rows.itemsize).tolist(), len(content)])
    return (
        (group, content[begin:end]) for group, (begin, end) in zip(groups[order[begins]].tolist(), bounds, strict=True)
    )


def numbered(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint16]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Rank of each document's key, int64 [n], equal for equal keys; and one place for each distinct key, in order."""
    order = np.lexsort((low, high))
    begins = run_begins(high[order], low[order])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(order)))
    return numbers, order[begins]


def leaf_name(high: int, low: int) -> bytes:
    """Name of this document's leaf."""
    return _LEAF.pack(high, low >> LEAF_BITS)


def leaves_of(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint16]
) -> Iterator[tuple[bytes, npt.NDArray[np.intp]]]:
    """Each distinct leaf's name, with the places of its documents."""
    leaves = low >> np.uint16(LEAF_BITS)
    numbers, distinct = numbered(high, leaves)
    for leaf, places in by_group(numbers):
        place = distinct[leaf]
        yield leaf_name(int(high[place]), int(low[place])), places


def rows_in_leaf(low: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """Each document's place in its leaf, int64 [n]."""
    places: npt.NDArray[np.int64] = low.astype(np.int64) & (LEAF_ROWS - 1)
    return places


def distinct_pairs(pairs: Rows) -> Rows:
    """Each pair of documents once, for each verdict that it waits for."""
    own, _ = numbered(pairs["high"], pairs["low"])
    earlier, _ = numbered(pairs["earlier_high"], pairs["earlier_low"])
    _, places = np.unique(np.stack([own, earlier, pairs["verdict"]]), axis=1, return_index=True)
    return pairs[places]


def verdict_bytes(
    verdicts: npt.NDArray[np.uint8], marks: npt.NDArray[np.uint8], are_former: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Verdicts with marks, and whether they name a record that is no entry: uint8 [n].

    >>> verdict_parts(verdict_bytes(np.array([5], np.uint8), np.array([3], np.uint8), np.array([True])))
    (array([5], dtype=uint8), array([3], dtype=uint8), array([ True]))
    """
    return (verdicts | marks << 4 | are_former.astype(np.uint8) << 7).astype(np.uint8)


def verdict_parts(
    octets: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Revert `verdict_bytes`."""
    verdicts, marks = (each.astype(np.uint8) for each in (octets & 15, octets >> 4 & 7))
    are_former: npt.NDArray[np.bool_] = octets >= 128
    return verdicts, marks, are_former


def are_alike(left: Rows, right: Rows) -> npt.NDArray[np.bool_]:
    """Whether two documents are equal in everything compared, bool [n]; both as `Layout.whole` [n]."""
    octets = [np.ascontiguousarray(each).view(np.uint8).reshape(len(each), each.itemsize) for each in (left, right)]
    alike: npt.NDArray[np.bool_] = (octets[0] == octets[1]).all(axis=1)
    return alike
