"""The transport over Kafka: `KafkaTransport` keeps the contract of `streamer.transports.transport` with kafka-python 3.0.12.

A batch is one transaction, of outputs and input offsets together.

    poll -> snapshot of the membership -> records      begin -> send all -> flush -> check every future
                                                             -> offsets, with the snapshot -> commit

The client loses records or fencing unless it is used by these rules (tests/contract/test_kafka_rules.py, by number):
 1  The transport does not open without crc32c's C code.
 2  Nothing is under way at commit: a record that missed its delivery timeout fails its future, and nothing else.
 3  The membership is taken right after `poll` and goes with the batch. A member dropped in between has none, and the
    broker would take offsets that come without a member.
 4  After any doubt the producer is dropped: offsets sent to a transaction outlive its abort.
 5  The last two steps, for which the client waits without limit, are given up after the delivery timeout.
 6  Reads see committed records only. The client commits and resets nothing by itself, and no topic comes into being.
 7  delivery_timeout_ms < transaction_timeout_ms; batches are bounded by records, bytes and time.
 8  The rebalance listener runs on the client's thread: it only takes notes.
 9  Transactions are named by group and instance, so that a newcomer fences its predecessor; dropped producers are kept.
10  Offsets have gaps where the input is written in transactions. Lag is the end known from fetching minus the position.
11  A stable group may leave partitions without an owner for ever: `kafka.ownership` looks for them, and joins anew
    (tests/contract/test_unowned_partitions.py).
12  One record that the client cannot parse ends all reading: `kafka.unreadable` reads odd header names, and tells where
    damage begins and ends (tests/contract/test_unreadable_records.py).
12  What was fetched before a pause goes at the next `seek`, or the client may fetch nothing more of that partition
    (tests/contract/test_paused_partitions.py).

The broker has a defect of its own: it may forget to end a transaction. `kafka.transactions` handles it, and
tests/contract/test_forgotten_transactions.py holds that.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import (
    AuthorizationError,
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RecordListTooLargeError,
    UnknownError,
)
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata

from index import Applied, Source
from streamer.errors import DeliveryDoubtful, Rebalancing, SettingsError
from streamer.records.record import Batch, Destination, Lost, Outgoing, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.changelog import find_trimmed, read_changelog, topic_of
from streamer.transports.kafka.clients import (
    NULL_VALUE,
    broker_errors,
    connections_of,
    let_go,
    make_admin,
    make_consumer,
    require_fast_checksums,
    within_timeout,
)
from streamer.transports.kafka.ownership import OwnershipWatch, silence_ms_max
from streamer.transports.kafka.rights import refusal, withheld_in
from streamer.transports.kafka.topics import Note, parse_note, require_same_topic, require_topics
from streamer.transports.kafka.transactions import require_all_ended, require_offsets_not_hanging, take_over
from streamer.transports.kafka.unreadable import LostRecords, TolerantConsumer, end_of_damage
from streamer.transports.kept import Kept
from streamer.transports.transport import Assigned, Claim, Trimmed

log = structlog.get_logger(__name__)

AHEAD = 2
"""Full batches that are kept at once: the one handed out next, and the one that is peeked at meanwhile."""

_CLOSE_MS_MAX = 1_000


class _RebalanceNotes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Changes of the assignment, in order: True and the partitions gained, or False and the partitions lost."""

    def __init__(self) -> None:
        self.changes: deque[tuple[bool, frozenset[TopicPartition]]] = deque()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changes.append((True, frozenset(assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changes.append((False, frozenset(revoked)))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.changes.append((False, frozenset(lost)))


class KafkaTransport:
    """Reader of the input topic as a member of the group, and deliverer to the output topics in transactions.

    `instance` names this worker within the group, and must be the same after a restart. `index` is the id of the index by
    which is decided; "" claims nothing.
    """

    takes_headers = True

    def __init__(self, settings: Settings, instance: str, index: str = "") -> None:
        self._settings = settings
        self._instance = instance
        self._index = index
        self._notes = _RebalanceNotes()
        self._member_id = ""
        self._stream = ""
        self._ownership = OwnershipWatch(settings)
        self._kept = Kept(settings.batch)
        self._unsought: set[TopicPartition] = set()
        self._topics = {destination: topic_of(settings, destination) for destination in Destination}
        self._open_consumer: TolerantConsumer | None = None
        self._open_producer: KafkaProducer | None = None
        self._open_admin: KafkaAdminClient | None = None
        self._connections: frozenset[object] = frozenset()
        self._heard_seconds = -math.inf

    def open(self) -> None:
        """See Transport. Ends what a predecessor of the same instance left open, or the broker forgot to end.

        Raises SettingsError and TransactionHanging besides.
        """
        require_fast_checksums()
        self._stream = require_topics(self._settings)
        with broker_errors(self._settings, "connecting"):
            self._open_admin = make_admin(self._settings)
        with broker_errors(self._settings, f"taking over the transactions of instance {self._instance!r}"):
            self._open_producer = take_over(self._settings, self._instance, self._open_admin)
        with broker_errors(self._settings, f"joining group {self._settings.kafka.group!r}"):
            self._open_consumer = make_consumer(self._settings, self._instance)
            self._open_consumer.subscribe([self._settings.topics.input], listener=self._notes)
            # A group leader that does not know the partitions yet would assign none, and join again once it does.
            self._open_consumer.partitions_for_topic(self._settings.topics.input)
        self._note_answer()

    def read(self) -> Batch | Assigned:
        """See Transport. Raises DeliveryDoubtful besides, where this worker no longer knows which sources it owns."""
        # 0. Every few seconds, see that the topic is still the same and that somebody owns each partition; if not, the poll
        #    joins anew.
        self._ownership.look(self._admin, self._consumer, self._stream)
        # 1. Poll, and take the membership at once.
        polled = self._poll()
        if polled:
            self._note_answer()
        snapshot: ConsumerGroupMetadata = self._consumer.group_metadata()
        # 2. Follow the assignment; no record of a new partition may be handed out yet.
        self._follow_assignment(snapshot)
        for partition, records in polled.items():
            if partition not in self._unsought:
                self._kept.add(self._records(partition, records))
        self._pass_damage(polled)
        # 3. While the group shares its partitions out anew nothing is handed out, and nothing but another poll helps, at once.
        #    The client discards a join that is answered while nobody polls, and joins anew. Without proof that this worker
        #    owns them, records stay here. Recovery would even wait for that answer: the broker takes what is asked of the
        #    group's coordinator only after the join on the same connection, so the group would never come to rest.
        if not _is_member(snapshot) or snapshot.state != MemberState.STABLE:
            return Batch(())
        if self._unsought:
            name = self._settings.topics.input
            ours = sorted(partition.partition for partition in self._unsought)
            with broker_errors(self._settings, f"asking for the partitions of {name!r}"):
                others = sorted(set(self._consumer.partitions_for_topic(name) or ()) - set(ours))
            return Assigned(self._sources(ours), {self._stream: name}, self._sources(others))
        # 4. The client fetches by name: only a check after the fetch proves that the topic is still the one begun with.
        if self._kept:
            self._require_same_topic()
        return replace(self._kept.cut(), snapshot=snapshot)

    def peek(self) -> Batch | None:
        """See Transport. Only what was polled is at hand: another poll may join anew, and end the membership of the batch."""
        return self._kept.peek()

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """See Transport. An offset committed for a deleted topic of the same name counts as none.

        Raises TransactionHanging besides.
        """
        return {source: None if claim is None else claim.offset for source, claim in self.claims(sources).items()}

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """See Transport, and `committed`."""
        timeout_ms = self._settings.kafka.delivery_timeout_ms
        found: dict[Source, Claim | None] = {}
        with broker_errors(self._settings, "fetching committed offsets"):
            for source in sources:
                try:
                    at = self._consumer.committed(self._partition(source), metadata=True, timeout_ms=timeout_ms)
                except KafkaTimeoutError:
                    require_offsets_not_hanging(self._settings, self._admin)
                    raise
                note = parse_note(None if at is None else at.metadata)
                # An offset without a note was set by hand, with Kafka's own tools, and is trusted.
                ours = at is not None and note.stream in ("", source.stream)
                found[source] = Claim(at.offset, note.index, note.in_use) if ours else None
        self._note_answer()
        return found

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return self._look_up(sources, self._consumer.beginning_offsets)

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport. Where a transaction is unfinished, the offset of its first record."""
        return self._look_up(sources, self._consumer.end_offsets)

    def seek(self, source: Source, offset: int, _applied: Applied | None) -> None:
        """See Transport."""
        partition = self._partition(source)
        self._forget(frozenset({partition}))
        self._consumer.seek(partition, offset)
        self._consumer.resume(partition)
        self._unsought.discard(partition)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """See Transport. A raise aborts nothing: the next `open` of this instance does."""
        if not outgoing and not batch.ends:
            return
        snapshot = batch.snapshot
        if not isinstance(snapshot, ConsumerGroupMetadata) or not _is_member(snapshot):
            raise DeliveryDoubtful("a batch without proof of membership in the group cannot be delivered")
        offsets = dict(self._offset(source, end) for source, end in batch.ends.items())
        producer = self._producer
        try:
            self._require_all_ended(producer)
            producer.begin_transaction()
            self._send(producer, outgoing)
            self._within_timeout(lambda: producer.send_offsets_to_transaction(offsets, snapshot), "offsets")
            self._within_timeout(producer.commit_transaction, "commit")
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            self._drop_producer()
            raise SettingsError(
                f"an output is larger than its topic or the broker takes ({error}): raise max.message.bytes of the output "
                "topics, or kafka.request_bytes_max, beyond what the input topic takes; nothing is lost meanwhile"
            ) from error
        except AuthorizationError as error:
            self._drop_producer()
            missing = withheld_in(self._settings, error, "delivering")
            raise SettingsError(f"{refusal(self._settings, missing)}; nothing is lost meanwhile") from error
        except (KafkaError, ValueError, DeliveryDoubtful) as error:
            self._drop_producer()
            raise DeliveryDoubtful(f"a batch of {len(batch.records)} records may be undelivered: {error}") from error
        self._note_answer()

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """See Transport. The broker refuses a member of an earlier generation, and takes one request whole or not at all."""
        starts = dict(self._offset(source, offset, in_use=not restoring) for source, offset in offsets.items())
        with broker_errors(self._settings, "committing where to begin"):
            try:
                self._consumer.commit(starts, timeout_ms=self._settings.kafka.delivery_timeout_ms)
            except RebalanceInProgressError as error:
                raise Rebalancing(f"the group shares its partitions out anew: {error}") from error
            except CommitFailedError as error:
                raise DeliveryDoubtful(f"{sorted(offsets)} may belong to another worker by now: {error}") from error

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport."""
        for records in read_changelog(self._settings, ranges, destinations):
            if records:
                self._note_answer()
            yield records

    def last_contact_seconds(self) -> float:
        """See Transport. A poll that brings nothing proves nothing; an idle worker hears from its look at the group."""
        return max(self._heard_seconds, self._ownership.answered_seconds)

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """See Transport."""
        return find_trimmed(self._settings, ranges, destinations)

    def lags(self) -> dict[Source, int]:
        """See Transport. Leaves out sources of which nothing was fetched yet, and all while the brokers are silent."""
        if time.monotonic() - self.last_contact_seconds() > silence_ms_max(self._settings) / 1000:
            return {}
        first_kept = self._kept.first_offsets()
        lags: dict[Source, int] = {}
        with broker_errors(self._settings, "asking for the lag"):
            for partition in self._consumer.assignment() - self._unsought:
                source = self._source(partition)
                end = self._consumer.highwater(partition)
                position = first_kept.get(source)
                if position is None:
                    position = self._consumer.position(partition, timeout_ms=self._settings.batch.wait_ms)
                if end is not None and position is not None:
                    lags[source] = max(0, end - position)
        return lags

    def unowned(self) -> tuple[Source, ...]:
        """See Transport."""
        return self._sources(self._ownership.unowned)

    def close(self) -> None:
        """See Transport."""
        self._drop_producer()
        admin, self._open_admin = self._open_admin, None
        if admin is not None:
            with suppress(KafkaError, OSError, RuntimeError):
                admin.close()
        consumer, self._open_consumer = self._open_consumer, None
        if consumer is not None:
            with suppress(KafkaError, OSError, RuntimeError):
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS_MAX)

    @property
    def _admin(self) -> KafkaAdminClient:
        assert self._open_admin is not None, "the transport is not open"
        return self._open_admin

    @property
    def _consumer(self) -> TolerantConsumer:
        assert self._open_consumer is not None, "the transport is not open"
        return self._open_consumer

    @property
    def _producer(self) -> KafkaProducer:
        if self._open_producer is None:
            raise DeliveryDoubtful("an earlier batch may be undelivered: this transport delivers no more")
        return self._open_producer

    def _note_answer(self) -> None:
        self._heard_seconds = time.monotonic()

    def _drop_producer(self) -> None:
        producer, self._open_producer = self._open_producer, None
        if producer is not None:
            let_go(producer)

    def _sources(self, partitions: Iterable[int]) -> tuple[Source, ...]:
        return tuple(Source(self._stream, partition) for partition in partitions)

    def _source(self, partition: TopicPartition) -> Source:
        return Source(self._stream, partition.partition)

    def _partition(self, source: Source) -> TopicPartition:
        if source.stream != self._stream:
            raise DeliveryDoubtful(f"{source} is of another topic than the one read now, {self._stream}")
        return TopicPartition(self._settings.topics.input, source.partition)

    def _offset(self, source: Source, offset: int, *, in_use: bool = True) -> tuple[TopicPartition, OffsetAndMetadata]:
        """Partition and offset to commit for a source, with its note."""
        note = Note(source.stream, self._index, in_use)
        return self._partition(source), OffsetAndMetadata(offset, note.text(), -1)

    def _look_up(
        self, sources: Iterable[Source], look_up: Callable[..., dict[TopicPartition, int]]
    ) -> dict[Source, int]:
        partitions = {source: self._partition(source) for source in sources}
        with broker_errors(self._settings, "looking up offsets"):
            found = look_up(list(partitions.values()), timeout_ms=self._settings.kafka.delivery_timeout_ms)
        # The client asks by name, and partitions are assigned anew when their topic is made anew.
        self._require_same_topic()
        return {source: found[partition] for source, partition in partitions.items()}

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        batch = self._settings.batch
        # Kept records need no wait, but the poll is also the sign of life and must not be left out.
        wait_ms = 0 if self._kept and self._consumer.group_metadata().state == MemberState.STABLE else batch.wait_ms
        with broker_errors(self._settings, "reading the input"):
            try:
                polled: dict[TopicPartition, list[ConsumerRecord]] = self._consumer.poll(
                    timeout_ms=wait_ms, max_records=max(1, AHEAD * batch.records_max - len(self._kept))
                )
            except NoOffsetForPartitionError:
                # Newly assigned and never committed: `seek` will say where to begin.
                return {}
            except FencedInstanceIdError as error:
                raise DeliveryDoubtful(f"another worker runs as instance {self._instance!r} of this group") from error
            except OffsetOutOfRangeError as error:
                self._begin_anew(frozenset(error.args[0]))
                return {}
            except LogTruncationError as error:
                raise DeliveryDoubtful(f"the input changed under the reader: {error}") from error
        return polled

    def _begin_anew(self, gone: frozenset[TopicPartition]) -> None:
        """Let partitions be assigned once more whose next record is gone, behind what was read of them before."""
        if self._kept.first_offsets().keys() & set(map(self._source, gone)):
            return
        ours = gone & self._consumer.assignment()
        log.warning("the next records are gone: looking anew where to begin", partitions=sorted(map(tuple, ours)))
        self._notes.changes.extend([(False, ours), (True, ours)])

    def _pass_damage(self, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """Go on behind records that cannot be read, where the policy allows that. Raises RecordsUnreadable.

        What came before them is handed out first.
        """
        for partition, damage in self._consumer.damages.lasting(polled):
            if self._source(partition) in self._kept.first_offsets():
                continue
            end = end_of_damage(self._settings, self._consumer, partition, damage)
            self._kept.add(self._records(partition, [LostRecords.of(partition, damage, end)]))
            self._consumer.damages.forget(partition)
            self._consumer.seek(partition, end)

    def _require_same_topic(self) -> None:
        with broker_errors(self._settings, f"asking for the id of topic {self._settings.topics.input!r}"):
            require_same_topic(self._settings, self._admin, self._stream)

    def _follow_assignment(self, snapshot: ConsumerGroupMetadata) -> None:
        """Carry the noted changes out. New partitions that this worker owns now stay unsought."""
        if _is_member(snapshot) and snapshot.state == MemberState.STABLE:
            if self._member_id not in ("", snapshot.member_id):
                # The group expelled this member, and another may have read its partitions meanwhile. Where that happens amid
                # a rebalance, the client tells nobody, and reads on from where it was.
                ours = frozenset(self._consumer.assignment())
                self._notes.changes.extend([(False, ours), (True, ours)])
            self._member_id = snapshot.member_id
        assigned: set[TopicPartition] = set()
        while self._notes.changes:
            gained, partitions = self._notes.changes.popleft()
            self._forget(partitions)
            assigned = assigned | partitions if gained else assigned - partitions
        for partition in assigned:
            # Any position will do while the partition is paused. Without one the client raises, or takes the committed.
            self._consumer.pause(partition)
            self._consumer.seek(partition, 0)
        self._unsought |= assigned

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        self._unsought -= partitions
        for partition in partitions:
            self._consumer.damages.forget(partition)
        self._kept.forget(frozenset(map(self._source, partitions)))

    def _records(self, partition: TopicPartition, found: Iterable[ConsumerRecord]) -> Iterator[Record]:
        source = self._source(partition)
        for each in found:
            lost = Lost(each.end - each.offset, each.why) if isinstance(each, LostRecords) else None
            yield Record(
                source=source,
                topic=each.topic,
                offset=each.offset,
                key=each.key,
                value=each.value,
                timestamp_ms=each.timestamp,
                headers=tuple(each.headers),
                lost=lost,
            )

    def _require_all_ended(self, producer: KafkaProducer) -> None:
        """Where a connection was lost since the last delivery, check that its transaction was ended."""
        connections = connections_of(producer)
        if not self._connections <= connections:
            require_all_ended(self._settings, self._admin, producer)
        self._connections = connections

    def _send(self, producer: KafkaProducer, outgoing: Sequence[Outgoing]) -> None:
        """Send, and wait until every record is acknowledged. Raises KafkaError where one is not."""
        timeout_seconds = self._settings.kafka.delivery_timeout_ms / 1000
        deadline = time.monotonic() + timeout_seconds
        sent = [
            producer.send(
                self._topics[each.destination],
                value=NULL_VALUE if each.record.value is None else each.record.value,
                key=each.record.key,
                # The client cannot write a header without a value, so the value becomes empty.
                headers=[(name, value or b"") for name, value in each.headers],
                partition=None,
                timestamp_ms=each.record.timestamp_ms,
            )
            for each in outgoing
        ]
        # The client splits a batch of its own that the broker finds too large, and `flush` fails on the unsplit one.
        with suppress(UnknownError):
            producer.flush(timeout=timeout_seconds)
        for future in sent:
            future.get(timeout=max(0.0, deadline - time.monotonic()))

    def _within_timeout(self, call: Callable[[], None], step: str) -> None:
        within_timeout(self._settings, call, step)


def _is_member(snapshot: ConsumerGroupMetadata) -> bool:
    return snapshot.generation_id >= 0 and bool(snapshot.member_id)
