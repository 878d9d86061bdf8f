"""Transport over files and pipes: lines in, four files out, exactly once.

Inputs are read in the given order. A record is one line (`line_reader`); its offset is the line number, from 0. The
checkpoint of `output_folder` has the committed offset.

The stream of an input:
    path in the checkpoint               its noted stream
    new path, known name in the index    the known stream, and the same verdicts, if it is a regular file
                                         that begins with exactly the decided lines
    otherwise, and for any new pipe      a new stream
The checkpoint notes the stream before the first record leaves. So a pipe fed again after a crash counts as the same
input.

The digest of the first n lines, `mark`, proves that an input is unchanged. The checkpoint holds it for delivered lines,
the index for decided ones. A file may grow, but an unterminated last line may not.
"""

import os
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from index import Applied, Source
from streamer.errors import InputChanged, InputUnreadable, RecoveryRefused, SettingsError
from streamer.records.record import Batch, Destination, Outgoing, Record
from streamer.records.route import verdict_line
from streamer.settings.settings import Batching
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, digests_at
from streamer.transports.files.output_folder import (
    OUTPUT_FILES,
    VERDICTS,
    Delivered,
    DeliveryHooks,
    OutputFolder,
)
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.transport import FINISHED, NO_TIMESTAMP_MS, Assigned, Finished, Transport

TAIL_RECORDS_MAX = 200_000
"""Most decided but undelivered records after a crash: two batches of the largest `batch.records_max`."""


@dataclass(slots=True)
class _Reading:
    """The current input. `decided`: the index's applied offset and mark, until the reading reaches it."""

    source: Source
    name: str
    path: Path
    reader: LineReader | None = None
    decided: Applied | None = None


