"""Kafka's changelog: the outputs read back, as delivered records under the positions that they had in the input.

An open transaction hides every record behind its first one, committed or not. So reading waits until all of a topic that
was there at the start is visible: a worker that died in a transaction must not make an output look empty.
"""

import heapq
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import count

import structlog
from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from index import Position, Source
from streamer.errors import BrokerUnavailable, SettingsError, TransactionHanging
from streamer.records.record import Destination, Record
from streamer.records.route import is_given_back, parse_position
from streamer.settings.parts import outputs_of, writes_between_parts
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import (
    broker_errors,
    compacted_topics,
    identity_of,
    make_admin,
    make_changelog_consumer,
    transaction_ms_max,
)
from streamer.transports.kafka.unreadable import LostRecords, TolerantConsumer, end_of_damage
from streamer.transports.transport import Trimmed

log = structlog.get_logger(__name__)

HELD_BYTES_MAX = 64 * 2**20
"""Most bytes of values held back to bring the records of a source into order."""

STRETCH_OFFSETS = 2_000
"""Length of the first stretch, counted from an output's end, that is searched for the first record needed."""


OPEN_MARGIN_SECONDS = 30.0
"""Wait for an open transaction beyond the longest that the brokers allow: they look for overdue ones every 10 seconds."""

_OPEN_REPORT_SECONDS = 15.0


class SourceOrder:
    """Merge of the partitions of one output: the records of every source come out in offset order.

    The records of a source are spread over the output's partitions, and ascend in each; what was given back does not, and stays
    out of it. A record is held until every
    partition that is still being read has shown a record of the same source at or behind it.
    Where partitions drift so far apart that more than `held_bytes_max` of values are held, all of them come out, and the
    order is given up there.
    """

    def __init__(self, partitions: Iterable[int], held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._reached: dict[int, dict[Source, int]] = {partition: {} for partition in partitions}
        self._held: dict[Source, list[tuple[int, int, Record]]] = {}
        self._held_bytes = 0
        self._held_bytes_max = held_bytes_max
        self._arrivals = count()

    def add(self, partition: int, record: Record) -> None:
        """Take the next record of an output partition."""
        self._reached[partition][record.source] = record.offset
        heapq.heappush(self._held.setdefault(record.source, []), (record.offset, next(self._arrivals), record))
        self._held_bytes += len(record.value or b"")

    def finish(self, partition: int) -> None:
        """Note that nothing more comes from this output partition."""
        del self._reached[partition]

    def ready(self) -> Iterator[Record]:
        """Records whose turn has come, source after source."""
        everything = self._held_bytes > self._held_bytes_max or not self._reached
        for source, heap in self._held.items():
            reached = min((offsets.get(source, -1) for offsets in self._reached.values()), default=-1)
            while heap and (everything or heap[0][0] <= reached):
                record = heapq.heappop(heap)[2]
                self._held_bytes -= len(record.value or b"")
                yield record


def read_changelog(
    settings: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]
) -> Iterator[list[Record]]:
    """See `Transport.changelog`. Reads what is committed now, one destination after the other.

    Waits for transactions that are open now. Raises SettingsError, BrokerUnavailable, and TransactionHanging where one stays
    open for longer than the brokers allow.
    """
    with broker_errors(settings, "connecting to read the outputs back"):
        consumer = make_changelog_consumer(settings)
    try:
        for destination in destinations:
            yield from _read_topic(settings, consumer, topic_of(settings, destination), ranges)
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)


def find_trimmed(
    settings: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]
) -> Iterator[Trimmed | None]:
    """See `Transport.trimmed`. Raises SettingsError, BrokerUnavailable.

    The records of a source ascend in a partition. So nothing of its range is gone where the partition still has one from
    before the range.
    """
    topics = [topic_of(settings, destination) for destination in destinations]
    for topic in compacted_topics(settings, topics):
        yield Trimmed(topic, "keeps of each key the last record only (cleanup.policy)", tuple(ranges))
    with broker_errors(settings, "connecting to read the outputs back"):
        consumer = make_changelog_consumer(settings)
    try:
        for topic in topics:
            timeout_ms = settings.kafka.request_timeout_ms
            with broker_errors(settings, f"looking up the offsets of {topic!r}"):
                partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
                firsts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
                ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms)
            for partition in partitions:
                if firsts[partition]:
                    whole = range(firsts[partition], ends[partition])
                    yield from _trimmed_part(settings, consumer, partition, whole, ranges)
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)


