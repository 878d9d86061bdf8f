"""The ledger: one row for every record of the input, in files that are thrown away. Records that cannot be read have none.

Columns are mapped into memory, so that the operating system keeps the pages in use alone: a hundred million rows take
no more memory than a hundred thousand. Rows of a source lie together, in the order of their offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from index import Position, Source
from streamer.records.record import Headers, Record
from streamer.records.route import PREFIX

NONE = -1
"""No row, in a column of rows."""

ELSEWHERE = -2
"""A record that can no longer be read, or of another stream, in a column of rows."""

NO_VERDICT = 255

FRAMED = 1
FRAME_UNKNOWN = 2

DIGESTS = ("key", "value", "headers", "timestamp")
DIGEST = np.dtype([(name, "<u8") for name in DIGESTS])
"""Digests of a record's parts, to hold its output against."""

STATE = np.dtype(
    [
        ("outputs", "<u2"),
        ("given_back", "<u2"),
        ("known_given_back", "u1"),
        ("verdict", "u1"),
        ("journaled", "u1"),
        ("retired", "u1"),
        ("frame", "u1"),
        ("resembles", "u1"),
        ("recrawled", "u1"),
        ("by_other_settings", "u1"),
        ("distance", "<i2"),
        ("original", "<i8"),
        ("id", "<u8"),
        ("original_id", "<u8"),
        ("rank", "<i8"),
    ]
)
"""What became of a record.

outputs      outputs seen of it, without those that were given back
given_back   outputs seen of it that were given back
known_given_back  1 where the index knows that it was given back
verdict      as its output tells; NO_VERDICT without one
journaled    verdict as the index tells; NO_VERDICT where the index does not know the position
retired      1 where its entry matches no more
frame        FRAMED where its entry has a frame; FRAME_UNKNOWN where it may have had one: it did not enter, or its host has
             a sample
resembles    1 where it is unique and a near-duplicate of an earlier entry
recrawled    1 where its output tells that it is a new version beside the old one
by_other_settings  1 where other settings than those of now gave its text, id and fingerprint
distance     as its output tells
original     row of its original, as its output tells; NONE, or ELSEWHERE
id           digest of its id, as its output tells
original_id  digest of its original's id, as its output tells
rank         its place in the index's order of deciding; NONE where the index does not know the position
"""

ROWS_AT_ONCE = 1 << 20

Stretches = dict[Source, list[range]]
"""Stretches of offsets by source; few, in any order."""


