"""Transport over Kafka: `KafkaTransport` keeps the contract of `streamer.transports.transport`.

A batch is one transaction of outputs and input offsets, written by `kafka.writer`. A client (`kafka.client`) moves the
records: kafka-python (`kafka.kafka_python`) or confluent-kafka (`kafka.confluent.reader` lists its different rules).

    poll -> snapshot of the membership -> records      begin -> send all -> flush -> check every future
                                                             -> offsets, with the snapshot -> commit

kafka-python 3.0.12 loses records or fencing outside these rules (tests/contract/test_kafka_rules.py, by number):
 1  The transport does not open without crc32c's C code.
 2  Nothing is under way at commit: a record that missed its delivery timeout fails its future, and nothing else.
 3  The membership is taken right after `poll`, and goes with the batch. A member dropped in between has none, and the
    broker would accept offsets without a member.
 4  After any doubt the producer is dropped: offsets sent to a transaction outlive its abort.
 5  The client waits without limit in the last two steps: they are given up after the delivery timeout.
 6  Reads see committed records only. The client commits and resets nothing by itself, and creates no topic.
 7  delivery_timeout_ms < transaction_timeout_ms; batches are bounded by records, bytes and time.
 8  The rebalance listener runs on the client's thread: it only takes notes.
 9  Transactions are named by group and instance: a new worker fences its predecessor. Dropped producers are kept.
10  Offsets have gaps if the input is written in transactions. Lag is the end known from fetching minus the position.
11  A stable group may leave partitions without an owner for ever: `kafka.ownership` rejoins
    (tests/contract/test_unowned_partitions.py).
12  One unparsable record ends all reading: `kafka.unreadable` reads odd header names, and bounds the damage
    (tests/contract/test_unreadable_records.py).
13  Records fetched before a pause are dropped at the next `seek`, or the client may fetch no more of that partition
    (tests/contract/test_paused_partitions.py).
16  A client may read on at another offset than requested: `kafka_python.continuity` compares its records with the log
    (tests/contract/test_first_records.py).
17  A join that is answered after its poll may be forgotten: the next poll takes it up. A worker that is no member for too
    long ends (tests/contract/test_added_partitions.py).

The broker may forget to end a transaction; see `kafka.transactions.hanging`
(tests/contract/test_forgotten_transactions.py).
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import InitVar, dataclass, replace

import structlog
from kafka import KafkaAdminClient, TopicPartition, errors

from index import Applied, Position, Source
from streamer.errors import BrokerUnavailable, DeliveryDoubtful, Rebalancing, SettingsError
from streamer.records.record import Batch, Destination, Feed, Handover, Outgoing, Record
from streamer.settings.parts import outputs_of
from streamer.settings.settings import Settings
from streamer.transports.buffer import RecordBuffer
from streamer.transports.kafka.changelog import find_trimmed, read_changelog
from streamer.transports.kafka.client import Member, Reader, Send, require_client
from streamer.transports.kafka.clients import (
    broker_errors,
    close_quickly,
    make_admin,
    require_fast_checksums,
    topic_id,
)
from streamer.transports.kafka.kafka_python.continuity import Continuity
from streamer.transports.kafka.kafka_python.producer import KafkaPythonProducer
from streamer.transports.kafka.kafka_python.reader import KafkaPythonReader
from streamer.transports.kafka.output_log import read_inputs
from streamer.transports.kafka.ownership import OwnershipWatch
from streamer.transports.kafka.silence import CHECK_SECONDS, silence_ms_max
from streamer.transports.kafka.topic_reader import TopicReader, lost_at
from streamer.transports.kafka.topics import Note, parse_note, require_topics, same_topic_partitions, topic_of
from streamer.transports.kafka.transactions.commit_note import note_path
from streamer.transports.kafka.transactions.delivery_note import NOTHING, DeliveryNote
from streamer.transports.kafka.transactions.hanging import require_offsets_not_hanging
from streamer.transports.kafka.writer import MakeProducer, Writer
from streamer.transports.transport import Assigned, Claim, Place, Trimmed

log = structlog.get_logger(__name__)

_COMMIT_REFUSED = (
    errors.CommitFailedError,
    errors.FencedInstanceIdError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
)

NO_PLACES: Mapping[Source, Place] = {}

_ANSWER_SECONDS = 1.0
"""Time in which healthy brokers answer a look at the group."""


@dataclass(eq=False)
class KafkaTransport:
    """Group member that reads the input topic, and delivers in transactions.

    settings  of the part, if there is one
    instance  this worker's name within the group, the same after a restart
    index     id of the deciding index; "" claims nothing
    buffer    for the records of a wrapper that gates them; None: without a gate
    """

    takes_headers = True

    _settings: Settings
    _instance: str
    index: str = ""
    buffer: InitVar[RecordBuffer | None] = None

    def __post_init__(self, buffer: RecordBuffer | None) -> None:
        settings = self._settings
        self.stream = ""
        self._ownership = OwnershipWatch(settings, self._instance)
        self._again = TopicReader(settings, "the input again", timeout_ms=settings.kafka.delivery_timeout_ms)
        self._continuity = Continuity(settings, self._again)
        self._buffer = RecordBuffer(settings.batch) if buffer is None else buffer
        self._begun: set[int] = set()
        self._unsought: set[int] = set()
        self._admin: KafkaAdminClient
        self._reader: Reader
        self._open_writer: Writer | None = None
        self._resources = ExitStack()
        self._resources.callback(self._again.close)
        self._topics = {each: topic_of(settings, each) for each in (*Destination, *Handover, *Feed)}
        self._heard_seconds = -math.inf
        self._away_seconds: float | None = None

    def open(self) -> None:
        """See Transport. Ends transactions that a predecessor left open or the broker forgot.

        Also raises SettingsError and TransactionHanging.
        """
        require_fast_checksums()
        self.stream = require_topics(self._settings)
        with broker_errors(self._settings, "connecting"):
            self._admin = make_admin(self._settings)
        self._resources.callback(close_quickly, self._admin)
        make_producer, open_reader = _client(self._settings)
        self._open_writer = Writer(
            self._settings,
            self._instance,
            self._admin,
            make_producer,
            outputs_of(self._settings).values(),
            note_path(self._settings, self._instance),
        )
        folder = self._settings.index.directory if self._settings.part in (None, "route") else None
        note = DeliveryNote(folder, self._settings.kafka, self._instance, self.stream)
        self._delivery_note = self._resources.enter_context(closing(note))
        self._reader = self._resources.enter_context(closing(open_reader(self._settings, self._instance, self.stream)))
        self._reader.join()
        self.note_answer()

    def read(self) -> Batch | Assigned:
        """See Transport. Also raises DeliveryDoubtful if its sources become uncertain."""
        reader = self._reader
        # 0. Every few seconds, check the topic's id and each partition's owner; without one, the poll rejoins.
        self._ownership.look(self._admin, reader, self.stream)
        # 1. Poll, and take the membership at once. Buffered records need no wait, but the poll is also the heartbeat.
        wait_ms = 0 if self._buffer and reader.is_steady() else self._settings.batch.wait_ms
        polled = reader.poll(wait_ms, self._buffer.room())
        if polled:
            self.note_answer()
        member = reader.member()
        # 2. Follow the assignment; no record of a new partition may leave yet.
        self._follow_assignment()
        for partition, records in polled.items():
            self._keep(partition, records)
        self._skip_unreadable()
        # 3. During a rebalance no record leaves, and only another poll helps, at once. kafka-python discards a join that is
        #    answered between polls, and rejoins. Recovery would even wait for that answer: the broker handles requests to the
        #    group's coordinator only after the join on the same connection, so the rebalance would never finish.
        if member is None:
            self._require_return()
            return Batch(())
        self._away_seconds = None
        if self._unsought:
            name = self._settings.topics.input
            others = self._same_topic_partitions() - self._unsought
            return Assigned(self._sources(self._unsought), {self.stream: name}, self._sources(others))
        # 4. The client fetches by name: only a check after the fetch proves that the topic is still the same.
        if self._buffer.ready_count():
            self._same_topic_partitions()
        return replace(self._buffer.cut(), snapshot=member)

    def peek(self, place: int = 0) -> Batch | None:
        """See Transport. Uses polled records only: another poll may rejoin, and so end the batch's membership."""
        return None if place else self._buffer.peek()

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """See Transport. An offset committed for a deleted topic with this name counts as none.

        Also raises TransactionHanging.
        """
        return {source: None if claim is None else claim.offset for source, claim in self.claims(sources).items()}

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """See Transport, and `committed`."""
        claims: dict[Source, Claim | None] = {}
        delivered = self._delivery_note.of_all()
        for source in sources:
            try:
                at = self._reader.committed(self._partition(source))
            except BrokerUnavailable:
                require_offsets_not_hanging(self._settings, self._admin)
                raise
            note = parse_note(None if at is None else at[1])
            # Without a note it is foreign; recovery decides whether to trust it.
            is_of_stream = note.stream == source.stream or not note.names_topic
            claims[source] = None
            if at is not None and is_of_stream:
                below = delivered.get(source.partition, NOTHING).offset
                claims[source] = replace(note.claim(at[0]), delivered=below)
        self.note_answer()
        return claims

    def noted_to(self, source: Source) -> int:
        """Offset below which workers with this one's folder noted that everything was delivered; 0 without a note."""
        return self._delivery_note.of_all().get(source.partition, NOTHING).offset

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return {source: whole.start for source, whole in self._extents(sources).items()}

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport. In an unfinished transaction, the offset of its first record."""
        return {source: whole.stop for source, whole in self._extents(sources).items()}

    def seek(self, source: Source, offset: int, _applied: Applied | None) -> None:
        """See Transport."""
        partition = self._partition(source)
        self._forget(frozenset({partition}))
        self._read_from(partition, offset)
        self._begun.add(partition)
        self._delivery_note.begin(partition, offset)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing], places: Mapping[Source, Place] = NO_PLACES) -> None:
        """See Transport. An error aborts nothing: the instance's next `open` does.

        places  noted with the committed offsets
        """
        if not outgoing and not batch.ends:
            return
        member = batch.snapshot
        if not isinstance(member, Member):
            raise DeliveryDoubtful("a batch without proof of membership in the group cannot be delivered")
        commits = dict(self._commit(source, end, places.get(source)) for source, end in batch.ends.items())
        writer = self._writer
        try:
            writer.deliver(self._sends(outgoing), commits, member.proof)
        except SettingsError as error:
            self._drop_writer()
            raise SettingsError(f"{error}; nothing is lost meanwhile") from error
        except DeliveryDoubtful as error:
            self._drop_writer()
            raise DeliveryDoubtful(f"a batch of {len(batch.records)} records may be undelivered: {error}") from error
        self._delivery_note.deliver({source.partition: end for source, end in batch.ends.items()})
        self.note_answer()

    def commit_start(
        self, offsets: Mapping[Source, int], places: Mapping[Source, Place] = NO_PLACES, *, restoring: bool = False
    ) -> None:
        """See Transport, and `deliver`."""
        commits = dict(
            self._commit(source, offset, places.get(source), in_use=not restoring) for source, offset in offsets.items()
        )
        if not restoring:
            # A worker that dies before it begins there is followed by one that finds our note on the offset.
            for source, offset in offsets.items():
                self._delivery_note.begin(source.partition, offset)
        with broker_errors(self._settings, "committing where to begin"):
            try:
                self._reader.commit(commits)
            except errors.RebalanceInProgressError as error:
                raise Rebalancing(f"the group is rebalancing: {error}") from error
            except _COMMIT_REFUSED as error:
                raise DeliveryDoubtful(f"{sorted(commits)} may belong to another worker by now: {error}") from error

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport."""
        for records in read_changelog(self._settings, ranges, destinations):
            if records:
                self.note_answer()
            yield records

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """See Transport."""
        return read_inputs(self._settings, positions)

    def last_contact_seconds(self) -> float:
        """See Transport. An empty poll proves nothing; an idle worker relies on its look at the group."""
        return max(self._heard_seconds, self._ownership.answered_seconds)

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """See Transport."""
        return find_trimmed(self._settings, ranges, destinations)

    def lags(self) -> dict[Source, int]:
        """See Transport. Leaves out sources without a fetch, and all while the brokers are silent."""
        if time.monotonic() - self.last_contact_seconds() > silence_ms_max(self._settings) / 1000:
            return {}
        first_kept = self._buffer.first_offsets()
        lags: dict[Source, int] = {}
        for partition in self._reader.assignment() & self._begun:
            progress = self._reader.progress(partition)
            if progress is not None:
                source, (position, end) = Source(self.stream, partition), progress
                lags[source] = max(0, end - first_kept.get(source, position))
        return lags

    def owed(self) -> tuple[int, ...] | None:
        """Partitions with records that this worker could read or deliver now; None: not known.

        That is so during a rebalance, and while the brokers are silent. Records after an open transaction do not count.
        """
        silent_seconds = time.monotonic() - self.last_contact_seconds()
        if self._unsought or self._reader.member() is None or silent_seconds > CHECK_SECONDS + _ANSWER_SECONDS:
            return None
        behind = {source.partition for source, lag in self.lags().items() if lag}
        owed = behind & self._kept_partitions()
        try:
            ends = self._again.ends(list(map(self._at, behind - owed))) if behind - owed else {}
        except BrokerUnavailable:
            # Reading will show whether the brokers answer.
            ends = {}
        for at, end in ends.items():
            if (progress := self._reader.progress(at.partition)) and progress[0] < end:
                owed |= {at.partition}
        return tuple(sorted(owed))

    def begun(self) -> tuple[Source, ...]:
        """Sources that this worker owns and reads."""
        return self._sources(self._begun)

    def hold(self, source: Source) -> None:
        """Read no further records of a begun source until `resume`."""
        self._reader.hold([source.partition])

    def resume(self, source: Source, offset: int) -> None:
        """Read a held source again, from here on."""
        self._read_from(source.partition, offset)

    def note_answer(self) -> None:
        """The brokers answered just now."""
        self._heard_seconds = time.monotonic()

    def id_of(self, topic: str) -> str:
        """Id of any topic. Raises BrokerUnavailable, SettingsError."""
        return topic_id(self._settings, self._admin, topic)

    def input_names(self) -> dict[str, str]:
        """Name of the input stream."""
        return {self.stream: self._settings.topics.input}

    def unowned(self) -> tuple[Source, ...]:
        """See Transport."""
        return self._sources(self._ownership.unowned)

    def strangers(self) -> tuple[str, ...]:
        """See Transport."""
        return self._ownership.ask_for_strangers(self._admin)

    def close(self) -> None:
        """See Transport."""
        self._drop_writer()
        self._resources.close()

    @property
    def _writer(self) -> Writer:
        if self._open_writer is None:
            raise DeliveryDoubtful("an earlier batch may be undelivered: this transport delivers no more")
        return self._open_writer

    def _sends(self, outgoing: Sequence[Outgoing]) -> list[Send]:
        topics = self._topics
        return [
            Send(
                topics[each.destination],
                each.record,
                each.headers,
                each.record.source.partition if isinstance(each.destination, Handover) else None,
            )
            for each in outgoing
        ]

    def _require_return(self) -> None:
        """Raise DeliveryDoubtful if no rebalance explains how long this worker is no member."""
        now = time.monotonic()
        self._away_seconds = now if self._away_seconds is None else self._away_seconds
        kafka = self._settings.kafka
        limit_ms = kafka.session_timeout_ms + kafka.max_poll_interval_ms
        if (now - self._away_seconds) * 1000 > limit_ms:
            raise DeliveryDoubtful(
                f"this worker has not become a member of group {kafka.group!r} within {limit_ms} ms "
                "(kafka.session_timeout_ms and kafka.max_poll_interval_ms together); a new one joins"
            )

    def _drop_writer(self) -> None:
        writer, self._open_writer = self._open_writer, None
        if writer is not None:
            writer.close()

    def _sources(self, partitions: Iterable[int]) -> tuple[Source, ...]:
        return tuple(Source(self.stream, partition) for partition in sorted(partitions))

    def _partition(self, source: Source) -> int:
        if source.stream != self.stream:
            raise DeliveryDoubtful(f"{source} is of another topic than the one read now, {self.stream}")
        return source.partition

    def _commit(
        self, source: Source, offset: int, place: Place | None, *, in_use: bool = True
    ) -> tuple[int, tuple[int, str]]:
        return self._partition(source), (offset, Note(source.stream, self.index, in_use, place).text())

    def _extents(self, sources: Iterable[Source]) -> dict[Source, range]:
        wanted = {source: self._at(self._partition(source)) for source in sources}
        ranges = self._again.ranges(wanted.values())
        # The client asks by name, and a recreated topic's partitions are assigned again.
        self._same_topic_partitions()
        return {source: ranges[at] for source, at in wanted.items()}

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.topics.input, partition)

    def _same_topic_partitions(self) -> frozenset[int]:
        with broker_errors(self._settings, f"asking for the id of topic {self._settings.topics.input!r}"):
            return same_topic_partitions(self._settings, self._admin, self.stream)

    def _follow_assignment(self) -> None:
        """Apply the noted changes. Newly owned partitions have no position until `seek`."""
        reader = self._reader
        # Missing offsets are looked for after the records read before them.
        gone = reader.gone & self._begun
        if gone and (gone := gone - self._kept_partitions()):
            log.warning("next offset no longer exists; restarting recovery", partitions=sorted(gone))
            reader.changes.extend([(False, gone), (True, gone)])
        assigned: frozenset[int] = frozenset()
        while reader.changes:
            gained, partitions = reader.changes.popleft()
            self._forget(partitions)
            assigned = assigned | partitions if gained else assigned - partitions
        if assigned:
            reader.hold(assigned)
            self._unsought |= assigned

    def _read_from(self, partition: int, offset: int) -> None:
        self._reader.begin(partition, offset)
        self._continuity.begin(partition, offset)

    def _keep(self, partition: int, records: Sequence[Record]) -> None:
        if partition in self._begun:
            self._continuity.follow(partition, records)
            self._buffer.add(records)

    def _skip_unreadable(self) -> None:
        """Check unreadable records, once all earlier records have left."""
        for partition, offset in self._reader.damaged.items():
            if partition in self._begun and partition not in self._kept_partitions():
                lost = lost_at(self._settings, Source(self.stream, partition), offset)
                self._reader.forget(partition)
                if lost is None:
                    log.info("partition readable again", partition=partition)
                else:
                    self._keep(partition, [lost])
                self._read_from(partition, offset if lost is None else lost.end)

    def _forget(self, partitions: frozenset[int]) -> None:
        self._begun -= partitions
        self._unsought -= partitions
        for partition in partitions:
            self._reader.forget(partition)
            self._continuity.forget(partition)
        self._buffer.forget(frozenset(self._sources(partitions)))

    def _kept_partitions(self) -> frozenset[int]:
        return frozenset(source.partition for source in self._buffer.first_offsets())


def _client(settings: Settings) -> tuple[MakeProducer, Callable[[Settings, str, str], Reader]]:
    if settings.kafka.client == "kafka-python":
        return KafkaPythonProducer, KafkaPythonReader
    require_client(settings.kafka)
    from streamer.transports.kafka.confluent.producer import ConfluentProducer
    from streamer.transports.kafka.confluent.reader import ConfluentReader

    return ConfluentProducer, ConfluentReader
