"""Reading the input with confluent-kafka 2.16.1 (librdkafka 2.16.0), and the rules for the client.

Numbers as in `kafka.transport`; only rules that differ (tests/contract/test_confluent_rules.py):
 2  An undelivered record fails the commit, so records and offsets travel concurrently.
 3  The proof must be the newest, but the client rejoins in the background. It gives partitions away only in `poll`, on
    this thread. So delivery asks for the membership, then checks that the batch's partitions stayed since the read.
    A partition given away after the question belongs to a later generation, which the broker recognises. If the
    generation ends meanwhile, the transaction is aborted and refilled: the commit was not asked for yet.
 4  After any doubt the producer is purged and kept until the process ends. Its close would wait without limit, and
    abort what may be committed.
 5  The client ignores its time limit for a transaction's offsets: this module gives up both last steps.
 6  The client resets nothing, but reports a missing offset only once: the reader remembers it.
 8  The rebalance callbacks run in `poll`. They must assign at once, but paused and at a numbered offset. Otherwise the
    client asks the broker for the end, and goes there even after a later seek.
11  The client has no request for a rejoin, and ignores an unchanged subscription: it leaves and subscribes again.
12  Only `check.crcs` detects damage. The client then loses its place, so the reader takes nothing after the error.
    `kafka.unreadable` asks the other client for the extent of the damage. A header name outside UTF-8 would crash the
    process when read: the service stops instead, and names the record.
14  The client does not split a batch that an output refuses as too large. So its batches fit every output.
15  The client takes a timestamp of 0 for the present: 1 replaces it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from index import Source
from streamer.errors import DeliveryDoubtful, RecordsUnreadable
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Changes, Commits, Member, numbers_of
from streamer.transports.kafka.clients import within_timeout
from streamer.transports.kafka.confluent import clients
from streamer.transports.kafka.handshake import require_login

log = structlog.get_logger(__name__)

_CLOSE_SECONDS_MAX = 1.0
_RETRY_SECONDS = 0.005

_CODES_OF_DAMAGE = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNDERFLOW,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.UNKNOWN,
    }
)
_headers_of = methodcaller("headers")
"""`message.headers()` without Python's check for an error: the client leaves one set."""

_unclosed: list[Consumer] = []


class Proof:
    """Proof of membership for the batches read so far; see rule 3."""

    def __init__(self, reader: "ConfluentReader") -> None:
        self._reader = reader
        self._taken = reader.taken

    def metadata(self, partitions: Iterable[int]) -> bytes:
        """Current membership. Raises DeliveryDoubtful without one, or if a partition was given away."""
        membership = self._reader.membership()
        if membership is None:
            raise DeliveryDoubtful("this worker is no member of the group any more")
        away = [partition for partition in partitions if self._reader.taken_at.get(partition, 0) > self._taken]
        if away:
            raise DeliveryDoubtful(f"partitions {away} were given to other members meanwhile")
        return membership[1]


