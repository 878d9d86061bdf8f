"""Unreadable records of confluent-kafka, probed with kafka-python: its parser knows the bounds of the damage."""

from collections.abc import Callable, Container, Iterator

from kafka import TopicPartition

from index import Source
from streamer.records.record import Lost, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import broker_errors
from streamer.transports.kafka.topic_reader import TopicReader
from streamer.transports.kafka.unreadable import end_of_damage
from streamer.transports.transport import NO_TIMESTAMP_MS


class DamageProbe:
    """Partitions whose next record was unreadable, until it is readable again or proves damaged."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topics.input
        self._sources: dict[int, Source] = {}
        self._reader = TopicReader(settings, "what cannot be read")

    @property
    def partitions(self) -> frozenset[int]:
        """Partitions under probe."""
        return frozenset(self._sources)

    def begin(self, source: Source, offset: int) -> None:
        """Probe from `offset` on. Raises BrokerUnavailable, SettingsError."""
        consumer = self._reader.consumer
        self._sources[source.partition] = source
        consumer.assign([self._at(partition) for partition in self._sources])
        consumer.seek(self._at(source.partition), offset)

    def look(self, waiting: Callable[[], Container[int]]) -> Iterator[tuple[int, Record | None]]:
        """Finished partitions: None if readable again, else a placeholder record for the damaged ones.

        waiting  returns partitions to leave for later

        Raises RecordsUnreadable if `recovery.unreadable` is to stop; BrokerUnavailable, SettingsError.
        """
        if not self._sources:
            return
        consumer = self._reader.consumer
        with broker_errors(self._settings, "looking at what cannot be read"):
            polled = consumer.poll(timeout_ms=self._settings.batch.wait_ms, max_records=1)
            damages = list(consumer.damages.lasting(polled))
        for at in polled:
            if at.partition in self._sources:
                self.forget(at.partition)
                yield at.partition, None
        for at, damage in damages:
            source = self._sources.get(at.partition)
            if source is None or at.partition in waiting():
                continue
            end = end_of_damage(self._settings, consumer, at, damage)
            self.forget(at.partition)
            lost = Lost(end - damage.first, damage.words)
            yield at.partition, Record(source, at.topic, damage.first, None, None, NO_TIMESTAMP_MS, (), lost)

    def forget(self, partition: int) -> None:
        """Stop probing this partition."""
        if self._sources.pop(partition, None) is None:
            return
        self._reader.consumer.damages.forget(self._at(partition))
        if self._sources:
            self._reader.consumer.assign([self._at(each) for each in self._sources])
        else:
            self.close()

    def close(self) -> None:
        """Release every resource; never raises."""
        self._sources.clear()
        self._reader.close()

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)
