"""Records of the input by position: a consumer without a group seeks each, and commits nothing."""

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

from index import Position, Source
from streamer.errors import BrokerUnavailable, RecordsUnreadable
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.by_position import Absent, Found
from streamer.transports.kafka.changelog import as_record, read_stretches
from streamer.transports.kafka.clients import broker_errors, make_admin, make_changelog_consumer, topic_ids

REQUEST_MS_MAX = 5_000
"""Longest wait for one answer of a broker: a person waits for this."""

SECONDS_MAX = 20.0
"""Longest time for all records together."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def records_at(settings: Settings, positions: Sequence[Position], names: Mapping[str, str]) -> Found:
    """See `RecordsAt`. Reads what is committed.

    names  topic of each stream

    Raises BrokerUnavailable where the brokers do not answer in time, and SettingsError where they refuse.
    """
    hasty = settings.kafka.model_copy(
        update={"request_timeout_ms": min(REQUEST_MS_MAX, settings.kafka.request_timeout_ms)}
    )
    settings = settings.model_copy(update={"kafka": hasty})
    found: dict[Position, Record | Absent] = {}
    partitions: dict[Position, TopicPartition] = {}
    topics = {position.source.stream: names.get(position.source.stream, "") for position in positions}
    absent = _absent_topics(settings, topics) if topics else {}
    for position in positions:
        stream, partition = position.source
        if stream in absent:
            found[position] = absent[stream]
        else:
            partitions[position] = TopicPartition(topics[stream], partition)
    if partitions:
        found |= _read(settings, partitions)
    return found


def read_inputs(settings: Settings, positions: Collection[Position]) -> Iterator[list[Record]]:
    """See `Transport.inputs_at`: positions of `topics.input`. Reads each partition once, from the first position to the last.

    Raises BrokerUnavailable, RecordsUnreadable.
    """
    wanted: dict[TopicPartition, dict[int, Position]] = {}
    for position in positions:
        at = TopicPartition(settings.topics.input, position.source.partition)
        wanted.setdefault(at, {})[position.offset] = position
    with broker_errors(settings, "connecting to read the input back"):
        consumer = make_changelog_consumer(settings)
    with closing(consumer):
        with broker_errors(settings, "looking up the offsets of the input"):
            timeout_ms = settings.kafka.request_timeout_ms
            firsts = consumer.beginning_offsets(list(wanted), timeout_ms=timeout_ms)
            ends = consumer.end_offsets(list(wanted), timeout_ms=timeout_ms)
        stretches = {
            at: range(max(firsts[at], min(offsets)), min(ends[at], max(offsets) + 1)) for at, offsets in wanted.items()
        }
        for polled, _ in read_stretches(settings, consumer, stretches, _skipped):
            yield [
                as_record(at.topic, wanted[at][record.offset], record)
                for at, records in polled.items()
                for record in records
                if record.offset in wanted[at]
            ]


def newest_inputs(settings: Settings, count: int) -> Iterator[list[Record]]:
    """About the `count` newest records of `topics.input`, the same share of each partition, without the offsets of streams.

    Raises BrokerUnavailable, RecordsUnreadable, SettingsError.
    """
    topic, timeout_ms = settings.topics.input, settings.kafka.request_timeout_ms
    with broker_errors(settings, "connecting to read a sample of the input"):
        consumer = make_changelog_consumer(settings)
    with closing(consumer):
        with broker_errors(settings, "looking up the newest records of the input"):
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            firsts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms) if partitions else {}
            ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms) if partitions else {}
        share = -(-count // max(1, len(partitions)))
        stretches = {at: range(max(firsts[at], ends[at] - share), ends[at]) for at in partitions}
        for polled, _ in read_stretches(settings, consumer, stretches, _skipped):
            for at, records in polled.items():
                source = Source("", at.partition)
                yield [as_record(topic, Position(source, record.offset), record) for record in records]


def _absent_topics(settings: Settings, topics: Mapping[str, str]) -> dict[str, Absent]:
    """Why records of a stream cannot be read: by stream, of those of which none can."""
    absent = {
        stream: Absent(f"{name!r} is no topic; of what was filtered from files, name the folder of outputs (--out)")
        for stream, name in topics.items()
        if not _TOPIC.fullmatch(name)
    }
    asked = sorted({name for stream, name in topics.items() if stream not in absent})
    if not asked:
        return absent
    with broker_errors(settings, "looking for the topics of records to show"), make_admin(settings) as admin:
        identities = topic_ids(admin, asked)
    for stream, name in topics.items():
        if stream not in absent and identities[name] != stream:
            gone = identities[name] is None
            absent[stream] = Absent(
                f"the brokers have no topic {name!r}" if gone else f"the topic {name!r} was deleted and made anew since"
            )
    return absent


def _read(settings: Settings, partitions: Mapping[Position, TopicPartition]) -> dict[Position, Record | Absent]:
    deadline = time.monotonic() + SECONDS_MAX
    doing = "looking up the offsets of records to show"
    with broker_errors(settings, "connecting to show records"):
        consumer = make_changelog_consumer(settings)
    with closing(consumer):
        with broker_errors(settings, doing):
            asked, timeout_ms = list(set(partitions.values())), settings.kafka.request_timeout_ms
            firsts = consumer.beginning_offsets(asked, timeout_ms=timeout_ms)
            ends = consumer.end_offsets(asked, timeout_ms=timeout_ms)
        found: dict[Position, Record | Absent] = {}
        for position, at in partitions.items():
            if position.offset < firsts[at]:
                found[position] = Absent(
                    f"the topic has deleted it (retention): {at.topic}/{at.partition} begins at offset {firsts[at]} now"
                )
            elif position.offset >= ends[at]:
                found[position] = Absent(f"readers of committed records get no further than {ends[at]} there")
            else:
                found[position] = _record(settings, consumer, position, at, deadline)
    return found


def _record(
    settings: Settings, consumer: KafkaConsumer, position: Position, at: TopicPartition, deadline: float
) -> Record | Absent:
    stretch = {at: range(position.offset, position.offset + 1)}
    try:
        for polled, _ in read_stretches(settings, consumer, stretch, _skipped):
            for record in polled.get(at, ()):
                return as_record(at.topic, position, record)
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"the records to show did not come within {SECONDS_MAX:.0f} s")
    except RecordsUnreadable:
        return Absent("the record is damaged in the topic")
    return Absent("there is no record any more: the topic is compacted, or the offset is the mark of a transaction")


def _skipped(_partition: TopicPartition, _lost: object) -> None:
    """Damage is no record."""
