"""How far each partition was delivered, noted in the index folder, because a broker may lose commits.

Seen with Kafka 4.3.1: the leader changes twice while a group's coordinator loads its log, and the load breaks off unnoticed. The
coordinator then answers with offsets of minutes ago, and reading on there would deliver everything since then twice.

Each worker has a file, and reads those of all. Nothing is synced to disk: an older note only proves less.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import orjson
import xxhash

from streamer.settings.kafka import Kafka
from streamer.transports.kafka.rights import transactional_id

_SUFFIX = ".delivered"


class Delivered(NamedTuple):
    """Everything below an offset was delivered. A person who sets the group back begins another round.

    >>> before, now = Delivered(round=1, offset=70), Delivered(round=2, offset=50)
    >>> max(before, now).offset
    50
    """

    round: int
    offset: int


NOTHING = Delivered(0, 0)


class DeliveryNote:
    """A worker's note on the partitions of one stream. Does nothing without a folder, as for a part that delivers no outputs.

    >>> note = DeliveryNote(None, Kafka(), "0", "stream")
    >>> note.deliver({0: 70})
    >>> note.begin(0, 50)
    >>> note.of_all()
    {0: Delivered(round=1, offset=50)}
    """

    def __init__(self, folder: Path | None, kafka: Kafka, instance: str, stream: str) -> None:
        self._folder, self._group, self._stream = folder, kafka.group, stream
        self._noted: dict[int, Delivered] = {}
        self._file: int | None = None
        if folder is not None:
            path = folder / f"{quote(transactional_id(kafka, instance), safe='')}{_SUFFIX}"
            self._noted |= _noted(path, self._group, stream)
            with suppress(OSError):
                self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def begin(self, partition: int, offset: int) -> None:
        """Note where a partition begins, even before the end of what was delivered."""
        before = self.of_all().get(partition, NOTHING)
        self._noted[partition] = Delivered(before.round + (offset < before.offset), offset)
        self._write()

    def deliver(self, ends: Mapping[int, int]) -> None:
        """Note that everything below these offsets was delivered."""
        for partition, end in ends.items():
            self._noted[partition] = Delivered(self._noted.get(partition, NOTHING).round, end)
        self._write()

    def of_all(self) -> dict[int, Delivered]:
        """The notes of all workers of the group, by partition; of several the furthest one of the last round."""
        furthest = dict(self._noted)
        for path in () if self._folder is None else self._folder.glob(f"*{_SUFFIX}"):
            for partition, each in _noted(path, self._group, self._stream):
                furthest[partition] = max(each, furthest.get(partition, each))
        return furthest

    def close(self) -> None:
        """Release the file; never raises."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _write(self) -> None:
        content = orjson.dumps(
            [self._group, self._stream, [[partition, *each] for partition, each in self._noted.items()]]
        )
        if self._file is not None:
            # A full disk leaves the older note, or a broken one, which counts as none.
            with suppress(OSError):
                os.pwrite(self._file, _digest(content) + content + b"\n", 0)


def _digest(content: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(content).encode()


def _noted(path: Path, group: str, stream: str) -> Iterator[tuple[int, Delivered]]:
    """A file's notes on a group's stream; none if it is damaged."""
    try:
        line = path.read_bytes().partition(b"\n")[0]
    except OSError:
        return
    if line[:16] != _digest(line[16:]):
        return
    of_group, of_stream, notes = orjson.loads(line[16:])
    if (of_group, of_stream) == (group, stream):
        yield from ((partition, Delivered(*each)) for partition, *each in notes)
