"""Output log over Kafka: reads by position, appends in transactions without offsets."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from index import Position, Source
from streamer.errors import BrokerUnavailable, DeliveryDoubtful, RecordsUnreadable
from streamer.records.output_headers import parse_headers
from streamer.records.record import Destination, Outgoing, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients
from streamer.transports.kafka.client import Send
from streamer.transports.kafka.kafka_python.producer import KafkaPythonProducer
from streamer.transports.kafka.topic_reader import Ranges, TopicReader, as_record
from streamer.transports.kafka.topics import claims_of_group, committed_offsets, require_topics, topic_of
from streamer.transports.kafka.transactions.open import awaited, whole_ranges
from streamer.transports.kafka.writer import Writer
from streamer.transports.output_log import ALL_OUTPUTS, Absent, Extent, Output, RecordsByPosition, Way
from streamer.transports.transport import Claim

REQUEST_MS_MAX = 5_000
"""Longest wait of `records_at` for one answer: a person waits."""

RECORDS_AT_SECONDS_MAX = 20.0

_LOG_APPEND_TIME = 1
"""Timestamp type of a record that the broker stamped."""

Noted = Callable[[Sequence[Record]], Sequence[Outgoing]]
"""What other parts have to know of appended records."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaOutputLog:
    """See `OutputLog`. Every method raises BrokerUnavailable. Reading waits for open transactions."""

    has_headers = True

    def __init__(self, settings: Settings, noted: Noted | None = None) -> None:
        """noted: batches for other parts that each `append` sends in its transaction; None: none."""
        self._settings, self._noted = settings, noted
        self._stream = ""
        self._fixed: dict[str, Ranges] = {}
        self._target = ""
        self._resources = ExitStack()
        self._writer: Writer | None = None

    def open(self, way: Way | None) -> None:
        """See `OutputLog`."""
        clients.require_fast_checksums()
        settings = self._settings
        self._stream = require_topics(settings, to_read=way is None)
        if way is None:
            return
        self._target = settings.topics.input if way.target is None else topic_of(settings, way.target)
        with clients.broker_errors(settings, "connecting"):
            admin = clients.make_admin(settings)
        self._resources.callback(clients.close_quickly, admin)
        topics = [self._target] if self._noted is None else [self._target, settings.topics.fingerprints]
        self._writer = Writer(settings, way.name, admin, KafkaPythonProducer, topics, None, by_coordinator=True)
        self._resources.callback(self._writer.close)

    def extent(self) -> Extent:
        """See `OutputLog`. Also raises SettingsError and TransactionHanging."""
        self.open(None)
        settings = self._settings
        committed = {
            source: offset for source, offset in committed_offsets(settings).items() if source.stream == self._stream
        }
        topics = settings.topics
        trimmed: dict[str, Destination] = {}
        with closing(TopicReader(settings, "to verify")) as reader:
            for destination in Destination:
                topic = topic_of(settings, destination)
                self._fixed[topic] = awaited(whole_ranges(settings, reader, reader.partitions(topic)))
                trimmed |= {_log(at): destination for at, left in self._fixed[topic].items() if left.start}
            inputs = self._fixed[topics.input] = reader.ranges(reader.partitions(topics.input))
        return Extent(
            names={self._stream: topics.input},
            first={Source(self._stream, at.partition): left.start for at, left in inputs.items()},
            end={Source(self._stream, at.partition): left.stop for at, left in inputs.items()},
            committed=committed,
            outputs=sum(
                len(left) for topic, ranges in self._fixed.items() if topic != topics.input for left in ranges.values()
            ),
            inputs=sum(map(len, inputs.values())),
            compacted=bool(clients.compacted_topics(settings, [topics.input])),
            trimmed=trimmed,
        )

    def claims(self) -> Mapping[Source, Claim]:
        """See `OutputLog`."""
        return claims_of_group(self._settings)

    def inputs(self, since_ms: int | None = None) -> Iterator[list[Record]]:
        """See `OutputLog`."""
        topic = self._settings.topics.input
        with closing(TopicReader(self._settings, f"{topic!r}")) as reader:
            yield from reader.records(self._ranges(reader, topic, since_ms), self._stream)

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, since_ms: int | None = None
    ) -> Iterator[list[Output]]:
        """See `OutputLog`."""
        for destination in destinations:
            topic = topic_of(self._settings, destination)
            with closing(TopicReader(self._settings, f"{topic!r}")) as reader:
                for polled, _ in reader.read(self._ranges(reader, topic, since_ms)):
                    for at, records in polled.items():
                        yield [self._output(destination, at, record) for record in records]

    def records_at(self, positions: Sequence[Position], names: Mapping[str, str]) -> RecordsByPosition:
        """See `OutputLog`.

        Raises BrokerUnavailable without a timely answer, and SettingsError for a refusal.
        """
        timeout_ms = min(REQUEST_MS_MAX, self._settings.kafka.request_timeout_ms)
        settings = self._settings.replaced(kafka={"request_timeout_ms": timeout_ms})
        absent = _absent_topics(settings, {at.source.stream: names.get(at.source.stream, "") for at in positions})
        records: dict[Position, Record | Absent] = {
            at: absent[at.source.stream] for at in positions if at.source.stream in absent
        }
        wanted = {
            at: TopicPartition(names[at.source.stream], at.source.partition) for at in positions if at not in records
        }
        if wanted:
            deadline = time.monotonic() + RECORDS_AT_SECONDS_MAX
            with closing(TopicReader(settings, "records to show")) as reader:
                left = reader.ranges(set(wanted.values()))
                for position, at in wanted.items():
                    records[position] = _record_at(reader, position, at, left[at], deadline)
        return records

    def append(self, records: Sequence[Record]) -> None:
        """See `OutputLog`."""
        assert self._writer is not None, "opened for a way"
        try:
            sends = [Send(self._target, record, record.headers, None) for record in records]
            for each in () if self._noted is None else self._noted(records):
                topic = topic_of(self._settings, each.destination)
                sends.append(Send(topic, each.record, each.headers, each.record.source.partition))
            self._writer.deliver(sends, {}, None)
        except DeliveryDoubtful as error:
            raise DeliveryDoubtful(
                f"{len(records)} records may not have arrived in {self._target!r}: {error}. Run the command again: it sends "
                "what is missing, and nothing twice."
            ) from error

    def close(self) -> None:
        """See `OutputLog`."""
        self._resources.close()

    def _ranges(self, reader: TopicReader, topic: str, since_ms: int | None) -> Ranges:
        if topic in self._fixed:
            return self._fixed[topic]
        ranges = awaited(whole_ranges(self._settings, reader, reader.partitions(topic)))
        return ranges if since_ms is None else reader.since(ranges, since_ms)

    def _output(self, destination: Destination, at: TopicPartition, record: ConsumerRecord) -> Output:
        headers = parse_headers(tuple(record.headers), destination)
        read = None if headers.position is None else as_record(self._settings.topics.input, headers.position, record)
        return Output(destination, _log(at), record.offset, headers, read, record.timestamp_type == _LOG_APPEND_TIME)


