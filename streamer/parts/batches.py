"""Reading the topics between parts by document offsets.

A topic between parts holds batches in document order. A decider that repeats a batch also repeats all later ones, so a binary
search yields the first batch that ends after an offset.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from index import Source, is_given_back
from streamer.errors import RecordsUnreadable
from streamer.parts.envelope import BatchUnreadable, Heading
from streamer.settings.settings import Settings
from streamer.transports.kafka.topic_reader import TopicReader, backwards


class HasHeading(Protocol):
    """A batch in either format."""

    @property
    def heading(self) -> Heading:
        """Its heading."""


Kind = TypeVar("Kind", bound=HasHeading)

Unpack = Callable[[bytes | None, str], Kind]
"""Unpacks a record's value; the second argument is its position, for messages."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[Kind]):
    """A batch, and its record's offset.

    >>> Stored(17, "a batch")
    Stored(offset=17, batch='a batch')
    """

    offset: int
    batch: Kind


@contextmanager
def readable() -> Iterator[None]:
    """Translate BatchUnreadable into RecordsUnreadable: only a person can identify such a record."""
    try:
        yield
    except BatchUnreadable as error:
        raise RecordsUnreadable(
            f"{error}. Nothing was decided or delivered by it. Find out what wrote it; docs/scaling.md says how to go on"
        ) from error


def is_of_engine(heading: Heading) -> bool:
    """Whether a batch is a heartbeat of a deciding engine, which knows no input."""
    return not heading.stream


def accounts_for_offsets(heading: Heading) -> bool:
    """Whether a batch accounts for offsets of the input: it is no engine's heartbeat, and was not given back."""
    return not is_of_engine(heading) and not is_given_back(heading.stream)


def place_of(topic: str, partition: int, offset: int) -> str:
    """Position of a record, in words.

    >>> place_of("verdicts", 3, 17)
    'verdicts/3 offset 17'
    """
    return f"{topic}/{partition} offset {offset}"


class Batches(Generic[Kind]):
    """Committed batches of a topic between parts. Calls raise BrokerUnavailable, RecordsUnreadable."""

    def __init__(self, settings: Settings, topic: str, unpack: Unpack[Kind]) -> None:
        self._topic, self._unpack = topic, unpack
        self._reader = TopicReader(settings, f"{topic!r}", timeout_ms=settings.kafka.delivery_timeout_ms)

    def close(self) -> None:
        """Release the consumer; never raises."""
        self._reader.close()

    def extent(self, partition: int) -> range:
        """Offsets of the currently readable records."""
        at = TopicPartition(self._topic, partition)
        return self._reader.ranges([at])[at]

    def first_in(self, partition: int, offsets: range) -> Stored[Kind] | None:
        """First batch at these record offsets that accounts for offsets of the input."""
        read = chain.from_iterable(self.read(partition, offsets))
        return next((stored for stored in read if accounts_for_offsets(stored.batch.heading)), None)

    def read(self, partition: int, offsets: range) -> Iterator[Sequence[Stored[Kind]]]:
        """All batches at these record offsets, in portions; empty ones mark time."""
        at = TopicPartition(self._topic, partition)
        for polled, _ in self._reader.read({at: offsets}):
            yield [self.unpacked(partition, record) for record in polled.get(at, ())]

    def unpacked(self, partition: int, record: ConsumerRecord) -> Stored[Kind]:
        """A client's record as a batch."""
        with readable():
            where = place_of(self._topic, partition, record.offset)
            return Stored(record.offset, self._unpack(record.value, where))

    def reached(self, source: Source) -> int:
        """Document offset at which a source's last batch ends; 0 without a batch."""
        for searched in backwards(self.extent(source.partition), 16):
            ends = [
                stored.batch.heading.end
                for stored in chain.from_iterable(self.read(source.partition, searched))
                if stored.batch.heading.stream == source.stream
            ]
            if ends:
                return ends[-1]
        return 0

    def search(self, partition: int, stream: str, offset: int) -> int:
        """Offset of the first record whose documents in the stream end after `offset`; else the end."""
        whole = self.extent(partition)
        low, high, first = whole.start, whole.stop, whole.stop
        while low < high:
            middle = (low + high) // 2
            stored = self.first_in(partition, range(middle, high))
            if stored is None:
                high = middle
            elif stored.batch.heading.stream == stream and stored.batch.heading.end > offset:
                high, first = middle, stored.offset
            else:
                low = stored.offset + 1
        return first

    def covering(self, partition: int, stream: str, offset: int) -> int:
        """Offset of the first record whose documents include `offset`; without one, as `search`.

        Batches that retention removed may reappear after the rest, so this reads all later ones.
        """
        first = self.search(partition, stream, offset)
        for stored in chain.from_iterable(self.read(partition, range(first, self.extent(partition).stop))):
            heading = stored.batch.heading
            if heading.stream == stream and heading.begin <= offset < heading.end:
                return stored.offset
        return first
