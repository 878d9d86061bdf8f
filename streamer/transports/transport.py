"""The contract of a transport: kept by Kafka (`kafka`), by files (`files`) and by the tests' fake.

What it promises: records of a source come in offset order, each once per read-through. `deliver` puts all outputs of
a batch and its ends into the outside atomically, or raises. After a raise the transport is to be closed, never reused;
a fresh transport learns from `committed` whether the batch arrived.
What it does not promise: contiguous offsets, an order between sources, or that `deliver` fails quickly.
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
    """Sources that this worker owns and that are not begun. None of their records is read before `seek` names the first offset.

    A source whose next record the outside lost is assigned once more, so that recovery decides where to go on.
    Until they begin, sources are assigned again at every `read`, and read() returns no records from any source.

    `names` gives each stream's name for people (the topic, the file). So a new stream under an old name is not mistaken for
    the old one. `others` are all other sources with deliveries in the same outside, of any owner, as far as known now.
    """

    sources: tuple[Source, ...]
    names: Mapping[str, str]
    others: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A part of an output that has lost records, perhaps some that are to be restored.

    place          name of the part, for people
    why            what happened to it, in words that go on after the name
    sources        whose records may be gone
    first_time_ms  time of the first record that is left; None where none is, or where the time tells nothing
    """

    place: str
    why: str
    sources: tuple[Source, ...]
    first_time_ms: int | None = None


class Place(NamedTuple):
    """Where another log stands that goes along with an input, in a service that runs in parts.

    stream  id of that log's topic
    offset  there
    """

    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a committed offset says of the index by which was decided.

    offset   the committed offset
    index    id of the index; "" where the offset does not say
    in_use   False: that index was still being restored
    place    what the offset says of the log that goes along with the input; None where it says nothing
    foreign  the service did not commit it: another program did, or a person
    """

    offset: int
    index: str
    in_use: bool
    place: Place | None = None
    foreign: bool = False


class Finished(Enum):
    """End of the input: no record will come any more (files; a topic never ends)."""

    FINISHED = auto()


FINISHED = Finished.FINISHED


class Transport(Protocol):
    """Source of records and destination of decisions."""

    @property
    def takes_headers(self) -> bool:
        """Whether `deliver` writes headers; where it does not, nobody needs to make any."""

    def open(self) -> None:
        """Connect, and settle what a predecessor left open. Raises BrokerUnavailable, InputUnreadable."""

    def read(self) -> Batch | Assigned | Finished:
        """The next event; an empty Batch after a bounded wait without news.

        Raises BrokerUnavailable, and DeliveryDoubtful where the transport no longer knows what it owns or what the input
        is.
        """

    def peek(self) -> Batch | None:
        """The batch that the next `read` gives, unless its sources go to another; None where no full one is at hand.

        `read` then gives the same object as `records`. Peeking asks nobody, waits for nobody and raises nothing, for the
        batch before it is undelivered. A batch that was only peeked at is not read: it has no snapshot.
        """

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """Committed offset per source: everything below was delivered. None where nothing was ever committed."""

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """First offset per source that can still be read."""

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """Offset per source that the next record will get, as far as it is known now."""

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Read this assigned source from `offset` on. A file is held against `applied`, what was decided of it before.

        Raises InputChanged.
        """

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """Deliver all of `outgoing` and commit `batch.ends`, atomically.

        Raises DeliveryDoubtful, and SettingsError where no retry helps until a person changes something.
        """

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """Claim of an index per source, as its committed offset tells; None where nothing was ever committed.

        Always None where no two indexes can be at work.
        """

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """Commit offsets, all at once, of sources without a committed offset, or because a policy or a claim says so.

        As `deliver`, it claims the sources for this worker's index; `restoring`: which is still being restored.

        A worker that owns a source may commit for others of its stream too. Raises DeliveryDoubtful where the group has
        given sources to other members since this worker got its own, and its kind Rebalancing where it is doing so.
        """

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """Every delivered record of the destinations whose input position lies in `ranges`, as it was read then.

        Yields batches of records with their input source and offset. Within one source and destination they come in
        offset order, as far as outputs that drifted apart can be held in memory. A batch never repeats a position.
        A batch may be empty: time passes while nothing is found.
        Besides, given-back records that stand behind the first record needed, whatever their positions, in any order.
        The destination tells the verdict, which the record's header (Kafka) or verdict line (files) names.
        """

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """Records of the input at these positions, as far as it still has them, in batches.

        A batch may be empty: time passes while nothing comes.
        """

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """Parts of the destinations that have lost records which `changelog` may have to give; None while time passes."""

    def lags(self) -> dict[Source, int]:
        """Unread offsets per assigned source, as known now; a source of which nothing is known is left out."""

    def last_contact_seconds(self) -> float | None:
        """When the outside last proved that it answers, on the monotonic clock; None where nobody has to answer (files)."""

    def unowned(self) -> tuple[Source, ...]:
        """Sources of the input that no worker reads, as found last; none where that cannot happen."""

    def strangers(self) -> tuple[str, ...]:
        """Other programs in the group, in words that name client, host and partitions; as seen just now."""

    def close(self) -> None:
        """Release every resource; never raises, never commits."""
