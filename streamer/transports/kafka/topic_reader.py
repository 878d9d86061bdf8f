"""Reading topics by offset, without a group or commits."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from index import Position, Source
from streamer.errors import BrokerUnavailable
from streamer.records.record import Lost, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import CLOSE_MS_MAX, broker_errors, close_quickly, make_detached_consumer
from streamer.transports.kafka.unreadable import Damage, TolerantConsumer, end_of_damage
from streamer.transports.transport import NO_TIMESTAMP_MS

Ranges = dict[TopicPartition, range]
"""Offsets per partition."""

Skipped = Callable[[TopicPartition, Damage, int], None]


@dataclass
class TopicReader:
    """Reader of any topic ranges. Calls raise BrokerUnavailable and SettingsError, and connect on first use.

    what            completes "reading ...", for error messages
    committed_only  skip records of open and aborted transactions
    timeout_ms      longest wait for offsets; None: that of a request
    """

    _settings: Settings
    _what: str = "the outputs back"
    committed_only: bool = True
    timeout_ms: int | None = None
    _consumer: TolerantConsumer | None = None

    def __post_init__(self) -> None:
        self._timeout_ms = self._settings.kafka.request_timeout_ms if self.timeout_ms is None else self.timeout_ms

    def close(self) -> None:
        """Release the consumer; never raises. The next call reconnects."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            close_quickly(consumer, autocommit=False, timeout_ms=CLOSE_MS_MAX)

    @property
    def consumer(self) -> TolerantConsumer:
        """The client."""
        if self._consumer is None:
            with broker_errors(self._settings, f"connecting for reading {self._what}"):
                self._consumer = make_detached_consumer(self._settings, committed_only=self.committed_only)
        return self._consumer

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        with broker_errors(self._settings, f"looking up the partitions of {topic!r}"):
            return [TopicPartition(topic, number) for number in sorted(self.consumer.partitions_for_topic(topic))]

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset after the last record that is readable now."""
        with broker_errors(self._settings, f"looking up offsets for reading {self._what}"):
            ends: dict[TopicPartition, int] = self.consumer.end_offsets(list(partitions), timeout_ms=self._timeout_ms)
        return ends

    def ranges(
        self, partitions: Collection[TopicPartition], ends: Mapping[TopicPartition, int] | None = None
    ) -> Ranges:
        """Offsets from the first readable one to `ends`; None: to the current end."""
        ends = self.ends(partitions) if ends is None else ends
        with broker_errors(self._settings, f"looking up offsets for reading {self._what}"):
            firsts = self.consumer.beginning_offsets(list(partitions), timeout_ms=self._timeout_ms)
        return {at: range(firsts[at], max(firsts[at], ends[at])) for at in partitions}

    def since(self, ranges: Ranges, since_ms: int) -> Ranges:
        """Ranges from the first record at or after this timestamp."""
        with broker_errors(self._settings, f"looking up offsets for reading {self._what}"):
            asked = dict.fromkeys(ranges, max(0, since_ms))
            # A record or a transaction's end: all records with such a timestamp follow it.
            starts = self.consumer.offsets_for_times(asked, timeout_ms=self._timeout_ms)
        return {
            at: range(max(whole.start, whole.stop if starts[at] is None else starts[at].offset), whole.stop)
            for at, whole in ranges.items()
        }

    def poll(
        self,
        wait_ms: int,
        skipped: Skipped = lambda _at, _damage, _end: None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Next records of the assigned partitions.

        skipped  takes damage that recovery.unreadable skips, and the offset after it

        Also raises RecordsUnreadable.
        """
        consumer = self.consumer
        with broker_errors(self._settings, f"reading {self._what}"):
            polled: dict[TopicPartition, list[ConsumerRecord]] = consumer.poll(timeout_ms=wait_ms)
            for partition, damage in consumer.damages.lasting(polled):
                end = end_of_damage(self._settings, consumer, partition, damage)
                skipped(partition, damage, end)
                consumer.seek(partition, end)
                consumer.damages.forget(partition)
        return polled

    def read(
        self,
        ranges: Mapping[TopicPartition, range],
        skipped: Skipped = lambda _at, _damage, _end: None,
    ) -> Iterator[tuple[dict[TopicPartition, list[ConsumerRecord]], list[TopicPartition]]]:
        """Read a range of each partition. Yields records by partition, and the partitions that are finished.

        `skipped` and errors: as `poll`.
        """
        kafka, wait_ms = self._settings.kafka, self._settings.batch.wait_ms
        unread = {partition: wanted.stop for partition, wanted in ranges.items() if wanted}
        yield {}, [partition for partition in ranges if partition not in unread]
        if not unread:
            return
        consumer = self.consumer
        consumer.assign(list(unread))
        for partition in unread:
            consumer.seek(partition, ranges[partition].start)
            # An earlier range may have ended before it: its fetches do not count for this one.
            consumer.damages.forget(partition)
        # An earlier range of the same partition left it paused.
        consumer.resume(*unread)
        moved_at = time.monotonic()
        while unread:
            polled = self.poll(wait_ms, skipped)
            with broker_errors(self._settings, f"reading {self._what}"):
                positions = {partition: consumer.position(partition, timeout_ms=wait_ms) for partition in unread}
            if polled:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > kafka.delivery_timeout_ms / 1000:
                raise BrokerUnavailable(
                    f"reading {self._what} gave nothing for {kafka.delivery_timeout_ms} ms: {sorted(unread)}"
                )
            finished = [partition for partition, end in unread.items() if (positions[partition] or 0) >= end]
            yield (
                {
                    partition: [record for record in records if record.offset < unread[partition]]
                    for partition, records in polled.items()
                    if partition in unread
                },
                finished,
            )
            for partition in finished:
                consumer.pause(partition)
                del unread[partition]

    def records(self, ranges: Mapping[TopicPartition, range], stream: str) -> Iterator[list[Record]]:
        """Input records with the topic id `stream`; `lost` marks unreadable ones."""
        lost: list[Record] = []

        def note(at: TopicPartition, damage: Damage, end: int) -> None:
            why = Lost(end - damage.first, damage.words)
            source = Source(stream, at.partition)
            lost.append(Record(source, at.topic, damage.first, None, None, NO_TIMESTAMP_MS, (), why))

        for polled, _ in self.read(ranges, note):
            yield [
                *lost,
                *(
                    as_record(at.topic, Position(Source(stream, at.partition), record.offset), record)
                    for at, records in polled.items()
                    for record in records
                ),
            ]
            lost.clear()


