"""Step of a worker's last transaction, noted in the index folder.

A worker that dies before it asks for the commit leaves a transaction to abort. The brokers may have lost its state
(`kafka.transactions.hanging`), so the successor reads the step here.

    begin: positions, producer, "begun"  ->  send records and offsets  ->  "asked"  ->  commit

Nothing is synced to disk. Notes from another boot or producer are void: the worker may have run on another host since.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

import orjson

from index import Position
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits
from streamer.transports.kafka.rights import transactional_id

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NOTE_BYTES = 2**16
_source_of, _offset_of = attrgetter("source"), attrgetter("offset")
_BEGUN, _ASKED = b"begun\n", b"asked\n"


@dataclass(frozen=True, slots=True)
class Unasked:
    """A transaction whose commit was never asked for.

    firsts    first record's offset, by input partition
    before    offset that the producer's previous transaction committed, by input partition

    >>> from index import Source
    >>> Unasked((9, 0), {0: 70}, {0: 60}).is_of(Position(Source("stream", 0), 71))
    True
    """

    producer: tuple[int, int]
    firsts: Mapping[int, int]
    before: Mapping[int, int]

    def is_of(self, position: Position | None) -> bool:
        """Whether the producer's output at this input position belongs to this transaction."""
        return position is not None and position.offset >= self.firsts.get(
            position.source.partition, position.offset + 1
        )


class CommitNote:
    """A worker's note. Does nothing without a path or its folder, as for a part without an index.

    >>> CommitNote(None).begin([], (9, 0))
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._before: dict[int, int] = {}
        self._file: int | None = None
        if path is not None:
            with suppress(OSError):
                self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                os.posix_fallocate(self._file, 0, _NOTE_BYTES)

    def begin(self, records: Iterable[Record], producer: tuple[int, int]) -> None:
        """Note a transaction before its first write. Raises DeliveryDoubtful if it cannot be noted."""
        firsts: dict[int, int] = {}
        for source, run in groupby(records, _source_of):
            first = min(map(_offset_of, run))
            firsts[source.partition] = min(first, firsts.get(source.partition, first))
        content = orjson.dumps([_boot(), producer, list(firsts.items()), list(self._before.items())])
        # With too many partitions for the note, nothing is known afterwards, as without a note.
        step = _BEGUN if len(_BEGUN) + len(content) <= _NOTE_BYTES else _ASKED
        self._write((step + content).ljust(_NOTE_BYTES)[:_NOTE_BYTES])

    def ask(self) -> None:
        """Note that the commit is about to be asked for. Raises DeliveryDoubtful if that cannot be noted."""
        self._write(_ASKED)

    def committed(self, commits: Commits) -> None:
        """Keep the committed offsets for the next note. A transaction without offsets changes none."""
        self._before = {partition: offset for partition, (offset, _) in commits.items()} or self._before

    def close(self) -> None:
        """Release the file; never raises."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _write(self, content: bytes) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file, content, 0)
        except OSError as error:
            raise DeliveryDoubtful(f"{self._path}: a transaction cannot be noted: {error.strerror}") from error


def unasked(settings: Settings, instance: str) -> Unasked | None:
    """An instance's last transaction if it certainly never asked for the commit, else None."""
    try:
        content = note_path(settings, instance).read_bytes()
        if not content.startswith(_BEGUN):
            return None
        boot, (producer, epoch), firsts, before = orjson.loads(content.removeprefix(_BEGUN))
    except (OSError, ValueError):
        return None
    return Unasked((producer, epoch), dict(firsts), dict(before)) if boot and boot == _boot() else None


def note_path(settings: Settings, instance: str) -> Path:
    """Path of an instance's note."""
    return settings.index.directory / f"{quote(transactional_id(settings.kafka, instance), safe='')}.transaction"


def _boot() -> str:
    """Id of the machine's current boot; "" if unknown."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
