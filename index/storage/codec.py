"""Codec for large values: log batches and tombstones. `layout` draws them.

Unpacking a truncated value raises ValueError or struct.error; only ids are not checked.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.matching.frame import signature_words
from index.storage.layout import pack_text

_BATCH = struct.Struct("<IIIIII")
_TOMBSTONES = struct.Struct("<II")

LOG_SOURCE = np.dtype([("stream", "<u4"), ("partition", "<u4")])
LOG_ROW = np.dtype(
    [
        ("offset", "<u8"),
        ("number", "<u8"),
        ("time_ms", "<i8"),
        ("source", "<u4"),
        ("id_end", "<u4"),
        ("distance", "<i2"),
        ("verdict", "u1"),
        ("reason", "u1"),
        ("kind", "u1"),
        ("filing", "u1"),
        ("text", "<u8"),
        ("substance", "<u8"),
        ("host", "<u4"),
        ("returns", "u1"),
        ("strangers", "u1"),
        ("length", "u1", (3,)),
    ]
)
GIVEN_BACK = np.dtype([("id", "<u8"), ("number", "<u8")])
LOG_ORIGINAL = np.dtype(
    [("offset", "<u8"), ("stream", "<u4"), ("partition", "<u4"), ("id_end", "<u4"), ("ratio", "<u2")]
)
STORY_MEMBER = np.dtype(
    [("length", "<u4"), ("time_ms", "<i8"), ("stream", "<u4"), ("partition", "<u4"), ("offset", "<u8")]
)
STORY = np.dtype(
    [
        ("documents", "<u8"),
        ("first_ms", "<i8"),
        ("longest", STORY_MEMBER),
        ("newest", STORY_MEMBER),
        ("rows_end", "<u8"),
    ]
)
STORY_HOST = np.dtype([("digest", "<u4"), ("first_ms", "<i8")])

LENGTH_MAX = 2**24 - 1
"""Longest length that a row can have; greater ones are stored as this one."""


class Lines(NamedTuple):
    """Parts of a `log` value, as views.

    sources         LOG_SOURCE [s]
    rows            LOG_ROW [n]
    fingerprints    <u8 [entered, stored words], in row order; without frames if all frames are unknown
    looks           u1 [entered, look bytes]
    originals       LOG_ORIGINAL [duplicates], in row order
    ids             concatenated row ids
    original_ids    concatenated ids, for `originals`

    >>> sources, rows = np.zeros(1, LOG_SOURCE), np.zeros(2, LOG_ROW)
    >>> rows["id_end"] = 1, 3
    >>> value = pack_batch(sources, rows, np.zeros((0, 1), np.uint64), ["a", "bc"], np.zeros(0, LOG_ORIGINAL), [])
    >>> bytes(unpack_batch(memoryview(value)).ids)
    b'abc'
    """

    sources: npt.NDArray[np.void]
    rows: npt.NDArray[np.void]
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]
    originals: npt.NDArray[np.void]
    ids: memoryview
    original_ids: memoryview


def pack_batch(
    sources: npt.NDArray[np.void],
    rows: npt.NDArray[np.void],
    fingerprints: npt.NDArray[np.uint64],
    ids: Sequence[str],
    originals: npt.NDArray[np.void],
    original_ids: Sequence[str],
    looks: npt.NDArray[np.uint8] | None = None,
) -> bytes:
    """Pack the parts that `Lines` names; sets `id_end` in rows and originals. Without looks, a look has no bytes.

    ids  one for each row
    """
    if looks is None:
        looks = np.empty((len(fingerprints), 0), np.uint8)
    packed_ids, rows["id_end"] = pack_texts(ids)
    packed_original_ids, originals["id_end"] = pack_texts(original_ids)
    # Frames are rare: a batch without any stores only signatures.
    signature_end = signature_words(fingerprints.shape[1])
    words = fingerprints.shape[1] if fingerprints[:, signature_end:].any() else signature_end
    header = _BATCH.pack(len(rows), len(sources), len(fingerprints), len(originals), looks.shape[1], words)
    columns = (sources, rows, fingerprints[:, :words].astype("<u8", copy=False), looks, originals)
    return b"".join([header, *(column.tobytes() for column in columns), packed_ids, packed_original_ids])


def unpack_batch(value: memoryview) -> Lines:
    """Undo `pack_batch`."""
    row_count, source_count, entered, duplicates, look_bytes, stored = _BATCH.unpack_from(value)
    at = _BATCH.size
    sources = np.frombuffer(value, LOG_SOURCE, source_count, at)
    at += sources.nbytes
    rows = np.frombuffer(value, LOG_ROW, row_count, at)
    at += rows.nbytes
    fingerprints = np.frombuffer(value, "<u8", entered * stored, at).reshape(entered, stored)
    at += fingerprints.nbytes
    looks = np.frombuffer(value, np.uint8, entered * look_bytes, at).reshape(entered, look_bytes)
    at += looks.nbytes
    originals = np.frombuffer(value, LOG_ORIGINAL, duplicates, at)
    at += originals.nbytes
    end = at + (int(rows["id_end"][-1]) if row_count else 0)
    return Lines(sources, rows, fingerprints, looks, originals, value[at:end], value[end:])


def pack_lengths(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Lengths as stored: uint32 [n] -> uint8 [n, 3], the lowest byte first."""
    return np.minimum(lengths, LENGTH_MAX).astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]


