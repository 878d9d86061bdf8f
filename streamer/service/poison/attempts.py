"""Attempts at batches, noted in files so that a death tells what it interrupted: which positions, and which step.

A process notes the positions of a batch before it begins with it, and every step before it takes it. It has two notes: one
batch may be decoded while the one before it is delivered. It holds a lock on its notes for as long as it lives. So a note
without a lock, amid a batch, is a death, however it came about, and whoever reads the batch next can count it. Whoever ends
in order removes the notes.

The notes stand beside the index, which all workers of a host share: a document that kills one worker after the other is
counted wherever it wanders. Nothing is synced to disk, for the notes need to survive processes and not the machine.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import structlog

from index import Source, errors
from streamer.errors import StreamerError
from streamer.records.record import Batch, Record

log = structlog.get_logger(__name__)

NOTE_BYTES = 2**16
"""Size of a note, taken when it is made: a full disk must not end a batch."""

DEATHS_KEPT_SECONDS = 24 * 3600.0
"""Notes of deaths that nobody reads any more, as those of a deleted topic, are removed at this age."""

IDLE = "read"
"""The step in which no batch is under way."""

PURE_STEPS = ("decode", "fingerprint")
"""Steps that depend on the records alone, so that a record can be what ends the process."""

_STEP_BYTES = 16
_SUFFIX = ".attempt"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one source in a batch; `topic` is its name for people."""

    topic: str
    source: Source
    offsets: range

    def __str__(self) -> str:
        return f"{self.topic}/{self.source.partition} offsets {self.offsets.start} to {self.offsets.stop - 1}"


@dataclass(frozen=True, slots=True)
class Death:
    """What a process was at when it died."""

    note: Path
    step: str
    stretches: tuple[OffsetRange, ...]


class AttemptFile:
    """What this process is at with one batch, in a file that it holds a lock on."""

    def __init__(self, folder: Path) -> None:
        """Make a note in a folder. Raises IndexFull where there is no room for it."""
        self._path = folder / f"{os.getpid()}-{time.time_ns()}{_SUFFIX}"
        # Only a locked note may have its name: without a lock it would be a death.
        fresh = self._path.with_suffix(".new")
        try:
            self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            os.posix_fallocate(self._file, 0, NOTE_BYTES)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise errors.IndexFull(f"{folder}: no note of batches can be made there: {error.strerror}") from error
        os.pwrite(self._file, _content(IDLE, ()), 0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        fresh.rename(self._path)

    def name(self, batch: Batch) -> None:
        """Note the positions of a batch that is begun with now."""
        os.pwrite(self._file, _content(IDLE, ranges_of(batch)), 0)

    def enter(self, step: str) -> None:
        """Note a step before it is taken."""
        os.pwrite(self._file, step.ljust(_STEP_BYTES).encode(), 0)

    def close(self, *, orderly: bool) -> None:
        """Let go of the note; after an orderly end nothing is left of it."""
        if orderly:
            self._path.unlink(missing_ok=True)
        os.close(self._file)


class Attempts:
    """The notes of this process, and the deaths of others at the sources that it reads.

    A context: an orderly end, errors of the streamer and the index among them, removes the notes.

    loop   note of the batch that is delivered
    ahead  note of the batch that is prepared, perhaps beside the other
    """

    def __init__(self, folder: Path, deaths_max: int) -> None:
        """`folder`: that of the index. `deaths_max`: so many deaths amid a pure step put a record under suspicion."""
        self._folder = folder
        self._deaths_max = deaths_max
        self._suspected: dict[Source, list[range]] = {}
        self.loop: AttemptFile
        self.ahead: AttemptFile

    def __enter__(self) -> Self:
        self.loop = AttemptFile(self._folder)
        try:
            self.ahead = AttemptFile(self._folder)
        except errors.IndexFull:
            self.loop.close(orderly=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        orderly = kind is None or issubclass(kind, StreamerError | errors.IndexProblem)
        self.loop.close(orderly=orderly)
        self.ahead.close(orderly=orderly)

    def look(self, begins: Mapping[Source, int]) -> None:
        """Take in the deaths at sources assigned now, from the offset on where each begins; tell of them, forget what is over."""
        found = list(deaths(self._folder))
        for death in found:
            ours = [each for each in death.stretches if each.source in begins]
            ahead = [each for each in ours if each.offsets.stop > begins[each.source]]
            if ahead:
                batch = ", ".join(map(str, death.stretches))
                log.warning("a process died amid this batch", step=death.step, batch=batch)
            over = len(ours) == len(death.stretches) and not ahead
            if over or death.step not in PURE_STEPS:
                death.note.unlink(missing_ok=True)
        for source, begin in begins.items():
            self._suspected[source] = [
                each.offsets
                for death in found
                for each in death.stretches
                if death.step in PURE_STEPS and each.source == source and each.offsets.stop > begin
            ]

    def suspects(self, records: Sequence[Record]) -> bool:
        """Whether a record of the batch has killed `deaths_max` processes and must be isolated."""
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
    """Deaths noted in a folder, oldest first. Removes notes of processes that died between batches, and very old ones."""
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
    """What a process that has ended died of; None where it ended in order or between batches.

    Of two batches that were under way, the one in a pure step: its records may be the cause.
    """
    found = [death for death in deaths(folder) if death.note.name.startswith(f"{process}-")]
    return next((death for death in found if death.step in PURE_STEPS), found[0] if found else None)


def ranges_of(batch: Batch) -> tuple[OffsetRange, ...]:
    """The stretch of each source in a batch."""
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


def _content(step: str, stretches: Iterable[OffsetRange]) -> bytes:
    rows = [
        [each.topic, each.source.stream, each.source.partition, each.offsets.start, each.offsets.stop]
        for each in stretches
    ]
    while len(text := orjson.dumps(rows)) > NOTE_BYTES - _STEP_BYTES - 2:
        del rows[len(rows) // 2 :]
    return (step.ljust(_STEP_BYTES).encode() + b"\n" + text + b"\n").ljust(NOTE_BYTES)


def _read(note: Path, content: bytes) -> Death | None:
    """A death from its note; None where no batch was under way, or the note makes no sense."""
    step = content[:_STEP_BYTES].decode(errors="replace").strip()
    try:
        stretches = tuple(
            OffsetRange(topic, Source(stream, partition), range(begin, end))
            for topic, stream, partition, begin, end in orjson.loads(content[_STEP_BYTES:])
        )
    except (ValueError, TypeError):
        return None
    return None if step in ("", IDLE) or not stretches else Death(note, step, stretches)
