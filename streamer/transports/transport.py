"""Contract for a transport. Kafka, files and the tests' fake keep it.

A source's records come in offset order, each once per read-through. Offsets may have gaps, and sources have no mutual
order. `deliver` writes all outputs of a batch and commits its ends atomically, or raises. After an error, close the
transport for good; a new one learns from `committed` whether the batch arrived.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from index import Applied, Position, Source
from streamer.records.record import Batch, Destination, Outgoing, Record

NO_TIMESTAMP_MS = -1
"""Timestamp of a record without one, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """Sources that this worker owns and has not begun. `seek` names their first
    offset, before any record is read.

    A source whose next record is gone is assigned again, so that recovery decides. Until all begin, every `read` assigns
    them again and yields no records.

    `names`: display name per stream (topic, file), which reveals a new stream under an old name. `others`: all other
    known sources with deliveries in the same place, of any owner.

    >>> Assigned((Source("stream", 0),), {"stream": "pages"}).others
    ()
    """

    sources: tuple[Source, ...]
    names: Mapping[str, str]
    others: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Part of an output that lacks records, perhaps some that recovery needs.

    place          name of the part, for people
    why            words that follow the name
    sources        whose records may be gone
    first_time_ms  first remaining record's time; None without a record, or if its time proves nothing

    >>> trimmed = Trimmed("unique/0", "begins at offset 7 now", (Source("stream", 0),))
    >>> f"{trimmed.place} {trimmed.why}"
    'unique/0 begins at offset 7 now'
    """

    place: str
    why: str
    sources: tuple[Source, ...]
    first_time_ms: int | None = None


class Place(NamedTuple):
    """Offset in another log, with topic id `stream`, that matches an input offset in a service in parts.

    >>> noted = Place("id-of-the-topic", 17)
    >>> noted.offset if noted.stream == "id-of-a-later-topic" else "search for the offset"
    'search for the offset'
    """

    stream: str
    offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A committed offset's claim on the deciding index.

    index    id of the deciding index; "" if unknown
    in_use   False: that index was still being restored
    place    matching offset in the other log of a service in parts; None if unknown
    foreign  committed by another program or by hand
    delivered  offset below which workers noted that nothing is left to deliver; greater only if brokers lost commits

    >>> Claim(7, "index-id", in_use=True).foreign
    False
    """

    offset: int
    index: str
    in_use: bool
    place: Place | None = None
    foreign: bool = False
    delivered: int = 0


class Finished(Enum):
    """End of the input: no record will follow. Only files end.

    >>> events = iter([Batch([]), FINISHED])
    >>> [event is FINISHED for event in events]
    [False, True]
    """

    FINISHED = auto()


FINISHED = Finished.FINISHED


class Transport(Protocol):
    """Source of records and destination of decisions.

    The methods from `claims` on have answers for one process whose outputs cannot lose records. A transport with a group
    gives its own.
    """

    @property
    def takes_headers(self) -> bool:
        """Whether `deliver` writes headers."""

    def open(self) -> None:
        """Connect, and settle what a predecessor left open. Raises BrokerUnavailable, InputUnreadable."""

    def read(self) -> Batch | Assigned | Finished:
        """The next event; an empty Batch after a bounded wait without news.

        Raises BrokerUnavailable, and DeliveryDoubtful if ownership or the input's identity is uncertain.
        """

    def peek(self, place: int = 0) -> Batch | None:
        """The batch that a `read` will return, unless its sources move to another worker; None without a full batch.

        place: 0 for the next `read`, 1 for the one after it; a transport may look no further than 0. `read` then returns
        the same `records` object. Peeking sends no request, never waits and never raises. A peeked batch has no snapshot.
        """

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """Committed offset per source: everything below was delivered; None if never committed."""

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """First readable offset per source."""

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """The next record's offset per source; unknown ones are absent."""

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Read an assigned source from `offset` on. A file is compared with `applied`, the index's progress in it.

        Raises InputChanged.
        """

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """Deliver `outgoing` and commit `batch.ends`, atomically.

        Raises DeliveryDoubtful, and SettingsError if a person must change something first.
        """

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """Commit start offsets atomically, for sources without one, or by a policy or claim.

        Claims the sources for this worker's index. `restoring`: that index is still being restored. An owner may also
        commit for other sources of its stream.

        Raises DeliveryDoubtful if the group has moved sources, and its subclass Rebalancing during the move.
        """

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """Every delivered record of the destinations with an input position in `ranges`, as first read.

        Yields batches by input source and offset, without repeated positions; empty ones mark time. Within a source and
        destination, offsets ascend as far as memory can reorder outputs that drifted apart. Given-back records after
        the first needed record come too, in any order and from any position. A record's header (Kafka) or verdict line
        (files) names its verdict.
        """

    def close(self) -> None:
        """Release every resource; never raises or commits."""

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """Claim on an index per source, from its committed offset; None if never committed, or if no other index can decide."""
        return dict.fromkeys(sources)

    def inputs_at(self, _positions: Collection[Position], /) -> Iterator[list[Record]]:
        """Input records that remain at these positions, in batches; empty ones mark time."""
        return iter(())

    def trimmed(
        self, _ranges: Mapping[Source, range], _destinations: Sequence[Destination], /
    ) -> Iterator[Trimmed | None]:
        """Parts of the destinations without records that `changelog` may need; None marks time."""
        return iter(())

    def lags(self) -> dict[Source, int]:
        """Unread offsets per assigned source; unknown ones are absent."""
        return {}

    def last_contact_seconds(self) -> float | None:
        """Monotonic time of the last answer from outside; None without one."""
        return None

    def unowned(self) -> tuple[Source, ...]:
        """Input sources without a reader, at the latest check."""
        return ()

    def strangers(self) -> tuple[str, ...]:
        """Other programs in the group, as client, host and partitions, checked within the last seconds."""
        return ()
