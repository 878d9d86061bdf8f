"""Rebuild of an index beside the running one, with other settings: from files, or from the output topics.

A rebuild that was stopped or killed goes on when it is run again. A half-built index looks like one that has seen only
the first part of the input. Nothing but its name tells it from the finished one, so switch to it only after the end.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from index import Applied, Entries, Index, Kind, Position, Source, Verdict
from index.tools import BulkLoader
from streamer.errors import InputChanged, SettingsError
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position, restored_as
from streamer.service.pipeline import prepare
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings
from streamer.transports.files.changelog import NO_TIMESTAMP_MS
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, digests_at
from streamer.transports.kafka.changelog import read_changelog


class Rebuilt(NamedTuple):
    """Counts of a rebuild: records read, and those among them that the new index held already."""

    records: int
    already_known: int


@dataclass(frozen=True, slots=True)
class _Parts:
    index: Index
    decoder: Decoder
    fingerprinter: Scheme


def rebuild_from_files(
    settings: Settings, files: Sequence[Path], running: Index | None, progress: Callable[[int], None]
) -> Rebuilt:
    """Decide all lines of JSON Lines files, in order, into the index of `settings`.

    running   index in use, if any. A file that it knows by its name and its lines keeps its stream in the new index, so
              that `streamer filter` goes on with either
    progress  called with the number of lines decided so far
    Raises InputUnreadable, InputChanged, IndexProblem.
    """
    fingerprinter = scheme_for(settings)
    read = known = 0
    with open_index(settings, fingerprinter) as index:
        parts = _Parts(index, Decoder(settings.decode), fingerprinter)
        for file in files:
            with closing(LineReader(file)) as reader:
                source = _source_of(file, index, running)
                index.begin(source, str(file), 0)
                known += _skipped(reader, index.applied()[source])
                for count in _decided(settings, parts, reader, source):
                    read += count
                    progress(known + read)
    return Rebuilt(known + read, known)


def _source_of(file: Path, index: Index, running: Index | None) -> Source:
    name = str(file)
    for stream in index.streams(name):
        return Source(stream, 0)
    known = {} if running is None or file == STANDARD_INPUT else _known(running, name)
    digests = digests_at(file, [at.offset for at in known.values()]) if known else {}
    same = [source for source, at in known.items() if digests.get(at.offset) == at.mark]
    return same[-1] if same else Source(uuid.uuid4().hex, 0)


def _known(running: Index, name: str) -> dict[Source, Applied]:
    streams = set(running.streams(name))
    return {source: at for source, at in running.applied().items() if source.stream in streams and at.mark}


def _skipped(reader: LineReader, applied: Applied) -> int:
    """Skip the lines that an earlier run decided. Returns how many."""
    count = reader.skip(applied.offset)
    if count < applied.offset or (count and reader.digest() != applied.mark):
        raise InputChanged(
            f"{reader.name}: its first {applied.offset} lines are not those that the new index was begun with. Remove "
            "the new index and begin again."
        )
    return count


def _decided(settings: Settings, parts: _Parts, reader: LineReader, source: Source) -> Iterator[int]:
    while not reader.ended:
        begin = reader.count
        lines = reader.lines(settings.batch.records_max, settings.batch.bytes_max)
        found = [
            Record(source, reader.name, offset, None, line, NO_TIMESTAMP_MS)
            for offset, line in enumerate(lines, start=begin)
        ]
        if found:
            entries = prepare(parts.decoder, parts.fingerprinter, found)
            parts.index.admit(entries, {source: reader.count}, {source: reader.digest()})
            yield len(found)


def rebuild_from_topics(settings: Settings, running: Index, progress: Callable[[int], None]) -> Rebuilt:
    """Enter the delivered records of the input topic into the index of `settings`, as far as `running` has decided them.

    Verdicts are taken as they were delivered. What was a duplicate then does not enter, unless the settings let
    duplicates enter. The service itself enters what is decided meanwhile, when it starts with the new index.
    `progress` is called with the number of records read so far. Raises SettingsError, BrokerUnavailable, IndexProblem.
    """
    streams = set(running.streams(settings.topics.input))
    ends = {source: at.offset for source, at in running.applied().items() if source.stream in streams}
    if not ends:
        raise SettingsError(
            f"{settings.index.directory}: the running index has decided nothing of topic {settings.topics.input!r}: "
            "correct topics.input or index.directory, or rebuild from files."
        )
    outputs = [(Destination.UNIQUE, Verdict.UNIQUE)]
    if settings.index.insert == "all":
        outputs += [(Destination.UNIQUE, Verdict.SUSPECT), (Destination.DUPLICATE, Verdict.DUPLICATE)]
    fingerprinter = scheme_for(settings)
    read = known = 0
    with open_index(settings, fingerprinter) as index:
        parts = _Parts(index, Decoder(settings.decode), fingerprinter)
        reached = {source: at.offset for source, at in index.applied().items()}
        for source in ends:
            index.begin(source, settings.topics.input, 0)
        ranges = {source: range(reached.get(source, 0), end) for source, end in ends.items()}
        ranges = {source: offsets for source, offsets in ranges.items() if offsets}
        loading = BulkLoader(index)
        for destination, verdict in outputs:
            for found in read_changelog(settings, ranges, [destination]) if ranges else ():
                # Only after the last topic has everything below an offset entered.
                is_last = destination is outputs[-1][0]
                known += _entered(loading, parts, found, verdict, set_applied=is_last)
                read += len(found)
                progress(read)
        loading.finish()
        for source, end in ends.items():
            index.set_applied(source, end)
    return Rebuilt(read, known)


def _entered(
    loading: BulkLoader, parts: _Parts, delivered: Sequence[Record], verdict: Verdict, *, set_applied: bool
) -> int:
    """Enter delivered records of a verdict, and move the applied offsets where asked to. Returns how many were known."""
    found = restored_as(verdict, delivered)
    if not found:
        return 0
    entries: Entries = prepare(parts.decoder, parts.fingerprinter, found)
    decided = np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT))
    originals: list[Position | None] = [
        parse_original_position(record.headers) if verdict.names_original else None
        for record, keep in zip(found, decided, strict=True)
        if keep
    ]
    entries = entries.take(np.flatnonzero(decided))
    ends = {record.source: record.offset + 1 for record in found} if set_applied else {}
    return loading.add(entries, np.full(len(entries), verdict, np.uint8), originals, ends).already_known
