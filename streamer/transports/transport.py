"""The contract of a transport, kept by Kafka (`kafka`), by files (`files`) and by the tests' fake.

Promises: records of a source come in offset order, each once per read-through. `deliver` writes all outputs of a batch and
commits its ends atomically, or raises. After an error, close the transport and never reuse it; a new transport learns from
`committed` whether the batch arrived. No promises: contiguous offsets, an order between sources, or that `deliver` fails quickly.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from index import Applied, Position, Source
from streamer.records.record import Batch, Destination, Outgoing, Record

NO_TIMESTAMP_MS = -1
"""Timestamp of a record without one; Kafka writes the same number."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """Sources that this worker owns and has not begun. `seek` names the first offset before any record is read.

    A source whose next record no longer exists is assigned once more, so that recovery decides where to go on. Until they begin,
    every `read` assigns the sources again, and read() returns no records from any source.

    `names`: each stream's name for people (topic, file), so that a new stream under an old name is recognised. `others`: all
    other known sources with deliveries in the same place, of any owner.
    """

    sources: tuple[Source, ...]
    names: Mapping[str, str]
    others: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A part of an output that has lost records, perhaps some that recovery needs.

    place          name of the part, for people
    why            what happened, in words that follow the name
    sources        whose records may be gone
    first_time_ms  time of the first remaining record; None if none is left, or its time proves nothing
    """

    place: str
    why: str
    sources: tuple[Source, ...]
    first_time_ms: int | None = None


class Place(NamedTuple):
    """Offset in another log that belongs to an input offset, in a service that runs in parts.

    stream  id of that log's topic
    offset  offset in it
    """

    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a committed offset says about the index that made the decision.

    offset   the committed offset
    index    id of the index; "" if unknown
    in_use   False: that index was still being restored
    place    matching offset in the service's other log; None if unknown
    foreign  committed by another program or by hand, not by the service
    """

    offset: int
    index: str
    in_use: bool
    place: Place | None = None
    foreign: bool = False


class Finished(Enum):
    """End of the input: no further record will come (files; a topic never ends)."""

    FINISHED = auto()


FINISHED = Finished.FINISHED


class Transport(Protocol):
    """Source of records and destination of decisions."""

    @property
    def takes_headers(self) -> bool:
        """Whether `deliver` writes headers; without, callers need not make any."""

    def open(self) -> None:
        """Connect, and settle what a predecessor left open. Raises BrokerUnavailable, InputUnreadable."""

    def read(self) -> Batch | Assigned | Finished:
        """The next event; an empty Batch after a bounded wait without news.

        Raises BrokerUnavailable, and DeliveryDoubtful if ownership or the identity of the input is uncertain.
        """

    def peek(self) -> Batch | None:
        """The batch that the next `read` returns, unless its sources move to another worker; None if no full batch is buffered.

        `read` then returns the same `records` object. Peeking sends no request, never waits and never raises, because the batch
        before it is undelivered. A peeked batch is not read yet: it has no snapshot.
        """

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """Committed offset per source: everything below was delivered. None if never committed."""

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """First readable offset per source."""

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """Offset per source that the next record will get, as far as known."""

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Read this assigned source from `offset` on. A file is compared with `applied`, the index's progress in it.

        Raises InputChanged.
        """

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """Deliver all of `outgoing` and commit `batch.ends`, atomically.

        Raises DeliveryDoubtful, and SettingsError if no retry helps until a person changes something.
        """

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """Claim on an index per source, from its committed offset; None if never committed.

        Always None if no two indexes can be at work.
        """

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """Commit start offsets, all at once: for sources without one, or because a policy or a claim requires it.

        Claims the sources for this worker's index, as `deliver` does. `restoring`: the index is still being restored.

        A worker that owns a source may commit for others of its stream too. Raises DeliveryDoubtful if the group has moved
        sources to other members, and its subclass Rebalancing while it does so.
        """

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """Every delivered record of the destinations whose input position lies in `ranges`, as it was read then.

        Yields batches of records with their input source and offset. Within one source and destination they come in offset order,
        as far as outputs that drifted apart can be held in memory. A batch never repeats a position. A batch may be empty: time
        passes during the search. Given-back records after the first needed record come too, in any order, whatever their
        positions. The destination shows the verdict, which the record's header (Kafka) or verdict line (files) names.
        """

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """Records of the input at these positions, as far as it still has them, in batches.

        A batch may be empty: time passes without records.
        """

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """Parts of the destinations that have lost records `changelog` may need; None while time passes."""

    def lags(self) -> dict[Source, int]:
        """Unread offsets per assigned source, as far as known; unknown sources are absent."""

    def last_contact_seconds(self) -> float | None:
        """Time of the last answer from outside, on the monotonic clock; None for files."""

    def unowned(self) -> tuple[Source, ...]:
        """Sources of the input that no worker reads, by the latest check; none if that cannot happen."""

    def strangers(self) -> tuple[str, ...]:
        """Other programs in the group, as client, host and partitions; checked just now."""

    def close(self) -> None:
        """Release every resource; never raises, never commits."""
