"""Notes of attempts at batches: a death reveals its positions and step.

A process notes a batch's positions first, then every step in advance. It has three notes, because it may decode one batch,
decide another and deliver a third. It locks its notes for life, so an unlocked note amid a batch is a death, from any cause. The
batch's next reader counts it.

All workers of a host share the notes in the index's folder, so a document's deaths add up on any worker. Nothing is synced to
disk: notes must survive processes, not the machine.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson
import structlog

from index import Source, errors
from streamer.errors import StreamerError
from streamer.records.record import Batch, Record

log = structlog.get_logger(__name__)

NOTE_BYTES = 2**16
"""Size of a note, allocated at its creation: a full disk must not end a batch."""

DEATHS_KEPT_SECONDS = 24 * 3600.0
"""Age at which unread notes are removed, such as those of a deleted topic."""

IDLE = "read"
"""Step without a batch."""

PURE_STEPS = ("decode", "fingerprint")
"""Steps on records alone, so a record can end the process."""

_STEP_BYTES = 16
_SUFFIX = ".attempt"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A source's offsets in a batch. `topic`: display name.

    >>> str(OffsetRange("pages", Source("topic-id", 0), range(5, 8)))
    'pages/0 offsets 5 to 7'
    """

    topic: str
    source: Source
    offsets: range

    def __str__(self) -> str:
        return f"{self.topic}/{self.source.partition} offsets {self.offsets.start} to {self.offsets.stop - 1}"


@dataclass(frozen=True, slots=True)
class Death:
    """A process's step and batch at its death.

    >>> Death(Path("7-1.attempt"), "decode", ()).step
    'decode'
    """

    note: Path
    step: str
    ranges: tuple[OffsetRange, ...]


