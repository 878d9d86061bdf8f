"""The bytes on disk, format version 1. The only place that knows them; a change of any of them is a new version.

One LMDB file with nine tables. `>` big-endian (keys, and what LMDB has to sort), `<` little-endian, fp = the
fingerprint's words as <u64 (8 or 16 bytes, a MinHash signature 32 to 256), text = UTF-8 (a lone surrogate, which JSON
can hold, as WTF-8).

    meta       "stamp"                             -> JSON {"format": 1, "bits": .., "distance_max": .., ..}
               "counters"                          -> next document number <u64, journal rows <u64, next stream <u32
    streams    stream number >u32                  -> length of stream <u32, stream text, name text
    stream_numbers  stream text                    -> stream number >u32
    applied    stream >u32, partition >u32         -> applied offset <u64, mark
    journal    stream >u32, partition >u32, offset of the first row >u64
                                                   -> rows, ascending by offset, 20 bytes each:
                                                      offset <u64, number <u64, distance <i16, verdict u8, reason u8
    documents  document number >u64                -> root <u64, offset <u64, time_ms <i64, stream <u32,
                                                      partition <u32, kind u8, fp, id text
    buckets    block number u8, block value >u16   -> document number >u64, fp    many values to a key, of one size
               band number u8, band hash >u32      -> document number >u64        the same, for MinHash signatures
    exact      fp                                  -> document number >u64        many values to a key, of one size
    forgotten  document number >u64                -> nothing

The journal's values of one source never overlap: between a value's first and last offset no other value has a row.
Document numbers are given in the order of entering and never given again. A NEAR document stands in one bucket per
block or band, an EXACT one in `exact`; `root` is its own number, or its original's where duplicates enter too. A
forgotten one stands in neither, but stays in `documents`, for the journal goes on to name it.
"""

import struct
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.blocks import Buckets

FORMAT_VERSION = 1


class Table(Enum):
    """The tables; the value is the name on disk."""

    META = b"meta"
    STREAMS = b"streams"
    STREAM_NUMBERS = b"stream_numbers"
    APPLIED = b"applied"
    JOURNAL = b"journal"
    DOCUMENTS = b"documents"
    BUCKETS = b"buckets"
    EXACT = b"exact"
    FORGOTTEN = b"forgotten"

    @property
    def many_values(self) -> bool:
        """Whether a key has many values, all of one size, sorted bytewise."""
        return self in (Table.BUCKETS, Table.EXACT)


STAMP_KEY = b"stamp"
COUNTERS_KEY = b"counters"

SOURCE_KEY = struct.Struct(">II")
JOURNAL_KEY = struct.Struct(">IIQ")
NUMBER_KEY = struct.Struct(">I")
NUMBER_BYTES = 8
_COUNTERS = struct.Struct("<QQI")
_APPLIED = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")

JOURNAL_ROW = np.dtype(
    [("offset", "<u8"), ("number", "<u8"), ("distance", "<i2"), ("verdict", "u1"), ("reason", "u1")],
)


class Counters(NamedTuple):
    """What is counted up and never down."""

    next_number: int
    journal_rows: int
    next_stream: int


def pack_counters(counters: Counters) -> bytes:
    """The value of `counters` in `meta`."""
    return _COUNTERS.pack(*counters)


def unpack_counters(value: bytes | None) -> Counters:
    """The reverse of `pack_counters`; all zero where nothing was counted yet."""
    return Counters(*_COUNTERS.unpack(value)) if value else Counters(0, 0, 0)


def pack_text(text: str) -> bytes:
    """Text as it stands on disk."""
    return text.encode("utf-8", "surrogatepass")


def unpack_text(value: bytes) -> str:
    """The reverse of `pack_text`."""
    return value.decode("utf-8", "surrogatepass")


def pack_stream(stream: str, name: str) -> bytes:
    """A value of `streams`."""
    text = pack_text(stream)
    return _LENGTH.pack(len(text)) + text + pack_text(name)


def unpack_stream(value: bytes) -> tuple[str, str]:
    """The reverse of `pack_stream`: stream and name."""
    end = _LENGTH.size + _LENGTH.unpack_from(value)[0]
    return unpack_text(value[_LENGTH.size : end]), unpack_text(value[end:])


def pack_applied(offset: int, mark: bytes) -> bytes:
    """A value of `applied`."""
    return _APPLIED.pack(offset) + mark


def unpack_applied(value: bytes) -> tuple[int, bytes]:
    """The reverse of `pack_applied`."""
    return _APPLIED.unpack_from(value)[0], value[_APPLIED.size :]


def pack_numbers(numbers: npt.NDArray[np.uint64]) -> list[bytes]:
    """Document numbers uint64 [n] as keys of `documents` and values of `exact`: sorting them sorts the numbers."""
    return _as_bytes(numbers.astype(">u8"))


