"""Parquet rows as JSON lines. The only importer of pyarrow.

A line has every column in file order, so outputs keep the whole row. Times become ISO 8601, decimals text,
bytes UTF-8 text or else Base64, and NaN null. The same file gives the same lines.

Reads batches of rows and single column pages, never a whole file.
"""

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import orjson

BEGIN = b"PAR1"
"""First and last bytes of a Parquet file."""

_ROWS_AT_ONCE = 4  # each has a copy of a value that they share: a few kilobytes of dictionary can be gigabytes of rows
_PAGES_READ_BYTES = 2**20


class Unreadable(Exception):
    """Unreadable from here on. The message says why."""


def json_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Yield lines, each with b"\\n", and the share of rows read so far. Raises Unreadable."""
    if importlib.util.find_spec("pyarrow") is None:
        raise Unreadable('this is Parquet, which needs the package pyarrow: pip install "neardup-streamer[parquet]"')
    import pyarrow as arrow
    import pyarrow.parquet

    read = 0
    try:
        with arrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PAGES_READ_BYTES) as file:
            count = file.metadata.num_rows
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                read += batch.num_rows
                yield from ((line, read / count) for line in map(_line, batch.to_pylist()))
    except MemoryError:
        # pyarrow's own is an ArrowException too.
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"the Parquet file is damaged ({str(error).splitlines()[0][:200]})") from error


def _line(row: dict[str, object]) -> bytes:
    return orjson.dumps(row, default=_plain, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)
