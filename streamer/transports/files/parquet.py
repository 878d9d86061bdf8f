"""Parquet rows as JSON lines, and JSON lines as Parquet rows. Only `columns` imports pyarrow too.

A line has every column in file order, so outputs keep the whole row: `columns` has the values. Of columns with one name
each has its own member. NaN is null. A text that is no UTF-8 keeps its bytes, so its row becomes a dead letter. The same
file gives the same lines, with and without pandas.

Reads batches of rows and single column pages, never a whole file. Written are row groups with few lines.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import orjson

from streamer.packages import lack_of
from streamer.transports.files.columns import Undecoded, free_names, reader_of

BEGIN = b"PAR1"
"""First and last bytes of a Parquet file."""

_ROWS_AT_ONCE = 4  # each has a copy of a value that they share: a few kilobytes of dictionary can be gigabytes of rows
_PAGES_READ_BYTES = 2**20
_GROUP_ROWS_MAX = 10_000
_GROUP_BYTES_MAX = 16 * 2**20
_MARK = b"streamer.mark"

LINE_BYTES = "line_bytes"
"""Column with the lines that are no JSON object."""


class Unreadable(Exception):
    """Unreadable from here on. The message says why."""


def json_lines(
    file_or_path: Path | IO[bytes] | io.RawIOBase, remark: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[bytes, float]]:
    """Yield lines, each with b"\\n", and the share of rows read so far. `remark` takes sentences. Raises Unreadable."""
    if lack := lack_of("parquet"):
        raise Unreadable(f"this is Parquet, which needs {lack}")
    import pyarrow as arrow
    import pyarrow.parquet

    read = 0
    try:
        with arrow.parquet.ParquetFile(
            file_or_path,
            pre_buffer=False,
            buffer_size=_PAGES_READ_BYTES,
            # In nanoseconds, years before 1677 and after 2262 would become other years.
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=True,
        ) as file:
            count, schema = file.metadata.num_rows, file.schema_arrow
            names = _members(schema.names, remark)
            readers = [reader_of(kind) for kind in schema.types]
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                read += batch.num_rows
                columns = [reader(column) for reader, column in zip(readers, batch.columns, strict=True)]
                for at in range(batch.num_rows):
                    row = {name: column[at] for name, column in zip(names, columns, strict=True)}
                    yield orjson.dumps(row, default=_plain, option=orjson.OPT_APPEND_NEWLINE), read / count
    except MemoryError:
        # pyarrow's own is an ArrowException too.
        raise
    except (RecursionError, orjson.JSONEncodeError) as error:
        raise Unreadable(f"the Parquet file's columns are nested too deep ({error})") from error
    except NotImplementedError as error:
        raise Unreadable(f"pyarrow cannot read a column's type ({_first_line(error)})") from error
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"the Parquet file is damaged, or not yet whole ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _members(columns: Sequence[str], remark: Callable[[str], None]) -> list[str]:
    names = free_names(columns)
    for column, name in zip(columns, names, strict=True):
        if column != name:
            remark(f"another column is named {column} too: its values are read as {name}")
    return names


def _plain(value: object) -> object:
    if isinstance(value, Undecoded):
        # As JSON Lines would have it, so it becomes the same dead letter. Latin-1 keeps every byte.
        return orjson.Fragment(json.dumps(value.decode("latin-1"), ensure_ascii=False).encode("latin-1"))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def write_rows(file: IO[bytes], lines: Callable[[], Iterator[bytes]], mark: str) -> None:
    """Write JSON lines as a Parquet file's rows, in their order.

    Members are columns, and an absent one is null. Booleans, numbers, texts and lists of these keep their types. A column
    with objects, or with types that have none in common, holds each value as JSON. Other lines are bytes in LINE_BYTES.

    lines  called for each pass: one finds the types, another writes
    mark   of this content, for `has_mark`

    Raises OSError.
    """
    import pyarrow as arrow
    import pyarrow.parquet

    columns = _Columns()
    for rows in _groups(lines()):
        columns.learn(rows)
    while True:
        schema = columns.schema({_MARK: mark})
        try:
            file.seek(0)
            file.truncate()
            with arrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                for rows in _groups(lines()):
                    writer.write_table(columns.table(rows, schema), row_group_size=len(rows))
        except _NoType as column:
            columns.as_json.add(str(column))
            continue
        return


class _NoType(Exception):
    """A column has a value that its type cannot hold exactly. The message is its name."""


class _Columns:
    """Types by name, and the columns that hold JSON."""

    def __init__(self) -> None:
        self.types: dict[str, Any] = {}
        self.as_json: set[str] = set()

    def learn(self, rows: Sequence[dict[str, Any]]) -> None:
        import pyarrow as arrow

        for name in dict.fromkeys(name for row in rows for name in row):
            known = self.types.setdefault(name, arrow.null())
            values = [row[name] for row in rows if name in row]
            try:
                seen = arrow.infer_type(values)
                both = [arrow.schema([("", each)]) for each in (known, seen)]
                self.types[name] = arrow.unify_schemas(both, promote_options="permissive").field(0).type
            except (arrow.ArrowException, OverflowError):
                self.as_json.add(name)
            # Arrow would write true among fractions as 1.0.
            if "struct" in str(self.types[name]) or ("double" in str(self.types[name]) and any(map(_has_flag, values))):
                self.as_json.add(name)

    def schema(self, metadata: dict[bytes, str]) -> Any:
        import pyarrow as arrow

        # Readers differ over columns without a type, so those are texts too.
        types = {
            name: arrow.string() if name in self.as_json or arrow.types.is_null(each) else each
            for name, each in self.types.items()
        }
        return arrow.schema(types or {LINE_BYTES: arrow.binary()}, metadata)

    def table(self, rows: Sequence[dict[str, Any]], schema: Any) -> Any:
        import pyarrow as arrow

        arrays = []
        for field in schema:
            values = [row.get(field.name) for row in rows]
            if field.name in self.as_json:
                values = [None if each is None else orjson.dumps(each).decode() for each in values]
            try:
                arrays.append(arrow.array(values, field.type))
            except (arrow.ArrowException, OverflowError) as error:
                raise _NoType(field.name) from error
        return arrow.Table.from_arrays(arrays, schema=schema)


def _has_flag(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, list) and any(map(_has_flag, value)))


def has_mark(path: Path, mark: str) -> bool:
    """Whether this file has rows that were written with this mark. An absent or damaged one has none."""
    import pyarrow as arrow
    import pyarrow.parquet

    try:
        metadata = arrow.parquet.read_schema(path).metadata or {}
    except (arrow.ArrowException, OSError):
        return False
    return bool(metadata.get(_MARK) == mark.encode())


def _groups(lines: Iterator[bytes]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for line in lines:
        if rows and (len(rows) == _GROUP_ROWS_MAX or size + len(line) > _GROUP_BYTES_MAX):
            yield rows
            rows, size = [], 0
        rows.append(_row(line))
        size += len(line)
    if rows:
        yield rows


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {LINE_BYTES: line}
    return row if isinstance(row, dict) else {LINE_BYTES: line}