def unpack_numbers(values: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """The reverse of `pack_numbers`."""
    return np.frombuffer(b"".join(values), dtype=">u8").astype(np.uint64)


def pack_fingerprints(fingerprints: npt.NDArray[np.uint64]) -> list[bytes]:
    """Fingerprints uint64 [n, words] as keys of `exact`."""
    return _as_bytes(fingerprints.astype("<u8"))


def pack_bucket_keys(keys: npt.NDArray[np.uint32]) -> list[bytes]:
    """Block keys uint32 [n], as `blocks.block_keys` makes them, as keys of `buckets`: 3 bytes each."""
    return _as_bytes(keys.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:])


def pack_bucket_values(buckets: Buckets) -> list[bytes]:
    """The values of `buckets`, one per filed entry, in order."""
    values = np.empty(len(buckets.keys), _bucket_value(buckets.fingerprints.shape[1]))
    values["number"] = buckets.numbers
    values["fingerprint"] = buckets.fingerprints
    return _as_bytes(values)


def bucket_value_bytes(words: int) -> int:
    """Size of a value of `buckets` for fingerprints of `words` 64-bit words."""
    return _bucket_value(words).itemsize


def unpack_buckets(rows: memoryview, words: int) -> Buckets:
    """Keys and values of `buckets` side by side (3 + bucket_value_bytes each), as columns."""
    table = np.frombuffer(rows, dtype=[("key", "u1", (3,)), ("value", _bucket_value(words))])
    key = table["key"].astype(np.uint32)
    value = table["value"]
    return Buckets(
        (key[:, 0] << np.uint32(16)) | (key[:, 1] << np.uint32(8)) | key[:, 2],
        value["number"].astype(np.uint64),
        value["fingerprint"].astype(np.uint64),
    )


def pack_band_keys(keys: npt.NDArray[np.uint64]) -> list[bytes]:
    """Block keys uint64 [n], as `bands.band_keys` makes them, as keys of `buckets`: 5 bytes each."""
    return _as_bytes(keys.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 3:])


def unpack_band_buckets(rows: memoryview) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Keys and values of `buckets` side by side (5 + 8 bytes each), as columns: block keys, document numbers."""
    table = np.frombuffer(rows, dtype=[("band", "u1"), ("hash", ">u4"), ("number", ">u8")])
    keys = (table["band"].astype(np.uint64) << np.uint64(32)) | table["hash"].astype(np.uint64)
    return keys, table["number"].astype(np.uint64)


def pack_documents(columns: dict[str, npt.NDArray[np.generic]], ids: Sequence[str]) -> list[bytes]:
    """The values of `documents`; `columns` as `document_header` names them."""
    words = columns["fingerprint"].shape[1]
    headers = np.empty(len(ids), document_header(words))
    for name, column in columns.items():
        headers[name] = column
    return [header + pack_text(id_) for header, id_ in zip(_as_bytes(headers), ids, strict=True)]


def unpack_documents(values: Sequence[bytes], words: int) -> tuple[npt.NDArray[np.void], list[str]]:
    """The reverse of `pack_documents`: a structured array of `document_header`, and the ids."""
    header = document_header(words)
    columns = np.frombuffer(b"".join(value[: header.itemsize] for value in values), dtype=header)
    return columns, [unpack_text(value[header.itemsize :]) for value in values]


def unpack_fingerprints(values: Sequence[bytes], words: int) -> npt.NDArray[np.uint64]:
    """Only the fingerprints of values of `documents`: uint64 [n, words]."""
    header = document_header(words)
    start, stop = header.itemsize - 8 * words, header.itemsize
    rows = np.frombuffer(b"".join([value[start:stop] for value in values]), "<u8")
    return rows.astype(np.uint64, copy=False).reshape(-1, words)


def document_header(words: int) -> np.dtype[np.void]:
    """What stands before the id in a value of `documents`."""
    return np.dtype(
        [
            ("root", "<u8"),
            ("offset", "<u8"),
            ("time_ms", "<i8"),
            ("stream", "<u4"),
            ("partition", "<u4"),
            ("kind", "u1"),
            ("fingerprint", "<u8", (words,)),
        ]
    )


def _bucket_value(words: int) -> np.dtype[np.void]:
    return np.dtype([("number", ">u8"), ("fingerprint", "<u8", (words,))])


def _as_bytes(rows: npt.NDArray[np.generic]) -> list[bytes]:
    """Every row (along the first axis) as one bytes object."""
    count = len(rows)
    if count == 0:
        return []
    flat = np.ascontiguousarray(rows)
    return flat.view(np.uint8).reshape(count, -1).view(f"V{flat.nbytes // count}")[:, 0].tolist()  # type: ignore[no-any-return]
