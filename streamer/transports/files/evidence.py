"""Evidence over files: the inputs that a checkpoint names, and the lines beside it. It takes no lock."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from index import NO_DISTANCE, Position, Source, minhash
from streamer.records.reason import verdict_of
from streamer.records.record import Destination, Record
from streamer.records.route import destination_of
from streamer.records.told import Told
from streamer.settings.settings import Batching
from streamer.transports.evidence import Extent, Output
from streamer.transports.files.changelog import NO_TIMESTAMP_MS
from streamer.transports.files.line_reader import LineReader
from streamer.transports.files.output_folder import VERDICTS, Delivered, DeliveryHooks, OutputFolder


class FileEvidence:
    """See `Evidence`. Lines of pipes are gone: what came of them is read, and not held against them."""

    has_headers = False

    def __init__(self, folder: Path, batch: Batching) -> None:
        self._folder = folder
        self._batch = batch
        self._lengths: Mapping[str, int] = {}
        self._inputs: list[Delivered] = []
        self._names: dict[str, str] = {}
        self._streams: dict[str, str] = {}

    def extent(self) -> Extent:
        """See `Evidence`. Raises SettingsError, RecoveryRefused."""
        self._lengths, self._inputs = OutputFolder(self._folder, DeliveryHooks()).look()
        self._names = {each.stream: each.name for each in self._inputs}
        self._streams = {each.name: each.stream for each in self._inputs}
        lines = {Source(each.stream, 0): each.lines for each in self._inputs if each.lines is not None}
        readable = {Source(each.stream, 0) for each in self._inputs if Path(each.path).is_file()}
        return Extent(
            names=self._names,
            first={source: 0 if source in readable else count for source, count in lines.items()},
            end=lines,
            committed=lines,
            inputs=sum(count for source, count in lines.items() if source in readable),
            outputs=sum(lines.values()),
        )

    def inputs(self) -> Iterator[list[Record]]:
        """See `Evidence`. Raises InputUnreadable."""
        for each in self._inputs:
            if each.lines and Path(each.path).is_file():
                with closing(LineReader(Path(each.path))) as reader:
                    yield from self._lines(each, reader, each.lines)

    def outputs(self) -> Iterator[list[Output]]:
        """See `Evidence`. The n-th verdict of a destination belongs to the n-th line of its file."""
        found: list[Output] = []
        with ExitStack() as stack:
            lines = {
                name: stack.enter_context(closing(_until(self._folder / name, length)))
                for name, length in self._lengths.items()
            }
            for number, line in enumerate(lines[VERDICTS]):
                told = self._told(line)
                if told.verdict is None:
                    found.append(Output(Destination.UNIQUE, VERDICTS, number, told, None))
                    continue
                destination = destination_of(told.verdict, shadow=told.shadow)
                value = next(lines[f"{destination}.jsonl"], None)
                found.append(self._output(destination, number, told, value))
                if len(found) == self._batch.records_max:
                    yield found
                    found = []
            for destination in Destination:
                left = sum(1 for _ in lines[f"{destination}.jsonl"])
                contradicts = "" if not left else f"has {left} lines more than {VERDICTS} has verdicts"
                if contradicts:
                    told = Told(None, "", None, "", None, NO_DISTANCE, None, "", (), contradicts)
                    found.append(Output(destination, f"{destination}.jsonl", 0, told, None))
        yield found

    def _lines(self, each: Delivered, reader: LineReader, count: int) -> Iterator[list[Record]]:
        source = Source(each.stream, 0)
        while reader.count < count and not reader.ended:
            begin = reader.count
            lines = reader.lines(min(self._batch.records_max, count - begin), self._batch.bytes_max)
            yield [
                Record(source, each.name, offset, None, line, NO_TIMESTAMP_MS)
                for offset, line in enumerate(lines, start=begin)
            ]

    def _output(self, destination: Destination, number: int, told: Told, value: bytes | None) -> Output:
        record = None
        if value is None:
            told = replace(told, contradicts=f"has no line in {destination}.jsonl")
        if told.position is not None:
            record = Record(
                told.position.source,
                self._names[told.position.source.stream],
                told.position.offset,
                None,
                value,
                NO_TIMESTAMP_MS,
            )
        return Output(destination, VERDICTS, number, told, record)

    def _told(self, line: bytes) -> Told:
        try:
            fields = orjson.loads(line)
            verdict = verdict_of(fields["verdict"], fields["reason"])
            if verdict is None:
                raise KeyError(fields["verdict"])
            similarity, distance = fields.get("similarity"), fields["distance"]
            if similarity is not None:
                distance = minhash.distance_of(similarity)
            return Told(
                verdict,
                fields["reason"],
                self._position(fields["source"], fields["line"]),
                fields["id"] or "",
                None,
                NO_DISTANCE if distance is None else distance,
                self._original(fields) if verdict.names_original else None,
                fields["original"] or "",
                (),
                shadow="shadow" in fields,
                by_similarity=similarity is not None,
            )
        except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
            return Told(None, "", None, "", None, NO_DISTANCE, None, "", (), f"cannot be read: {problem}")

    def _position(self, name: str, line: int) -> Position | None:
        stream = self._streams.get(name)
        return None if stream is None else Position(Source(stream, 0), line - 1)

    def _original(self, fields: Mapping[str, Any]) -> Position | None:
        """Where the original stood. An input of another folder that fed the index goes by its name."""
        if "original_line" not in fields:
            return None
        name, line = fields["original_source"], fields["original_line"]
        return self._position(name, line) or Position(Source(name, 0), line - 1)


def _until(path: Path, length: int) -> Generator[bytes, None, None]:
    """Lines within the first `length` bytes of a file, without their b"\\n"."""
    if not length:
        return
    with path.open("rb") as file:
        left = length
        for line in file:
            left -= len(line)
            if left < 0:
                return
            yield line.removesuffix(b"\n")
