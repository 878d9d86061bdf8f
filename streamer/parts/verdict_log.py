"""Verdicts for a router: a consumer without a group follows its partitions."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kafka import TopicPartition

from index import Source
from streamer.errors import RecoveryRefused, SettingsError
from streamer.parts.batches import Batches, Stored, readable
from streamer.parts.envelope import differing
from streamer.parts.verdict_batch import VerdictBatch, unpack_verdicts
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import broker_errors
from streamer.transports.kafka.topic_reader import TopicReader
from streamer.transports.transport import Place

BATCHES_AHEAD = 20
"""Batches of documents whose verdicts are prefetched, shared evenly by the partitions; and one fetch."""


@dataclass(slots=True)
class _Tail:
    """One partition's state.

    begin    offset of the first requested document
    reached  all documents from `begin` to here have verdicts, or do not exist
    next     offset of the next verdict record to read
    is_full  reading pauses until half its share is dropped
    """

    source: Source
    begin: int
    reached: int
    next: int
    stored: deque[Stored[VerdictBatch]] = field(default_factory=deque)
    is_full: bool = False

    def weigh(self, share: int) -> None:
        """Set `is_full` by the number of documents with kept verdicts."""
        ahead = sum(len(stored.batch) for stored in self.stored)
        self.is_full = ahead > (share // 2 if self.is_full else share)


class VerdictLog:
    """See the module. Calls raise BrokerUnavailable, RecordsUnreadable, DeliveryDoubtful."""

    def __init__(self, settings: Settings, stamp: str) -> None:
        """stamp: required verdict stamp, as text."""
        self._settings = settings
        self._topic = settings.topics.verdicts
        self._stamp = stamp
        self._tails: dict[int, _Tail] = {}
        self._followed: set[int] = set()
        self._batches: Batches[VerdictBatch] = Batches(settings, self._topic, unpack_verdicts)
        self._reader = TopicReader(settings, "the verdicts")
        self._stream = ""
        self.decider = ""
        """Index that decided the latest verdicts."""

    def open(self, stream: str) -> None:
        """Note the topic's id: places in an earlier topic with its name are void."""
        self._stream = stream

    def close(self) -> None:
        """Release every resource; never raises."""
        self._batches.close()
        self._reader.close()

    def begin(self, source: Source, offset: int, place: Place | None) -> None:
        """Follow the verdicts on a source's documents from `offset` on.

        place  noted place for these verdicts; None, or in another topic: search for it
        """
        partition = source.partition
        extent = self._batches.extent(partition)
        noted = place is not None and place.stream == self._stream and extent.start <= place.offset <= extent.stop
        at = place.offset if place is not None and noted else -1
        first = self._batches.first_in(partition, range(at, extent.stop)) if noted else None
        if not noted or (first is not None and first.batch.heading.begin > offset):
            # Missing verdicts may reappear later.
            at = self._batches.covering(partition, source.stream, offset)
            first = self._batches.first_in(partition, range(at, extent.stop))
        ours = first is not None and first.batch.heading.stream == source.stream
        if first is not None and ours and extent.start == at > 0 and first.batch.heading.begin > offset:
            raise self._lost(partition, offset, first.batch.heading.begin)
        self._tails[partition] = _Tail(source, offset, offset, at)
        self._followed.discard(partition)

    def keep(self, sources: Collection[Source]) -> None:
        """Follow no other sources."""
        self._tails = {partition: tail for partition, tail in self._tails.items() if tail.source in sources}

    def poll(self, wait_ms: int) -> bool:
        """Take new verdicts, waiting at most this long; returns whether any came."""
        for each in self._tails.values():
            each.weigh(BATCHES_AHEAD * self._settings.batch.records_max // len(self._tails))
        if not self._assign():
            return False
        polled = self._reader.poll(wait_ms)
        for at, records in polled.items():
            tail = self._tails.get(at.partition)
            for record in records if tail is not None else ():
                with readable():
                    self._take(tail, self._batches.unpacked(at.partition, record))
        return bool(polled)

    def reached(self, source: Source) -> int:
        """Offset below which a source's documents have verdicts, from its start on."""
        tail = self._tails.get(source.partition)
        return tail.reached if tail is not None and tail.source == source else -1

    def batches_of(self, source: Source) -> Sequence[VerdictBatch]:
        """A source's batches that were read and not dropped."""
        tail = self._tails.get(source.partition)
        return [stored.batch for stored in tail.stored] if tail is not None and tail.source == source else []

    def place(self, source: Source, offset: int) -> Place:
        """Place of the first verdicts on documents from `offset` on."""
        tail = self._tails[source.partition]
        later = (stored.offset for stored in tail.stored if stored.batch.heading.end > offset)
        return Place(self._stream, next(later, tail.next))

    def drop(self, source: Source, offset: int) -> None:
        """Drop the batches on delivered documents, below `offset`."""
        tail = self._tails.get(source.partition)
        while tail is not None and tail.stored and tail.stored[0].batch.heading.end <= offset:
            tail.stored.popleft()

    def _lost(self, partition: int, offset: int, begin: int) -> RecoveryRefused:
        group = f"{self._settings.kafka.group}.fingerprint"
        return RecoveryRefused(
            f"{self._settings.topics.input}/{partition}: the group is at {offset}, and {self._topic!r} begins at the verdicts on "
            f"{begin}: retention took verdicts before they were delivered. Nothing is lost: set the offsets of group {group!r} "
            f"back to {offset}, and those documents are fingerprinted and decided again."
        )

    def _take(self, tail: _Tail | None, stored: Stored[VerdictBatch]) -> None:
        assert tail is not None
        heading = stored.batch.heading
        tail.next = stored.offset + 1
        # From a deleted input, or repeated by a restarted decider.
        if heading.stream != tail.source.stream or heading.end <= tail.reached:
            return
        if why := differing(self._stamp, heading.stamp):
            raise SettingsError(
                f"{self._topic}/{heading.partition} offset {stored.offset}: these verdicts are on fingerprints by other "
                f"settings: {why}. Run all parts with the same settings of the method."
            )
        tail.stored.append(stored)
        tail.reached = heading.end
        self.decider = stored.batch.decider

    def _assign(self) -> bool:
        wanted = {partition for partition, tail in self._tails.items() if not tail.is_full}
        if wanted and wanted != self._followed:
            consumer = self._reader.consumer
            with broker_errors(self._settings, "reading the verdicts"):
                consumer.assign([TopicPartition(self._topic, partition) for partition in wanted])
                for partition in wanted - self._followed:
                    consumer.seek(TopicPartition(self._topic, partition), self._tails[partition].next)
            self._followed = wanted
        return bool(wanted)
