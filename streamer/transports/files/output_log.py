"""Output folder as an output log: reading back and appending.

The n-th verdict of a destination belongs to the n-th line of its file, and supplies the headers that Kafka would carry.
Reading takes no lock.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import orjson

from index import NO_DISTANCE, BaseName, Position, Source, Verdict, stream_above
from streamer.errors import InputUnreadable, RecoveryRefused
from streamer.records import route
from streamer.records.lines import verdict_lines
from streamer.records.output_headers import OutputHeaders, parse_headers
from streamer.records.reason import verdict_of
from streamer.records.record import Decision, Destination, Headers, Outgoing, Record
from streamer.settings.settings import Batching
from streamer.transports.files.expand import named_input
from streamer.transports.files.line_reader import LineReader, records_of
from streamer.transports.files.output_folder import VERDICTS, Delivered, DeliveryHooks, OutputFolder
from streamer.transports.files.remote import is_url
from streamer.transports.output_log import ALL_OUTPUTS, Absent, Extent, Output, RecordsByPosition, Way, portions
from streamer.transports.transport import NO_TIMESTAMP_MS, Claim

_GONE = Absent("neither the input nor the outputs have its line any more")


class FileOutputLog:
    """See `OutputLog`. Raises SettingsError without a checkpoint, and RecoveryRefused for a damaged one.

    `inputs` leaves out pipes: they cannot be read again.

    >>> from streamer.settings.settings import Settings
    >>> FileOutputLog(folder, Settings().batch).claims()
    Traceback (most recent call last):
    streamer.errors.SettingsError: --out ...: holds no checkpoint.json: name a folder that lines were filtered into.
    """

    has_headers = False

    def __init__(self, folder: Path, batch: Batching, hooks: DeliveryHooks | None = None) -> None:
        self._folder = OutputFolder(folder, hooks or DeliveryHooks())
        self._batch = batch
        self._fixed: tuple[Mapping[str, int], list[Delivered]] | None = None

    def open(self, way: Way | None) -> None:
        """See `OutputLog`. The only `way` is GIVE_BACK, from duplicate.jsonl to unique.jsonl. Refused during a
        filter's run."""
        # Refuses an empty folder instead of initialising it.
        self._folder.look()
        if way is not None:
            self._folder.open()

    def extent(self) -> Extent:
        """See `OutputLog`."""
        self._fixed = self._folder.look()
        _, inputs = self._fixed
        lines = {Source(each.stream, 0): each.lines for each in inputs if each.lines is not None}
        readable = {Source(each.stream, 0) for each in inputs if named_input(each.path) is not None}
        return Extent(
            names={each.stream: each.name for each in inputs},
            first={source: 0 if source in readable else count for source, count in lines.items()},
            end=lines,
            committed=lines,
            inputs=sum(count for source, count in lines.items() if source in readable),
            outputs=sum(lines.values()),
        )

    def claims(self) -> Mapping[Source, Claim]:
        """See `OutputLog`."""
        _, inputs = self._folder.look()
        return {Source(each.stream, 0): Claim(each.lines, "", True) for each in inputs if each.lines is not None}

    def inputs(self, _since_ms: int | None = None) -> Iterator[list[Record]]:
        """See `OutputLog`. Reads all lines, since they have no timestamps. Also raises InputUnreadable."""
        _, inputs = self._delivered()
        for each in inputs:
            if each.lines and (path := named_input(each.path)) is not None:
                with closing(LineReader(path)) as reader:
                    while reader.count < each.lines and not reader.ended:
                        begin = reader.count
                        count = min(self._batch.records_max, each.lines - begin)
                        lines = reader.lines(count, self._batch.bytes_max)
                        yield records_of(Source(each.stream, 0), each.name, begin, lines)

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, _since_ms: int | None = None
    ) -> Iterator[list[Output]]:
        """See `OutputLog`: all lines, and every unreadable verdict."""
        lengths, inputs = self._delivered()
        by_name, names = {each.name: each for each in inputs}, {each.stream: each.name for each in inputs}
        wanted = {destination: f"{destination}.jsonl" for destination in destinations}
        outputs: list[Output] = []
        with ExitStack() as stack:
            lines = {
                name: stack.enter_context(closing(self._folder.lines(name, lengths[name])))
                for name in (*wanted.values(), VERDICTS)
            }
            for number, line in enumerate(lines[VERDICTS]):
                parsed, headers = _parse(line, by_name)
                destination, value = Destination.UNIQUE, None
                if parsed.verdict is not None:
                    destination = route.destination_of(parsed.verdict, shadow=parsed.shadow)
                    if destination not in wanted:
                        continue
                    value = next(lines[wanted[destination]], None)
                    if value is None:
                        parsed = replace(parsed, contradicts=f"has no line in {wanted[destination]}")
                record = None
                if parsed.position is not None:
                    source, offset = parsed.position
                    record = Record(source, names[source.stream], offset, None, value, NO_TIMESTAMP_MS, headers)
                outputs.append(Output(destination, VERDICTS, number, parsed, record))
                if len(outputs) == self._batch.records_max:
                    yield outputs
                    outputs = []
            for destination, name in wanted.items():
                if left := sum(1 for _ in lines[name]):
                    parsed = _unreadable(f"has {left} lines more than {VERDICTS} has verdicts")
                    outputs.append(Output(destination, name, 0, parsed, None))
        yield outputs

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See `Transport.changelog`. Raises RecoveryRefused for contradictory files."""
        return filter(None, portions(self._delivered_in(ranges, destinations), self._batch))

    def records_at(self, positions: Sequence[Position], _names: Mapping[str, str] | None = None) -> RecordsByPosition:
        """See `OutputLog`. Reads each input up to the last requested line, and missing records from the outputs."""
        inputs = {each.stream: each for each in self._delivered()[1]}
        records: dict[Position, Record | Absent] = {}
        for stream in dict.fromkeys(position.source.stream for position in positions):
            of_stream = sorted(position for position in positions if position.source.stream == stream)
            if stream in inputs:
                records |= _lines_at(inputs[stream], of_stream)
            else:
                why = Absent(f"it was filtered into another folder than {self._folder.folder}")
                records |= dict.fromkeys(of_stream, why)
        lost = {position for position, record in records.items() if record == _GONE}
        for outputs in self.outputs() if lost else ():
            for each in outputs:
                if each.headers.position in lost and each.record is not None and each.record.value is not None:
                    records[each.headers.position] = each.record
        return records

    def append(self, records: Sequence[Record]) -> None:
        """See `OutputLog`: appends lines to unique.jsonl, and verdicts that mark them as given back."""
        lines = b"".join((record.value or b"") + b"\n" for record in records)
        verdicts = b"".join(_verdict(record) + b"\n" for record in records)
        self._folder.append({f"{Destination.UNIQUE}.jsonl": lines, VERDICTS: verdicts}, [])

    def close(self) -> None:
        """See `OutputLog`."""
        self._folder.close()

    def _delivered(self) -> tuple[Mapping[str, int], list[Delivered]]:
        return self._folder.look() if self._fixed is None else self._fixed

    def _delivered_in(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Record]:
        for outputs in self.outputs(destinations):
            for each in outputs:
                parsed, record = each.headers, each.record
                if parsed.contradicts or record is None:
                    raise RecoveryRefused(
                        f"--out {self._folder.folder}: {VERDICTS} does not fit the other files, so the index cannot be restored "
                        "from them: put the folder back from a copy, or filter into a new --out with a new --index."
                    )
                if parsed.verdict is Verdict.GIVEN_BACK or record.offset in ranges.get(record.source, ()):
                    yield record


def _record(of: Delivered, offset: int, line: bytes) -> Record:
    return Record(Source(of.stream, 0), of.name, offset, None, line, NO_TIMESTAMP_MS)


def _lines_at(of: Delivered, positions: Sequence[Position]) -> dict[Position, Record | Absent]:
    records: dict[Position, Record | Absent] = dict.fromkeys(positions, _GONE)
    path = Path(of.path)
    # Of an object the outputs have the lines: it may have to be read through for one of them.
    if is_url(of.path) or not path.is_file():
        return records
    try:
        with closing(LineReader(path)) as reader:
            for position in positions:
                reader.skip(position.offset - reader.count)
                # A first line always comes, whatever its size.
                if reader.count == position.offset and (lines := reader.lines(1, 1)):
                    records[position] = _record(of, position.offset, lines[0])
    except InputUnreadable:
        # Records before the damage stay; the outputs have the rest.
        return records
    return records


def _parse(line: bytes, inputs: Mapping[str, Delivered]) -> tuple[OutputHeaders, Headers]:
    """A verdict line as headers: parsed, and as they are."""
    try:
        fields = orjson.loads(line)
        verdict = verdict_of(fields["verdict"], fields["reason"])
        if verdict is None:
            raise KeyError(fields["verdict"])
        texts = {header: str(fields[name]) for name, header in _HEADERS.items() if fields.get(name) is not None}
        if (report := fields.get("protected")) is not None:
            texts[route.PROTECTED] = orjson.dumps(report).decode()
        for prefix, position, stream in _POSITIONS:
            if prefix and f"{prefix}line" not in fields:
                continue
            name, number = fields[f"{prefix}source"], fields[f"{prefix}line"]
            # An original in an input of another folder goes by its name.
            if prefix or name in inputs:
                texts[position] = f"{name}/0/{number - 1}"
                if not prefix and (settings := inputs[name].settings_at(number - 1)):
                    texts[route.SETTINGS] = settings
                texts[stream] = inputs[name].stream if name in inputs else name
                if prefix and (base := fields.get("base")) is not None:
                    texts[stream] = stream_above(BaseName("", base), name)
    except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
        return _unreadable(f"cannot be read: {problem}"), ()
    headers = tuple((name, text.encode(errors="surrogateescape")) for name, text in texts.items())
    destination = route.destination_of(verdict, shadow=route.SHADOW in texts)
    return parse_headers(headers, destination, of_kafka=False), headers


_HEADERS = {
    "verdict": route.VERDICT,
    "reason": route.REASON,
    "id": route.ID,
    "original": route.ORIGINAL_ID,
    "distance": route.DISTANCE,
    "similarity": route.SIMILARITY,
    "relation": route.RELATION,
    "length": route.LENGTH,
    "new": route.NEW,
    "shadow": route.SHADOW,
}
_POSITIONS = (
    ("", route.POSITION, route.STREAM),
    ("original_", route.ORIGINAL_POSITION, route.ORIGINAL_STREAM),
)
"""Headers of a verdict line's members."""


def _unreadable(contradicts: str) -> OutputHeaders:
    return OutputHeaders(None, "", None, "", None, NO_DISTANCE, None, "", (), contradicts)


def _verdict(record: Record) -> bytes:
    named = {name: (value or b"").decode(errors="surrogateescape") for name, value in record.headers}
    decision = Decision(Verdict.GIVEN_BACK, "", named.get(route.ID), original_id=named.get(route.ORIGINAL_ID))
    return verdict_lines([Outgoing(Destination.UNIQUE, record, (), decision)]).removesuffix(b"\n")
