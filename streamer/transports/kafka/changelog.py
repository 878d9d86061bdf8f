"""Kafka's changelog: delivered records from the outputs, by input position."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from index import Source
from streamer.records.record import Destination, Record
from streamer.records.route import is_given_back, parse_position
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import compacted_topics
from streamer.transports.kafka.topic_reader import TopicReader, as_record, backwards
from streamer.transports.kafka.topics import topic_of
from streamer.transports.kafka.transactions.open import whole_ranges
from streamer.transports.output_log import portions
from streamer.transports.transport import Trimmed

HELD_BYTES_MAX = 64 * 2**20
"""Most bytes of values that a merge holds to restore a source's order."""

SEARCH_OFFSETS = 2_000
"""Offsets in the first range searched, back from an output's end."""


class SourceOrder:
    """Merge of one output's partitions into offset order per source.

    A source's records ascend in each partition, except given-back ones: add none. The merge holds a record until every
    unfinished partition shows the same source at its offset or later. Beyond `held_bytes_max` bytes of values, all come
    out at once, out of order.

    >>> order, source = SourceOrder([0, 1]), Source("stream", 0)
    >>> order.add(0, Record(source, "pages", 7, None, None, 0))
    >>> order.add(1, Record(source, "pages", 4, None, None, 0))
    >>> [record.offset for record in order.ready()]
    [4]
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
        """Mark this output partition as finished."""
        del self._reached[partition]

    def ready(self) -> Iterator[Record]:
        """Records whose turn has come, by source."""
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
    """See `Transport.changelog`. Reads one destination after the other, to its present end.

    Waits for open transactions. Raises SettingsError, BrokerUnavailable, and TransactionHanging for one beyond the
    brokers' time limit.
    """
    with closing(TopicReader(settings)) as reader:
        for destination in destinations:
            yield from _read_topic(settings, reader, topic_of(settings, destination), ranges)


def find_trimmed(
    settings: Settings, ranges: Mapping[Source, range], destinations: Sequence[Destination]
) -> Iterator[Trimmed | None]:
    """See `Transport.trimmed`. Raises SettingsError, BrokerUnavailable.

    A source's records ascend. So one record from before the range proves that the partition has the whole range.
    """
    topics = [topic_of(settings, destination) for destination in destinations]
    for topic in compacted_topics(settings, topics):
        yield Trimmed(topic, "keeps of each key the last record only (cleanup.policy)", tuple(ranges))
    with closing(TopicReader(settings)) as reader:
        for topic in topics:
            for partition, whole in reader.ranges(reader.partitions(topic)).items():
                if whole.start:
                    yield from _trimmed_part(reader, partition, whole, ranges)


def _trimmed_part(
    reader: TopicReader, partition: TopicPartition, whole: range, ranges: Mapping[Source, range]
) -> Iterator[Trimmed | None]:
    unseen, first_time_ms = set(ranges), None
    for polled, _ in reader.read({partition: whole}):
        records = polled.get(partition, [])
        if first_time_ms is None and records:
            first_time_ms = records[0].timestamp
        unseen -= _sources_before(records, ranges)
        # A range that begins at 0 has no earlier record.
        if first_time_ms is not None and not any(ranges[source].start for source in unseen):
            break
        yield None
    if unseen:
        why = f"begins at offset {whole.start} now: what stood before was deleted"
        yield Trimmed(f"{partition.topic}/{partition.partition}", why, tuple(sorted(unseen)), first_time_ms)


def _read_topic(
    settings: Settings, reader: TopicReader, topic: str, ranges: Mapping[Source, range]
) -> Iterator[list[Record]]:
    partitions = reader.partitions(topic)
    needed = yield from whole_ranges(settings, reader, partitions)
    for partition, whole in needed.items():
        needed[partition] = range(_first_needed(reader, partition, whole, ranges), whole.stop)
        yield []
    order = SourceOrder(partition.partition for partition in partitions)
    for polled, finished in reader.read(needed):
        given_back: list[Record] = []
        for partition, records in polled.items():
            for record in records:
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
            yield from portions(given_back, settings.batch)
        yield from portions(order.ready(), settings.batch)


def _first_needed(reader: TopicReader, partition: TopicPartition, whole: range, ranges: Mapping[Source, range]) -> int:
    """First offset that the ranges may need in an output partition.

    An index usually lost the last records of a long topic. So the search goes back from the end, until every source
    shows a record from before its range.
    """
    if not all(wanted.start for wanted in ranges.values()):
        return whole.start
    for searched in backwards(whole, SEARCH_OFFSETS):
        unseen = set(ranges)
        for polled, _ in reader.read({partition: searched}):
            unseen -= _sources_before(polled.get(partition, []), ranges)
            if not unseen:
                return searched.start
    return whole.start


def _sources_before(records: Iterable[ConsumerRecord], ranges: Mapping[Source, range]) -> set[Source]:
    """Sources with a record from before their range, except given-back records, which are out of order."""
    sources = set()
    for record in records:
        headers = tuple(record.headers)
        position = None if is_given_back(headers) else parse_position(headers)
        if position is not None and position.offset < ranges.get(position.source, range(0)).start:
            sources.add(position.source)
    return sources


def _as_it_was_read(settings: Settings, record: ConsumerRecord, ranges: Mapping[Source, range]) -> Record | None:
    headers = tuple(record.headers)
    position = parse_position(headers)
    if position is None or (position.offset not in ranges.get(position.source, ()) and not is_given_back(headers)):
        return None
    return as_record(settings.topics.input, position, record)
