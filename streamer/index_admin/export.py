"""Export of an index as JSON Lines, and import.

    first line  {"neardup_index_export": 7, "parameters": .., "streams": [[stream, name], ..], "positions": ..}
    then        one line per position, in decision order: {"stream": place in `streams`, "partition": .., "offset": ..,
                "verdict": "unique", "reason": .., ..}, with any "distance" and "original" (a document's number).
                A duplicate has "origin", its original: [id, place in `streams`, partition, offset].
                "id" is missing if unknown. "text", "substance" (missing if equal) and "host" are hexadecimal digests,
                "returns" counts returns to an earlier substance, "strangers" texts in a row that have nothing in common with
                those before.
                A document that entered has "number", "time_ms", "kind" and "fingerprint" (hexadecimal).
                It may have "look" (hexadecimal), "frame" (hexadecimal, its bins' bits, the lowest first), and
                "forgotten" if it is no longer searched.
    then        one line per host with a sample: {"frame_of": the host's key in hexadecimal, "host": name, "taken": ..,
                "kept": .., "signatures": [hexadecimal, ..]}
    last line   {"applied": [[place in `streams`, partition, offset, mark in hexadecimal], ..]}

A file named `*.zst` is compressed. The last line, and as many lines as the first promises, prove that the file is
whole. Numbers have gaps for expired documents, whose duplicates have an origin without an original.

An export of version 6 is read too: its rule for roots names one field otherwise.
"""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import zstandard

from index import Applied, Document, Index, Kind, Parameters, Position, Source, Verdict
from index.tools import BulkLoader, HostSample, Importer, Original, Record, Snapshot, VersionDigests, portions, snapshot
from streamer.errors import InputUnreadable
from streamer.fingerprint.fingerprints import from_hexadecimal
from streamer.records.any_json import dumps, loads
from streamer.transports.files.line_reader import STANDARD_INPUT
from streamer.transports.files.replacing import replacing

EXPORT_VERSION = 7
_FORMER_VERSION = 6
ROWS_A_TRANSACTION = 4_096

_NAMES = {verdict: verdict.name.lower().replace("_", "-") for verdict in Verdict}
_VERDICTS = {name: verdict for verdict, name in _NAMES.items()}
_DEFAULTS = dict[str, Any](distance=None, original=None, forgotten=False, settled=True, id="", length=0, ratio=0)
"""Members that a line leaves out at these values."""

_BUFFER_BYTES = 2**20


def export(index: Index, file: Path, progress: Callable[[int], None]) -> int:
    """Write a snapshot of the whole index into a file ('-': standard output); returns the position count.

    The file appears when complete. `progress` receives the positions so far. Raises OSError.
    """

    def operation(taken: Snapshot, out: IO[bytes]) -> int:
        names = taken.streams()
        places = {stream: place for place, stream in enumerate(names)}
        out.write(_dumped(_header(taken, names)))
        written = 0
        for written, record in enumerate(taken.records(), start=1):
            out.write(_dumped(_as_json(record, places)))
            if written % ROWS_A_TRANSACTION == 0:
                progress(written)
        for host, sample in taken.samples():
            out.write(_dumped(_sample_as_json(host, sample)))
        out.write(_dumped({"applied": _applied_as_json(taken.applied(), places)}))
        return written

    with _written(file) as out:
        return snapshot(index, lambda taken: operation(taken, out))


def read_header(export_lines: Iterator[bytes], name: str) -> tuple[Parameters, list[tuple[str, str]], int]:
    """Parameters, streams with names, and number of positions, from the first line. Raises InputUnreadable."""
    try:
        header = _loaded(next(export_lines, b""))
        version = header["neardup_index_export"]
        if version not in (_FORMER_VERSION, EXPORT_VERSION):
            raise InputUnreadable(
                f"{name}: an export of version {version}. This program reads version {EXPORT_VERSION}, and {_FORMER_VERSION} "
                "of an earlier program. Import it with the program that wrote it, or rebuild the index from files or topics."
            )
        if header["parameters"]["insert"] == "all":
            raise InputUnreadable(
                f'{name}: an export of an index with insert = "all", which was removed. Rebuild the index from the output topics '
                "(streamer index rebuild DIRECTORY --topics --switch), or begin a new one in another directory "
                "(index.directory)."
            )
        streams = [(stream, stream_name) for stream, stream_name in header["streams"]]
        return _parameters(header["parameters"], version), streams, header["positions"]
    except (ValueError, KeyError, TypeError) as problem:
        raise InputUnreadable(f"{name}: not an export of an index: its first line is another.") from problem


