"""Rebuild of an index with other settings while the old one runs: from files, or from the output topics.

An interrupted rebuild continues at its next run. Only its name distinguishes a half-built index, so switch to it only
after the end.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import structlog

from index import Applied, Index, Source, errors
from index.tools import BulkLoader
from streamer.errors import InputChanged, SettingsError
from streamer.fingerprint.documents import prepare
from streamer.index_admin.tools import open_for_reading
from streamer.records.decode import Decoder
from streamer.service.restoring import Reentry, destinations_to_read
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings
from streamer.transports.files.formats import record_test
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, proven, records_of
from streamer.transports.files.remote import Input
from streamer.transports.kafka.changelog import find_trimmed, read_changelog
from streamer.transports.kafka.output_log import read_inputs
from streamer.transports.kafka.topics import committed_offsets

log = structlog.get_logger(__name__)


class Rebuilt(NamedTuple):
    """Counts of a rebuild: records that had to enter, each once, and those already in the new index.

    >>> counts = Rebuilt(records=10, already_known=2)
    >>> f"{counts.records:,} records entered, {counts.already_known:,} were there"
    '10 records entered, 2 were there'
    """

    records: int
    already_known: int


def rebuild_from_files(
    settings: Settings, files: Sequence[Input], running: Index | None, progress: Callable[[int], None]
) -> Rebuilt:
    """Decide JSON Lines files' lines, in order, into the index of `settings`.

    running   index in use, if any. A file that it knows by name and lines keeps its stream, so that `streamer filter`
              continues with either index
    progress  receives the lines so far

    Raises InputUnreadable, InputChanged, NeardupIndexError.
    """
    read = skipped = 0
    index, fingerprinter = open_with_scheme(settings)
    with index:
        prepared = partial(prepare, Decoder(settings.decode), fingerprinter)
        is_record = record_test(settings.decode)
        for file in files:
            with closing(LineReader(file, is_record=is_record)) as reader:
                source = _source_of(file, index, running)
                index.begin(source, str(file), 0)
                skipped += _skipped(reader, index.applied()[source])
                while not reader.ended:
                    begin = reader.count
                    lines = reader.lines(settings.batch.records_max, settings.batch.bytes_max)
                    if records := records_of(source, reader.name, begin, lines):
                        index.admit(prepared(records), {source: reader.count}, {source: reader.digest()})
                        read += len(records)
                        progress(skipped + read)
                for remark in reader.remarks:
                    log.warning(remark)
    return Rebuilt(skipped + read, skipped)


def _source_of(file: Input, index: Index, running: Index | None) -> Source:
    name = str(file)
    for stream in index.streams(name):
        return Source(stream, 0)
    applied = {} if running is None or file == STANDARD_INPUT else _applied_of(running, name)
    agreeing = proven(file, applied.values()) if applied else set()
    same = [source for source, at in applied.items() if at in agreeing]
    return same[-1] if same else Source(uuid.uuid4().hex, 0)


def _applied_of(running: Index, name: str) -> dict[Source, Applied]:
    streams = set(running.streams(name))
    return {source: at for source, at in running.applied().items() if source.stream in streams and at.mark}


def _skipped(reader: LineReader, applied: Applied) -> int:
    count = reader.go_to(applied.offset, {applied.mark})
    if count < applied.offset or (count and reader.digest() != applied.mark):
        raise InputChanged(
            f"{reader.name}: its first {applied.offset} lines are not those that the new index was begun with. Remove "
            "the new index and begin again."
        )
    return count


def ends_to_rebuild(settings: Settings) -> dict[Source, int]:
    """Offset by input source up to which the current index has decided and the group has delivered.

    This is the committed offset; for a deleted topic with the same name, the applied one if the index is readable.
    Raises SettingsError before the first decision, BrokerUnavailable, NeardupIndexError.
    """
    applied: dict[Source, int] = {}
    try:
        with open_for_reading(settings) as running:
            streams = set(running.streams(settings.topics.input))
            applied = {source: at.offset for source, at in running.applied().items() if source.stream in streams}
    except (errors.FormatUnknownError, errors.IndexDamagedError) as problem:
        log.warning(
            "the index in place cannot be read: the new one takes what the group has committed", problem=str(problem)
        )
    # No output has undelivered records: a later end would omit them for good.
    ends = applied | committed_offsets(settings)
    if not ends:
        raise SettingsError(
            f"neither the index in {settings.index.directory} nor the group {settings.kafka.group!r} has decided anything of "
            f"topic {settings.topics.input!r}: correct topics.input, kafka.group or index.directory, or rebuild from files."
        )
    return ends


def rebuild_from_topics(settings: Settings, ends: Mapping[Source, int], progress: Callable[[int], None]) -> Rebuilt:
    """Enter the input topic's delivered records into the index of `settings`, up to each source's end.

    Verdicts stay as delivered, and duplicates enter only by these settings. `progress` receives the records so far.
    Raises SettingsError, BrokerUnavailable, NeardupIndexError.
    """
    index, fingerprinter = open_with_scheme(settings)
    with index:
        reached = {source: at.offset for source, at in index.applied().items()}
        for source in ends:
            index.begin(source, settings.topics.input, 0)
        ranges = {source: range(reached.get(source, 0), end) for source, end in ends.items()}
        ranges = {source: offsets for source, offsets in ranges.items() if offsets}
        loading = BulkLoader(index)
        inputs_at = partial(read_inputs, settings)
        reentry = Reentry(loading, Decoder(settings.decode), fingerprinter, inputs_at, ends)
        if ranges:
            _warn_of_trimmed(settings, ranges)
            for _ in reentry.enter_all(lambda to: read_changelog(settings, ranges, [to]), set_applied=True):
                progress(reentry.read)
        loading.finish()
        for source, end in ends.items():
            index.set_applied(source, end)
    return Rebuilt(reentry.read, reentry.counts["already_known"])


def _warn_of_trimmed(settings: Settings, ranges: Mapping[Source, range]) -> None:
    for part in find_trimmed(settings, ranges, destinations_to_read(settings.index.insert)):
        if part is not None:
            log.warning(
                f"documents may be missing in the new index: {part.place} {part.why}. Reposts of them would be unique; a "
                "backup that has them (streamer index restore) is the better way"
            )
