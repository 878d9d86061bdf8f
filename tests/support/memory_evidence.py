"""Evidence over the broker in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from index.entry import Position, Source
from streamer.records.record import Destination, Record
from streamer.records.told import told_by
from streamer.settings.settings import Settings
from streamer.transports.evidence import Extent, Output
from tests.support.memory_broker import MemoryBroker, Stored


@dataclass
class MemoryEvidence:
    """See streamer.transports.evidence.Evidence. It is taken at once."""

    broker: MemoryBroker
    settings: Settings
    compacted: bool = False
    has_headers = True

    def __post_init__(self) -> None:
        name = self.settings.topics.input
        topic = self.broker.topics[name]
        self._outputs = [
            (destination, f"{output}/{number}", list(log.records.items()))
            for destination, output in self._topics().items()
            for number, log in enumerate(self.broker.topics[output].partitions)
        ]
        self._inputs = [
            (Source(topic.id, number), list(log.records.items())) for number, log in enumerate(topic.partitions)
        ]
        self._extent = Extent(
            names={topic.id: name},
            first={Source(topic.id, number): log.first for number, log in enumerate(topic.partitions)},
            end={Source(topic.id, number): log.end for number, log in enumerate(topic.partitions)},
            committed=dict(self.broker.group(self.settings.kafka.group).committed),
            outputs=sum(len(records) for _, _, records in self._outputs),
            inputs=sum(len(records) for _, records in self._inputs),
            compacted=self.compacted,
            trimmed={
                f"{output}/{number}": destination
                for destination, output in self._topics().items()
                for number, log in enumerate(self.broker.topics[output].partitions)
                if log.first
            },
        )

    def extent(self) -> Extent:
        return self._extent

    def inputs(self) -> Iterator[list[Record]]:
        for source, records in self._inputs:
            found = [self._record(Position(source, offset), record) for offset, record in records]
            for record, (_, of_log) in zip(found, records, strict=True):
                record.lost = of_log.lost
            yield found

    def outputs(self) -> Iterator[list[Output]]:
        for destination, log, records in self._outputs:
            found = []
            for offset, stored in records:
                told = told_by(stored.headers, destination)
                record = None
                if told.position is not None:
                    record = self._record(told.position, stored)
                    record.headers = told.kept
                found.append(Output(destination, log, offset, told, record))
            yield found

    def _topics(self) -> dict[Destination, str]:
        topics = self.settings.topics
        return {
            Destination.UNIQUE: topics.unique,
            Destination.DUPLICATE: topics.duplicate,
            Destination.DEAD_LETTER: topics.dead_letter,
        }

    def _record(self, position: Position, stored: Stored) -> Record:
        name = self.settings.topics.input
        return Record(
            position.source, name, position.offset, stored.key, stored.value, stored.timestamp_ms, stored.headers
        )
