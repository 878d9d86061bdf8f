"""The transport of `route` over a reader and a log of verdicts in memory, which hand out one partition at a time, by chance."""

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from index import Source
from streamer.parts.batches import Stored
from streamer.parts.envelope import Heading
from streamer.parts.routing import RoutingTransport
from streamer.parts.verdict_log import VerdictLog
from streamer.records.record import Record
from streamer.settings.settings import Batching, Settings
from streamer.transports.buffer import RecordBuffer
from streamer.transports.kafka.client import Changes, Member
from streamer.transports.kafka.transactions.delivery_note import DeliveryNote
from streamer.transports.kafka.transport import KafkaTransport

STREAM, STAMP = "stream", "{}"


@dataclass(frozen=True)
class Told:
    """A batch of verdicts, without its columns."""

    heading: Heading
    documents: int
    decider: str = "index"

    def __len__(self) -> int:
        return self.documents


@dataclass
class MemoryReader:
    """Reader of the input whose polls bring records of one partition."""

    records: Mapping[int, Sequence[Record]]
    chance: random.Random
    changes: Changes = field(default_factory=deque)
    next: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    gone: frozenset[int] = frozenset()
    damaged: dict[int, int] = field(default_factory=dict)

    def poll(self, _wait_ms: int, records_max: int) -> dict[int, list[Record]]:
        unread = {
            partition: [record for record in self.records[partition] if record.offset >= offset]
            for partition, offset in self.next.items()
            if partition not in self.held
        }
        ready = [partition for partition, records in unread.items() if records]
        if not ready:
            return {}
        chosen = self.chance.choice(ready)
        polled = unread[chosen][:records_max]
        self.next[chosen] = polled[-1].end
        return {chosen: polled}

    def hold(self, partitions: Iterable[int]) -> None:
        self.held |= set(partitions)

    def begin(self, partition: int, offset: int) -> None:
        self.next[partition] = offset
        self.held.discard(partition)

    def member(self) -> Member:
        return Member("member", None)

    def is_steady(self) -> bool:
        return True

    def forget(self, partition: int) -> None:
        pass

    def committed(self, _partition: int) -> None:
        return None

    def partitions(self) -> frozenset[int]:
        return frozenset(self.records)


@dataclass
class MemoryVerdicts:
    """The topic of verdicts, as its consumer and as its batches; a poll brings some batches of one partition."""

    chance: random.Random
    told: dict[int, list[Told]]
    position: dict[int, int] = field(default_factory=dict)
    followed: set[int] = field(default_factory=set)
    damages: Any = field(default_factory=lambda: SimpleNamespace(lasting=lambda _polled: ()))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.followed = {at.partition for at in partitions}

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.position[at.partition] = offset

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Stored[Told]]]:
        unread = {partition: self.told[partition][self.position[partition] :] for partition in self.followed}
        ready = sorted(partition for partition, batches in unread.items() if batches)
        if not ready:
            return {}
        chosen = self.chance.choice(ready)
        polled = [
            Stored(self.position[chosen] + number, batch)
            for number, batch in enumerate(unread[chosen][: self.chance.randint(1, 9)])
        ]
        self.position[chosen] += len(polled)
        return {TopicPartition("verdicts", chosen): polled}

    def unpacked(self, _partition: int, record: Stored[Told]) -> Stored[Told]:
        return record

    def extent(self, partition: int) -> range:
        return range(len(self.told[partition]))

    def covering(self, _partition: int, _stream: str, _offset: int) -> int:
        return 0

    def first_in(self, partition: int, _stretch: range) -> Stored[Told] | None:
        return Stored(0, self.told[partition][0]) if self.told[partition] else None


class MemoryKafka(KafkaTransport):
    """The transport inside, over a reader in memory."""

    def __init__(self, settings: Settings, reader: MemoryReader, buffer: RecordBuffer) -> None:
        super().__init__(settings, "0", buffer=buffer)
        self.stream = STREAM
        self._delivery_note = DeliveryNote(None, settings.kafka, "0", STREAM)
        self._ownership = SimpleNamespace(look=lambda *_: None)  # type: ignore[assignment]
        # Gaps between offsets are those of the log: there is no broker to ask.
        self._continuity._look = lambda *_: None  # type: ignore[method-assign]
        self._admin, self._reader = object(), reader  # type: ignore[assignment]
        self._open_writer = SimpleNamespace(deliver=lambda *_: None)  # type: ignore[assignment]

    def _same_topic_partitions(self) -> frozenset[int]:
        return self._reader.partitions()  # type: ignore[attr-defined,no-any-return]


class MemoryRouting(RoutingTransport):
    """Delivers into `delivered`. Every partition is begun at its first record."""

    def __init__(
        self, records: Mapping[int, Sequence[Record]], told: dict[int, list[Told]], records_max: int, seed: int
    ):
        settings, chance = Settings(batch=Batching(records_max=records_max)), random.Random(seed)
        self.reader = MemoryReader(records, chance)
        self.verdicts = MemoryVerdicts(chance, told)
        self.delivered: list[Record] = []
        log = VerdictLog(settings, STAMP)
        buffer = RecordBuffer(settings.batch, gate=log.reached)
        super().__init__(MemoryKafka(settings, self.reader, buffer), buffer, log, settings)
        self._verdicts._reader._consumer = self._verdicts._batches = self.verdicts  # type: ignore[assignment]
        for partition in records:
            self.seek(Source(STREAM, partition), 0, None)

    def turn(self) -> int:
        """Read once, and deliver what was read. Returns the count of delivered records."""
        batch = self.read()
        assert not hasattr(batch, "names")
        if batch.records:
            self.deliver(batch, [])
            self.delivered += batch.records
        return len(batch.records)

    def ahead(self, partition: int) -> int:
        """Documents whose verdicts are kept."""
        return sum(map(len, self._verdicts.batches_of(Source(STREAM, partition))))


def record(partition: int, offset: int) -> Record:
    return Record(Source(STREAM, partition), "documents", offset, None, b"value", 0)


def told(partition: int, begin: int, end: int, documents: int) -> Told:
    return Told(Heading(STAMP, STREAM, "documents", partition, begin, end), documents)
