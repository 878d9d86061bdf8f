"""Reading outputs into the table: every input record came out once, unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import xxhash

from index import Position, Source, Verdict, base_of
from streamer.delivered.table import ELSEWHERE, Delivered, Table
from streamer.records.reason import SAME, Reason, label
from streamer.records.record import Destination, Headers, Record
from streamer.records.relation import relation
from streamer.records.route import PREFIX
from streamer.transports.output_log import Extent, Output
from streamer.verification.findings import Findings
from streamer.verification.reports import ReportCheck
from streamer.verification.texts import TextCheck

DIGESTS = ("key", "value", "headers", "timestamp")

_SCHEMA = """
CREATE TABLE input (row INTEGER PRIMARY KEY, key INTEGER, value INTEGER, headers INTEGER, timestamp INTEGER);
CREATE TABLE given_back (row INTEGER PRIMARY KEY, sent INTEGER, is_known INTEGER);
"""
"""input: digests by a record's parts. given_back: how often it was sent, and whether the index knows."""

_EVERYTHING = 2**63
_EQUAL_TEXT = {label(Verdict.DUPLICATE, reason) for reason in (*SAME.values(), Reason.SHORT_TEXT)}
_UNREADABLE = label(Verdict.DEAD_LETTER, Reason.UNREADABLE)


def digests_of(record: Record, headers: Headers) -> tuple[int, int, int, int]:
    """Digests for key, value and headers, and the timestamp; 0 for a missing part.

    A header's missing value is empty. Another filter's headers do not count: they go no further.
    """
    kept = tuple(header for header in headers if not header[0].startswith(PREFIX))
    return _digest(record.key), _digest(record.value), _digest(_packed(kept)) if kept else 0, record.timestamp_ms


def _digest(octets: bytes | None) -> int:
    # SQLite keeps 63 bits and a sign.
    return 0 if octets is None else xxhash.xxh3_64_intdigest(octets) >> 1 or 1


def _packed(headers: Headers) -> bytes:
    parts = [part for name, value in headers for part in (name.encode("utf-8", "surrogatepass"), value or b"")]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


