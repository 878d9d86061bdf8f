"""Messages between operators, and the interface to their runtime."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Position, Source, length_ratios
from index.session import Recrawl
from index.versions.reasons import replaced_reasons

EQUAL_TEXT = 5
"""A mark for a duplicate with its original's text; the others are in `index.kernels.versions`."""

NO_NUMBER = -1
"""In place of an entry's number."""

_COUNT = struct.Struct("<I")


class Stage(IntEnum):
    """The operators. State on disk is filed under these names, which never change."""

    ORDER = 0
    FRAME = 7
    CLAIM = 1
    VERSIONS = 8
    RECALL = 2
    VERIFY = 3
    RESOLVE = 4
    NAME = 5
    JOIN = 6


class Kind(IntEnum):
    """Message content."""

    CLAIMS = 0
    """NEAR documents under the keys of their blocks or bands, and EXACT ones under a key of their fingerprints."""
    CANDIDATES = 2
    """Pairs of a document and an earlier one, to verify."""
    SIGNATURES = 3
    """A batch's fingerprints and looks."""
    RECALLED = 4
    """Candidates with the earlier document's fingerprint and look."""
    HITS = 5
    """Pairs of a document and an earlier, near one."""
    REJECTS = 6
    """Documents that name an original."""
    NAMES = 7
    """Ids and positions of a batch's documents."""
    NAMED = 8
    """Rejects with their original's id, position and letters."""
    BATCH = 9
    """An arrived batch, until its verdicts are known."""
    SETTLED = 10
    """Members that an index dropped and entered, with their roots."""
    PAGES = 11
    """NEAR documents with a host, to be given a frame."""
    PARTS = 12
    """Fingerprints with frames, for parts of batches."""
    SAMPLE = 13
    """A sample of an index's host, or its group: see `frame.samples_of`."""
    RECORDS = 14
    """Documents by their pages, to find pages that are crawled again."""
    PLACES = 15
    """A batch's documents that may enter, and what has expired by age: see `ages.pack_place`."""
    FLOOR = 16
    """The first epoch that is not over: see `ledger.pack_floor`."""
    FORGOTTEN = 17
    """Names whose documents leave, with a place in the order: `resolving.forgotten.FORGOTTEN`."""
    GIVEN_BACK = 18
    """Documents that enter without a decision: `resolving.given_back.GIVEN_BACK`."""
    RECORDED = 20
    """What an index said about a batch: `rows.RECORDED`."""
    NUMBERED = 21
    """A seed's batch, and the number of its first entry: see `history.pack_number`."""
    KNOWN_PAGES = 19
    """NEAR documents with a host that has met them before: as PAGES, but the host does not sample them again."""


class Message(NamedTuple):
    """A message to one key in one operator.

    slot  its time slot's end in milliseconds: complete once the watermark has reached it
    """

    stage: Stage
    key: int
    slot: int
    kind: Kind
    content: bytes


class Task(Protocol):
    """State for one key in one operator: bytes by name. What is put survives every crash, or the flow rolls back with it.

    Then all operators are made again, so one may remember what it got and put.
    """

    def get(self, name: bytes) -> bytes | None:
        """Bytes of this name."""

    def put_all(self, contents: dict[bytes, bytes]) -> None:
        """Set the bytes of these names."""

    def remove_all(self, names: Sequence[bytes]) -> None:
        """Forget these names, whether they are known or not."""


class Floor(NamedTuple):
    """What RESOLVE writes into the log: all epochs before this one are over.

    partition  that takes it
    run        number that ORDER drew for this partition: a log may have earlier jobs' floors
    """

    epoch: int
    partition: int
    run: int


KEPT_AT_ONCE = frozenset({(Stage.RECALL, Kind.SIGNATURES), (Stage.NAME, Kind.NAMES)})
"""Messages for `Keeper.keep` on arrival. All others wait until their slot is complete."""


class Operator(Protocol):
    """One step in the flow. Its only state is the current key's."""

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> "Iterator[Message | Decided | Floor]":
        """Process all of a slot's messages, in any order; a key's slots ascend."""


class Keeper(Operator, Protocol):
    """An operator that stores some messages on arrival."""

    def keep(self, task: Task, message: Message) -> None:
        """Store what messages of this and later slots may ask for."""


class SourceAge(NamedTuple):
    """How far a source's documents have expired by age, and when its later ones will.

    begin, end  keys: its documents from the first one to before the second one have expired
    latest_ms   int64 [t], its latest record times
    notes       NOTE [k], in order: its last key at each time that counts

    >>> nothing = np.empty(0, np.int64), (65_536, 0), (65_536, 0), np.empty(0, NOTE)
    >>> age = SourceAge("topic", -1, *nothing)
    >>> age.begin == age.end
    True
    """

    stream: str
    watermark_ms: int
    latest_ms: npt.NDArray[np.int64]
    begin: tuple[int, int]
    end: tuple[int, int]
    notes: npt.NDArray[np.void]