def within(stretches: Stretches, source: Source, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether each offset of a source lies in one of its stretches, bool [n]."""
    inside = np.zeros(len(offsets), np.bool_)
    for stretch in stretches.get(source, ()):
        inside |= (offsets >= stretch.start) & (offsets < stretch.stop)
    return inside


def digests_of(record: Record) -> tuple[int, int, int, int]:
    """Digests of a record's key, value, headers and timestamp; 0 stands for none.

    A header's missing value is empty. Headers of another filter do not count: they go no further.
    """
    kept = tuple(header for header in record.headers if not header[0].startswith(PREFIX))
    return (
        _digest(record.key),
        _digest(record.value),
        _digest(_packed(kept)) if kept else 0,
        record.timestamp_ms & 0xFFFF_FFFF_FFFF_FFFF,
    )


def digest_of_text(text: str) -> int:
    """Digest of an id; 0 for the empty one."""
    return _digest(text.encode(errors="surrogatepass")) if text else 0


def _digest(octets: bytes | None) -> int:
    return 0 if octets is None else xxhash.xxh3_64_intdigest(octets) or 1


def _packed(headers: Headers) -> bytes:
    parts = [part for name, value in headers for part in (name.encode("utf-8", "surrogatepass"), value or b"")]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


class LedgerWriter:
    """Writer of the input's rows, in offset order within each source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._written: dict[Source, tuple[Any, Any]] = {}
        self._names: dict[Source, tuple[Path, Path]] = {}
        self._unreadable: Stretches = {}

    def add(self, source: Source, records: Sequence[Record]) -> None:
        """Append records of one source; none of them may have `lost`."""
        if source not in self._written:
            number = len(self._written)
            paths = self._folder / f"offsets-{number}", self._folder / f"digests-{number}"
            self._names[source] = paths
            self._written[source] = tuple(self._files.enter_context(path.open("wb")) for path in paths)  # type: ignore[assignment]
        offsets, digests = self._written[source]
        offsets.write(np.array([record.offset for record in records], "<u8").tobytes())
        digests.write(np.array([digests_of(record) for record in records], DIGEST).tobytes())

    def note_unreadable(self, source: Source, stretch: range) -> None:
        """Note offsets whose records cannot be read."""
        self._unreadable.setdefault(source, []).append(stretch)

    def finish(self, names: Mapping[str, str]) -> "Ledger":
        """The ledger of all that was added. names: of the streams, for people."""
        self._files.close()
        columns = {
            source: (_mapped(offsets, "<u8"), _mapped(digests, DIGEST))
            for source, (offsets, digests) in self._names.items()
        }
        return Ledger(self._folder, columns, names, self._unreadable)


class Ledger:
    """Rows of the input; `state` is STATE [rows], to be written by whoever learns what became of them.

    `unreadable` are the offsets of the input whose records cannot be read now.
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[Source, tuple[npt.NDArray[np.uint64], npt.NDArray[np.void]]],
        names: Mapping[str, str],
        unreadable: Stretches,
    ) -> None:
        """Use `LedgerWriter`."""
        self.unreadable = unreadable
        self._columns = columns
        self._names = names
        self._bases: dict[Source, int] = {}
        rows = 0
        for source, (offsets, _) in columns.items():
            self._bases[source] = rows
            rows += len(offsets)
        self.rows = rows
        self.state: npt.NDArray[np.void] = column(folder / "state", STATE, rows)
        blank = np.zeros((), STATE)
        blank["verdict"] = blank["journaled"] = NO_VERDICT
        blank["original"] = blank["rank"] = NONE
        for begin in range(0, rows, ROWS_AT_ONCE):
            self.state[begin : begin + ROWS_AT_ONCE] = blank

    def __len__(self) -> int:
        return self.rows

    def sources(self) -> Iterator[tuple[Source, int, npt.NDArray[np.uint64]]]:
        """Every source with its first row and the offsets of its rows, uint64 [n] ascending."""
        for source, (offsets, _) in self._columns.items():
            yield source, self._bases[source], offsets

    def are_of_one_source(self, rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each row is of the same source as the other: int64 [n] twice -> bool [n]."""
        bases = np.array([base for _, base, _ in self.sources()], np.int64)
        same: npt.NDArray[np.bool_] = np.searchsorted(bases, rows, "right") == np.searchsorted(bases, others, "right")
        return same

    def rows_of(self, source: Source, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Row of each offset of a source, int64 [n]; NONE where the input has no such record."""
        if source not in self._columns:
            return np.full(len(offsets), NONE)
        known = self._columns[source][0]
        places = np.searchsorted(known, offsets)
        inside = np.flatnonzero(places < len(known))
        inside = inside[known[places[inside]] == offsets[inside]]
        rows = np.full(len(offsets), NONE)
        rows[inside] = places[inside] + self._bases[source]
        return rows

    def digests(self, source: Source, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Digests of rows of one source, DIGEST [n]."""
        return self._columns[source][1][rows - self._bases[source]]

    def position(self, row: int) -> Position:
        """Input position of a row."""
        source = next(source for source in reversed(self._bases) if self._bases[source] <= row)
        return Position(source, int(self._columns[source][0][row - self._bases[source]]))

    def text(self, row: int) -> str:
        """Position of a row for people: `topic/partition/offset`."""
        return self.position_text(self.position(row))

    def position_text(self, position: Position) -> str:
        """`topic/partition/offset`; a stream without a name stands for itself."""
        source = position.source
        return f"{self._names.get(source.stream) or source.stream}/{source.partition}/{position.offset}"


def column(path: Path, dtype: npt.DTypeLike, rows: int, width: int | None = None) -> npt.NDArray[Any]:
    """New column of zeros in a file: dtype [rows], or [rows, width]."""
    shape = (rows,) if width is None else (rows, width)
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "w+", shape=shape)


def _mapped(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)


def chunks(rows: int, size: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Slices of at most `size` rows."""
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))