class ConfluentReader:
    """See `Reader`. `stream` is the id of the input topic."""

    def __init__(self, settings: Settings, instance: str, stream: str) -> None:
        self._settings = settings
        self._instance = instance
        self._topic = settings.topics.input
        self._stream = stream
        self.changes: Changes = deque()
        self._owned: set[int] = set()
        self._is_assigned = False
        self._gone: set[int] = set()
        self._stopped: set[int] = set()
        self._next: dict[int, int] = {}
        self._damaged: dict[int, int] = {}
        self._login_in_doubt = False
        self._member: Member | None = None
        self.taken = 0
        """Count of revocations."""
        self.taken_at: dict[int, int] = {}
        """Last revocation of each partition, as the count at that time."""
        with clients.client_errors(settings, f"joining group {settings.kafka.group!r}"):
            self.consumer: Consumer = clients.make_consumer(settings, instance, self._note_error, clients.Lines())

    def join(self) -> None:
        """See `Reader`."""
        with clients.client_errors(self._settings, f"joining group {self._settings.kafka.group!r}"):
            self._subscribe()

    def poll(self, wait_ms: int, records_max: int) -> dict[int, list[Record]]:
        """See `Reader`."""
        if self._login_in_doubt:
            self._login_in_doubt = False
            require_login(self._settings.kafka, everywhere=True)
        with clients.client_errors(self._settings, "reading the input"):
            messages = self.consumer.consume(records_max, 0)
            if not messages and wait_ms:
                first = self.consumer.poll(wait_ms / 1000)
                if first is not None:
                    messages = [first, *(self.consumer.consume(records_max - 1, 0) if records_max > 1 else ())]
            polled = self._records(messages)
        membership = self.membership()
        self._member = Member(membership[0], Proof(self)) if membership and self._is_assigned else None
        return polled

    @property
    def gone(self) -> frozenset[int]:
        """See `Reader`."""
        return frozenset(self._gone & self._owned)

    def member(self) -> Member | None:
        """See `Reader`. None until the group assigns partitions, even an empty set."""
        return self._member

    def membership(self) -> tuple[str, bytes] | None:
        """Member id, and the membership for the broker; None without one."""
        with clients.client_errors(self._settings, "asking for the membership"):
            metadata: bytes = self.consumer.consumer_group_metadata()
        parsed = clients.parse_membership(metadata)
        return None if parsed is None else (parsed.member_id, metadata)

    def is_steady(self) -> bool:
        """See `Reader`. The client rejoins in the background."""
        return True

    @property
    def damaged(self) -> dict[int, int]:
        """See `Reader`. The client reads no further there."""
        return dict(self._damaged)

    def hold(self, partitions: Iterable[int]) -> None:
        """See `Reader`."""
        self.consumer.pause([TopicPartition(self._topic, partition) for partition in partitions])

    def begin(self, partition: int, offset: int) -> None:
        """See `Reader`. Retries while the client cannot seek in a new partition yet."""
        if partition not in self._owned:
            return
        at = TopicPartition(self._topic, partition, offset)
        with clients.client_errors(self._settings, f"going to offset {offset} of partition {partition}"):
            if partition in self._stopped:
                # The client stopped reading it, and can no longer seek in it.
                self.consumer.incremental_unassign([at])
                self.consumer.incremental_assign([at])
                self._stopped.discard(partition)
            else:
                self._seek(at)
            self.consumer.resume([at])
        self._next[partition] = offset

    def forget(self, partition: int) -> None:
        """See `Reader`."""
        self._gone.discard(partition)
        self._next.pop(partition, None)
        self._damaged.pop(partition, None)

    def assignment(self) -> frozenset[int]:
        """See `Reader`."""
        return frozenset(self._owned)

    def committed(self, partition: int) -> tuple[int, str] | None:
        """See `Reader`."""
        timeout_seconds = self._settings.kafka.delivery_timeout_ms / 1000
        with clients.client_errors(self._settings, "fetching committed offsets"):
            (at,) = _sound(self.consumer.committed([TopicPartition(self._topic, partition)], timeout_seconds))
        return None if at.offset < 0 else (at.offset, _note_of(at))

    def commit(self, commits: Commits) -> None:
        """See `Reader`."""
        offsets = [TopicPartition(self._topic, number, offset, note) for number, (offset, note) in commits.items()]

        def send() -> None:
            with clients.translated():
                _sound(self.consumer.commit(offsets=offsets, asynchronous=False))

        within_timeout(self._settings.kafka, send, "offsets")

    def progress(self, partition: int) -> tuple[int, int] | None:
        """See `Reader`."""
        at = TopicPartition(self._topic, partition)
        with clients.client_errors(self._settings, "asking for the lag"):
            (reached,) = self.consumer.position([at])
            _, end = self.consumer.get_watermark_offsets(at, cached=True)
        position = max(reached.offset, self._next.get(partition, -1))
        return None if end < 0 or position < 0 else (position, end)

    def rejoin(self) -> None:
        """See `Reader`. Meanwhile this member gives up what it owns."""
        with clients.client_errors(self._settings, f"rejoining group {self._settings.kafka.group!r}"):
            self.consumer.unsubscribe()
            self._subscribe()

    def close(self) -> None:
        """See `Reader`. The client's close has no time limit; a slow one lasts until the process ends."""
        _unclosed.append(self.consumer)
        closing = threading.Thread(target=self.consumer.close, name="kafka-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS_MAX)

    def _subscribe(self) -> None:
        self.consumer.subscribe([self._topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)

    def _assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        # Any number will do in a pause; see rule 8. Without one the client takes the committed offset.
        held = [TopicPartition(at.topic, at.partition, 0) for at in assigned]
        for at in held:
            # The client cannot pause an unknown partition. This call makes it known without a request.
            consumer.get_watermark_offsets(at, cached=True)
        if held:
            consumer.pause(held)
        consumer.incremental_assign(held)
        gained = numbers_of(assigned)
        self._owned |= gained
        self._is_assigned = True
        self.changes.append((True, gained))

    def _revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        lost = numbers_of(revoked)
        self.taken += 1
        self.taken_at.update(dict.fromkeys(lost, self.taken))
        self._owned -= lost
        self._stopped -= lost
        self.changes.append((False, lost))

    def _note_error(self, error: KafkaError) -> None:
        if error.code() in clients.CODES_OF_LOGIN:
            self._login_in_doubt = True

    def _seek(self, at: TopicPartition) -> None:
        deadline = time.monotonic() + self._settings.kafka.request_timeout_ms / 1000
        while True:
            try:
                self.consumer.seek(at)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _records(self, messages: Sequence[Any]) -> dict[int, list[Record]]:
        """Records up to the first error in each partition."""
        by_partition: dict[int, list[Record]] = {}
        held_back = set(self._damaged)
        topic, message = self._topic, None
        last, source = -1, Source(self._stream, -1)
        take: Callable[[Record], None] = _discard
        try:
            for message in messages:
                error, partition = message.error(), message.partition()
                if error is not None:
                    if self._is_damage(error, partition):
                        held_back, last = held_back | {partition}, -1
                    continue
                if partition != last:
                    last, source = partition, Source(self._stream, partition)
                    take = _discard if partition in held_back else by_partition.setdefault(partition, []).append
                headers = _headers_of(message)
                take(
                    Record(
                        source,
                        topic,
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        tuple(headers) if headers else (),
                    )
                )
        except SystemError as error:
            # Reading the headers without valid names would end the process.
            raise RecordsUnreadable(self._nameless(message)) from error
        for partition, records in by_partition.items():
            self._next[partition] = records[-1].offset + 1
        for partition in held_back - self._damaged.keys():
            # Records after it are read again, from the first readable one.
            self.consumer.pause([TopicPartition(self._topic, partition)])
            self._damaged[partition] = self._next[partition]
        return by_partition

    def _nameless(self, message: Any) -> str:
        return (
            f"{self._topic}/{message.partition()}: the record of offset {message.offset()} has a header whose name is not UTF-8, "
            "which confluent-kafka cannot read. Nothing is lost yet. Set kafka.client = 'kafka-python'."
        )

    def _is_damage(self, error: KafkaError, partition: int) -> bool:
        """Whether the next record of a begun partition is unreadable. Raises every other error."""
        code, words = error.code(), error.str()
        if code in _CODES_OF_DAMAGE:
            log.warning("cannot read on", partition=partition, reason=words)
            return partition in self._next
        if code == KafkaError._AUTO_OFFSET_RESET:
            self._gone.add(partition)
            self._stopped.add(partition)
        elif code in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED):
            raise DeliveryDoubtful(f"another worker runs as instance {self._instance!r} of this group")
        elif error.fatal() or code in (KafkaError._FATAL, KafkaError._LOG_TRUNCATION):
            # As a message the client's end has the code alone.
            raise DeliveryDoubtful(f"the client reads no more: {words}")
        elif not clients.is_passing(error):
            raise clients.as_broker_error(error)
        else:
            log.warning("the client could not read", partition=partition, reason=words)
        return False


def _discard(_record: Record) -> None:
    """Drop a record."""


def _sound(partitions: list[TopicPartition]) -> list[TopicPartition]:
    for at in partitions:
        if at.error is not None:
            raise KafkaException(at.error)
    return partitions


def _note_of(at: TopicPartition) -> str:
    """A committed note. The client may read another program's note past its end."""
    try:
        return at.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
