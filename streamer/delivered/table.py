"""What was delivered: a temporary SQLite file with a row for every position.

    source    a source's rows
    output    an output's headers; `times` counts how often its position came
    print     what its text gives: fingerprint, second look, digests, id, host

A row's number is its position: the sources' offset ranges follow each other. So within a source rows ascend with
offsets. Who knows more about a position adds a table with the same rows. Only the pages in use are in memory.
"""

import gc
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from index import Position, Verdict
from streamer.delivered.temporary import Connection, temporary
from streamer.explain.positions import position_text
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.records.output_headers import OutputHeaders
from streamer.transports.output_log import Extent

NO_VERDICT = 255
NONE = -1
"""No row. SQL has NULL for it."""

ELSEWHERE = -2
"""For an original that can no longer be read, or is from another stream."""

ROWS_AT_ONCE = 1 << 12

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
"""Columns: rows in the table, truth values, and words in fingerprints."""


def any_of(values: Iterable[int | str]) -> str:
    """A list in SQL.

    >>> any_of([Verdict.UNIQUE, Verdict.DUPLICATE]), any_of(["short-text"])
    ('(0, 1)', "('short-text')")
    """
    return f"({', '.join(f'{each:d}' if isinstance(each, int) else repr(each) for each in values)})"


NAMING = any_of(verdict for verdict in Verdict if verdict.names_original)
STANDING = any_of(verdict for verdict in Verdict if verdict.stands_for_itself)
"""SQL lists: verdicts that name an original, and that stand for themselves."""

_CACHE_KIB = 65_536
_SCHEMA = """
CREATE TABLE output (
    row INTEGER PRIMARY KEY, times INTEGER, verdict INTEGER, reason TEXT, distance INTEGER, by_similarity INTEGER,
    length REAL, new REAL, original INTEGER, id BLOB, original_id BLOB, settings TEXT, arrived_ms INTEGER, number INTEGER
);
CREATE TABLE print (
    row INTEGER PRIMARY KEY, kind INTEGER, fingerprint BLOB, reason INTEGER, look BLOB, digests BLOB, letters INTEGER,
    is_read INTEGER, time_ms INTEGER, named INTEGER, id BLOB, host BLOB
);
CREATE TABLE source (number INTEGER PRIMARY KEY, first INTEGER, stop INTEGER);
"""
_FIRST_STAYS = "ON CONFLICT (row) DO UPDATE SET times = times + 1"
_OUTPUT_COLUMNS = (
    "verdict", "reason", "distance", "by_similarity", "length", "new", "original", "id", "original_id", "settings",
    "arrived_ms", "number",
)  # fmt: skip
_LAST_STAYS = ", ".join([_FIRST_STAYS, *(f"{name} = excluded.{name}" for name in _OUTPUT_COLUMNS)])


class Table:
    """Rows by position; see `opened`.

    >>> from index import Source
    >>> source, extent = Source("stream", 1), Extent({"stream": "pages"}, {}, {Source("stream", 1): 9}, {}, 0, 0)
    >>> with opened(folder / "table", extent) as table:
    ...     table.row(Position(source, 7)), table.row(Position(source, 9)), table.text(7)
    (7, None, 'pages/1/7')
    """

    def __init__(self, connection: Connection, extent: Extent) -> None:
        self._connection, self._names = connection, extent.names
        self.sources = list({**extent.end, **extent.committed})
        """Sources in row order."""
        lengths = [max(extent.end.get(each, 0), extent.committed.get(each, 0)) for each in self.sources]
        self.firsts = [*accumulate(lengths, initial=0)]
        """Each source's first row, and the row after the last one."""
        self._numbers = {source: number for number, source in enumerate(self.sources)}
        connection.create_function("place", 1, self.text, deterministic=True)
        self.execute(_SCHEMA)
        self.insert("source", zip(range(len(self.sources)), self.firsts, self.firsts[1:], strict=False))

    def row(self, position: Position | None) -> int | None:
        """A position's row; None beyond the sources' ends."""
        if position is None or (number := self._numbers.get(position.source)) is None:
            return None
        row = self.firsts[number] + position.offset
        return row if self.firsts[number] <= row < self.firsts[number + 1] else None

    def position(self, row: int) -> Position:
        """A row's position."""
        number = bisect_right(self.firsts, row) - 1
        return Position(self.sources[number], row - self.firsts[number])

    def text(self, row: int) -> str:
        """A row's `topic/partition/offset`; in SQL `place(row)`."""
        return self.position_text(self.position(row))

    def position_text(self, position: Position) -> str:
        """`topic/partition/offset`, with the stream's id for a missing name."""
        return position_text(position, self._names)

    def of_one_source(self, rows: Rows, others: Rows) -> Flags:
        """Whether each pair of rows has one source: int64 [n] twice -> bool [n]."""
        same: Flags = np.searchsorted(self.firsts, rows, "right") == np.searchsorted(self.firsts, others, "right")
        return same

    def execute(self, statements: str) -> None:
        """Run statements without a result."""
        # A script ends the transaction, and outside of one each row would be written by itself.
        self._connection.executescript(f"{statements};\nBEGIN;")

    def insert(self, name: str, rows: Iterable[Sequence[Any]], conflict: str = "", *, replacing: bool = False) -> None:
        """Insert whole rows into a table. Rows that are there: `replacing` them, or `conflict` in SQL."""
        rows = list(rows)
        if rows:
            statement = f"{'REPLACE' if replacing else 'INSERT'} INTO {name} VALUES ({', '.join('?' * len(rows[0]))})"
            self._connection.executemany(f"{statement} {conflict}", rows)

    def add_outputs(self, outputs: Sequence["Delivered"], *, last_stays: bool = False) -> None:
        """Add outputs' headers. If a position comes again, the first one stays, or the last one, and `times` counts them."""
        rows = ((row, 1, *_columns(headers, original), *others) for row, headers, original, *others in outputs)
        self.insert("output", rows, _LAST_STAYS if last_stays else _FIRST_STAYS)

    def present(self, name: str, rows: Collection[int | None], columns: str = "row") -> dict[int, tuple[Any, ...]]:
        """These rows in a table, by row: its named columns, the row first."""
        wanted = orjson.dumps([row for row in rows if row is not None]).decode()
        query = f"SELECT {columns} FROM json_each(?) AS wanted JOIN {name} ON row = wanted.value"
        return {each[0]: each for each in self._connection.execute(query, (wanted,))}

    def one(self, query: str, *values: object) -> tuple[Any, ...]:
        """The first row of a query's result."""
        first: tuple[Any, ...] = self._connection.execute(query, values).fetchone()
        return first

    def portions(self, query: str, size: int = ROWS_AT_ONCE) -> Iterator[list[tuple[Any, ...]]]:
        """A query's result, at most `size` rows at a time."""
        cursor = self._connection.execute(query)
        while portion := cursor.fetchmany(size):
            yield portion


