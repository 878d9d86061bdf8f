"""What operators hand each other, and what they ask of whoever runs them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Position, Source


class Stage(IntEnum):
    """The operators. State on disk is filed under their names; they never change."""

    ORDER = 0
    CLAIM = 1
    RECALL = 2
    VERIFY = 3
    RESOLVE = 4
    NAME = 5
    JOIN = 6


class Kind(IntEnum):
    """What a message holds."""

    NEAR_CLAIMS = 0
    """Rows of NEAR documents under the keys of their blocks or bands."""
    EXACT_CLAIMS = 1
    """Rows of EXACT documents under a key of their fingerprints."""
    CANDIDATES = 2
    """Pairs of a document and an earlier one, to be verified."""
    SIGNATURES = 3
    """Fingerprints and looks of a batch."""
    RECALLED = 4
    """Candidates with the fingerprint and look of the earlier document."""
    HITS = 5
    """Pairs of a document and an earlier one that are near enough."""
    REJECTS = 6
    """Documents that are no unique ones, with their originals."""
    NAMES = 7
    """Ids and positions of the documents of a batch."""
    NAMED = 8
    """Rejects with id and position of the original."""
    BATCH = 9
    """What arrived, until its verdicts are known."""
    SETTLED = 10
    """Documents that an index dropped and entered, with the documents that they count by."""


class Message(NamedTuple):
    """One message on its way to one key of one operator.

    slot  end of the slot of time that it belongs to, in milliseconds: complete once the watermark has reached it
    """

    stage: Stage
    key: int
    slot: int
    kind: Kind
    content: bytes


class Task(Protocol):
    """State of one key of one operator: bytes by name. What is put outlives every crash, or the flow goes back to before."""

    def get(self, name: bytes) -> bytes | None:
        """The bytes of this name; None where there are none."""

    def put(self, name: bytes, content: bytes) -> None:
        """Set the bytes of this name."""


KEPT_AT_ONCE = frozenset({(Stage.RECALL, Kind.SIGNATURES), (Stage.NAME, Kind.NAMES)})
"""Messages that go to `Keeper.keep` when they come. All others wait until their slot is complete."""


class Operator(Protocol):
    """One step of the flow. It holds nothing itself: all it knows is in the state of the key at hand."""

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> "Iterator[Message | Decided]":
        """Work on all messages of a slot that waited, in any order: no further ones of this slot will come.

        Slots of a key come in ascending order.
        """


class Keeper(Operator, Protocol):
    """An operator that keeps some of what comes."""

    def keep(self, task: Task, message: Message) -> None:
        """Keep what all messages of this slot and of later ones may ask for."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """What an index says of a batch of its entries, which a flow goes on from. Nothing is decided on them again.

    members       rows that count by another document, their root, int64 [m]; the others stand for themselves
    roots         keys of those, uint64 [m, 2]: time and partition, batch and row, as in `rows.document_keys`
    fingerprints  of the roots, uint64 [m, words]
    looks         of the roots, uint8 [m, look bytes]
    ends          with the last batch of a partition: by stream, the offset below which all is decided; else None
    """

    members: npt.NDArray[np.int64]
    roots: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]
    ends: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of fingerprints as it stands in the log.

    time_ms  when the log took it, milliseconds since 1970
    source   the partition of the input that it is from, of which it has the offsets [begin, end)
    name     of the input, for people
    stamp    everything that changes a fingerprint, as text
    entries  its documents, all of this source
    content  the batch as bytes, which the flow hands back with the verdicts, unread
    seeds    entries of an index, with their place in its order for `time_ms`: no offsets are decided; None: documents to decide
    """

    time_ms: int
    source: Source
    name: str
    begin: int
    end: int
    stamp: str
    entries: Entries
    content: bytes
    seeds: Seeds | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """Verdicts on n rows of a batch: those from `begin` on, which may be a later offset than that of the batch.

    partition           of the input
    begin               first offset that is decided here
    first               row of the batch that is the first row here
    verdicts            uint8 [n], values of `Verdict`
    distances           int16 [n], as in `Decisions`
    original_ids        n ids; None for rows that name no original
    original_positions  n positions; None for rows that name no original
    names               names of the inputs that originals are from, by stream
    content             of the `Arrival`
    """

    partition: int
    begin: int
    first: int
    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    original_ids: list[str | None]
    original_positions: list[Position | None]
    names: Mapping[str, str]
    content: bytes
