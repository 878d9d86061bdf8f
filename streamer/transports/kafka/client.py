"""The seam between the Kafka transport and the client that moves its records: `kafka_python` or `confluent`.

A reader reads the input as a group member; a producer fills transactions. `transport` decides what to read, keep and deliver, and
`writer` when to commit; a client only how. All refer to the input's partitions by number.
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
"""Offset to commit and its note, by partition of the input."""

NOTE_END = "\0"
"""Ends every committed note, whichever client wrote it: confluent-kafka adds it, and reads a note without it past its end."""

Changes = deque[tuple[bool, frozenset[int]]]
"""Changes of the assignment, in order: True and the partitions gained, or False and the partitions lost."""


@dataclass(frozen=True, slots=True)
class Member:
    """This worker as a member of the group.

    id     assigned by the group; changes after an expulsion
    proof  the client's own, for the writer
    """

    id: str
    proof: object


def require_client(settings: Settings) -> None:
    """Raise SettingsError unless the package of `kafka.client` is installed."""
    if settings.kafka.client == "confluent-kafka" and importlib.util.find_spec("confluent_kafka") is None:
        raise SettingsError(
            'kafka.client: "confluent-kafka" needs the package of this name, which is not installed: '
            'pip install "neardup-streamer[confluent]"'
        )


class Reader(Protocol):
    """Reader of the input as a static member of the group. Its calls raise BrokerUnavailable, SettingsError, DeliveryDoubtful.

    It sees committed records only, and commits and resets nothing by itself. It returns no record of a gained partition before
    `begin` names the first offset.
    """

    def join(self) -> None:
        """Join the group, which assigns partitions in `changes`."""

    @property
    def changes(self) -> Changes:
        """Pending changes of the assignment; the caller removes those it has followed."""

    def poll(self, wait_ms: int, records_max: int) -> Mapping[int, Sequence[Record]]:
        """Records by partition, in offset order; none after a bounded wait without news. Serves as the group's heartbeat.

        Records may belong to partitions that `changes` takes away.
        """

    @property
    def gone(self) -> frozenset[int]:
        """Partitions whose next record the brokers no longer have, until they are forgotten."""

    def member(self) -> Member | None:
        """The membership that read the last poll's records; None without one, or if it may be changing."""

    def is_steady(self) -> bool:
        """False during a known rebalance."""

    @property
    def damaged(self) -> Mapping[int, int]:
        """Offset of the next record by partition, where it could not be read, until it is forgotten."""

    def hold(self, partitions: Iterable[int]) -> None:
        """Pause these gained partitions until they begin."""

    def begin(self, partition: int, offset: int) -> None:
        """Read this partition from `offset` on."""

    def forget(self, partition: int) -> None:
        """Drop all state of this partition: it was lost, or begins again."""

    def assignment(self) -> frozenset[int]:
        """Partitions that this member owns."""

    def committed(self, partition: int) -> tuple[int, str] | None:
        """Committed offset of the group with its note, or None."""

    def commit(self, commits: Commits) -> None:
        """Commit without a transaction, all at once. Raises kafka-python's KafkaError."""

    def progress(self, partition: int) -> tuple[int, int] | None:
        """Offset after the last record polled, and the end, as far as known from reading; None if unknown."""

    def rejoin(self) -> None:
        """Rejoin the group with the next polls, to start a rebalance."""

    def close(self) -> None:
        """Release every resource quickly; never raises, never commits."""


class Send(NamedTuple):
    """A record to send with these headers; `partition` None: the client chooses."""

    topic: str
    record: Record
    headers: Headers
    partition: int | None


class Producer(Protocol):
    """Transactional producer. Its calls raise kafka-python's KafkaError and ValueError; then only `close` is allowed."""

    @property
    def identity(self) -> tuple[int, int] | None:
        """Id and epoch from the coordinator; None if it cannot be asked."""

    def has_lost_connection(self) -> bool:
        """Whether it has lost a connection since the last call."""

    def begin(self) -> None:
        """Begin a transaction."""

    def fill(self, sends: Sequence[Send], commits: Commits, proof: object) -> bool:
        """Send records and offsets; False if the group has just moved on, so that the transaction must be aborted.

        Raises DeliveryDoubtful for a proof of membership that is void.
        """

    def commit(self) -> None:
        """Commit, and return once the coordinator has. May never return."""

    def abort(self) -> None:
        """As `commit`."""

    def close(self) -> None:
        """Release every resource quickly, in any state; never raises."""
