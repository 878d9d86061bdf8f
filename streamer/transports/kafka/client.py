"""Seam between the Kafka transport and its client, `kafka_python` or `confluent`.

`transport` decides what to read, keep and deliver, `writer` when to commit, a client only how. Input partitions go by
number.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from streamer.packages import require_package
from streamer.records.record import Headers, Record
from streamer.settings.kafka import Kafka

Commits = Mapping[int, tuple[int, str]]
"""Offset to commit and its note, by input partition."""

NOTE_END = "\0"
"""Ends every committed note: confluent-kafka adds it, and reads a note without it past its end."""

Changes = deque[tuple[bool, frozenset[int]]]
"""Assignment changes in order: True and partitions gained, or False and partitions lost."""


@dataclass(frozen=True, slots=True)
class Member:
    """This worker's membership in the group.

    id     assigned by the group; changes after an expulsion
    proof  the client's own proof of membership, for its producer

    >>> before, now = Member("worker-1", proof=None), Member("worker-2", proof=None)
    >>> before == now
    False
    """

    id: str
    proof: object


def numbers_of(partitions: Iterable[Any]) -> frozenset[int]:
    """The numbers of either client's partitions."""
    return frozenset(at.partition for at in partitions)


def require_client(kafka: Kafka) -> None:
    """Raise SettingsError without the package for `kafka.client`."""
    if kafka.client == "confluent-kafka":
        require_package('kafka.client: "confluent-kafka"', "confluent")


class Reader(Protocol):
    """Static group member that reads the input. Calls raise BrokerUnavailable, SettingsError, DeliveryDoubtful.

    Reads only committed records, and never commits or resets by itself. Gained partitions wait for `begin`.
    """

    def join(self) -> None:
        """Join the group, which assigns partitions in `changes`."""

    @property
    def changes(self) -> Changes:
        """Pending assignment changes; the caller removes those it has followed."""

    def poll(self, wait_ms: int, records_max: int) -> Mapping[int, Sequence[Record]]:
        """Records by partition, in offset order; none after a bounded wait. Also the group's heartbeat.

        May include partitions that `changes` takes away.
        """

    @property
    def gone(self) -> frozenset[int]:
        """Partitions whose next record the brokers no longer have, until `forget`."""

    def member(self) -> Member | None:
        """Membership at the last poll; None without one, or if it may be changing."""

    def is_steady(self) -> bool:
        """False during a known rebalance."""

    @property
    def damaged(self) -> Mapping[int, int]:
        """Offset of an unreadable next record, by partition, until `forget`."""

    def hold(self, partitions: Iterable[int]) -> None:
        """Pause gained partitions until they begin."""

    def begin(self, partition: int, offset: int) -> None:
        """Read a partition from `offset` on."""

    def forget(self, partition: int) -> None:
        """Drop a partition's state: it was lost, or begins again."""

    def assignment(self) -> frozenset[int]:
        """Partitions that this member owns."""

    def committed(self, partition: int) -> tuple[int, str] | None:
        """The group's committed offset and note, or None."""

    def commit(self, commits: Commits) -> None:
        """Commit atomically without a transaction. Raises kafka-python's KafkaError."""

    def progress(self, partition: int) -> tuple[int, int] | None:
        """Offset after the last polled record, and the last known end; None if unknown."""

    def rejoin(self) -> None:
        """Rejoin the group with the next polls, which starts a rebalance."""

    def close(self) -> None:
        """Release every resource quickly; never raises or commits."""


class Send(NamedTuple):
    """A record to send; `partition` None: the client chooses.

    >>> from index import Source
    >>> record = Record(Source("stream", 3), "pages", 7, key=None, value=b"{}", timestamp_ms=0)
    >>> sends = [Send("unique", record, (), partition=3), Send("duplicates", record, (), partition=None)]
    >>> [send.topic for send in sends if send.partition is None]
    ['duplicates']
    """

    topic: str
    record: Record
    headers: Headers
    partition: int | None


class Producer(Protocol):
    """Transactional producer. Calls raise kafka-python's KafkaError and ValueError; then only `close` is allowed."""

    @property
    def identity(self) -> tuple[int, int] | None:
        """Id and epoch from the coordinator; None if it cannot be asked."""

    def has_lost_connection(self) -> bool:
        """Whether it lost a connection since the last call."""

    def begin(self) -> None:
        """Begin a transaction."""

    def fill(self, sends: Sequence[Send], commits: Commits, proof: object) -> bool:
        """Send records and offsets. False if the group has just moved on: abort then.

        Raises DeliveryDoubtful for a void proof of membership.
        """

    def commit(self) -> None:
        """Return once the coordinator has committed. May never return."""

    def abort(self) -> None:
        """As `commit`."""

    def close(self) -> None:
        """Release every resource quickly, in any state; never raises."""
