"""Records that have a verdict and are not delivered yet, as `route` will deliver them: from the input and the verdicts."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from kafka import TopicPartition

from index import Position, Source
from streamer.errors import RecoveryRefused
from streamer.parts.batches import Batches
from streamer.parts.told_verdicts import outgoing_of, told_of
from streamer.records.record import Destination, Lost, Record
from streamer.records.verdict_batch import VerdictBatch, unpack_verdicts
from streamer.settings.settings import Settings
from streamer.transports.kafka.changelog import as_record, read_stretches
from streamer.transports.kafka.clients import broker_errors, make_changelog_consumer
from streamer.transports.kafka.unreadable import LostRecords


def read_told(
    settings: Settings, source: Source, stretch: range, destinations: Sequence[Destination]
) -> Iterator[list[Record]]:
    """Records at these offsets of a source of the input whose verdicts lead to the destinations, some at a time.

    They have the headers of outputs. Perhaps none while time passes. Raises RecoveryRefused where verdicts are gone, besides
    what reading raises.
    """
    topic, name = settings.topics.verdicts, f"{settings.topics.input}/{source.partition}"
    batches: Batches[VerdictBatch] = Batches(settings, topic, unpack_verdicts)
    with closing(batches):
        begin = batches.covering(source.partition, source.stream, stretch.start)
        reached = stretch.start
        for found in batches.read(source.partition, range(begin, batches.extent(source.partition).stop)):
            fresh: list[VerdictBatch] = []
            for stored in found:
                heading = stored.batch.heading
                if heading.stream != source.stream or heading.end <= reached or reached >= stretch.stop:
                    continue
                if heading.begin > reached:
                    raise RecoveryRefused(
                        f"{name}: the index is to be restored, and no verdicts are left on offsets {reached} to "
                        f"{heading.begin - 1}, which were told and are not delivered: {topic!r} lost them. Bring a newer backup "
                        "of the index back (streamer index restore)."
                    )
                fresh.append(stored.batch)
                reached = heading.end
            if fresh:
                yield from _outputs(
                    settings, source, range(fresh[0].heading.begin, reached), stretch, fresh, destinations
                )
            else:
                yield []
            if reached >= stretch.stop:
                return
        raise RecoveryRefused(
            f"{name}: the index is to be restored, and {topic!r} ends at the verdicts on offset {reached - 1}, though those "
            f"below {stretch.stop} were told: it lost records. Bring a newer backup of the index back (streamer index restore)."
        )


def _outputs(
    settings: Settings,
    source: Source,
    told: range,
    wanted: range,
    batches: Sequence[VerdictBatch],
    destinations: Sequence[Destination],
) -> Iterator[list[Record]]:
    offsets = range(max(told.start, wanted.start), min(told.stop, wanted.stop))
    for records in _inputs(settings, source, offsets):
        if not records:
            yield []
            continue
        outgoing = outgoing_of(
            records,
            told_of(records, {source: batches}),
            [None] * len(records),
            by_similarity=settings.fingerprint.scheme == "minhash",
            connector_name=settings.kafka.group,
            task_id="",
            shadow=settings.route.shadow,
        )
        yield [
            Record(
                source=source,
                topic=each.record.topic,
                offset=each.record.offset,
                key=each.record.key,
                value=each.record.value,
                timestamp_ms=each.record.timestamp_ms,
                headers=each.headers,
            )
            for each in outgoing
            if each.destination in destinations
        ]


def _inputs(settings: Settings, source: Source, offsets: range) -> Iterator[list[Record]]:
    topic, at = settings.topics.input, TopicPartition(settings.topics.input, source.partition)
    lost: list[Record] = []

    def note(_partition: TopicPartition, damaged: LostRecords) -> None:
        stands_for = Lost(damaged.end - damaged.offset, damaged.why)
        lost.append(Record(source, topic, damaged.offset, None, None, damaged.timestamp, (), stands_for))

    with broker_errors(settings, f"connecting to read {topic!r}"):
        consumer = make_changelog_consumer(settings)
    try:
        for polled, _ in read_stretches(settings, consumer, {at: offsets}, note):
            yield [as_record(topic, Position(source, found.offset), found) for found in polled.get(at, ())]
        if lost:
            yield lost
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)
