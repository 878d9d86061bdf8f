"""Reading the index into the table: it knows every output with the same verdict, and its entries are the unique documents."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

from index import Index, Kind, Position, Source, plain_source
from index.tools import Record, Snapshot, frames_of, portions, snapshot
from streamer.delivered.table import ELSEWHERE, NO_VERDICT, Table, text_bytes
from streamer.records.reason import Reason
from streamer.records.route import DESTINATIONS, destination_of
from streamer.transports.output_log import Extent
from streamer.verification.findings import Findings
from streamer.verification.outputs import Reading, within

ROWS_AT_ONCE = 4_096

HOSTS_MAX = 1 << 20
"""Limit for sampled hosts, above their real maximum."""

_SCHEMA = """
CREATE TABLE journal (
    row INTEGER PRIMARY KEY, times INTEGER, rank INTEGER, verdict INTEGER, is_retired INTEGER, entered INTEGER, in_frame INTEGER,
    distance INTEGER, original INTEGER, original_id BLOB, id BLOB, other_print INTEGER, other_look INTEGER, frame BLOB
);
"""
"""The index's rows.

rank         place in the index's decision order
is_retired   whether its entry matches no more
in_frame     whether its entry has a frame, or may have had one: it did not enter, or its host has a sample
original     its original's row; ELSEWHERE if the input does not have it
other_print  whether its entry has another fingerprint than its output, or kind
other_look   whether its entry has another second look than its text
"""
_COLUMNS = "rank verdict is_retired entered in_frame distance original original_id id other_print other_look frame"
_TWICE = "ON CONFLICT (row) DO UPDATE SET times = times + 1, " + ", ".join(
    f"{name} = excluded.{name}" for name in _COLUMNS.split()
)


_NO_LONGER = "positions whose records the input no longer has"


@dataclass
class JournalReading:
    """Reads the index's snapshot, taken after the outputs.

    >>> from index import Parameters
    >>> from streamer.delivered.table import opened
    >>> extent = Extent({}, {}, {}, {}, outputs=0, inputs=0)
    >>> with Index.open(folder, Parameters()) as index, opened(folder / "delivered", extent) as table:
    ...     dict(JournalReading(table, extent, Findings(), {}).run(index, print))
    {}
    """

    table: Table
    extent: Extent
    findings: Findings
    unreadable: Mapping[Source, Sequence[range]]
    _rank: int = 0
    _names: Mapping[str, str] = field(default_factory=dict)
    """Names by stream in the index."""
    hosts: frozenset[int] = frozenset()
    """Digests of hosts with a sample, as in the index's log."""

    def run(self, index: Index, progress: Callable[[int], None]) -> Mapping[Source, int]:
        """Read it, and return the applied offset by source. Raises IndexDamagedError."""
        self.table.execute(_SCHEMA)

        def operation(taken: Snapshot) -> Mapping[Source, int]:
            self._names = taken.streams()
            for portion in portions(taken.records(), ROWS_AT_ONCE):
                self._add(portion)
                self._rank += len(portion)
                progress(self._rank)
            return {source: applied.offset for source, applied in taken.applied().items()}

        framed = frames_of(index, HOSTS_MAX) if index.parameters.frames is not None else []
        self.hosts = frozenset(_digest_of_host(each.host) for each in framed)
        return snapshot(index, operation)

    def _add(self, portion: Sequence[Record]) -> None:
        rows = [self.table.row(Position(plain_source(each.source), each.offset)) for each in portion]
        originals = [self.table.row(each.origin and each.origin.position) for each in portion]
        inputs = self.table.present("input", [*rows, *originals])
        prints = self.table.present("print", rows, "row, kind, fingerprint, look, is_read")
        given_back, found = [], []
        self.findings.leave_out(_NO_LONGER, 0)
        for place, (record, row, original) in enumerate(zip(portion, rows, originals, strict=True)):
            if plain_source(record.source) != record.source:
                given_back += [(row, 0, 1)] if row in inputs else []
            elif record.source.stream not in self.extent.names:
                strange = self.extent.strange_input(self._names[record.source.stream])
                self.findings.leave_out(f"positions of {strange}", 1)
            else:
                self._find(record, row in inputs)
                if row is not None and row in inputs:
                    known = original if original in inputs else ELSEWHERE
                    found.append((row, 1, self._rank + place, *self._columns(record, known, prints.get(row))))
        self.table.insert("given_back", given_back, "ON CONFLICT (row) DO UPDATE SET is_known = 1")
        self.table.insert("journal", found, _TWICE)

    def _find(self, record: Record, has_input: bool) -> None:
        source, offset = record.source, record.offset
        inside = self.extent.first.get(source, 0) <= offset < self.extent.end.get(source, 0)
        excused = not has_input and (
            self.extent.compacted
            or record.reason == Reason.UNREADABLE
            or within(self.unreadable, Position(source, offset))
        )
        if inside and excused:
            self.findings.leave_out(_NO_LONGER, 1)
        elif inside:
            self.findings.examine("journal-foreign", 1)
            if not has_input:
                where = self.table.position_text(Position(source, offset))
                self.findings.note("journal-foreign", [f"{where}: is {record.verdict.label}"])

    def _columns(
        self, record: Record, original: int | None, print_: tuple[Any, ...] | None
    ) -> tuple[int | bytes | None, ...]:
        document, origin = record.document, record.origin
        other_print = other_look = False
        if document is not None and print_ is not None and print_[1] in (Kind.NEAR, Kind.EXACT):
            _, kind, fingerprint, look, is_read = print_
            packed = _words(document.fingerprint)
            other_print = (packed, document.kind) != (fingerprint, kind)
            other_look = bool(is_read) and document.kind == Kind.NEAR and document.look != (look or b"")
        # The index knows hosts also of documents whose texts are not read.
        has_frame = document is not None and bool(document.frame)
        in_frame = bool(self.hosts) and (document is None or record.version.host in self.hosts or has_frame)
        return (
            *(int(record.verdict), record.forgotten or document is None, document is not None, in_frame),
            *(-1 if record.distance is None else record.distance, original),
            *(origin and text_bytes(origin.id), document and text_bytes(document.id), other_print, other_look),
            _words(document.frame) if self.hosts and document and document.frame else None,
        )