class Delivered(NamedTuple):
    """An output's headers with the rows for its position and its original.

    arrived_ms  the record's timestamp
    number      its place among all that were read

    >>> from streamer.records.output_headers import parse_headers
    >>> from streamer.records.record import Destination
    >>> Delivered(7, parse_headers((), Destination.UNIQUE), original=None).number
    0
    """

    row: int
    headers: OutputHeaders
    original: int | None
    arrived_ms: int = 0
    number: int = 0


@contextmanager
def opened(path: Path, extent: Extent) -> Iterator[Table]:
    """An empty table in a file, which is deleted at the end. Raises OutputUnwritable."""
    # Rows come and go by the thousand. The collector need not look through all modules each time.
    gc.freeze()
    try:
        with temporary(path, "the table of what was delivered", _CACHE_KIB) as connection:
            yield Table(connection, extent)
    finally:
        gc.unfreeze()


def text_bytes(text: str | None) -> bytes | None:
    """An id or a host as bytes, since SQL has no lone surrogates; None if empty."""
    return text.encode(errors="surrogatepass") if text else None


def text_of(octets: bytes | None) -> str:
    """Revert `text_bytes`."""
    return (octets or b"").decode(errors="surrogatepass")


def print_columns(fingerprints: Fingerprints) -> list[tuple[Any, ...]]:
    """Columns for `print` by text: kind, fingerprint, reason, look, digests, letters."""
    count = len(fingerprints)
    letters = [0] * count if fingerprints.lengths is None else fingerprints.lengths.tolist()
    packed = (_packed(each, count) for each in (fingerprints.fingerprints, fingerprints.looks, fingerprints.digests))
    prints, looks, digests = packed
    kinds, reasons = fingerprints.kinds.tolist(), fingerprints.reasons.tolist()
    return list(zip(kinds, prints, reasons, looks, digests, letters, strict=True))


def _packed(rows: npt.NDArray[Any] | None, count: int) -> list[bytes | None]:
    if rows is None or not count:
        return [None] * count
    octets, width = rows.tobytes(), rows.nbytes // count
    return [octets[begin : begin + width] for begin in range(0, count * width, width)] if width else [None] * count


def blobs(columns: Sequence[bytes | None], dtype: npt.DTypeLike, width: int) -> npt.NDArray[Any]:
    """Byte strings as rows with numbers: dtype [n, width]; zeros for None."""
    blank = bytes(np.dtype(dtype).itemsize * width)
    joined = b"".join(each or blank for each in columns)
    return np.frombuffer(joined, dtype).reshape(len(columns), width)


def _columns(headers: OutputHeaders, original: int | None) -> tuple[Any, ...]:
    return (
        NO_VERDICT if headers.verdict is None else int(headers.verdict),
        *(headers.reason, headers.distance, headers.by_similarity, headers.length, headers.new, original),
        *(text_bytes(headers.id), text_bytes(headers.original_id), headers.settings),
    )
