"""Evidence over Kafka: a consumer without a group, which commits nothing."""

from collections.abc import Iterator
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from index import Position, Source
from streamer.records.record import Destination, Lost, Record
from streamer.records.told import told_by
from streamer.settings.settings import Settings
from streamer.transports.evidence import Extent, Output
from streamer.transports.kafka.changelog import as_record, awaited, read_stretches, topic_of, whole_ends
from streamer.transports.kafka.clients import broker_errors, make_changelog_consumer, require_fast_checksums
from streamer.transports.kafka.topics import committed_offsets, is_compacted, require_topics
from streamer.transports.kafka.unreadable import LostRecords


class KafkaEvidence:
    """See `Evidence`. Every method raises BrokerUnavailable."""

    has_headers = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stream = ""
        self._input: dict[TopicPartition, range] = {}
        self._outputs: dict[Destination, dict[TopicPartition, range]] = {}

    def extent(self) -> Extent:
        """See `Evidence`. Waits for transactions that are open in the outputs.

        Raises SettingsError and TransactionHanging besides.
        """
        require_fast_checksums()
        settings = self._settings
        self._stream = require_topics(settings, to_read=True)
        committed = {
            source: offset for source, offset in committed_offsets(settings).items() if source.stream == self._stream
        }
        with closing(self._consumer()) as consumer:
            for destination in Destination:
                self._outputs[destination] = self._stretches(consumer, topic_of(settings, destination), whole=True)
            self._input = self._stretches(consumer, settings.topics.input, whole=False)
        outputs = [
            (destination, at, stretch)
            for destination, stretches in self._outputs.items()
            for at, stretch in stretches.items()
        ]
        return Extent(
            names={self._stream: settings.topics.input},
            first={self._source(at): stretch.start for at, stretch in self._input.items()},
            end={self._source(at): stretch.stop for at, stretch in self._input.items()},
            committed=committed,
            outputs=sum(len(stretch) for _, _, stretch in outputs),
            inputs=sum(map(len, self._input.values())),
            compacted=is_compacted(settings, settings.topics.input),
            trimmed={_log(at): destination for destination, at, stretch in outputs if stretch.start},
        )

    def inputs(self) -> Iterator[list[Record]]:
        """See `Evidence`."""
        lost: list[Record] = []

        def skipped(at: TopicPartition, found: LostRecords) -> None:
            record = as_record(at.topic, Position(self._source(at), found.offset), found)
            record.lost = Lost(found.end - found.offset, found.why)
            lost.append(record)

        with closing(self._consumer()) as consumer:
            for polled, _ in read_stretches(self._settings, consumer, self._input, skipped):
                yield from ([record] for record in lost)
                lost.clear()
                for at, records in polled.items():
                    yield [as_record(at.topic, Position(self._source(at), record.offset), record) for record in records]

    def outputs(self) -> Iterator[list[Output]]:
        """See `Evidence`."""
        with closing(self._consumer()) as consumer:
            for destination, stretches in self._outputs.items():
                for polled, _ in read_stretches(self._settings, consumer, stretches):
                    for at, records in polled.items():
                        yield [self._output(destination, at, record) for record in records]

    def _consumer(self) -> KafkaConsumer:
        with broker_errors(self._settings, "connecting to verify"):
            return make_changelog_consumer(self._settings)

    def _stretches(self, consumer: KafkaConsumer, topic: str, *, whole: bool) -> dict[TopicPartition, range]:
        """What there is of each partition; whole: all that was written by now, else all that can be read by now."""
        timeout_ms = self._settings.kafka.request_timeout_ms
        with broker_errors(self._settings, f"looking up the offsets of {topic!r}"):
            partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
        ends = awaited(whole_ends(self._settings, consumer, partitions)) if whole else {}
        with broker_errors(self._settings, f"looking up the offsets of {topic!r}"):
            if not whole:
                ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms)
            firsts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
        return {at: range(firsts[at], max(firsts[at], ends[at])) for at in partitions}

    def _source(self, at: TopicPartition) -> Source:
        return Source(self._stream, at.partition)

    def _output(self, destination: Destination, at: TopicPartition, found: ConsumerRecord) -> Output:
        told = told_by(tuple(found.headers), destination)
        record = None
        if told.position is not None:
            record = as_record(self._settings.topics.input, told.position, found)
            record.headers = told.kept
        return Output(destination, _log(at), found.offset, told, record)


def _log(at: TopicPartition) -> str:
    return f"{at.topic}/{at.partition}"
