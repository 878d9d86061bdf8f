"""The ledger: one row for every readable input record, in a `PositionTable`.

A source's rows are contiguous, in offset order, so memory does not grow with the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from index import Position, Source, naming_originals
from streamer.records.record import Headers, Record
from streamer.records.route import PREFIX
from streamer.verification import position_table
from streamer.verification.findings import EXAMPLES_MAX, Findings
from streamer.verification.position_table import NO_VERDICT, NONE, Flags, PositionTable, Rows, Words

ELSEWHERE = -2
"""Row value for a record that can no longer be read, or is from another stream."""

FRAMED = 1
FRAME_UNKNOWN = 2

DIGESTS = ("key", "value", "headers", "timestamp")
DIGEST = np.dtype([(name, "<u8") for name in DIGESTS])
"""Digests of a record's parts, to compare with its output."""

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
        ("minor", "u1"),
        ("by_other_settings", "u1"),
        ("same_text", "u1"),
        ("distance", "<i2"),
        ("length", "<f8"),
        ("new", "<f8"),
        ("original", "<i8"),
        ("id", "<u8"),
        ("original_id", "<u8"),
        ("rank", "<i8"),
    ]
)
"""A record's state.

outputs      outputs seen, without given-back ones
given_back   given-back outputs seen
known_given_back  1 if the index has it as given back
verdict      in its output; NO_VERDICT without one
journaled    verdict in the index; NO_VERDICT for an unknown position
retired      1 if its entry matches no more
frame        FRAMED if its entry has a frame; FRAME_UNKNOWN if it may have had one: it did not enter, or its host has a sample
resembles    1 if it is unique and a near-duplicate of an earlier entry
minor        1 if its output marks it as a version that differs from its older one in counters and dates, or returned
by_other_settings  1 if other settings than the present ones gave its text, id and fingerprint
same_text    1 if its output says that its text is its original's
distance     in its output
length, new  in its output; NaN without one
original     row of its original, by its output; NONE, or ELSEWHERE
id           digest of the id in its output
original_id  digest of its original's id in its output
rank         its place in the index's decision order; NONE for an unknown position
"""

OffsetRanges = dict[Source, list[range]]
"""Offset ranges by source; few, in any order."""


def within(ranges: OffsetRanges, source: Source, offsets: Words) -> Flags:
    """Whether each offset lies in one of the source's ranges, bool [n].

    >>> source = Source("stream", 0)
    >>> within({source: [range(3, 5)]}, source, np.array([2, 3, 5], np.uint64)).tolist()
    [False, True, False]
    """
    inside = np.zeros(len(offsets), np.bool_)
    for unreadable in ranges.get(source, ()):
        inside |= (offsets >= unreadable.start) & (offsets < unreadable.stop)
    return inside


def digests_of(record: Record, headers: Headers) -> tuple[int, int, int, int]:
    """Digests of key, value, headers and timestamp; 0 for a missing part.

    A header's missing value is empty. Another filter's headers do not count: they go no further.
    """
    kept = tuple(header for header in headers if not header[0].startswith(PREFIX))
    return (
        _digest(record.key),
        _digest(record.value),
        _digest(_packed(kept)) if kept else 0,
        record.timestamp_ms & 0xFFFF_FFFF_FFFF_FFFF,
    )


def digest_of_text(text: str) -> int:
    """Digest of an id; 0 if empty."""
    return _digest(text.encode(errors="surrogatepass")) if text else 0


def _digest(octets: bytes | None) -> int:
    return 0 if octets is None else xxhash.xxh3_64_intdigest(octets) or 1


def _packed(headers: Headers) -> bytes:
    parts = [part for name, value in headers for part in (name.encode("utf-8", "surrogatepass"), value or b"")]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


class LedgerWriter:
    """Writer for the input's rows, in offset order per source.

    >>> import tempfile
    >>> source = Source("stream", 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = LedgerWriter(Path(folder))
    ...     writer.add(source, [Record(source, "pages", 7, None, b"{}", 0)])
    ...     writer.finish({"stream": "pages"}, Findings()).text(0)
    'pages/0/7'
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._written: dict[Source, tuple[Any, Any]] = {}
        self._names: dict[Source, tuple[Path, Path]] = {}
        self._unreadable: OffsetRanges = {}

    def add(self, source: Source, records: Sequence[Record]) -> None:
        """Append one source's records, none `lost`."""
        if source not in self._written:
            number = len(self._written)
            paths = self._folder / f"offsets-{number}", self._folder / f"digests-{number}"
            self._names[source] = paths
            self._written[source] = tuple(self._files.enter_context(path.open("wb")) for path in paths)  # type: ignore[assignment]
        offsets, digests = self._written[source]
        offsets.write(np.array([record.offset for record in records], "<u8").tobytes())
        digests.write(np.array([digests_of(record, record.headers) for record in records], DIGEST).tobytes())

    def note_unreadable(self, source: Source, unreadable: range) -> None:
        """Note offsets without readable records."""
        self._unreadable.setdefault(source, []).append(unreadable)

    def finish(self, names: Mapping[str, str], findings: Findings) -> "Ledger":
        """The ledger with all added records. `names`: stream -> name."""
        self._files.close()
        columns = {
            source: (position_table.mapped(offsets, "<u8"), position_table.mapped(digests, DIGEST))
            for source, (offsets, digests) in self._names.items()
        }
        return Ledger(self._folder, columns, names, self._unreadable, findings)