def _parameters(fields: dict[str, Any], version: int) -> Parameters:
    if version == _FORMER_VERSION and "root" in fields:
        root = fields["root"]
        fields = fields | {"root": {"distance_max": root["distance_max"], "member_distance_min": root["apart"]}}
    return Parameters.from_fields(fields)


def take_in(
    index: Index,
    export_lines: Iterator[bytes],
    streams: Sequence[tuple[str, str]],
    positions: int,
    name: str,
    progress: Callable[[int], None],
) -> tuple[int, int]:
    """Enter the lines after the header; returns the counts of new and known positions. Known ones stay unchanged.

    Every ROWS_A_TRANSACTION lines are one transaction, and leave an earlier state of the exported index. Raises
    InputUnreadable for a damaged or incomplete file, and NeardupIndexError.
    """
    loading = BulkLoader(index)
    taking = Importer(loading)
    taking.begin(streams)
    lines = _Lines(export_lines, [stream for stream, _ in streams], index.parameters.bits, name)
    entered = existing = 0
    for portion in portions(lines.records(), ROWS_A_TRANSACTION):
        try:
            done = taking.add(portion)
        except ValueError as problem:
            raise InputUnreadable(f"{name}: line {lines.line}: {problem}.") from problem
        entered, existing = entered + done.entered, existing + done.already_known
        progress(entered + existing)
    if lines.applied is None:
        raise InputUnreadable(f"{name}: ends too early, after line {lines.line}. The index has the lines before.")
    if entered + existing != positions:
        raise InputUnreadable(
            f"{name}: has {entered + existing} positions of {positions}: lines are missing. The index has the others."
        )
    taking.add_samples(lines.samples)
    taking.finish(lines.applied)
    loading.finish()
    return entered, existing


@dataclass
class _Lines:
    """The lines after the header. `applied` is None until the last line."""

    octets: Iterator[bytes]
    streams: Sequence[str]
    bits: int
    name: str
    line: int = 1
    applied: dict[Source, Applied] | None = None
    samples: dict[int, HostSample] = field(default_factory=dict)

    def records(self) -> Iterator[Record]:
        for line in self.octets:
            self.line += 1
            try:
                if self.applied is not None:
                    raise ValueError("more lines follow the last one")
                fields = _loaded(line)
                if "applied" in fields:
                    self.applied = {
                        Source(self.streams[place], partition): Applied(offset, bytes.fromhex(mark))
                        for place, partition, offset, mark in fields["applied"]
                    }
                elif "frame_of" in fields:
                    host, sample = _sample(fields)
                    self.samples[host] = sample
                else:
                    yield self._record(fields)
            except (ValueError, KeyError, TypeError, IndexError) as problem:
                raise InputUnreadable(f"{self.name}: line {self.line} cannot be read: {problem}.") from problem

    def _record(self, fields: dict[str, Any]) -> Record:
        source = Source(self.streams[fields["stream"]], fields["partition"])
        document = origin = None
        if "origin" in fields:
            id_, stream, partition, offset = fields["origin"]
            origin = Original(id_, Position(Source(self.streams[stream], partition), offset))
        if "number" in fields:
            words = from_hexadecimal(fields["fingerprint"], self.bits)[0].tolist()
            document = Document(
                fields["number"],
                fields.get("original", fields["number"]),
                fields.get("id", ""),
                Position(source, fields["offset"]),
                fields["time_ms"],
                Kind[fields["kind"].upper()],
                tuple(words),
                bytes.fromhex(fields.get("look", "")),
                tuple(np.frombuffer(bytes.fromhex(fields.get("frame", "")), "<u8").tolist()),
            )
        return Record(
            source,
            fields["offset"],
            _VERDICTS[fields["verdict"]],
            fields["reason"],
            origin=origin,
            document=document,
            version=_version(fields),
            **{name: fields.get(name, default) for name, default in _DEFAULTS.items()},
        )