def _trimmed_part(
    settings: Settings,
    consumer: TolerantConsumer,
    partition: TopicPartition,
    whole: range,
    ranges: Mapping[Source, range],
) -> Iterator[Trimmed | None]:
    unseen, first_time_ms = set(ranges), None
    for polled, _ in read_stretches(settings, consumer, {partition: whole}):
        for record in polled.get(partition, ()):
            if first_time_ms is None:
                first_time_ms = record.timestamp
            position = _in_order(record)
            if position is not None and position.offset < ranges.get(position.source, range(0)).start:
                unseen.discard(position.source)
        # Of a range that begins at 0 no earlier record can be left.
        if first_time_ms is not None and not any(ranges[source].start for source in unseen):
            break
        yield None
    if unseen:
        why = f"begins at offset {whole.start} now: what stood before was deleted"
        yield Trimmed(f"{partition.topic}/{partition.partition}", why, tuple(sorted(unseen)), first_time_ms)


def topic_of(settings: Settings, destination: Destination) -> str:
    """Name of the topic of a destination. A part before `route` has one topic for all that it writes."""
    topics = settings.topics
    if writes_between_parts(settings):
        return next(iter(outputs_of(settings).values()))
    return {
        Destination.UNIQUE: topics.unique,
        Destination.DUPLICATE: topics.duplicate,
        Destination.DEAD_LETTER: topics.dead_letter,
    }[destination]


def first_records(
    settings: Settings, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ConsumerRecord | None]:
    """Record at this offset of each output partition, committed or not; None where there is none any more.

    Raises BrokerUnavailable.
    """
    found: dict[TopicPartition, ConsumerRecord | None] = {}
    with broker_errors(settings, "connecting to read the outputs back"):
        consumer = make_changelog_consumer(settings, committed_only=False)
    try:
        with broker_errors(settings, "looking up the offsets of the outputs"):
            firsts = consumer.beginning_offsets(list(starts), timeout_ms=settings.kafka.request_timeout_ms)
        stretches = {at: range(start, start + 1) for at, start in starts.items() if start >= firsts[at]}
        for polled, _ in read_stretches(settings, consumer, stretches):
            for partition, records in polled.items():
                found.update((partition, record) for record in records)
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)
    return {partition: found.get(partition) for partition in starts}


def _read_topic(
    settings: Settings, consumer: TolerantConsumer, topic: str, ranges: Mapping[Source, range]
) -> Iterator[list[Record]]:
    timeout_ms = settings.kafka.request_timeout_ms
    with broker_errors(settings, f"looking up the offsets of {topic!r}"):
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    ends = yield from whole_ends(settings, consumer, partitions)
    with broker_errors(settings, f"looking up the offsets of {topic!r}"):
        firsts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
    stretches: dict[TopicPartition, range] = {}
    for partition in partitions:
        whole = range(firsts[partition], ends[partition])
        begin = _first_needed(settings, consumer, partition, whole, ranges)
        stretches[partition] = range(begin, whole.stop)
        yield []
    order = SourceOrder(partition.partition for partition in partitions)
    bounds = settings.batch.records_max, settings.batch.bytes_max
    for polled, finished in read_stretches(settings, consumer, stretches):
        given_back: list[Record] = []
        for partition, found in polled.items():
            for record in found:
                restored = _as_it_was_read(settings, record, ranges)
                if restored is None:
                    continue
                if is_given_back(restored.headers):
                    given_back.append(restored)
                else:
                    order.add(partition.partition, restored)
        for partition in finished:
            order.finish(partition.partition)
        if given_back:
            yield from _portions(given_back, *bounds)
        yield from _portions(order.ready(), *bounds)


