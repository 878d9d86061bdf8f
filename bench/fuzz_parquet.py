"""Parquet files as a hostile or careless writer might make them, for `bench.fuzz --of parquet`.

Columns of all types of Arrow that Parquet takes, with random bytes as values: texts that are no UTF-8, years that no calendar
has, times beyond a day, zones that nobody knows. Several columns may have one name. Some files are damaged afterwards.
"""

import io
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet

from streamer.errors import InputUnreadable
from streamer.transports.files.line_reader import LineReader

UNREADABLE = b""
"""Stands for the rest of a file that is refused."""

_NAMES = ("text", "id", "time", "text.2", "", "\0", "渡轮", "a\nb", "title", "x" * 3_000)
_ZONES = (None, "UTC", "Europe/Berlin", "Mars/Phobos", "", "+25:99", "\0")
_FIXED = (
    *(arrow.int8(), arrow.int16(), arrow.int32(), arrow.int64()),
    *(arrow.uint8(), arrow.uint16(), arrow.uint32(), arrow.uint64()),
    *(arrow.float16(), arrow.float32(), arrow.float64(), arrow.bool_(), arrow.date32(), arrow.date64()),
    *(arrow.time32("s"), arrow.time32("ms"), arrow.time64("us"), arrow.time64("ns")),
    *(arrow.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(arrow.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in _ZONES),
    *(arrow.decimal32(7, 2), arrow.decimal64(18, 0), arrow.decimal128(38, 37), arrow.decimal256(76, -3)),
    *(arrow.binary(1), arrow.binary(16), arrow.uuid(), arrow.bool8()),
)
_WITH_OFFSETS = (arrow.string(), arrow.binary(), arrow.large_string(), arrow.large_binary(), arrow.json_())
_VIEWS = ((arrow.string(), arrow.string_view()), (arrow.binary(), arrow.binary_view()))
_DEPTH_MAX = 4


def file(chance: random.Random, size: int) -> bytes:
    """A Parquet file with columns of about so many bytes, whole or damaged."""
    count = chance.choice([0, 1, 3, 9, 40])
    columns = [_array(chance, count, size // 8, 0) for _ in range(chance.randint(1, 6))]
    table = arrow.Table.from_arrays(columns, names=chance.choices(_NAMES, k=len(columns)))
    sink = io.BytesIO()
    try:
        arrow.parquet.write_table(
            table,
            sink,
            row_group_size=chance.choice([1, 7, 1_000]),
            version=chance.choice(["1.0", "2.4", "2.6"]),
            data_page_version=chance.choice(["1.0", "2.0"]),
            use_dictionary=chance.random() < 0.5,
            compression=chance.choice(["none", "snappy", "zstd", "gzip"]),
            store_schema=chance.random() < 0.5,
            use_deprecated_int96_timestamps=chance.random() < 0.3,
            allow_truncated_timestamps=True,
        )
    except (arrow.ArrowException, ValueError, OSError):
        # Parquet has no such type: most are left, and a file with texts alone is one too.
        arrow.parquet.write_table(arrow.table({"text": ["a text"] * count}), sink)
    content = sink.getvalue()
    return content if chance.random() < 0.7 else _damaged(chance, content)


def lines(content: bytes, folder: Path) -> list[bytes]:
    """Lines of a file, and UNREADABLE where it is refused."""
    path = folder / "fuzz.parquet"
    path.write_bytes(content)
    found: list[bytes] = []
    with closing(LineReader(path)) as reader:
        try:
            while taken := reader.lines(1_000, 2**24):
                found += taken
        except InputUnreadable:
            found.append(UNREADABLE)
    return found


def _damaged(chance: random.Random, content: bytes) -> bytes:
    raw = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        raw[at : at + chance.randint(0, 4)] = chance.randbytes(chance.randint(0, 4))
    return bytes(raw[: chance.choice([len(raw), len(raw) - 1, len(raw) // 2])])


def _array(chance: random.Random, count: int, size: int, depth: int) -> Any:
    match chance.randrange(4 if depth == _DEPTH_MAX else 9):
        case 0:
            return _with_offsets(chance, chance.choice(_WITH_OFFSETS), count, size)
        case 1:
            stored, view = chance.choice(_VIEWS)
            return (
                _with_offsets(chance, stored, count, size).cast(view)
                if stored == arrow.binary()
                else _texts(count, view)
            )
        case 2:
            return _with_offsets(chance, arrow.string(), count, size).dictionary_encode()
        case 3:
            return _fixed(chance, chance.choice(_FIXED), count)
        case 4:
            offsets = sorted(chance.choices(range(count + 1), k=count - 1)) if count else []
            items = _array(chance, count, size, depth + 1)
            ends = arrow.array([0, *offsets, count] if count else [0], arrow.int32())
            return arrow.ListArray.from_arrays(ends, items, mask=_mask(chance, count))
        case 5:
            return arrow.FixedSizeListArray.from_arrays(
                _array(chance, 2 * count, size, depth + 1), 2, mask=_mask(chance, count)
            )
        case 6:
            keys = _with_offsets(chance, arrow.string(), count, size, has_nulls=False)
            ends = arrow.array(range(count + 1), arrow.int32())
            return arrow.MapArray.from_arrays(ends, keys, _array(chance, count, size, depth + 1))
        case _:
            fields = [_array(chance, count, size, depth + 1) for _ in range(chance.randint(1, 3))]
            names = chance.choices(_NAMES, k=len(fields))
            return arrow.StructArray.from_arrays(fields, names=names, mask=_mask(chance, count))


def _mask(chance: random.Random, count: int) -> Any:
    return arrow.array([chance.random() < 0.3 for _ in range(count)], arrow.bool_())


def _texts(count: int, kind: Any) -> Any:
    return arrow.array(["text"] * count).cast(kind)


def _validity(chance: random.Random, count: int) -> Any:
    return chance.choice([None, arrow.py_buffer(chance.randbytes(count // 8 + 1))])


def _fixed(chance: random.Random, kind: Any, count: int) -> Any:
    stored = kind.storage_type if isinstance(kind, arrow.BaseExtensionType) else kind
    width = -(-stored.bit_width * count // 8)
    edges = [b"\0", b"\xff", b"\x7f", b"\x80"]
    octets = chance.choice([chance.randbytes(width), chance.choice(edges) * width])
    array = arrow.Array.from_buffers(stored, count, [_validity(chance, count), arrow.py_buffer(octets)])
    return array if stored is kind else arrow.ExtensionArray.from_storage(kind, array)


def _with_offsets(chance: random.Random, kind: Any, count: int, size: int, *, has_nulls: bool = True) -> Any:
    stored = kind.storage_type if isinstance(kind, arrow.BaseExtensionType) else kind
    content = chance.choice([chance.randbytes(size), "文字 é ".encode() * (size // 10), b"\xed\xa0\x80" * (size // 3)])
    width = "int64" if "large" in str(stored) else "int32"
    edges = [0, *sorted(chance.choices(range(len(content) + 1), k=count))]
    offsets = arrow.array(edges, width).buffers()[1]
    validity = _validity(chance, count) if has_nulls else None
    array = arrow.Array.from_buffers(stored, count, [validity, offsets, arrow.py_buffer(content)])
    return array if stored is kind else arrow.ExtensionArray.from_storage(kind, array)
