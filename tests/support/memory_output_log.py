"""Input and outputs of the broker in memory, read back and appended to."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from index.entry import Position, Source
from streamer.errors import DeliveryDoubtful
from streamer.records.output_headers import parse_headers
from streamer.records.record import Destination, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import topic_of
from streamer.transports.output_log import ALL_OUTPUTS, Extent, Output, Way
from streamer.transports.transport import Claim
from tests.support.memory_broker import Crashed, CrashPoint, MemoryBroker, Stored


@dataclass
class MemoryOutputLog:
    """See streamer.transports.output_log.OutputLog. It crashes where a test says.

    stamping  topics whose records have the broker's time
    crashes  points at which the next appends die, one after the other; None: this one arrives
    """

    broker: MemoryBroker
    settings: Settings
    compacted: bool = False
    stamping: frozenset[str] = frozenset()
    crashes: list[CrashPoint | None] = field(default_factory=list)
    has_headers = True
    _extent: Extent | None = None
    _fixed: dict[str, list[list[tuple[int, Stored]]]] = field(default_factory=dict)

    def open(self, way: Way | None) -> None:
        if way is not None:
            self._target = self.settings.topics.input if way.target is None else topic_of(self.settings, way.target)
            self._identity = f"{self.settings.kafka.group}:{way.name}"
            self.broker.transactional[self._identity] = self

    def extent(self) -> Extent:
        if self._extent is None:
            self._extent = self._extent_now()
            self._fixed = {name: self._records(name) for name in self.broker.topics}
        return self._extent

    def _extent_now(self) -> Extent:
        name = self.settings.topics.input
        topic = self.broker.topics[name]
        logs = [
            (each, f"{output}/{number}", log)
            for each in ALL_OUTPUTS
            for output in [topic_of(self.settings, each)]
            for number, log in enumerate(self.broker.topics[output].partitions)
        ]
        return Extent(
            names={topic.id: name},
            first={Source(topic.id, number): log.first for number, log in enumerate(topic.partitions)},
            end={Source(topic.id, number): log.end for number, log in enumerate(topic.partitions)},
            committed=dict(self.broker.group(self.settings.kafka.group).committed),
            outputs=sum(len(log.records) for _, _, log in logs),
            inputs=sum(len(log.records) for log in topic.partitions),
            compacted=self.compacted,
            trimmed={place: destination for destination, place, log in logs if log.first},
        )

    def claims(self) -> Mapping[Source, Claim]:
        group = self.broker.group(self.settings.kafka.group)
        return {
            source: Claim(offset, *group.claims.get(source, ("", True))) for source, offset in group.committed.items()
        }

    def inputs(self, since_ms: int | None = None, /) -> Iterator[list[Record]]:
        name = self.settings.topics.input
        stream = self.broker.topics[name].id
        for number, records in enumerate(self._records(name)):
            source = Source(stream, number)
            yield [self._record(Position(source, at), each) for at, each in records if _is_since(each, since_ms)]

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, since_ms: int | None = None, /
    ) -> Iterator[list[Output]]:
        for destination in destinations:
            topic = topic_of(self.settings, destination)
            for number, records in enumerate(self._records(topic)):
                yield [
                    self._output(destination, f"{topic}/{number}", offset, stored)
                    for offset, stored in records
                    if _is_since(stored, since_ms)
                ]

    def append(self, records: Sequence[Record]) -> None:
        if self.broker.transactional[self._identity] is not self:
            raise DeliveryDoubtful("another command took over")
        crash = self.crashes.pop(0) if self.crashes else None
        if crash in (CrashPoint.BEFORE_DELIVER, CrashPoint.BEFORE_COMMIT):
            raise Crashed(crash.name)
        logs = self.broker.topics[self._target].partitions
        for record in records:
            headers = tuple((name, value or b"") for name, value in record.headers)
            log = logs[zlib.crc32(record.key or b"") % len(logs)]
            log.append(Stored(record.key, record.value, record.timestamp_ms, headers))
        if crash is CrashPoint.AFTER_COMMIT:
            raise Crashed(crash.name)

    def close(self) -> None:
        pass

    def _records(self, topic: str) -> list[list[tuple[int, Stored]]]:
        now = [list(log.records.items()) for log in self.broker.topics[topic].partitions]
        return self._fixed.get(topic, now)

    def _output(self, destination: Destination, log: str, offset: int, stored: Stored) -> Output:
        headers = parse_headers(stored.headers, destination)
        record = None if headers.position is None else self._record(headers.position, stored)
        is_stamped = log.rsplit("/", 1)[0] in self.stamping
        return Output(destination, log, offset, headers, record, is_stamped)

    def _record(self, position: Position, stored: Stored) -> Record:
        content = stored.key, stored.value, stored.timestamp_ms, stored.headers, stored.lost
        return Record(position.source, self.settings.topics.input, position.offset, *content)


def _is_since(stored: Stored, since_ms: int | None) -> bool:
    return since_ms is None or stored.timestamp_ms >= since_ms
