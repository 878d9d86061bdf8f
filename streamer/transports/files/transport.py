"""Transport over files and pipes: lines in, four files out, exactly once.

Inputs are read in the given order. A record is one line (`line_reader`) that is not blank; its offset is the line number,
from 0. The checkpoint of `output_folder` has the committed offset. A batch may hold the lines of many files: syncs cost
more than a small file.

The stream of an input:
    path in the checkpoint               its noted stream
    new path, known name in the index    the known stream, and the same verdicts, if it is a regular file
                                         that begins with exactly the decided lines
    otherwise, and for any new pipe      a new stream
The checkpoint notes the stream before the first record leaves. So a pipe fed again after a crash counts as the same
input.

The digest of the first n lines, `mark`, proves that an input is unchanged. The checkpoint holds it for delivered lines,
the index for decided ones. A file may grow. A last line without its end is read once it is a record (`LineReader`). An
object's proof takes the digest's place (`remote`).
"""

import os
import sys
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from index import Applied, Source
from streamer.errors import InputChanged, InputLost, InputsUnread, InputUnreadable, RecoveryRefused, SettingsError
from streamer.records.lines import written
from streamer.records.record import Batch, Destination, Outgoing, Record
from streamer.settings.settings import Batching
from streamer.transports.files import output_folder
from streamer.transports.files.line_reader import BLANK, STANDARD_INPUT, LineReader, proven, records_of
from streamer.transports.files.output_folder import Delivered, DeliveryHooks, OutputFolder
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.files.read_ahead import ReadAhead
from streamer.transports.files.remote import Input, Remote, size_of
from streamer.transports.transport import FINISHED, Assigned, Finished, Transport

TAIL_RECORDS_MAX = 200_000
"""Most decided but undelivered records after a crash: two batches of the largest `batch.records_max`."""

ASSIGNED_MAX = 4_096
"""Most files assigned at once. Each assignment reads all known inputs once."""


@dataclass(slots=True)
class _Reading:
    """One assigned input.

    key      the input's identity in the checkpoint
    begin    first line to read; None before `seek`
    applied  the index's progress at `seek`
    reader   open from the input's turn on
    decided  `applied`, until the reading reaches it
    """

    source: Source
    key: str
    name: str
    path: Input
    begin: int | None = None
    applied: Applied | None = None
    reader: LineReader | None = None
    decided: Applied | None = None