NOTE = np.dtype([("time_ms", "<i8"), ("high", "<u8"), ("low", "<u8")])
"""A source's time, and the key before which its documents have expired once that time has."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Final decisions of an index on its entries, as a starting point for a flow.

    members       int64 [m], rows that have another document as root; the others are originals
    roots         their roots' keys, uint64 [m, 2]: high and low, as in `rows`
    fingerprints  of the roots, uint64 [m, words]
    looks         of the roots, uint8 [m, look bytes]
    letters       of the roots, uint32 [m]
    history       HISTORY [n], for all rows; None if entries never leave. Rows that are no entries have no fingerprints
    number        with a history: the index's number for the first entry, or NO_NUMBER. With the last batch: for the next one
    ends          with a partition's last batch: by stream, the exclusive end of the decided offsets; else None
    ages          with the last batch: the partition's sources, the current one last
    until_ms      with the last batch: the log's time until which the index knows what was forgotten and given back
    sample        in a batch without rows: a host group, and one of its contents from `frame.samples_of`
    """

    members: npt.NDArray[np.int64]
    roots: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]
    letters: npt.NDArray[np.uint32]
    history: npt.NDArray[np.void] | None = None
    number: int = NO_NUMBER
    ends: Mapping[str, int] | None = None
    ages: Sequence[SourceAge] = ()
    until_ms: int = -1
    sample: tuple[int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of fingerprints as in the log.

    time_ms  the log's append time, milliseconds since 1970
    source   partition of the input; the batch covers its offsets [begin, end)
    name     of the input, for people
    stamp    everything that changes a fingerprint
    content  the batch as bytes, returned unread with the verdicts
    floor    in a batch without rows: what RESOLVE wrote
    forgets  in a batch without rows: uint64 [n], `rows.name_digests` of earlier documents, which leave here. None without any
    given_back  whether a person gave these documents back: they enter here, decide no offsets, and need no verdict
    seeds    an index's entries, with their place in its order as `time_ms`, deciding no offsets; None: documents to decide
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
    floor: Floor | None = None
    forgets: npt.NDArray[np.uint64] | None = None
    given_back: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """Verdicts on n rows in a batch, from offset `begin` on.

    begin               first offset decided here, perhaps after the batch's
    first               row of the batch that is the first row here
    verdicts            uint8 [n], `Verdict` values
    distances           int16 [n], as in `Decisions`
    original_ids        n ids; None for rows without an original, as in `original_positions`
    original_letters    uint32 [n], 0 for rows without an original
    names               names of the originals' inputs, by stream
    content             of the `Arrival`
    marks               uint8 [n], `Plan.mark` for pages crawled again, or `EQUAL_TEXT`
    """

    partition: int
    begin: int
    first: int
    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    original_ids: list[str | None]
    original_positions: list[Position | None]
    original_letters: npt.NDArray[np.uint32]
    names: Mapping[str, str]
    content: bytes
    marks: npt.NDArray[np.uint8]

    def reasons(
        self, before: npt.NDArray[np.uint8], recrawl: Recrawl, equal_reasons: Mapping[int, int]
    ) -> npt.NDArray[np.uint8]:
        """Final reasons for rows that came with these, uint8 [n], as in `Decisions.reasons`."""
        return replaced_reasons(before, self.marks, self.marks == EQUAL_TEXT, recrawl, equal_reasons)

    def ratios(self, letters: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
        """Lengths of rows with these letters, uint32 [n], as in `Decisions.ratios`."""
        return length_ratios(letters, self.original_letters)


def pack_texts(texts: Sequence[str]) -> bytes:
    """Texts in messages and state: number, lengths, concatenated UTF-8, including surrogates.

    >>> unpack_texts(pack_texts(["page", ""]))
    ['page', '']
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return struct.pack(f"<{1 + len(encoded)}I", len(encoded), *map(len, encoded)) + b"".join(encoded)


def unpack_texts(content: bytes, begin: int = 0) -> list[str]:
    """Revert `pack_texts`, from this byte on."""
    (count,) = _COUNT.unpack_from(content, begin)
    lengths = struct.unpack_from(f"<{count}I", content, begin + _COUNT.size)
    at, texts = begin + _COUNT.size * (1 + count), []
    for length in lengths:
        texts.append(content[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return texts