class AttemptFile:
    """Current work on one batch, in a file that this process locks.

    >>> note = AttemptFile(folder)
    >>> note.enter("fingerprint")
    >>> [file.suffix for file in folder.iterdir()], list(deaths(folder))
    (['.attempt'], [])
    >>> note.close(orderly=True)
    >>> [*folder.iterdir()]
    []
    """

    def __init__(self, folder: Path) -> None:
        """Create a note in a folder. Raises IndexFullError without room."""
        self._path = folder / f"{os.getpid()}-{time.time_ns()}{_SUFFIX}"
        # Only a locked note may have its name: unlocked, it would be a death.
        fresh = self._path.with_suffix(".new")
        try:
            self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            os.posix_fallocate(self._file, 0, NOTE_BYTES)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise errors.IndexFullError(f"{folder}: no note of batches can be made there: {error.strerror}") from error
        os.pwrite(self._file, _content(IDLE, ()), 0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        fresh.rename(self._path)

    def name(self, batch: Batch) -> None:
        """Note a batch's positions."""
        os.pwrite(self._file, _content(IDLE, ranges_of(batch)), 0)

    def enter(self, step: str) -> None:
        """Note a step in advance."""
        os.pwrite(self._file, step.ljust(_STEP_BYTES).encode(), 0)

    def close(self, *, orderly: bool) -> None:
        """Release the note; an orderly end removes it."""
        if orderly:
            self._path.unlink(missing_ok=True)
        os.close(self._file)


class Attempts:
    """Notes of this process, and other processes' deaths at its sources.

    As a context, removes the notes after an orderly end, including known errors.

    loop   note of the batch in delivery
    ahead  notes of the batches in preparation, the first one for pure steps

    >>> with Attempts(folder, deaths_max=2) as attempts:
    ...     attempts.look({Source("stream", 0): 7})
    ...     attempts.suspects([])
    False
    """

    def __init__(self, folder: Path, deaths_max: int) -> None:
        """folder: that of the index; deaths_max: deaths amid a pure step that make a record suspect."""
        self._folder, self._deaths_max = folder, deaths_max
        self._suspected: dict[Source, list[range]] = {}
        self.loop: AttemptFile
        self.ahead: Sequence[AttemptFile]

    def __enter__(self) -> Self:
        self._notes: list[AttemptFile] = []
        try:
            for _ in range(3):
                self._notes.append(AttemptFile(self._folder))
        except errors.IndexFullError:
            self._close(orderly=True)
            raise
        self.loop, *self.ahead = self._notes
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._close(orderly=kind is None or issubclass(kind, StreamerError | errors.NeardupIndexError))

    def _close(self, *, orderly: bool) -> None:
        for note in self._notes:
            note.close(orderly=orderly)

    def look(self, begins: Mapping[Source, int]) -> None:
        """Load and log deaths at newly assigned sources from their starting offsets on; delete settled notes."""
        noted = list(deaths(self._folder))
        for death in noted:
            ours = [each for each in death.ranges if each.source in begins]
            ahead = [each for each in ours if each.offsets.stop > begins[each.source]]
            if ahead:
                batch = ", ".join(map(str, death.ranges))
                log.warning("a process died amid this batch", step=death.step, batch=batch)
            over = len(ours) == len(death.ranges) and not ahead
            if over or death.step not in PURE_STEPS:
                death.note.unlink(missing_ok=True)
        for source, begin in begins.items():
            self._suspected[source] = [
                each.offsets
                for death in noted
                for each in death.ranges
                if death.step in PURE_STEPS and each.source == source and each.offsets.stop > begin
            ]

    def suspects(self, records: Sequence[Record]) -> bool:
        """Whether a record has killed `deaths_max` processes and must be isolated."""
        if not any(self._suspected.values()):
            return False
        sources = {record.source for record in records}
        suspected = {
            source: ranges for source in sources if len(ranges := self._suspected.get(source, ())) >= self._deaths_max
        }
        return any(
            sum(record.offset in offsets for offsets in suspected.get(record.source, ())) >= self._deaths_max
            for record in (records if suspected else ())
        )


def deaths(folder: Path) -> Iterator[Death]:
    """Noted deaths in a folder, oldest first. Removes very old notes, and those from between batches."""
    for note in sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.name.partition("-")[2]):
        try:
            file = os.open(note, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its process lives
        else:
            death = _read(note, os.pread(file, NOTE_BYTES, 0))
            if death is None or time.time() - os.fstat(file).st_mtime > DEATHS_KEPT_SECONDS:
                note.unlink(missing_ok=True)
            else:
                yield death
        finally:
            os.close(file)


def death_of(folder: Path, process: int) -> Death | None:
    """Death of an ended process; None after an orderly end or between batches.

    With several batches, prefers the one in a pure step: its records may be the cause.
    """
    of_process = [death for death in deaths(folder) if death.note.name.startswith(f"{process}-")]
    return next((death for death in of_process if death.step in PURE_STEPS), of_process[0] if of_process else None)


def ranges_of(batch: Batch) -> tuple[OffsetRange, ...]:
    """Offset range of each source in a batch."""
    firsts: dict[Source, Record] = {}
    last: Source | None = None
    for record in batch.records:
        # Most records follow one of the same source.
        if record.source is not last:
            last = record.source
            firsts.setdefault(last, record)
    return tuple(
        OffsetRange(record.topic, source, range(record.offset, batch.ends[source])) for source, record in firsts.items()
    )


def _content(step: str, ranges: Iterable[OffsetRange]) -> bytes:
    rows = [
        [each.topic, each.source.stream, each.source.partition, each.offsets.start, each.offsets.stop]
        for each in ranges
    ]
    while len(text := orjson.dumps(rows)) > NOTE_BYTES - _STEP_BYTES - 2:
        del rows[len(rows) // 2 :]
    return (step.ljust(_STEP_BYTES).encode() + b"\n" + text + b"\n").ljust(NOTE_BYTES)


def _read(note: Path, content: bytes) -> Death | None:
    step = content[:_STEP_BYTES].decode(errors="replace").strip()
    try:
        ranges = tuple(
            OffsetRange(topic, Source(stream, partition), range(begin, end))
            for topic, stream, partition, begin, end in orjson.loads(content[_STEP_BYTES:])
        )
    except (ValueError, TypeError):
        return None
    return None if step in ("", IDLE) or not ranges else Death(note, step, ranges)