@dataclass(eq=False)
class FileTransport(Transport):
    """Transport over files and standard input. It touches nothing before `open`.

    The folder's lock admits one job, and `open` refuses a folder that lost delivered lines.

    >>> from streamer.settings.settings import Settings
    >>> input_file = folder / "pages.jsonl.gz"
    >>> input_file.write_bytes(b"not read yet")
    12
    >>> transport = FileTransport([input_file], folder / "out", Settings().batch, lambda names: {})
    >>> transport.bytes_total, transport.takes_headers
    (12, False)

    known_streams   the indexed streams by these names, each with applied offset and mark
    hooks           for crash tests
    standard_input  file descriptor for '-'
    compression     see `OutputFolder`
    ahead           reads archives; None: this process does
    is_record       see `LineReader`
    settings_digest  see `Router`; the checkpoint notes it
    protected        see `OutputFolder`
    """

    _paths: Sequence[Input]
    _out: Path
    _batch: Batching
    _known_streams: Callable[[Collection[str]], Mapping[str, list[tuple[str, Applied]]]]
    hooks: DeliveryHooks | None = None
    standard_input: int = 0
    compression: str | None = None
    ahead: ReadAhead | None = None
    is_record: Callable[[bytes], bool] = lambda _: True
    settings_digest: str = ""
    protected: bool = False

    def __post_init__(self) -> None:
        self._ahead = self.ahead or ReadAhead([], 0, lambda *_: None)
        hooks = self.hooks or DeliveryHooks()
        self._folder = OutputFolder(self._out, hooks, self.compression, protected=self.protected)
        self._unread = deque(self._paths)
        self._assigned: dict[Source, _Reading] = {}
        self._peeked: deque[Batch] = deque()
        self._proven: dict[str, Applied] = {}
        self._bytes_read_before = 0
        self._left_out_before: Counter[str] = Counter()
        self._records_before: dict[str, int] = {}
        self._remarks_before: list[str] = []
        self._unreadable: list[str] = []

    takes_headers = False

    @property
    def bytes_total(self) -> int:
        """Bytes of all inputs as stored; pipes count none."""
        return sum(map(size_of, self._paths))

    @property
    def bytes_read(self) -> int:
        """Bytes read from the inputs, before decompression."""
        at_work = self._at_work()
        return self._bytes_read_before + (at_work.bytes_read if at_work else 0)

    @property
    def left_out(self) -> Counter[str]:
        """Number of input records without a document, by kind."""
        at_work = self._at_work()
        return self._left_out_before + (at_work.left_out if at_work else Counter())

    @property
    def remarks(self) -> list[str]:
        """Sentences about what the inputs hold and no record does."""
        at_work = self._at_work()
        return [*self._remarks_before, *(at_work.remarks if at_work else [])]

    @property
    def records_before(self) -> int:
        """Records of these inputs that earlier runs delivered; of an input that was not opened, its lines."""
        delivered = {
            key: self._folder.sources[key].lines or 0 for key in map(_key, self._paths) if key in self._folder.sources
        }
        return sum((delivered | self._records_before).values())

    @property
    def outcomes(self) -> Counter[str] | None:
        """Delivered lines in the folder by "verdict/reason", of all runs and inputs; None if not all were counted."""
        return self._folder.outcomes

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
        if both := keys.keys() & {_text((self._folder.folder / name).resolve()) for name in output_folder.OUTPUT_FILES}:
            raise SettingsError(f"Both input and output: {', '.join(sorted(both))}.")
        self._folder.open()

    def read(self) -> Batch | Assigned | Finished:
        """Assigned for the next inputs, then their batches; FINISHED after the last input.

        A pipe is assigned alone; an empty Batch comes after `batch.wait_ms` without news from it. A file that is unreadable from
        some line on keeps its place, and the next file follows. Raises InputsUnread in place of FINISHED if there were any, and
        InputChanged, InputLost, DeliveryDoubtful.
        """
        if self._peeked:
            return self._peeked.popleft()
        while True:
            if not self._assigned and not self._assign():
                if self._unreadable:
                    raise InputsUnread("\n".join(self._unreadable))
                return FINISHED
            if waiting := {source: None for source, each in self._assigned.items() if each.begin is None}:
                names = {each.stream: each.name for each in self._folder.sources.values()}
                others = (source for stream in names if (source := Source(stream, 0)) not in waiting)
                return Assigned(tuple(waiting), names, tuple(others))
            batch = self._batch_of_assigned()
            if batch is not None:
                return batch

    def peek(self, place: int = 0) -> Batch | None:
        """See Transport. Reads on in the assigned inputs, up to one with decided lines; of a pipe only what is buffered."""
        while len(self._peeked) <= place and (batch := self._batch_of_assigned(ahead=True)) is not None:
            self._peeked.append(batch)
        return self._peeked[place] if len(self._peeked) > place else None

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
        return {
            source: max(end, reading.reader.count)
            if (reading := self._assigned.get(source)) and reading.reader
            else end
            for source, end in ends.items()
        }

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Compare the lines before `offset` with the mark, then read on from there, at the input's turn.

        If the index's mark agrees, decided lines from `offset` to `applied.offset` form the first batch, whatever its
        size. A crash leaves at most TAIL_RECORDS_MAX such lines. With more, a file is compared at once and read in
        ordinary batches; a pipe is refused.
        An empty mark is ignored. The first assigned input is compared at once, others by `read`: a thousand files are
        never open together. Raises InputChanged, RecoveryRefused.
        """
        reading = self._assigned.get(source)
        if reading is None or reading.begin is not None:
            raise RuntimeError(f"{source} is no source assigned last, or was sought already")
        reading.begin, reading.applied = offset, applied
        if reading is next(iter(self._assigned.values())):
            # `read` opens it again, and goes on with the next file.
            with suppress(InputUnreadable):
                self._open_input(reading)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """See Transport: appends lines and verdicts, and moves the checkpoint, atomically. Raises DeliveryDoubtful."""
        if not batch.records:
            return
        delivered = {Source(each.stream, 0): each for each in self._folder.sources.values()}
        begins = {record.source: record.offset for record in reversed(batch.records)}
        # Blank lines before a record are no records.
        wrong = [at for at, begin in begins.items() if begin < (delivered[at].lines or 0)]
        lines = written(outgoing)
        if wrong or lines.outcomes.total() != len(batch.records):
            raise RuntimeError(f"{[delivered[at] for at in wrong]}: this batch does not follow what is delivered")
        contents = {f"{name}.jsonl": b"\n".join([*values, b""]) for name, values in lines.values.items() if values}
        contents[output_folder.VERDICTS] = lines.verdict_lines
        ends = batch.ends.items()
        self._folder.append(
            contents,
            [
                delivered[at].going_on(begins.get(at, end), end, batch.marks[at].hex(), self.settings_digest)
                for at, end in ends
            ],
            lines.outcomes,
        )

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:  # noqa: ARG002
        """Write start offsets into the checkpoint as delivered, for sources without one.

        Raises DeliveryDoubtful, and RecoveryRefused if another offset was committed: lines would be lost or doubled.
        """
        delivered = {Source(each.stream, 0): each for each in self._folder.sources.values()}
        for source, offset in offsets.items():
            if (lines := delivered[source].lines) not in (None, offset):
                raise RecoveryRefused(
                    f"{delivered[source].name}: {lines} lines are delivered to {self._folder.folder}, so it cannot be read "
                    f"from line {offset + 1} on: name another --out."
                )
        self._folder.register(replace(delivered[source], lines=offset) for source, offset in offsets.items())

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport. Raises RecoveryRefused for contradictory files."""
        return FileOutputLog(self._folder.folder, self._batch).changelog(ranges, destinations)

    def close(self) -> None:
        """Release inputs, outputs and the lock."""
        while self._assigned:
            self._close_input()
        self._folder.close()

    def _at_work(self) -> LineReader | None:
        return next((each.reader for each in self._assigned.values()), None)

    def _assign(self) -> bool:
        """Take the next inputs, a pipe or files, and register them; False after the last input."""
        paths: dict[str, Input] = {}
        while self._unread and len(paths) < ASSIGNED_MAX and (not paths or self._unread[0].is_file()):
            path = self._unread.popleft()
            paths[_key(path)] = path
            if not path.is_file():
                break
        taken, names = {each.name for each in self._folder.sources.values()}, dict[str, str]()
        for key, path in paths.items():
            if key not in self._folder.sources:
                names[key] = self._free_name(path, taken)
                taken.add(names[key])
        if names:
            known = self._known_streams(set(names.values()))
            streams = {key: self._known_stream(paths[key], known[name]) for key, name in names.items()}
            self._folder.register(Delivered(key, name, streams[key] or uuid.uuid4().hex) for key, name in names.items())
        for key, path in paths.items():
            delivered = self._folder.sources[key]
            source = Source(delivered.stream, 0)
            self._assigned[source] = _Reading(source, key, delivered.name, path)
        return bool(paths)

    def _free_name(self, path: Input, taken: Collection[str]) -> str:
        """The path as given, or the absolute path if another input has that name."""
        free = [name for name in (_text(path), _key(path)) if name not in taken]
        if not free:
            raise SettingsError(
                f"{_text(path)}: the name stands for another file in {self._folder.folder}: rename one."
            )
        return free[0]

    def _known_stream(self, path: Input, known: Iterable[tuple[str, Applied]]) -> str | None:
        candidates = [each for each in known if each[1].offset and each[1].mark]
        if not candidates or not path.is_file():
            return None
        try:
            agreeing = proven(path, [applied for _, applied in candidates])
        except InputUnreadable:
            return None  # damaged before that line, so its content differs; reading it raises later
        same = [each for each in candidates if each[1] in agreeing]
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
        if not proven(reading.path, [ahead]):
            raise self._changed(reading, ahead.offset)
        self._proven[reading.source.stream] = ahead

    def _open_input(self, reading: _Reading) -> LineReader:
        """Open an input at its first line to read, after all comparisons with `applied` and the checkpoint."""
        offset, applied = reading.begin, reading.applied
        assert offset is not None
        ahead = applied if applied is not None and applied.offset > offset and applied.mark else None
        if ahead and ahead.offset - offset > TAIL_RECORDS_MAX and self._proven.get(reading.source.stream) != ahead:
            self._prove(reading, ahead)
        with ExitStack() as on_failure:
            reader = self._ahead.open(reading.path, self.standard_input, self.is_record)
            on_failure.callback(reader.close)
            delivered = self._folder.sources[reading.key]
            marks = {applied.mark if applied and applied.offset == offset else b""}
            if delivered.lines == offset:
                marks.add(bytes.fromhex(delivered.mark))
            skipped = reader.go_to(offset, marks)
            if skipped < offset or marks - {b"", reader.digest()}:
                raise self._changed(reading, offset)
            on_failure.pop_all()
        self._records_before[reading.key] = offset - reader.left_out[BLANK]
        reading.decided, reading.reader = ahead, reader
        return reader

    def _batch_of_assigned(self, *, ahead: bool = False) -> Batch | None:
        """The assigned inputs' next lines; an empty batch if a pipe has no news, None after the last line.

        ahead  neither wait nor raise; None without a line
        """
        records: list[Record] = []
        readings: list[_Reading] = []
        records_max, bytes_left = self._batch.records_max, self._batch.bytes_max
        while self._assigned and len(records) < records_max and bytes_left > 0:
            reading = next(iter(self._assigned.values()))
            try:
                reader = reading.reader or self._open_input(reading)
                if ahead and reading.decided is not None:
                    break
                begin = reader.count
                if ahead and reader.waits:
                    lines = reader.lines_at_hand(records_max, bytes_left)
                else:
                    lines = self._lines(reading, reader, records_max - len(records), bytes_left, least=not records)
            except (InputChanged, InputLost, InputUnreadable) as error:
                if records or ahead:
                    # What was read before goes out first. The next call raises the same.
                    break
                if not isinstance(error, InputUnreadable):
                    raise
                self._unreadable.append(str(error))
                self._close_input()
                continue
            if lines:
                records += records_of(reading.source, reading.name, begin, lines)
                readings.append(reading)
                bytes_left -= sum(map(len, lines))
            elif reader.ended:
                self._close_input()
            if reader.waits or not (lines or reader.ended):
                break
        return _batch(records, readings) if records or (self._assigned and not ahead) else None

    def _lines(
        self, reading: _Reading, reader: LineReader, records_max: int, bytes_max: int, least: int
    ) -> list[bytes]:
        wait_ms, decided = self._batch.wait_ms, reading.decided
        if decided is None:
            return reader.lines(records_max, bytes_max, wait_ms, least=least)
        missing = decided.offset - reader.count
        proven = self._proven.get(reading.source.stream) == decided
        if proven:
            lines = reader.lines(min(missing, records_max), bytes_max, wait_ms, least=least)
        elif missing > records_max and not least:
            return []
        else:
            lines = reader.lines(missing, sys.maxsize, wait_ms, whole=True)
        too_few = reader.ended or (not proven and 0 < len(lines) < missing)
        if too_few or (reader.count == decided.offset and reader.digest() != decided.mark):
            raise self._changed(reading, decided.offset)
        if reader.count == decided.offset:
            reading.decided = None
        return lines

    def _changed(self, reading: _Reading, count: int) -> InputChanged:
        return InputChanged(
            f"{reading.name}: its first {count} lines are not those that were filtered before. Give it its former content "
            "back (a pipe: from the first line on), or filter it into another --out with another --index: in this one its "
            "lines would be duplicates of themselves."
        )

    def _close_input(self) -> None:
        reading = self._assigned.pop(next(iter(self._assigned)))
        if reading.reader:
            self._bytes_read_before += reading.reader.bytes_read
            self._left_out_before += reading.reader.left_out
            self._remarks_before += reading.reader.remarks
            reading.reader.close()


def _batch(records: Sequence[Record], readings: Iterable[_Reading]) -> Batch:
    readers = {reading.source: reading.reader for reading in readings if reading.reader}
    ends = {source: reader.count for source, reader in readers.items()}
    return Batch(records, ends, {source: reader.digest() for source, reader in readers.items()})


def _is_readable(path: Input) -> bool:
    if isinstance(path, Remote):
        return True
    return os.access(path, os.R_OK) and not path.is_dir()


def _key(path: Input) -> str:
    """Resolved path, or URL. A pipe keeps its own: it resolves differently every time."""
    if isinstance(path, Remote):
        return path.url
    if path == STANDARD_INPUT:
        return "-"
    return _text(path.resolve() if path.is_file() else path.absolute())


def _text(path: Input) -> str:
    r"""Printable path; bytes outside UTF-8 appear as \xNN."""
    return os.fsencode(str(path)).decode(errors="backslashreplace")