def unpack_lengths(stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Undo `pack_lengths`.

    >>> unpack_lengths(pack_lengths(np.array([70_000, 2**30], np.uint32))).tolist()
    [70000, 16777215]
    """
    octets = np.zeros((len(stored), 4), np.uint8)
    octets[:, :3] = stored
    return octets.view("<u4")[:, 0].astype(np.uint32, copy=False)


def row_counts(value: memoryview) -> tuple[int, int]:
    """All rows and entered rows in a `log` value."""
    rows, _, entered, *_ = _BATCH.unpack_from(value)
    return rows, entered


class Tombstones(NamedTuple):
    """An `amendments` value, row by row.

    numbers       uint64 [n], document numbers
    fingerprints  uint64 [n, words]
    changes       uint8 [n], `Change` values

    >>> gone = Tombstones(np.array([4], np.uint64), np.array([[9]], np.uint64), np.array([1], np.uint8))
    >>> unpack_tombstones(pack_tombstones(gone), words=1).numbers
    array([4], dtype=uint64)
    """

    numbers: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    changes: npt.NDArray[np.uint8]


def pack_tombstones(tombstones: Tombstones) -> bytes:
    """An `amendments` value."""
    numbers, fingerprints = tombstones.numbers.astype("<u8"), tombstones.fingerprints.astype("<u8")
    parts = (numbers, fingerprints, tombstones.changes.astype(np.uint8))
    return b"".join([_TOMBSTONES.pack(len(numbers), 0), *(part.tobytes() for part in parts)])


def unpack_tombstones(value: bytes | memoryview, words: int) -> Tombstones:
    """Undo `pack_tombstones`."""
    count = _TOMBSTONES.unpack_from(value)[0]
    at = _TOMBSTONES.size
    numbers = np.frombuffer(value, "<u8", count, at).astype(np.uint64)
    at += numbers.nbytes
    fingerprints = np.frombuffer(value, "<u8", count * words, at).astype(np.uint64).reshape(count, words)
    return Tombstones(numbers, fingerprints, np.frombuffer(value, np.uint8, count, at + fingerprints.nbytes).copy())


def pack_texts(texts: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Concatenated texts, and each one's end, int64 [n]."""
    packed = pack_text("".join(texts))
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    if len(packed) != sizes.sum():
        # A character takes more than one byte.
        sizes = np.fromiter((len(pack_text(text)) for text in texts), np.int64, len(texts))
    return packed, np.cumsum(sizes)
