"""The seam to the outside: one contract, kept by Kafka (`broker`), by files (`files`) and by the tests' fake.

What it promises: records of a source come in offset order, each once per read-through; `deliver` puts all outputs of
a batch and its ends into the outside atomically, or raises; after a raise the transport is to be closed, never reused,
and whether the batch arrived is learnt from `committed` by a fresh transport.
What it does not promise: contiguous offsets, an order between sources, or that `deliver` fails quickly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from index.entry import Applied, Source
from streamer.records.record import Batch, Destination, Outgoing, Record


@dataclass(frozen=True, slots=True)
class Assigned:
    """These sources are ours from now on; nothing of them is read before `seek` has named where to begin.

    `names` gives each stream's name for people (the topic, the file), so that a stream that was made anew under an old
    name can be told from a known one.
    """

    sources: tuple[Source, ...]
    names: Mapping[str, str]


class Finished(Enum):
    """The input has ended: no record will come any more (files; a topic never ends)."""

    FINISHED = auto()


FINISHED = Finished.FINISHED


class Transport(Protocol):
    """Where records come from and where decisions go."""

    @property
    def takes_headers(self) -> bool:
        """Whether `deliver` writes headers out; where it does not, none need be made."""

    def open(self) -> None:
        """Connect, resolving whatever a predecessor left open. Raises BrokerUnavailable, InputUnreadable."""

    def read(self) -> Batch | Assigned | Finished:
        """The next event; an empty Batch after a bounded wait where there is nothing new.

        Raises BrokerUnavailable, and DeliveryDoubtful where it is no longer known what is ours or what the input is.
        """

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """Per source the offset below which everything was delivered, None where nothing was ever committed."""

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """Per source the first offset that can still be read."""

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """Per source the offset that the next record will get, as far as it is known now."""

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """Read this assigned source from `offset` on. `applied` lets a file be held against what was decided before.

        Raises InputChanged.
        """

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """Put out all of `outgoing` and commit `batch.ends`, atomically.

        Raises DeliveryDoubtful, and SettingsError where no retry will help before a person has changed something.
        """

    def commit_start(self, source: Source, offset: int) -> None:
        """Commit `offset` for a source of which nothing was ever committed, or after an explicit policy."""

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """Every delivered record of the destinations whose input position lies in `ranges`, as it was read then.

        Batches of records with their original source and offset; within one source and destination in offset order,
        as far as outputs that drifted apart can be held in memory. In one batch no position stands twice. A batch may
        be empty: time passes while nothing is found.
        Records came out as the decision named by their header (Kafka) or verdict line (files): the destination tells.
        """

    def lags(self) -> dict[Source, int]:
        """Per assigned source how many offsets lie unread, as far as it is known now; not known, not there."""

    def close(self) -> None:
        """Let go of everything; never raises, never commits."""
