"""Parquet: rows in, one line of JSON for each. The only importer of pyarrow.

A line has every column of the file, in its order, so that outputs keep the whole row. Times become ISO 8601, decimals texts,
bytes the text that they are in UTF-8, else Base64; what is no number (NaN) becomes null. The same file gives the same lines.

Memory: rows come in batches, and columns page by page, so that a file is never held whole.
"""

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import orjson

BEGIN = b"PAR1"
"""With what a Parquet file begins, and ends."""

_ROWS_AT_ONCE = 64  # held as Python objects: a row may be a page of megabytes
_PAGES_READ_BYTES = 2**20


class Unreadable(Exception):
    """The file cannot be read further. The message says why."""


def json_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Lines of some rows, each with b"\\n", and the share of all rows read so far. Raises Unreadable."""
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
                yield b"".join(map(_line, batch.to_pylist())), read / count
    except MemoryError:
        # pyarrow's own is an ArrowException too.
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"the Parquet file is damaged ({str(error).splitlines()[0][:200]})") from error


def _line(row: dict[str, object]) -> bytes:
    return orjson.dumps(row, default=_plain, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> str:
    """Text for a value without a JSON form."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)