def whole_ends(
    settings: Settings, consumer: TolerantConsumer, partitions: Sequence[TopicPartition]
) -> Generator[list[Record], None, dict[TopicPartition, int]]:
    """End of each partition at the call, returned once readers of committed records can read as far.

    Yields empty batches meanwhile. Raises BrokerUnavailable, TransactionHanging.
    """
    timeout_ms = settings.kafka.request_timeout_ms
    with broker_errors(settings, "looking up the whole outputs"):
        everything = make_changelog_consumer(settings, committed_only=False)
        try:
            ends: dict[TopicPartition, int] = everything.end_offsets(partitions, timeout_ms=timeout_ms)
        finally:
            everything.close(autocommit=False, timeout_ms=1_000)
    bound_seconds, waited_since, reported_at = 0.0, None, 0.0
    while hidden := _hidden(settings, consumer, ends):
        now = time.monotonic()
        if waited_since is None:
            waited_since = now
            bound_seconds = transaction_ms_max(settings) / 1000 + OPEN_MARGIN_SECONDS
        if now - waited_since > bound_seconds:
            raise _never_ended(settings, hidden, bound_seconds)
        if now >= reported_at:
            reported_at = now + _OPEN_REPORT_SECONDS
            log.warning(
                "waiting for an open transaction, which hides the records behind it",
                partitions=[f"{at.topic}/{at.partition} from offset {start} on" for at, start in hidden.items()],
                producers=_producers_of(settings, hidden),
                seconds=round(now - waited_since),
                seconds_max=round(bound_seconds),
                remedy="start the program that this transactional id belongs to, which ends it; or wait",
            )
        yield []
        time.sleep(settings.batch.wait_ms / 1000)
    return ends


