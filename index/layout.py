"""The bytes on disk, format version 2. The only place that knows them; a change of any of them is a new version.

One LMDB file with nine tables. `>` big-endian (keys, and what LMDB has to sort), `<` little-endian, fp = the
fingerprint's words as <u64 (8 or 16 bytes), text = UTF-8 (a lone surrogate, which JSON can hold, as WTF-8).

    meta       "stamp"                             -> JSON {"format": 2, "bits": .., "distance_max": .., ..}
               "counters"                          -> next document number <u64, journal rows <u64, next stream <u32
               "merge"                             -> merged to <u64, frozen to <u64, version of the chunks <u64,
                                                      table u8, bound (as in a key of chunks)
    streams    stream number >u32                  -> length of stream <u32, stream text, name text
    stream_numbers  stream text                    -> stream number >u32
    applied    stream >u32, partition >u32         -> applied offset <u64, mark
    log        next document number >u64, journal rows >u64, both as they were before the batch
                                                   -> rows <u32, sources <u32, sources, rows, ids text
                                                      a source: stream <u32, partition <u32
                                                      a row: offset <u64, number <u64, time_ms <i64, fp, source <u32,
                                                      end of its id in the ids <u32, distance i8, verdict u8, reason u8,
                                                      kind u8, filing u8
    journal    stream >u32, partition >u32, first offset >u64
                                                   -> last offset <u64, key of a batch in log, source in it <u32
    exact      fp                                  -> document number >u64        many values to a key, of one size
    repeats    fp                                  -> document number >u64        many values to a key, of one size
    chunks     table u8, bound: blocks >u16        -> entries <u32, 0 <u32, blocks: <u16 [blocks][entries],
                                                      in table 0 numbers: <u32 [entries], u8 [entries]; zeros to the end

A row's `number` is its own where it is UNIQUE, its original's where it is a DUPLICATE. Document numbers are given in the
order of entering and never given again: the rows of a batch that entered (whose filing is not NOTHING) have the next
ones in turn. Only they have an id.

The journal's runs of one source never overlap. A run stands for the rows of its source in its batch from its first
offset to its last.

Entries of kind NEAR are filed by blocks, or, where an equal one was filed before, in `repeats`; EXACT ones in `exact`.
Those filed by blocks up to the number `merged to` stand in chunks. Table t orders them by the blocks t, t + 1, ... and,
behind the last, 0, 1, ...; a chunk holds those from its bound to the bound of the next chunk of its table. Those from
`merged to` up to `frozen to` are on their way there: the tables below `table` have them all, `table` has those below
`bound`, the others none. All the later ones are found in the log alone.
"""

import struct
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 2


class Table(Enum):
    """The tables; the value is the name on disk."""

    META = b"meta"
    STREAMS = b"streams"
    STREAM_NUMBERS = b"stream_numbers"
    APPLIED = b"applied"
    LOG = b"log"
    JOURNAL = b"journal"
    EXACT = b"exact"
    REPEATS = b"repeats"
    CHUNKS = b"chunks"

    @property
    def many_values(self) -> bool:
        """Whether a key has many values, all of one size, sorted bytewise."""
        return self in (Table.EXACT, Table.REPEATS)


STAMP_KEY = b"stamp"
COUNTERS_KEY = b"counters"
MERGE_KEY = b"merge"

SOURCE_KEY = struct.Struct(">II")
JOURNAL_KEY = struct.Struct(">IIQ")
NUMBER_KEY = struct.Struct(">I")
LOG_KEY = struct.Struct(">QQ")
_COUNTERS = struct.Struct("<QQI")
_MERGE = struct.Struct("<QQQB")
_APPLIED = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")
_BATCH = struct.Struct("<II")
_RUN = struct.Struct("<Q16sI")
_CHUNK = struct.Struct("<II")
_PAGE_BYTES = 4096
_PAGE_HEADER_BYTES = 16

LOG_SOURCE = np.dtype([("stream", "<u4"), ("partition", "<u4")])


class Filing(IntEnum):
    """Where a row of the log became an entry."""

    NOTHING = 0
    """It entered nothing."""
    ASIDE = 1
    """In `exact`, or in `repeats`."""
    BLOCKS = 2
    """Under its blocks."""


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


class Merge(NamedTuple):
    """How far the entries have moved from the log into chunks; see the top of this module.

    version goes up with every change of the chunks; table and bound mean nothing while frozen_to == merged_to.
    """

    merged_to: int
    frozen_to: int
    version: int
    table: int
    bound: bytes


def pack_merge(merge: Merge) -> bytes:
    """The value of `merge` in `meta`."""
    return _MERGE.pack(*merge[:4]) + merge.bound


def unpack_merge(value: bytes | None) -> Merge:
    """The reverse of `pack_merge`; where nothing was merged yet, all zero."""
    if value is None:
        return Merge(0, 0, 0, 0, b"")
    merged_to, frozen_to, version, table = _MERGE.unpack_from(value)
    return Merge(merged_to, frozen_to, version, table, value[_MERGE.size :])


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