def _header(taken: Snapshot, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "neardup_index_export": EXPORT_VERSION,
        "parameters": taken.parameters.fields(),
        "streams": list(names.items()),
        "positions": taken.count(),
    }


def _as_json(record: Record, places: Mapping[str, int]) -> dict[str, Any]:
    document, origin, version = record.document, record.origin, record.version
    fields: dict[str, Any] = {
        "stream": places[record.source.stream],
        "partition": record.source.partition,
        "offset": record.offset,
        "verdict": _NAMES[record.verdict],
        "reason": record.reason,
        "text": f"{version.text:016x}",
        "substance": None if version.substance == version.text else f"{version.substance:016x}",
        "host": f"{version.host:08x}" if version.host else None,
        "returns": version.returns or None,
        "strangers": version.strangers or None,
    }
    if origin is not None:
        source, offset = origin.position
        fields["origin"] = [origin.id, places[source.stream], source.partition, offset]
    if document is not None:
        fields |= {
            "number": document.number,
            "time_ms": document.time_ms,
            "kind": document.kind.name.lower(),
            "fingerprint": "".join(f"{word:016x}" for word in reversed(document.fingerprint)),
            "look": document.look.hex() or None,
            "frame": np.array(document.frame, "<u8").tobytes().hex() or None,
        }
    known = {name: value for name, default in _DEFAULTS.items() if (value := getattr(record, name)) != default}
    return known | {name: value for name, value in fields.items() if value is not None}


def _version(fields: Mapping[str, Any]) -> VersionDigests:
    text, host = fields["text"], fields.get("host", "0")
    substance = fields.get("substance", text)
    counts = fields.get("returns", 0), fields.get("strangers", 0)
    return VersionDigests(int(text, 16), int(substance, 16), int(host, 16), *counts)


def _sample_as_json(host: int, sample: HostSample) -> dict[str, Any]:
    return {
        "frame_of": f"{host:016x}",
        "host": sample.name,
        "taken": sample.taken,
        "kept": sample.kept,
        "signatures": _hex(sample.signatures),
        "waiting": _hex(sample.waiting),
    }


def _hex(signatures: npt.NDArray[np.uint64]) -> list[str]:
    return [each.astype("<u8").tobytes().hex() for each in signatures]


def _sample(fields: dict[str, Any]) -> tuple[int, HostSample]:
    sampled, waiting = (
        np.array([np.frombuffer(bytes.fromhex(each), "<u8") for each in fields.get(name, ())], np.uint64)
        for name in ("signatures", "waiting")
    )
    name, words = fields["host"], sampled.shape[1]
    sample = HostSample(fields["taken"], fields["kept"], name, sampled, waiting.reshape(-1, words))
    return int(fields["frame_of"], 16), sample


def _applied_as_json(applied: Mapping[Source, Applied], places: Mapping[str, int]) -> list[list[Any]]:
    return [[places[source.stream], source.partition, at.offset, at.mark.hex()] for source, at in applied.items()]


def _dumped(fields: dict[str, Any]) -> bytes:
    return dumps(fields) + b"\n"


def _loaded(line: bytes) -> dict[str, Any]:
    fields = loads(line)
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    return fields


@contextmanager
def _written(file: Path) -> Iterator[IO[bytes]]:
    if file == STANDARD_INPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(file) as raw:
        if file.suffix == ".zst":
            compressed = zstandard.ZstdCompressor().stream_writer(raw, closefd=False)
            with io.BufferedWriter(compressed, _BUFFER_BYTES) as buffered:  # type: ignore[type-var]
                yield buffered
        else:
            yield raw