def read_inputs(settings: Settings, positions: Collection[Position]) -> Iterator[list[Record]]:
    """See `Transport.inputs_at`, for positions in `topics.input`. Reads each partition once, from first to last position.

    Raises BrokerUnavailable, RecordsUnreadable.
    """
    wanted: dict[TopicPartition, dict[int, Position]] = {}
    for position in positions:
        at = TopicPartition(settings.topics.input, position.source.partition)
        wanted.setdefault(at, {})[position.offset] = position
    with closing(TopicReader(settings, "the input back")) as reader:
        needed = {
            at: range(max(left.start, min(wanted[at])), min(left.stop, max(wanted[at]) + 1))
            for at, left in reader.ranges(wanted).items()
        }
        for polled, _ in reader.read(needed):
            yield [
                as_record(at.topic, wanted[at][record.offset], record)
                for at, records in polled.items()
                for record in records
                if record.offset in wanted[at]
            ]


def _absent_topics(settings: Settings, topics: Mapping[str, str]) -> dict[str, Absent]:
    asked = sorted({name for name in topics.values() if _TOPIC.fullmatch(name)})
    absent: dict[str, Absent] = {}
    identities: Mapping[str, str | None] = {}
    if asked:
        with clients.asking(settings, "looking for the topics of records to show") as admin:
            identities = clients.topic_ids(admin, asked)
    for stream, name in topics.items():
        if name not in identities:
            why = f"{name!r} is no topic; of what was filtered from files, name the folder of outputs (--out)"
        elif identities[name] is None:
            why = f"the brokers have no topic {name!r}"
        else:
            why = "" if identities[name] == stream else f"the topic {name!r} was deleted and made again since"
        if why:
            absent[stream] = Absent(why)
    return absent


def _record_at(
    reader: TopicReader, position: Position, at: TopicPartition, left: range, deadline: float
) -> Record | Absent:
    if position.offset < left.start:
        return Absent(
            f"the topic has deleted it (retention): {at.topic}/{at.partition} begins at offset {left.start} now"
        )
    if position.offset >= left.stop:
        return Absent(f"readers of committed records get no further than {left.stop} there")
    try:
        for polled, _ in reader.read({at: range(position.offset, position.offset + 1)}):
            for record in polled.get(at, ()):
                return as_record(at.topic, position, record)
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"the records to show did not come within {RECORDS_AT_SECONDS_MAX:.0f} s")
    except RecordsUnreadable:
        return Absent("the record is damaged in the topic")
    return Absent("there is no record any more: the topic is compacted, or the offset is the mark of a transaction")


def _log(at: TopicPartition) -> str:
    return f"{at.topic}/{at.partition}"
