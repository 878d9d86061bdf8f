"""Seam between the Kafka transport and its client, `kafka_python` or `confluent`.

Input partitions go by number.
"""

import importlib.util
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from streamer.errors import SettingsError
from streamer.records.record import Headers, Record
from streamer.settings.settings import Settings

Commits = Mapping[int, tuple[int, str]]
"""Offset to commit and its note, by input partition."""

NOTE_END = "\0"
"""Ends every committed note: confluent-kafka adds it, and reads a note without it past its end."""

Changes = deque[tuple[bool, frozenset[int]]]
"""Assignment changes in order: True and gained partitions, or False and lost ones."""


@dataclass(frozen=True, slots=True)
class Member:
    """This worker's membership in the group.

    id     given by the group; changes after an expulsion
    proof  client's proof for the writer
    """

    id: str
    proof: object


def require_client(settings: Settings) -> None:
    """Raise SettingsError without the package for `kafka.client`."""
    if settings.kafka.client == "confluent-kafka" and importlib.util.find_spec("confluent_kafka") is None:
        raise SettingsError(
            'kafka.client: "confluent-kafka" needs the package of this name, which is not installed: '
            'pip install "neardup-streamer[confluent]"'
        )


class Reader(Protocol):
    """Static group member that reads the input. Calls raise BrokerUnavailable, SettingsError, DeliveryDoubtful.

    Reads only committed records, and never commits or resets by itself. Gained partitions wait for `begin`.
    """

    def join(self) -> None:
        """Join the group, which assigns partitions in `changes`."""

    @property
    def changes(self) -> Changes:
        """Pending assignment changes; the caller removes followed ones."""

    def poll(self, wait_ms: int, records_max: int) -> Mapping[int, Sequence[Record]]:
        """Records by partition, in offset order; none after a bounded wait. Also the group's heartbeat.

        May include partitions that `changes` takes away.
        """

    @property
    def gone(self) -> frozenset[int]:
        """Partitions without their next record at the brokers, until `forget`."""

    def member(self) -> Member | None:
        """Membership at the last poll; None if missing or perhaps changing."""

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
        """Drop the state of a lost or restarted partition."""

    def assignment(self) -> frozenset[int]:
        """This member's partitions."""

    def committed(self, partition: int) -> tuple[int, str] | None:
        """The group's committed offset and note, or None."""

    def commit(self, commits: Commits) -> None:
        """Commit atomically without a transaction. Raises kafka-python's KafkaError."""

    def progress(self, partition: int) -> tuple[int, int] | None:
        """Offset after the last polled record, and the end; None if unknown."""

    def rejoin(self) -> None:
        """Rejoin the group at the next polls, in a rebalance."""

    def close(self) -> None:
        """Release every resource quickly; never raises or commits."""


class Send(NamedTuple):
    """A record to send; `partition` None: the client chooses."""

    topic: str
    record: Record
    headers: Headers
    partition: int | None


class Producer(Protocol):
    """Transactional producer. After kafka-python's KafkaError or ValueError, only `close` is allowed."""

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
        """Release every resource quickly; never raises."""
