"""Rebuild of an index with other settings while the old one runs: from files, or from the output topics.

An interrupted rebuild continues at its next run. A half-built index looks like one that has seen only the first part of the
input. Only its name distinguishes it from the finished one, so switch to it only after the end.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import structlog

from index import Applied, Entries, Index, Kind, Position, Source, Verdict, errors
from index.tools import BulkLoader
from streamer.errors import InputChanged, SettingsError
from streamer.fingerprint.scheme import Scheme
from streamer.index_admin.tools import open_for_reading
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position, restored_as, restoring_outputs, restoring_verdict
from streamer.service.pipeline import prepare
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, digests_at
from streamer.transports.kafka.changelog import find_trimmed, read_changelog
from streamer.transports.kafka.topics import committed_offsets
from streamer.transports.transport import NO_TIMESTAMP_MS

log = structlog.get_logger(__name__)


class Rebuilt(NamedTuple):
    """Counts of a rebuild: records read, and those that the new index already held."""

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

    running   index in use, if any. A file that it knows by name and lines keeps its stream in the new index, so that
              `streamer filter` continues with either
    progress  receives the number of lines decided so far

    Raises InputUnreadable, InputChanged, IndexProblem.
    """
    read = known = 0
    index, fingerprinter = open_with_scheme(settings)
    with index:
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
    """Skip the lines that an earlier run decided. Returns their number."""
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


def ends_to_rebuild(settings: Settings) -> dict[Source, int]:
    """Offset by input source up to which the current index has decided and the group has delivered.

    This is the committed offset; for a deleted topic with the same name, the applied offset. If the current index is
    unreadable, because it is damaged or of another format, there are only committed offsets. Raises SettingsError if nothing
    was ever decided, BrokerUnavailable, IndexProblem.
    """
    applied: dict[Source, int] = {}
    try:
        with open_for_reading(settings) as running:
            streams = set(running.streams(settings.topics.input))
            applied = {source: at.offset for source, at in running.applied().items() if source.stream in streams}
    except (errors.FormatUnknown, errors.IndexDamaged) as problem:
        log.warning(
            "the index in place cannot be read: the new one takes what the group has committed", problem=str(problem)
        )
    # No output has decided but undelivered records: a later end would omit them for good.
    ends = applied | committed_offsets(settings)
    if not ends:
        raise SettingsError(
            f"neither the index in {settings.index.directory} nor the group {settings.kafka.group!r} has decided anything of "
            f"topic {settings.topics.input!r}: correct topics.input, kafka.group or index.directory, or rebuild from files."
        )
    return ends


def rebuild_from_topics(settings: Settings, ends: Mapping[Source, int], progress: Callable[[int], None]) -> Rebuilt:
    """Enter the input topic's delivered records into the index in `settings`, up to each source's end.

    Verdicts stay as delivered. An earlier duplicate does not enter, unless the settings let duplicates enter. The service
    itself enters later decisions when it starts with the new index. `progress` receives the records read so far. Raises
    SettingsError, BrokerUnavailable, IndexProblem.
    """
    outputs = restoring_outputs(settings.index.insert)
    seen_among_uniques = {Verdict.UNIQUE}
    read = known = 0
    index, fingerprinter = open_with_scheme(settings)
    with index:
        parts = _Parts(index, Decoder(settings.decode), fingerprinter)
        reached = {source: at.offset for source, at in index.applied().items()}
        for source in ends:
            index.begin(source, settings.topics.input, 0)
        ranges = {source: range(reached.get(source, 0), end) for source, end in ends.items()}
        ranges = {source: offsets for source, offsets in ranges.items() if offsets}
        _warn_of_trimmed(settings, ranges, list(dict.fromkeys(destination for destination, _ in outputs)))
        loading = BulkLoader(index)
        for destination, verdict in outputs:
            if destination is Destination.UNIQUE and verdict not in seen_among_uniques:
                continue
            for found in read_changelog(settings, ranges, [destination]) if ranges else ():
                if destination is Destination.UNIQUE:
                    seen_among_uniques.update(map(restoring_verdict, found))
                # Only after the last topic all records below an offset are entered, and all replaced versions retired.
                is_last = destination is outputs[-1][0] and (
                    verdict is outputs[-1][1] or Verdict.UPDATE not in seen_among_uniques
                )
                of_batch = _entered(loading, parts, found, verdict, set_applied=is_last)
                if verdict is not Verdict.UPDATE:
                    known += of_batch
                    read += len(found)
                progress(read)
        loading.finish()
        for source, end in ends.items():
            index.set_applied(source, end)
    return Rebuilt(read, known)


def _warn_of_trimmed(settings: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> None:
    for part in find_trimmed(settings, ranges, destinations) if ranges else ():
        if part is not None:
            log.warning(
                f"documents may be missing in the new index: {part.place} {part.why}. Reposts of them would be unique; a "
                "backup that has them (streamer index restore) is the better way"
            )


def _entered(
    loading: BulkLoader, parts: _Parts, delivered: Sequence[Record], verdict: Verdict, *, set_applied: bool
) -> int:
    """Enter delivered records with a verdict, and move the applied offsets on request. Returns the count of known ones.

    Given-back documents enter together with the unique ones.
    """
    found = restored_as(verdict, delivered)
    if verdict is Verdict.UNIQUE and (given_back := restored_as(Verdict.GIVEN_BACK, delivered)):
        loading.give_back(prepare(parts.decoder, parts.fingerprinter, given_back))
    if not found:
        return 0
    entries: Entries = prepare(parts.decoder, parts.fingerprinter, found)
    decided = np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT))
    verdicts = list(map(restoring_verdict, found))
    originals: list[Position | None] = [
        parse_original_position(record.headers) if own.names_original else None
        for record, own, keep in zip(found, verdicts, decided, strict=True)
        if keep
    ]
    entries = entries.take(np.flatnonzero(decided))
    ends = {record.source: record.offset + 1 for record in found} if set_applied else {}
    return loading.add(entries, np.array(verdicts, np.uint8)[decided], originals, ends).already_known