def log_row(words: int) -> np.dtype[np.void]:
    """A row of a batch in `log`, for fingerprints of `words` 64-bit words."""
    return np.dtype(
        [
            ("offset", "<u8"),
            ("number", "<u8"),
            ("time_ms", "<i8"),
            ("fingerprint", "<u8", (words,)),
            ("source", "<u4"),
            ("id_end", "<u4"),
            ("distance", "i1"),
            ("verdict", "u1"),
            ("reason", "u1"),
            ("kind", "u1"),
            ("filing", "u1"),
        ]
    )


def pack_batch(sources: npt.NDArray[np.void], rows: npt.NDArray[np.void], ids: Sequence[str]) -> bytes:
    """A value of `log`: LOG_SOURCE [s], log_row [n] whose `id_end` is set here, and n ids."""
    texts = [pack_text(id_) for id_ in ids]
    rows["id_end"] = np.cumsum([len(text) for text in texts])
    return b"".join([_BATCH.pack(len(rows), len(sources)), sources.tobytes(), rows.tobytes(), *texts])


def unpack_batch(value: memoryview, words: int) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void], memoryview]:
    """The reverse of `pack_batch`: sources, rows, and the ids as they stand there, all as views of the value."""
    row_count, source_count = _BATCH.unpack_from(value)
    row = log_row(words)
    begin = _BATCH.size + source_count * LOG_SOURCE.itemsize
    sources = np.frombuffer(value, LOG_SOURCE, source_count, _BATCH.size)
    return sources, np.frombuffer(value, row, row_count, begin), value[begin + row_count * row.itemsize :]


class Run(NamedTuple):
    """A value of `journal`: the rows of source `source` of the batch `batch`, up to the offset `last`."""

    last: int
    batch: bytes
    source: int


def pack_run(run: Run) -> bytes:
    """A value of `journal`."""
    return _RUN.pack(*run)


def unpack_run(value: bytes) -> Run:
    """The reverse of `pack_run`."""
    return Run(*_RUN.unpack(value))


def chunk_entry_bytes(table: int, blocks: int) -> int:
    """What an entry takes in a chunk."""
    return blocks * 2 + (5 if table == 0 else 0)


def pack_chunk(columns: npt.NDArray[np.uint16], numbers: npt.NDArray[np.uint64]) -> bytes:
    """A value of `chunks`: uint16 [blocks, n], and uint64 [n] in table 0, [0] in the others.

    Its size is one of few, so that pages which one chunk leaves serve another.
    """
    assert not (numbers >> np.uint64(40)).any(), "a document number has more than 40 bits"
    parts = [_CHUNK.pack(columns.shape[1], 0), columns.astype("<u2").tobytes()]
    parts += [numbers.astype("<u4").tobytes(), (numbers >> np.uint64(32)).astype(np.uint8).tobytes()]
    size = sum(map(len, parts))
    parts.append(bytes(_size_class(size) - size))
    return b"".join(parts)


def unpack_chunk(
    value: bytes | memoryview, table: int, blocks: int
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
    """The reverse of `pack_chunk`."""
    count = _CHUNK.unpack_from(value)[0]
    columns = np.frombuffer(value, "<u2", blocks * count, _CHUNK.size).reshape(blocks, count).astype(np.uint16)
    if table:
        return columns, np.empty(0, np.uint64)
    begin = _CHUNK.size + columns.nbytes
    low = np.frombuffer(value, "<u4", count, begin).astype(np.uint64)
    high = np.frombuffer(value, np.uint8, count, begin + 4 * count).astype(np.uint64)
    return columns, low | high << np.uint64(32)


def chunk_numbers(value: memoryview, places: npt.NDArray[np.int64], blocks: int) -> npt.NDArray[np.uint64]:
    """Only the numbers, uint64 [n], at these places of a chunk of table 0."""
    count = _CHUNK.unpack_from(value)[0]
    begin = _CHUNK.size + 2 * blocks * count
    low = np.frombuffer(value, "<u4", count, begin)[places].astype(np.uint64)
    return low | np.frombuffer(value, np.uint8, count, begin + 4 * count)[places].astype(np.uint64) << np.uint64(32)


def _size_class(size: int) -> int:
    """The least size not below this that has at most 5 leading bits when counted in pages, and fills its last page."""
    pages = -(-(size + _PAGE_HEADER_BYTES) // _PAGE_BYTES)
    step = 1 << max(0, pages.bit_length() - 5)
    return (-(-pages // step) * step) * _PAGE_BYTES - _PAGE_HEADER_BYTES


def _as_bytes(rows: npt.NDArray[np.generic]) -> list[bytes]:
    """Every row (along the first axis) as one bytes object."""
    count = len(rows)
    if count == 0:
        return []
    flat = np.ascontiguousarray(rows)
    return flat.view(np.uint8).reshape(count, -1).view(f"V{flat.nbytes // count}")[:, 0].tolist()  # type: ignore[no-any-return]