def awaited(waiting: Generator[list[Record], None, dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """What `whole_ends` returns in the end."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            found: dict[TopicPartition, int] = end.value
            return found


def _hidden(
    settings: Settings, consumer: TolerantConsumer, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """First offset of an open transaction, per partition that cannot be read up to its end because of one."""
    with broker_errors(settings, "looking up how far the outputs are committed"):
        stable = consumer.end_offsets(list(ends), timeout_ms=settings.kafka.request_timeout_ms)
    return {partition: stable[partition] for partition, end in ends.items() if stable[partition] < end}


def _producers_of(settings: Settings, hidden: Mapping[TopicPartition, int]) -> list[str]:
    """Producers of the open transactions, by id and transactional id; none where the brokers do not say."""
    try:
        with make_admin(settings) as admin:
            found = admin.describe_producers(list(hidden))
            ids = {
                each.producer_id
                for state in found.values()
                for each in state.active_producers
                if each.current_transaction_start_offset >= 0
            }
            return [f"{number} of transactional id {identity_of(admin, number)!r}" for number in sorted(ids)]
    except (KafkaError, SettingsError) as error:
        return [f"unknown ({error})"]


def _never_ended(settings: Settings, hidden: Mapping[TopicPartition, int], seconds: float) -> TransactionHanging:
    servers = ",".join(settings.kafka.bootstrap_servers)
    commands = "; ".join(
        f"kafka-transactions.sh --bootstrap-server {servers} abort --topic {at.topic} --partition {at.partition} "
        f"--start-offset {start}"
        for at, start in sorted(hidden.items())
    )
    return TransactionHanging(
        f"the outputs cannot be read to their ends: a transaction has been open for more than {seconds:.0f} s, longer than "
        "the brokers allow, and hides what was delivered behind it. Nothing is lost. A person ends it: first read "
        f"docs/operations.md, NeardupTransactionHanging; then {commands}"
    )


def _first_needed(
    settings: Settings,
    consumer: TolerantConsumer,
    partition: TopicPartition,
    whole: range,
    ranges: Mapping[Source, range],
) -> int:
    """Offset in the output partition below which no record of the ranges lies.

    An index most often lost the last records of a long topic. The records of a source ascend in the partition. So the
    search goes back from the end, and stops once every source has shown a record from before its range.
    """
    if not all(wanted.start for wanted in ranges.values()):
        return whole.start
    begin, length = whole.stop, STRETCH_OFFSETS
    while begin > whole.start:
        stretch = range(max(whole.start, begin - length), begin)
        unseen = set(ranges)
        for polled, _ in read_stretches(settings, consumer, {partition: stretch}):
            for record in polled.get(partition, ()):
                position = _in_order(record)
                if position is not None and position.offset < ranges.get(position.source, range(0)).start:
                    unseen.discard(position.source)
            if not unseen:
                return stretch.start
        begin, length = stretch.start, length * 4
    return whole.start


def read_stretches(
    settings: Settings,
    consumer: TolerantConsumer,
    stretches: Mapping[TopicPartition, range],
    skipped: Callable[[TopicPartition, LostRecords], None] = lambda _partition, _lost: None,
) -> Iterator[tuple[dict[TopicPartition, list[ConsumerRecord]], list[TopicPartition]]]:
    """Read a stretch of each partition. Yields the records that came, and the partitions whose stretch has ended.

    skipped  takes what stands for damaged records, where recovery.unreadable lets them be skipped

    Raises RecordsUnreadable, BrokerUnavailable.
    """
    kafka, wait_ms = settings.kafka, settings.batch.wait_ms
    unread = {partition: stretch.stop for partition, stretch in stretches.items() if stretch}
    yield {}, [partition for partition in stretches if partition not in unread]
    if not unread:
        return
    consumer.assign(list(unread))
    for partition in unread:
        consumer.seek(partition, stretches[partition].start)
    # An earlier stretch of the same partition left it paused.
    consumer.resume(*unread)
    moved_at = time.monotonic()
    while unread:
        with broker_errors(settings, "reading the outputs back"):
            polled = consumer.poll(timeout_ms=wait_ms)
            for partition, damage in consumer.damages.lasting(polled):
                end = end_of_damage(settings, consumer, partition, damage)
                skipped(partition, LostRecords.of(partition, damage, end))
                consumer.seek(partition, end)
                consumer.damages.forget(partition)
            positions = {partition: consumer.position(partition, timeout_ms=wait_ms) for partition in unread}
        if polled:
            moved_at = time.monotonic()
        elif time.monotonic() - moved_at > kafka.delivery_timeout_ms / 1000:
            raise BrokerUnavailable(f"the outputs gave nothing for {kafka.delivery_timeout_ms} ms: {sorted(unread)}")
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


def _in_order(record: ConsumerRecord) -> Position | None:
    """Input position of a record that stands in the order of its source; None where it was given back, or names none."""
    headers = tuple(record.headers)
    return None if is_given_back(headers) else parse_position(headers)


def _as_it_was_read(settings: Settings, record: ConsumerRecord, ranges: Mapping[Source, range]) -> Record | None:
    headers = tuple(record.headers)
    position = parse_position(headers)
    if position is None or (position.offset not in ranges.get(position.source, ()) and not is_given_back(headers)):
        return None
    return as_record(settings.topics.input, position, record)


def as_record(topic: str, position: Position, found: ConsumerRecord) -> Record:
    """A record of the client's as one of the input, of this topic and position."""
    return Record(
        source=position.source,
        topic=topic,
        offset=position.offset,
        key=found.key,
        value=found.value,
        timestamp_ms=found.timestamp,
        headers=tuple(found.headers),
    )


def _portions(records: Iterable[Record], records_max: int, bytes_max: int) -> Iterator[list[Record]]:
    """Lists within the bounds of a batch; in each, the offsets of a source increase strictly.

    Yields at least one list, empty without records, so that the reader sees that time passes.
    """
    portion: list[Record] = []
    size = 0
    last: dict[Source, int] = {}
    for record in records:
        record_size = len(record.value or b"")
        full = len(portion) == records_max or size + record_size > bytes_max
        if portion and (full or record.offset <= last.get(record.source, -1)):
            yield portion
            portion, size, last = [], 0, {}
        portion.append(record)
        size += record_size
        last[record.source] = record.offset
    yield portion
