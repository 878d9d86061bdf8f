"""What confluent-kafka could not read, looked at with the other client, whose parser tells where damage begins and ends."""

from collections.abc import Callable, Container, Iterator
from contextlib import suppress

from kafka import TopicPartition
from kafka.errors import KafkaError

from index import Source
from streamer.records.record import Lost, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import broker_errors, make_changelog_consumer
from streamer.transports.kafka.unreadable import NO_TIMESTAMP_MS, TolerantConsumer, end_of_damage

_CLOSE_MS_MAX = 1_000


class Examination:
    """Partitions whose next record could not be read, until it can be, or proves unreadable."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topics.input
        self._sources: dict[int, Source] = {}
        self._consumer: TolerantConsumer | None = None

    @property
    def partitions(self) -> frozenset[int]:
        """Those that are looked at."""
        return frozenset(self._sources)

    def begin(self, source: Source, offset: int) -> None:
        """Look at what stands from `offset` on. Raises BrokerUnavailable, SettingsError."""
        with broker_errors(self._settings, "looking at what cannot be read"):
            if self._consumer is None:
                self._consumer = make_changelog_consumer(self._settings)
            self._sources[source.partition] = source
            self._consumer.assign([self._at(partition) for partition in self._sources])
            self._consumer.seek(self._at(source.partition), offset)

    def look(self, waiting: Callable[[], Container[int]]) -> Iterator[tuple[int, Record | None]]:
        """Partitions that are done: None where they can be read again, or a record that stands for those that cannot be.

        waiting  tells partitions that are left for later

        Raises RecordsUnreadable, where `recovery.unreadable` is to stop; BrokerUnavailable, SettingsError.
        """
        consumer = self._consumer
        if consumer is None:
            return
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
            lost = Lost(end - damage.first, damage.told)
            yield at.partition, Record(source, at.topic, damage.first, None, None, NO_TIMESTAMP_MS, (), lost)

    def forget(self, partition: int) -> None:
        """Look at this partition no more."""
        if self._sources.pop(partition, None) is None or self._consumer is None:
            return
        self._consumer.damages.forget(self._at(partition))
        if self._sources:
            self._consumer.assign([self._at(each) for each in self._sources])
        else:
            self.close()

    def close(self) -> None:
        """Release every resource; never raises."""
        self._sources.clear()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaError, OSError, RuntimeError):
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS_MAX)

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)