def write_sources(
    table: Table, reading: Reading, applied: Mapping[Source, int], *, strict_start: bool, expires: bool
) -> None:
    """Write how far each source is: after outputs and index were read.

    strict_start  whether the service was to begin at the first record; else those before the first output are excused
    expires       whether positions before the first live entry may be unknown
    """
    table.execute("""
        CREATE TABLE progress (
            number INTEGER PRIMARY KEY, committed INTEGER, applied INTEGER, begun INTEGER, counting INTEGER
        );
        CREATE TABLE trimmed (number INTEGER, verdict INTEGER, below INTEGER, PRIMARY KEY (number, verdict));
        CREATE TABLE placeholder (first INTEGER, stop INTEGER);
    """)
    for number, source in enumerate(table.sources):
        first, stop = table.firsts[number : number + 2]

        def row(offset: int, first: int = first, stop: int = stop) -> int:
            return min(first + offset, stop)

        committed, behind = reading.extent.committed.get(source, 0), applied.get(source, 0)
        begun = 0 if strict_start else reading.begun.get(source, committed)
        counting = "SELECT min(row) FROM journal WHERE row >= ? AND row < ? AND NOT is_retired"
        live = table.one(counting, first, stop)[0] if expires else first
        counted = row(behind) if live is None else live
        table.insert("progress", [(number, row(committed), row(behind), row(begun), counted)])
        below = reading.trimmed_below(source)
        by_verdict = dict.fromkeys([NO_VERDICT], max(below.values())) | {
            verdict: max(below[destination], below[destination_of(verdict, shadow=True)])
            for verdict, destination in DESTINATIONS.items()
        }
        table.insert("trimmed", [(number, int(verdict), row(offset)) for verdict, offset in by_verdict.items()])
        spans = reading.placeholders.get(source, ())
        table.insert("placeholder", [(row(each.start), row(each.stop)) for each in spans])


def _words(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}Q", *words)


def _digest_of_host(host: str) -> int:
    """The digest of a host's name in the index's log: 32 bits."""
    return xxhash.xxh3_64_intdigest(host.encode("utf-8", "surrogatepass")) & 0xFFFF_FFFF