def lost_at(settings: Settings, source: Source, offset: int) -> Record | None:
    """Placeholder for unreadable records of `topics.input` from `offset` on; None if that record is readable.

    Raises RecordsUnreadable if `recovery.unreadable` is to stop; BrokerUnavailable, SettingsError.
    """
    at = TopicPartition(settings.topics.input, source.partition)
    with closing(TopicReader(settings, "what cannot be read")) as reader:
        batches = reader.records({at: range(offset, offset + 1)}, source.stream)
        return next((record for records in batches for record in records if record.lost), None)


def backwards(whole: range, length: int) -> Iterator[range]:
    """Ranges that cover `whole` from its end. The first has `length` offsets, each later one four times as many.

    >>> list(backwards(range(10, 100), 20))
    [range(80, 100), range(10, 80)]
    """
    end = whole.stop
    while end > whole.start:
        begin = max(whole.start, end - length)
        yield range(begin, end)
        end, length = begin, length * 4


def first_records(
    settings: Settings, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ConsumerRecord | None]:
    """Record at this offset of each partition, committed or not; None if removed.

    Raises BrokerUnavailable, SettingsError.
    """
    records: dict[TopicPartition, ConsumerRecord | None] = dict.fromkeys(starts)
    with closing(TopicReader(settings, committed_only=False)) as reader:
        left = reader.ranges(starts)
        wanted = {at: range(start, start + 1) for at, start in starts.items() if start in left[at]}
        for polled, _ in reader.read(wanted):
            records.update((at, record) for at, of_partition in polled.items() for record in of_partition)
    return records


def newest_inputs(settings: Settings, count: int) -> Iterator[list[Record]]:
    """About the `count` newest records of `topics.input`, evenly by partition, without a stream id.

    Raises BrokerUnavailable, RecordsUnreadable, SettingsError.
    """
    with closing(TopicReader(settings, "a sample of the input")) as reader:
        left = reader.ranges(reader.partitions(settings.topics.input))
        share = -(-count // max(1, len(left)))
        newest = {at: range(max(whole.start, whole.stop - share), whole.stop) for at, whole in left.items()}
        yield from reader.records(newest, "")


def as_record(topic: str, position: Position, record: ConsumerRecord) -> Record:
    """A client's record as an input record."""
    source, offset = position
    return Record(source, topic, offset, record.key, record.value, record.timestamp, tuple(record.headers))
