"""Reading the input with kafka-python 3.0.12, by the rules in `transport`."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kafka import ConsumerRebalanceListener, TopicPartition, errors
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata

from index import Source
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import NOTE_END, Changes, Commits, Member, numbers_of
from streamer.transports.kafka.clients import (
    CLOSE_MS_MAX,
    ask_for_rejoin,
    broker_errors,
    close_quickly,
    make_consumer,
    take_up_join,
)
from streamer.transports.kafka.unreadable import TolerantConsumer

_JOIN_MS_MAX = 2_000
"""Longest poll for the answer to a join."""


class RebalanceNotes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Recorder of assignment changes, on the client's thread."""

    def __init__(self) -> None:
        self.changes: Changes = deque()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note gained partitions."""
        self.changes.append((True, numbers_of(assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Note partitions to give up, or lost."""
        self.changes.append((False, numbers_of(revoked)))


class KafkaPythonReader:
    """See `Reader`. `stream` is the id of the input topic."""

    def __init__(self, settings: Settings, instance: str, stream: str) -> None:
        self._settings = settings
        self._instance = instance
        self._topic = settings.topics.input
        self._stream = stream
        self._notes = RebalanceNotes()
        self.changes = self._notes.changes
        self._gone: frozenset[int] = frozenset()
        self._member_id = ""
        self._snapshot: ConsumerGroupMetadata | None = None
        self._polled: Mapping[TopicPartition, Sequence[ConsumerRecord]] = {}
        self._polls_in_rebalance = 0
        with broker_errors(settings, f"joining group {settings.kafka.group!r}"):
            self.consumer: TolerantConsumer = make_consumer(settings, instance)

    def join(self) -> None:
        """See `Reader`."""
        with broker_errors(self._settings, f"joining group {self._settings.kafka.group!r}"):
            self.consumer.subscribe([self._topic], listener=self._notes)
            # A group leader that does not know the partitions would assign none, and rejoin later.
            self.consumer.partitions_for_topic(self._topic)

    def poll(self, wait_ms: int, records_max: int) -> dict[int, list[Record]]:
        """See `Reader`."""
        self._polled = self._poll(wait_ms, records_max)
        self._snapshot = snapshot = self.consumer.group_metadata()
        if _is_member(snapshot) and snapshot.state == MemberState.STABLE:
            if self._member_id not in ("", snapshot.member_id):
                # The group expelled this member, and another may have read its partitions. During a rebalance, the client reports
                # nothing, and reads on from its old position.
                ours = self.assignment()
                self.changes.extend([(False, ours), (True, ours)])
            self._member_id = snapshot.member_id
        return {at.partition: self._records(at, records) for at, records in self._polled.items()}

    @property
    def gone(self) -> frozenset[int]:
        """See `Reader`."""
        return self._gone & self.assignment()

    def member(self) -> Member | None:
        """See `Reader`. Without proof of ownership no record may leave."""
        snapshot = self._snapshot
        if snapshot is None or not _is_member(snapshot) or snapshot.state != MemberState.STABLE:
            return None
        return Member(snapshot.member_id, snapshot)

    def is_steady(self) -> bool:
        """See `Reader`."""
        return bool(self.consumer.group_metadata().state == MemberState.STABLE)

    @property
    def damaged(self) -> dict[int, int]:
        """See `Reader`. The client refetches damaged records meanwhile."""
        return {at.partition: damage.first for at, damage in self.consumer.damages.unrefuted(self._polled)}

    def hold(self, partitions: Iterable[int]) -> None:
        """See `Reader`."""
        for partition in partitions:
            # Any position will do in a pause. Without one the client raises, or takes the committed offset.
            self.consumer.pause(self._at(partition))
            self.consumer.seek(self._at(partition), 0)

    def begin(self, partition: int, offset: int) -> None:
        """See `Reader`."""
        self.consumer.seek(self._at(partition), offset)
        self.consumer.resume(self._at(partition))

    def forget(self, partition: int) -> None:
        """See `Reader`."""
        self.consumer.damages.forget(self._at(partition))
        self._gone -= {partition}

    def assignment(self) -> frozenset[int]:
        """See `Reader`."""
        return numbers_of(self.consumer.assignment())

    def committed(self, partition: int) -> tuple[int, str] | None:
        """See `Reader`."""
        timeout_ms = self._settings.kafka.delivery_timeout_ms
        with broker_errors(self._settings, "fetching committed offsets"):
            at = self.consumer.committed(self._at(partition), metadata=True, timeout_ms=timeout_ms)
        return None if at is None else (at.offset, at.metadata or "")

    def commit(self, commits: Commits) -> None:
        """See `Reader`. The broker refuses an earlier generation, and commits all or nothing."""
        self.consumer.commit(offsets_of(self._topic, commits), timeout_ms=self._settings.kafka.delivery_timeout_ms)

    def progress(self, partition: int) -> tuple[int, int] | None:
        """See `Reader`."""
        at = self._at(partition)
        with broker_errors(self._settings, "asking for the lag"):
            end = self.consumer.highwater(at)
            position = self.consumer.position(at, timeout_ms=self._settings.batch.wait_ms)
        return None if end is None or position is None else (position, end)

    def rejoin(self) -> None:
        """See `Reader`. This member keeps its partitions meanwhile."""
        ask_for_rejoin(self.consumer)

    def close(self) -> None:
        """See `Reader`."""
        close_quickly(self.consumer, autocommit=False, timeout_ms=CLOSE_MS_MAX)

    def _poll(self, wait_ms: int, records_max: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        self._polls_in_rebalance = 0 if self.is_steady() else self._polls_in_rebalance + 1
        if self._polls_in_rebalance:
            # The client discards a join that is answered between two polls. Ever longer polls meet the answer.
            wait_ms = max(wait_ms, min(_JOIN_MS_MAX, wait_ms * self._polls_in_rebalance))
        with broker_errors(self._settings, "reading the input"):
            take_up_join(self.consumer)
            try:
                polled: dict[TopicPartition, list[ConsumerRecord]] = self.consumer.poll(
                    timeout_ms=wait_ms, max_records=records_max
                )
            except errors.NoOffsetForPartitionError:
                # Newly assigned and never committed: `begin` will set the offset.
                return {}
            except errors.FencedInstanceIdError as error:
                raise DeliveryDoubtful(f"another worker runs as instance {self._instance!r} of this group") from error
            except errors.OffsetOutOfRangeError as error:
                self._gone = numbers_of(error.args[0])
                return {}
            except errors.LogTruncationError as error:
                raise DeliveryDoubtful(f"the input changed under the reader: {error}") from error
        return polled

    def _records(self, at: TopicPartition, records: Sequence[ConsumerRecord]) -> list[Record]:
        source, topic = Source(self._stream, at.partition), self._topic
        return [
            Record(source, topic, each.offset, each.key, each.value, each.timestamp, tuple(each.headers))
            for each in records
        ]

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)


def offsets_of(topic: str, commits: Commits) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit, in the client's types."""
    return {
        TopicPartition(topic, number): OffsetAndMetadata(offset, note + NOTE_END, -1)
        for number, (offset, note) in commits.items()
    }


def _is_member(snapshot: ConsumerGroupMetadata) -> bool:
    return snapshot.generation_id >= 0 and bool(snapshot.member_id)