@dataclass
class Reading:
    """Reads input and outputs into the table, and compares what needs their bytes.

    streams          the index's streams with their names: outputs from others are foreign
    settings_digest  see `streamer.fingerprint.scheme`
    longer_min       `index.longer_min`
    reports          None: what outputs report of protected sets is not checked

    >>> from streamer.delivered.table import opened
    >>> extent = Extent({}, {}, {}, {}, outputs=0, inputs=0)
    >>> with opened(folder / "delivered", extent) as table:
    ...     reading = Reading(table, extent, Findings(), {}, texts=None, settings_digest="", longer_min=0.1)
    ...     reading.add_input([])
    >>> reading.begun, reading.unreadable
    ({}, {})
    """

    table: Table
    extent: Extent
    findings: Findings
    streams: Mapping[str, str]
    texts: TextCheck
    settings_digest: str
    longer_min: float
    has_headers: bool = True
    reports: ReportCheck | None = None
    _least: dict[tuple[str, Source], int] = field(default_factory=dict)
    """A source's least offset in a trimmed log."""
    begun: dict[Source, int] = field(default_factory=dict)
    """A source's least offset in any output."""
    placeholders: dict[Source, list[range]] = field(default_factory=dict)
    """Offsets that a dead letter reports as unreadable."""
    came_out: set[Position] = field(default_factory=set)
    """Positions with an output, whose records cannot be read now."""
    unreadable: dict[Source, list[range]] = field(default_factory=dict)
    """Offsets without readable records now."""

    def __post_init__(self) -> None:
        self.table.execute(_SCHEMA)

    def add_input(self, records: Sequence[Record]) -> None:
        """Read an input batch."""
        rows = []
        for record in records:
            if record.lost is not None:
                covered = range(record.offset, record.offset + record.lost.offsets)
                self.unreadable.setdefault(record.source, []).append(covered)
            elif (row := self.table.row(Position(record.source, record.offset))) is not None:
                rows.append((row, *digests_of(record, record.headers)))
        self.table.insert("input", rows)
        self.findings.counts["input"] += len(rows)

    def add(self, outputs: Sequence[Output]) -> None:
        """Read an output batch."""
        self.findings.examine("contradiction", len(outputs))
        self.findings.examine("foreign", len(outputs))
        for each in outputs:
            self._check_headers(each)
        placed = [(each, self.table.row(each.headers.position)) for each in _by_source(outputs)]
        originals = [self.table.row(each.headers.original) for each, _ in placed]
        inputs = self.table.present("input", [*(row for _, row in placed), *originals], "input.*")
        found = []
        for (each, row), original in zip(placed, originals, strict=True):
            self._note_log(each)
            if row is None or row not in inputs:
                self._note_strange(each)
            else:
                found.append((each, row, original if original in inputs else None))
        if found:
            self._compare([(each, inputs[row]) for each, row, _ in found])
            self._write(found)

    def trimmed_below(self, source: Source) -> Mapping[Destination, int]:
        """Offset by destination, below which a source's outputs may have left their logs."""
        below = dict.fromkeys(Destination, 0)
        for log, destination in self.extent.trimmed.items():
            below[destination] = max(below[destination], self._least.get((log, source), _EVERYTHING))
        return below

    def look_for_unreadable(self, *, strict_start: bool) -> None:
        """Note committed offsets that cannot be read, and that no dead letter stands for; after all outputs."""
        for source, ranges in self.unreadable.items():
            committed = self.extent.committed.get(source, 0)
            begun = 0 if strict_start else self.begun.get(source, committed)
            first = max(begun, *self.trimmed_below(source).values())
            for each in ranges:
                positions = [Position(source, at) for at in range(max(each.start, first), min(each.stop, committed))]
                self.findings.examine("missing", len(positions))
                self.findings.note(
                    "missing",
                    [
                        f"{self.table.position_text(position)}: cannot be read, and no dead letter stands for it"
                        for position in positions
                        if position not in self.came_out and not within(self.placeholders, position)
                    ],
                )

    def _check_headers(self, output: Output) -> None:
        headers = output.headers
        if headers.contradicts:
            self.findings.note("contradiction", [f"{output.place}: {headers.contradicts}"])
        if headers.position is None:
            self.findings.note("foreign", [f"{output.place}: names no position of an input"])
        if headers.verdict is None:
            return
        self.findings.counts[headers.verdict.label] += 1
        if headers.verdict.names_original:
            reason = Reason.SAME_TEXT if headers.reason in _EQUAL_TEXT else Reason.ORDINARY
            expected = relation(headers.verdict, reason, headers.length, headers.new, self.longer_min)
            if headers.relation != (expected or ""):
                problem = f"{output.place}: has the relation {headers.relation!r}, and by its length {expected!r}"
                self.findings.note("length", [problem])

    def _note_log(self, output: Output) -> None:
        headers = output.headers
        assert headers.position is not None, "outputs without a position have no source"
        source, offset = headers.position
        self.begun[source] = min(self.begun.get(source, _EVERYTHING), offset)
        # Given-back records come after their source's later ones.
        if headers.verdict is not Verdict.GIVEN_BACK:
            if headers.reason == _UNREADABLE:
                self.placeholders.setdefault(source, []).append(range(offset, offset + headers.offsets))
            if output.log in self.extent.trimmed:
                key = output.log, source
                self._least[key] = min(self._least.get(key, offset), offset)

    def _note_strange(self, output: Output) -> None:
        position = output.headers.position
        assert position is not None, "as above"
        if within(self.unreadable, position):
            self.came_out.add(position)
        if absence := self._absence(position):
            self.findings.leave_out(absence[0], 1)
        elif output.headers.reason == _UNREADABLE:
            self.findings.leave_out("outputs that stand for records that cannot be read", 1)
        else:
            self.findings.note("foreign", [f"{output.place}: names {self.table.position_text(position)}"])

    def _absence(self, position: Position) -> tuple[str, str] | None:
        """Why a position may lack its record, in words for its output and for an original; None: it may not."""
        source, offset = position
        if (base := base_of(source.stream)) is not None:
            return f"outputs of the base set {base.name}", f"originals in the base set {base.name}"
        if source.stream not in self.extent.names and source.stream in self.streams:
            strange = self.extent.strange_input(self.streams[source.stream])
            return f"outputs of {strange}", f"originals in {strange}"
        if offset < (self.extent.end if self.extent.compacted else self.extent.first).get(source, 0):
            return "outputs of records that have left the input", "originals that have left the input"
        if within(self.unreadable, position):
            return "outputs of records that cannot be read", "originals that cannot be read"
        return None

    def _compare(self, outputs: Sequence[tuple[Output, tuple[int, ...]]]) -> None:
        readable = [(each, digests) for each, digests in outputs if each.headers.reason != _UNREADABLE]
        if len(readable) < len(outputs):
            name = "dead letters of records that could not be read, and can be now"
            self.findings.leave_out(name, len(outputs) - len(readable))
        parts = DIGESTS if self.has_headers else ("value",)
        if self.has_headers:
            self.findings.leave_out("timestamps of 0, for which confluent-kafka writes 1", 0)
            self.findings.leave_out("timestamps that output topics give by themselves (LogAppendTime)", 0)
        for part in parts:
            self.findings.examine(part, len(readable))
        for each, (row, *expected) in readable:
            assert each.record is not None, "an output with a position has a record"
            got = digests_of(each.record, each.headers.kept)
            if got == tuple(expected):
                continue
            for part, is_one, was_one in zip(DIGESTS, got, expected, strict=True):
                if part not in parts or is_one == was_one:
                    continue
                if part == "timestamp" and (was_one, is_one) == (0, 1):
                    self.findings.leave_out("timestamps of 0, for which confluent-kafka writes 1", 1)
                elif part == "timestamp" and each.is_stamped:
                    self.findings.leave_out("timestamps that output topics give by themselves (LogAppendTime)", 1)
                else:
                    self.findings.note(part, [f"{self.table.text(row)}: at {each.place}"])

    def _write(self, outputs: Sequence[tuple[Output, int, int | None]]) -> None:
        back = [(row, 1, 0) for each, row, _ in outputs if each.headers.verdict is Verdict.GIVEN_BACK]
        self.table.insert("given_back", back, "ON CONFLICT (row) DO UPDATE SET sent = sent + 1")
        rest = [found for found in outputs if found[0].headers.verdict is not Verdict.GIVEN_BACK]
        reports = [
            each for each, *_ in outputs if each.headers.protected and each.headers.verdict is Verdict.GIVEN_BACK
        ]
        if reports:
            self.findings.leave_out("reports of protected sets on records that were given back", len(reports))
        for each, row, original in rest:
            if each.headers.original is not None and original is None:
                self._note_original_missing(row, each.headers.original)
        self.findings.examine("original-missing", sum(each.headers.original is not None for each, *_ in rest))
        self.table.add_outputs(
            [
                Delivered(row, each.headers, ELSEWHERE if original is None and each.headers.original else original)
                for each, row, original in rest
            ],
            last_stays=True,
        )
        by_now = [found for found in rest if found[0].headers.settings in ("", self.settings_digest)]
        name = "texts and fingerprints of outputs that other decode or fingerprint settings made"
        self.findings.leave_out(name, len(rest) - len(by_now))
        placed = [(each, row) for each, row, _ in by_now]
        prints = self.texts.add(placed)
        if self.reports is not None:
            self.reports.add(placed, prints)

    def _note_original_missing(self, row: int, position: Position) -> None:
        if absence := self._absence(position):
            self.findings.leave_out(absence[1], 1)
        else:
            where, name = self.table.text(row), self.table.position_text(position)
            problem = f"{where}: names {name}, which the input does not have"
            self.findings.note("original-missing", [problem])


def within(ranges: Mapping[Source, Sequence[range]], position: Position) -> bool:
    """Whether a position lies in its source's ranges.

    >>> source = Source("stream", 0)
    >>> [within({source: [range(3, 5)]}, Position(source, offset)) for offset in (2, 3, 5)]
    [False, True, False]
    """
    return any(position.offset in each for each in ranges.get(position.source, ()))


def _by_source(outputs: Sequence[Output]) -> list[Output]:
    """Outputs with a position, source by source."""
    places: dict[Source, list[Output]] = {}
    for each in outputs:
        if each.headers.position is not None:
            places.setdefault(each.headers.position.source, []).append(each)
    return [each for together in places.values() for each in together]
