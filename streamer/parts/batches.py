"""Reading the topics between the parts of a service: from any offset, without a group, by the offsets of documents.

A topic between parts holds batches in the order of the documents. A decider may write a batch again, and then writes all that
follows it again: so the first batch that ends behind an offset can be searched for by halves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from index import Source
from streamer.errors import RecordsUnreadable
from streamer.records.envelope import BatchUnreadable, Heading
from streamer.settings.settings import Settings
from streamer.transports.kafka.changelog import read_stretches
from streamer.transports.kafka.clients import broker_errors, make_changelog_consumer
from streamer.transports.kafka.unreadable import TolerantConsumer


class HasHeading(Protocol):
    """A batch of either format."""

    @property
    def heading(self) -> Heading:
        """What it is about."""


Kind = TypeVar("Kind", bound=HasHeading)

Unpack = Callable[[bytes | None, str], Kind]
"""Unpacks a record's value; the second argument says where it stands."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[Kind]):
    """A batch, and the offset of its record."""

    offset: int
    batch: Kind


@contextmanager
def readable() -> Iterator[None]:
    """Turn a batch that cannot be unpacked into RecordsUnreadable: nothing but a person can tell what it was."""
    try:
        yield
    except BatchUnreadable as error:
        raise RecordsUnreadable(
            f"{error}. Nothing was decided or delivered by it. Find out what wrote it; docs/scaling.md says how to go on"
        ) from error


def is_of_engine(heading: Heading) -> bool:
    """Whether a batch is a sign of life of an engine that decides, which knows of no input."""
    return not heading.stream


def place_of(topic: str, partition: int, offset: int) -> str:
    """Where a record stands, in words."""
    return f"{topic}/{partition} offset {offset}"


class Batches(Generic[Kind]):
    """The batches of one topic between parts. Reads what is committed. Calls raise BrokerUnavailable, RecordsUnreadable."""

    def __init__(self, settings: Settings, topic: str, unpack: Unpack[Kind]) -> None:
        self._settings = settings
        self._topic = topic
        self._unpack = unpack
        self._open_consumer: TolerantConsumer | None = None

    def close(self) -> None:
        """Release the consumer; never raises."""
        opened, self._open_consumer = self._open_consumer, None
        if opened is not None:
            with suppress(KafkaError, OSError, RuntimeError):
                opened.close(autocommit=False, timeout_ms=1_000)

    def extent(self, partition: int) -> range:
        """Offsets of the records that can be read now."""
        at, timeout_ms = TopicPartition(self._topic, partition), self._settings.kafka.delivery_timeout_ms
        with broker_errors(self._settings, f"looking up the offsets of {self._topic!r}"):
            first: int = self._consumer.beginning_offsets([at], timeout_ms=timeout_ms)[at]
            end: int = self._consumer.end_offsets([at], timeout_ms=timeout_ms)[at]
        return range(first, max(first, end))

    def first_in(self, partition: int, stretch: range) -> Stored[Kind] | None:
        """The first batch of a stretch of record offsets, but for an engine's signs of life; None where none is there."""
        read = (stored for batches in self.read(partition, stretch) for stored in batches)
        return next((stored for stored in read if not is_of_engine(stored.batch.heading)), None)

    def read(self, partition: int, stretch: range) -> Iterator[Sequence[Stored[Kind]]]:
        """All batches of a stretch of record offsets, some at a time; perhaps none while time passes."""
        at = TopicPartition(self._topic, partition)
        for polled, _ in read_stretches(self._settings, self._consumer, {at: stretch}):
            yield [self.unpacked(partition, record) for record in polled.get(at, ())]

    def unpacked(self, partition: int, record: ConsumerRecord) -> Stored[Kind]:
        """A record of the client's as a batch."""
        with readable():
            where = place_of(self._topic, partition, record.offset)
            return Stored(record.offset, self._unpack(record.value, where))

    def reached(self, source: Source) -> int:
        """Offset of the documents at which the last batch of a source ends; 0 where there is none."""
        whole = self.extent(source.partition)
        begin, length = whole.stop, 16
        while begin > whole.start:
            stretch = range(max(whole.start, begin - length), begin)
            ends = [
                stored.batch.heading.end
                for batches in self.read(source.partition, stretch)
                for stored in batches
                if stored.batch.heading.stream == source.stream
            ]
            if ends:
                return ends[-1]
            begin, length = stretch.start, length * 4
        return 0

    def search(self, partition: int, stream: str, offset: int) -> int:
        """Offset of the first record with documents of the stream that ends behind `offset`; the end where there is none."""
        whole = self.extent(partition)
        low, high, found = whole.start, whole.stop, whole.stop
        while low < high:
            middle = (low + high) // 2
            stored = self.first_in(partition, range(middle, high))
            if stored is None:
                high = middle
            elif stored.batch.heading.stream == stream and stored.batch.heading.end > offset:
                high, found = middle, stored.offset
            else:
                low = stored.offset + 1
        return found

    def covering(self, partition: int, stream: str, offset: int) -> int:
        """Offset of the first record whose documents take in `offset`; where none does, as `search`.

        What retention took may have been written again, behind what was left: then all that follows is looked through.
        """
        first = self.search(partition, stream, offset)
        for batches in self.read(partition, range(first, self.extent(partition).stop)):
            for stored in batches:
                heading = stored.batch.heading
                if heading.stream == stream and heading.begin <= offset < heading.end:
                    return stored.offset
        return first

    @property
    def _consumer(self) -> TolerantConsumer:
        if self._open_consumer is None:
            with broker_errors(self._settings, f"connecting to read {self._topic!r}"):
                self._open_consumer = make_changelog_consumer(self._settings)
        return self._open_consumer