class FileTransport(Transport):
    """Transport over files and standard input. It touches nothing before `open`.

    The folder's lock admits one job, and `open` refuses a folder that lost delivered lines.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        out: Path,
        batch: Batching,
        known_streams: Callable[[str], list[tuple[str, Applied]]],
        *,
        hooks: DeliveryHooks | None = None,
        standard_input: int = 0,
        compression: str | None = None,
    ) -> None:
        """
        known_streams   the indexed streams with a name, each with applied offset and mark
        hooks           for crash tests
        standard_input  file descriptor for '-'
        compression     see `OutputFolder`
        """
        self._paths = list(paths)
        self._batch = batch
        self._known_streams = known_streams
        self._standard_input = standard_input
        self._folder = OutputFolder(out, hooks or DeliveryHooks(), compression)
        self._unread = iter(self._paths)
        self._reading: _Reading | None = None
        self._peeked: Batch | None = None
        self._proven: dict[str, Applied] = {}
        self._bytes_read_before = 0
        self._left_out_before: Counter[str] = Counter()

    takes_headers = False

    @property
    def bytes_total(self) -> int:
        """Bytes on disk of all regular input files; 0 if all inputs are pipes."""
        return sum(path.stat().st_size for path in self._paths if path.is_file())

    @property
    def bytes_read(self) -> int:
        """Bytes read from the inputs, before decompression."""
        at_work = self._reading.reader if self._reading else None
        return self._bytes_read_before + (at_work.bytes_read if at_work else 0)

    @property
    def left_out(self) -> Counter[str]:
        """Number of input records without a document, by kind."""
        at_work = self._reading.reader if self._reading else None
        return self._left_out_before + (at_work.left_out if at_work else Counter())

    @property
    def lines_delivered(self) -> int:
        """Delivered lines of these inputs, earlier runs included."""
        keys = set(map(_key, self._paths))
        return sum(each.lines or 0 for key, each in self._folder.sources.items() if key in keys)

    @property
    def suffix(self) -> str:
        """Suffix of the outputs' files, such as .jsonl.gz."""
        return self._folder.path(".jsonl").name

    def open(self) -> None:
        """Check all inputs, then lock the folder and truncate its files to the delivered lengths.

        Raises InputUnreadable, SettingsError, RecoveryRefused.
        """
        missing = [_text(path) for path in self._paths if path != STANDARD_INPUT and not _is_readable(path)]
        if missing:
            raise InputUnreadable(f"No such file, or it may not be read: {', '.join(missing)}.")
        keys = Counter(map(_key, self._paths))
        if twice := [key for key, count in keys.items() if count > 1]:
            raise SettingsError(f"Named more than once: {', '.join(twice)}.")
        if both := keys.keys() & {_text((self._folder.folder / name).resolve()) for name in OUTPUT_FILES}:
            raise SettingsError(f"Both input and output: {', '.join(sorted(both))}.")
        self._folder.open()

    def read(self) -> Batch | Assigned | Finished:
        """Assigned for the next input, then its batches; FINISHED after the last input.

        Empty Batch after `batch.wait_ms` without news from a pipe. Raises InputUnreadable, InputChanged, DeliveryDoubtful.
        """
        if (upcoming := self._peeked) is not None:
            self._peeked = None
            return upcoming
        while True:
            if self._reading is None:
                path = next(self._unread, None)
                if path is None:
                    return FINISHED
                self._reading = self._begin(path)
            reading, reader = self._reading, self._reading.reader
            if reader is None:
                names = {each.stream: each.name for each in self._folder.sources.values()}
                others = (Source(stream, 0) for stream in names if stream != reading.source.stream)
                return Assigned((reading.source,), names, tuple(others))
            begin = reader.count
            lines = self._lines(reading, reader)
            if lines or not reader.ended:
                return _batch(reading, reader, begin, lines)
            self._close_input()

    def peek(self) -> Batch | None:
        """See Transport. Reads a file from disk; of a pipe it takes only what is buffered."""
        reading = self._reading
        if self._peeked is None and reading and reading.reader and reading.decided is None:
            begin = reading.reader.count
            lines = reading.reader.lines_at_hand(self._batch.records_max, self._batch.bytes_max)
            self._peeked = _batch(reading, reading.reader, begin, lines) if lines else None
        return self._peeked

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """Delivered lines per source; None if never committed."""
        delivered = {each.stream: each.lines for each in self._folder.sources.values()}
        return {source: delivered.get(source.stream) for source in sources}

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """0 per source: files keep their lines."""
        return dict.fromkeys(sources, 0)

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """Known lines per source, delivered or read. More may follow."""
        ends = {source: lines or 0 for source, lines in self.committed(sources).items()}
        if self._reading and self._reading.reader and self._reading.source in ends:
            ends[self._reading.source] = max(ends[self._reading.source], self._reading.reader.count)
        return ends

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Compare the lines before `offset` with the mark, then read on from there.

        If the index's mark agrees, decided lines from `offset` to `applied.offset` form the first batch, whatever its
        size. A crash leaves at most TAIL_RECORDS_MAX such lines. With more, a file is compared at once and read in
        ordinary batches; a pipe is refused.
        An empty mark is ignored. Raises InputChanged, InputUnreadable, RecoveryRefused.
        """
        reading = self._reading
        if reading is None or reading.source != source or reading.reader is not None:
            raise RuntimeError(f"{source} is not the source assigned last, or was sought already")
        ahead = applied if applied is not None and applied.offset > offset and applied.mark else None
        if ahead and ahead.offset - offset > TAIL_RECORDS_MAX and self._proven.get(source.stream) != ahead:
            self._prove(reading, ahead)
        reading.decided = ahead
        reading.reader = LineReader(reading.path, standard_input=self._standard_input)
        skipped = reading.reader.skip(offset)
        delivered = self._delivered(source)
        marks = {applied.mark if applied and applied.offset == offset else b""}
        if delivered.lines == offset:
            marks.add(bytes.fromhex(delivered.mark))
        if skipped < offset or marks - {b"", reading.reader.digest()}:
            raise self._changed(reading, offset)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """See Transport: appends lines and verdicts, and moves the checkpoint, atomically. Raises DeliveryDoubtful."""
        if not batch.records:
            return
        ((source, end),) = batch.ends.items()
        delivered = self._delivered(source)
        if batch.records[0].offset != (delivered.lines or 0) or len(outgoing) != len(batch.records):
            raise RuntimeError(f"{delivered.name}: {delivered.lines} lines are delivered, this batch does not follow")
        lines: dict[str, list[bytes]] = {destination: [] for destination in Destination}
        for each in outgoing:
            lines[each.destination].append(each.record.value or b"")
        contents = {f"{name}.jsonl": b"\n".join([*values, b""]) for name, values in lines.items() if values}
        contents[VERDICTS] = b"\n".join([*map(verdict_line, outgoing), b""])
        self._folder.append(contents, replace(delivered, lines=end, mark=batch.marks[source].hex()))

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:  # noqa: ARG002
        """Write start offsets into the checkpoint as delivered, for sources without one.

        Raises DeliveryDoubtful, and RecoveryRefused if another offset was committed: lines would be lost or doubled.
        """
        ((source, offset),) = offsets.items()
        delivered = self._delivered(source)
        if delivered.lines not in (None, offset):
            raise RecoveryRefused(
                f"{delivered.name}: {delivered.lines} lines are delivered to {self._folder.folder}, so it cannot be read "
                f"from line {offset + 1} on: name another --out."
            )
        self._folder.register(replace(delivered, lines=offset))

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport. Raises RecoveryRefused for contradictory files."""
        return FileOutputLog(self._folder.folder, self._batch).changelog(ranges, destinations)

    def close(self) -> None:
        """Release inputs, outputs and the lock."""
        self._close_input()
        self._folder.close()

    def _begin(self, path: Path) -> _Reading:
        key = _key(path)
        delivered = self._folder.sources.get(key)
        if delivered is None:
            name = self._free_name(path)
            delivered = Delivered(key, name, self._known_stream(path, name) or uuid.uuid4().hex)
            self._folder.register(delivered)
        return _Reading(Source(delivered.stream, 0), delivered.name, path)

    def _free_name(self, path: Path) -> str:
        """The path as given, or the absolute path if another input has that name."""
        taken = {each.name for each in self._folder.sources.values()}
        free = [name for name in (_text(path), _key(path)) if name not in taken]
        if not free:
            raise SettingsError(
                f"{_text(path)}: the name stands for another file in {self._folder.folder}: rename one."
            )
        return free[0]

    def _known_stream(self, path: Path, name: str) -> str | None:
        candidates = [each for each in self._known_streams(name) if each[1].offset and each[1].mark]
        if not candidates or not path.is_file():
            return None
        try:
            digests = digests_at(path, [applied.offset for _, applied in candidates])
        except InputUnreadable:
            return None  # damaged before that line, so its content differs; reading it raises later
        same = [each for each in candidates if digests.get(each[1].offset) == each[1].mark]
        if not same:
            return None
        stream, applied = max(same, key=lambda each: each[1].offset)
        self._proven[stream] = applied
        return stream

    def _prove(self, reading: _Reading, ahead: Applied) -> None:
        if not reading.path.is_file():
            raise RecoveryRefused(
                f"{reading.name}: the index has decided {ahead.offset} lines, far more than {self._folder.folder} holds, "
                "which is an old copy: name another --out."
            )
        if digests_at(reading.path, [ahead.offset]).get(ahead.offset) != ahead.mark:
            raise self._changed(reading, ahead.offset)
        self._proven[reading.source.stream] = ahead

    def _lines(self, reading: _Reading, reader: LineReader) -> list[bytes]:
        records_max, bytes_max, wait_ms = self._batch.records_max, self._batch.bytes_max, self._batch.wait_ms
        decided = reading.decided
        if decided is None:
            return reader.lines(records_max, bytes_max, wait_ms)
        missing = decided.offset - reader.count
        proven = self._proven.get(reading.source.stream) == decided
        if proven:
            lines = reader.lines(min(missing, records_max), bytes_max, wait_ms)
        else:
            lines = reader.lines(missing, sys.maxsize, wait_ms, whole=True)
        too_few = reader.ended or (not proven and 0 < len(lines) < missing)
        if too_few or (reader.count == decided.offset and reader.digest() != decided.mark):
            raise self._changed(reading, decided.offset)
        if reader.count == decided.offset:
            reading.decided = None
        return lines

    def _delivered(self, source: Source) -> Delivered:
        return next(each for each in self._folder.sources.values() if each.stream == source.stream)

    def _changed(self, reading: _Reading, count: int) -> InputChanged:
        return InputChanged(
            f"{reading.name}: its first {count} lines are not those that were filtered before. Give it its former content "
            "back (a pipe: from the first line on), or filter it into another --out."
        )

    def _close_input(self) -> None:
        if self._reading and self._reading.reader:
            self._bytes_read_before += self._reading.reader.bytes_read
            self._left_out_before += self._reading.reader.left_out
            self._reading.reader.close()
        self._reading = None


def _batch(reading: _Reading, reader: LineReader, begin: int, lines: Sequence[bytes]) -> Batch:
    if not lines:
        return Batch([])
    source, name = reading.source, reading.name
    records = [
        Record(source, name, offset, None, line, NO_TIMESTAMP_MS) for offset, line in enumerate(lines, start=begin)
    ]
    return Batch(records, {source: reader.count}, {source: reader.digest()})


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK) and not path.is_dir()


def _key(path: Path) -> str:
    """Resolved path. A pipe keeps its own: it resolves differently every time."""
    if path == STANDARD_INPUT:
        return "-"
    return _text(path.resolve() if path.is_file() else path.absolute())


def _text(path: Path) -> str:
    r"""Printable path; bytes outside UTF-8 appear as \xNN."""
    return os.fsencode(path).decode(errors="backslashreplace")
