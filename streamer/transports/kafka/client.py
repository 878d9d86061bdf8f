"""The seam between the transport over Kafka and the client that moves its records: `kafka_python` and `confluent` keep it.

A reader is a member of the group that reads the input; a writer delivers in transactions. `transport` decides what is read,
kept and delivered, and a client only how. Both clients speak of partitions of the input by their numbers.
"""

import importlib.util
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.errors import SettingsError
from streamer.records.record import Outgoing, Record
from streamer.settings.settings import Settings

Commits = Mapping[int, tuple[int, str]]
"""By partition of the input: the offset to commit, and its note."""

NOTE_END = "\0"
"""Ends every committed note, whichever client wrote it: confluent-kafka adds it, and reads a note without it past its end."""

Changes = deque[tuple[bool, frozenset[int]]]
"""Changes of the assignment, in order: True and the partitions gained, or False and the partitions lost."""


@dataclass(frozen=True, slots=True)
class Member:
    """This worker as a member of the group.

    id     that the group gave it; another one after the group expelled it
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


def too_large(words: object) -> SettingsError:
    """Error of a record that its topic refuses in these words."""
    return SettingsError(
        f"a record is larger than its topic or the broker takes ({words}): raise max.message.bytes of the topic that is "
        "written, or kafka.request_bytes_max, beyond what the topic takes that is read"
    )


class Reader(Protocol):
    """Reader of the input as a static member of the group. Its calls raise BrokerUnavailable, SettingsError, DeliveryDoubtful.

    It sees committed records only, and commits and resets nothing by itself. No record of a partition that was gained comes
    before `begin` names its first offset.
    """

    def join(self) -> None:
        """Join the group, which assigns partitions in `changes`."""

    @property
    def changes(self) -> Changes:
        """Changes of the assignment that are not followed yet; whoever follows them takes them out."""

    def poll(self, wait_ms: int, records_max: int) -> Mapping[int, Sequence[Record]]:
        """Records by partition, in offset order; none after a bounded wait without news. The sign of life to the group.

        Records may be of partitions that `changes` takes away.
        """

    @property
    def gone(self) -> frozenset[int]:
        """Partitions whose next record the brokers no longer have, until they are forgotten."""

    def member(self) -> Member | None:
        """The membership by which the last poll's records were read; None where there is none, or it may be changing."""

    def is_steady(self) -> bool:
        """Whether the group is not known to share its partitions out anew."""

    def skip_unreadable(self, waiting: Callable[[], Container[int]]) -> Iterator[Record]:
        """Records that stand for others that proved unreadable; reading goes on behind them.

        waiting  tells partitions with records that are not handed out yet: what comes behind them waits too

        Raises RecordsUnreadable, where `recovery.unreadable` is to stop.
        """

    def hold(self, partitions: Iterable[int]) -> None:
        """Read nothing of these partitions, which were gained, before they begin."""

    def begin(self, partition: int, offset: int) -> None:
        """Read this partition from `offset` on."""

    def forget(self, partition: int) -> None:
        """Forget what is known of this partition: it was lost, or begins anew."""

    def assignment(self) -> frozenset[int]:
        """Partitions that this member owns."""

    def partitions(self) -> frozenset[int]:
        """Partitions of the input."""

    def committed(self, partition: int) -> tuple[int, str] | None:
        """Committed offset of the group with its note; None where there is none."""

    def first_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """First offset that can still be read."""

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Offset behind the last record that readers of committed records see."""

    def commit(self, commits: Commits) -> None:
        """Commit outside of a transaction, all at once. Raises Rebalancing besides."""

    def progress(self, partition: int) -> tuple[int, int] | None:
        """Offset behind the last record polled, and the end, as far as known from reading; None where nothing is known."""

    def join_anew(self) -> None:
        """Join the group anew with the next polls, so that it shares its partitions out."""

    def close(self) -> None:
        """Release every resource quickly; never raises, never commits."""


class Writer(Protocol):
    """Writer of the outputs under the transactional id of this instance; a newcomer fences its predecessor."""

    def deliver(self, outgoing: Sequence[Outgoing], commits: Commits, member: Member) -> None:
        """Write all of `outgoing` and commit, in one transaction: all of it, or none.

        Raises DeliveryDoubtful, and SettingsError where no retry helps. After a raise the writer is only closed: it aborts
        nothing, for the next one of this instance does.
        """

    def close(self) -> None:
        """Release every resource quickly, in whatever state; never raises."""