class Ledger(PositionTable):
    """The input's rows. Checks write `state`, STATE [rows], and `findings`.

    `unreadable`: offsets without readable records now.

    >>> source, writer = Source("stream", 0), LedgerWriter(folder)
    >>> writer.add(source, [Record(source, "pages", 7, None, b"{}", 0)])
    >>> ledger = writer.finish({"stream": "pages"}, Findings())
    >>> len(ledger), ledger.text(0)
    (1, 'pages/0/7')
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[Source, tuple[Words, npt.NDArray[np.void]]],
        names: Mapping[str, str],
        unreadable: OffsetRanges,
        findings: Findings,
    ) -> None:
        super().__init__(
            {source: offsets for source, (offsets, _) in columns.items()},
            lambda source, places: places + self._bases[source],
            names,
        )
        self.unreadable, self.findings, self._columns = unreadable, findings, columns
        self._bases: dict[Source, int] = {}
        rows = 0
        for source, (offsets, _) in columns.items():
            self._bases[source] = rows
            rows += len(offsets)
        self.rows = rows
        self.state: npt.NDArray[np.void] = position_table.column(folder / "state", STATE, rows)
        blank = np.zeros((), STATE)
        blank["verdict"] = blank["journaled"] = NO_VERDICT
        blank["original"] = blank["rank"] = NONE
        blank["length"] = blank["new"] = np.nan
        self.state[:] = blank

    def __len__(self) -> int:
        return self.rows

    def sources(self) -> Iterator[tuple[Source, int, Words]]:
        """Every source with its first row and its rows' offsets, uint64 [n] ascending."""
        for source, (offsets, _) in self._columns.items():
            yield source, self._bases[source], offsets

    def naming(self) -> Iterator[tuple[Rows, Rows]]:
        """Rows whose output names an original that has a row, with these originals; some of them at a time, in order."""
        for part in position_table.chunks(len(self)):
            state = self.state[part]
            rows = np.flatnonzero(naming_originals(state["verdict"]) & (state["original"] >= 0)) + part.start
            yield rows, self.state["original"][rows]

    def are_of_one_source(self, rows: Rows, others: Rows) -> Flags:
        """Whether each pair of rows has one source: int64 [n] twice -> bool [n]."""
        bases = np.array([base for _, base, _ in self.sources()], np.int64)
        same: Flags = np.searchsorted(bases, rows, "right") == np.searchsorted(bases, others, "right")
        return same

    def digests(self, source: Source, rows: Rows) -> npt.NDArray[np.void]:
        """Digests of a source's rows, DIGEST [n]."""
        return self._columns[source][1][rows - self._bases[source]]

    def position(self, row: int) -> Position:
        """A row's input position."""
        source = next(source for source in reversed(self._bases) if self._bases[source] <= row)
        return Position(source, int(self._columns[source][0][row - self._bases[source]]))

    def check(self, check: str, rows: Rows, wrong: Flags, words: str = "", others: Rows | None = None) -> None:
        """Count rows as examined, and note the wrong ones; as `note`."""
        self.findings.examine(check, len(rows))
        self.note(check, rows[wrong], words, None if others is None else others[wrong])

    def note(self, check: str, rows: Rows, words: str = "", others: Rows | None = None) -> None:
        """Note rows as wrong: POSITION, POSITION: words, or POSITION: words OTHER."""
        examples = [f"{self.text(row)}: {words}" if words else self.text(row) for row in rows[:EXAMPLES_MAX].tolist()]
        if others is not None:
            examples = [f"{text} {self.text(row)}" for text, row in zip(examples, others.tolist(), strict=False)]
        self.findings.note(check, examples, len(rows))

    def text(self, row: int) -> str:
        """`topic/partition/offset` of a row."""
        return self.position_text(self.position(row))
