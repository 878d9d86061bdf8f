"""The interface to the index: columns of numbers, and ids.

A batch enters as `Entries` and returns as `Decisions`, row for row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

NO_NUMBER = np.uint64(2**64 - 1)
"""No document, in a column of document numbers."""

NO_DISTANCE = -1
"""No match, in a column of distances."""

RATIO_MAX = 2**16 - 1
"""Largest length ratio, in thousandths; greater ones count as this one."""

Insert = Literal["unique", "root"]
"""Documents that become entries: unique ones, or also duplicates near their root."""

RecrawlPolicy = Literal["duplicate", "update"]
"""What a known id with another text is: ids ignored, or an update."""


class Verdict(IntEnum):
    """The decision on one record. The log stores these values; their meaning never changes.

    >>> [verdict.label for verdict in Verdict if verdict.stands_for_itself]
    ['unique', 'unique', 'update', 'given-back', 'extends', 'extends']
    """

    UNIQUE = 0
    DUPLICATE = 1
    UNDECIDABLE = 2
    DEAD_LETTER = 3
    TEMPLATE = 4
    """Unique despite a match that shares only the frame of the hosts. Names that match."""
    UPDATE = 5
    """A known id with another text: delivered like a UNIQUE. Its entry replaces the older version, its original."""
    SUSPECT = 6
    """A near but unequal duplicate that the guard lets pass: enters like a DUPLICATE, delivered like a UNIQUE."""
    GIVEN_BACK = 7
    """A duplicate that a person gave back: an entry under its own source, delivered like a UNIQUE."""
    EXTENDS = 8
    """Resembles only documents that it is much longer than: delivered like a UNIQUE. Names the nearest one's root."""
    ADDS = 9
    """Likewise, but the nearest one's root lacks too much of its text, whatever their lengths."""

    @property
    def label(self) -> str:
        """The verdict's word in headers, metrics and output; TEMPLATE is "unique", ADDS is "extends".

        >>> Verdict.TEMPLATE.label, Verdict.GIVEN_BACK.label
        ('unique', 'given-back')
        """
        return _LABELS[self]

    @property
    def names_original(self) -> bool:
        """Whether a row with this verdict names its match or the version it replaces."""
        return self in _NAMING_VERDICTS

    @property
    def stands_for_itself(self) -> bool:
        """Whether a row with this verdict is an entry that others may name as their original."""
        return self in _STANDING_VERDICTS


EXTENDING = Verdict.EXTENDS, Verdict.ADDS
"""Verdicts on a document that resembles others, which lack some of it."""

_NAMING_VERDICTS = {Verdict.DUPLICATE, Verdict.TEMPLATE, Verdict.UPDATE, Verdict.SUSPECT, *EXTENDING}
_STANDING_VERDICTS = {Verdict.UNIQUE, Verdict.TEMPLATE, Verdict.UPDATE, Verdict.GIVEN_BACK, *EXTENDING}

_LABELS = {verdict: verdict.name.lower().replace("_", "-") for verdict in Verdict}
_LABELS |= {Verdict.TEMPLATE: "unique", Verdict.ADDS: "extends"}


# A table by verdict is many times as fast as `np.isin`, which every batch would call several times.
_NAMING = np.isin(np.arange(256), [verdict for verdict in Verdict if verdict.names_original])
_STANDING = np.isin(np.arange(256), [verdict for verdict in Verdict if verdict.stands_for_itself])


def naming_originals(verdicts: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether each verdict names another document: uint8 [n] -> bool [n].

    >>> naming_originals(np.array([Verdict.UNIQUE, Verdict.DUPLICATE], np.uint8))
    array([False,  True])
    """
    naming: npt.NDArray[np.bool_] = _NAMING[verdicts]
    return naming


def length_ratios(lengths: npt.NDArray[np.uint32], originals: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
    """`Decisions.ratios` of documents by their and their originals' letters: uint32 [n] twice -> uint16 [n]; 0 is unknown.

    >>> length_ratios(np.array([110, 110], np.uint32), np.array([100, 0], np.uint32))
    array([1100,    0], dtype=uint16)
    """
    letters, original_letters = lengths.astype(np.int64), originals.astype(np.int64)
    ratios = np.clip((2_000 * letters + original_letters) // np.maximum(2 * original_letters, 1), 1, RATIO_MAX)
    return np.where((letters == 0) | (original_letters == 0), 0, ratios).astype(np.uint16)


def standing_for_themselves(verdicts: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether each verdict makes an entry that others may name: uint8 [n] -> bool [n]."""
    standing: npt.NDArray[np.bool_] = _STANDING[verdicts]
    return standing


class Kind(IntEnum):
    """How the index decides an entry.

    >>> text = "too short for distances"
    >>> (Kind.NEAR if len(text) > 100 else Kind.EXACT).name
    'EXACT'
    """

    NEAR = 0
    """Match any NEAR entry within `distance_max`."""
    EXACT = 1
    """Match only equal EXACT entries: the text is too short for distances."""
    UNDECIDABLE = 2
    """Match nothing, enter nothing."""
    DEAD_LETTER = 3
    """Match nothing, enter nothing."""


class Source(NamedTuple):
    """One ordered sequence of records: a partition of a topic, or a file.

    stream  a Kafka topic id or a file's id; opaque, never reused for other content

    >>> applied = {Source("topic", 3): 17}
    >>> applied.get(Source("topic", 3)), applied.get(Source("topic", 4))
    (17, None)
    """

    stream: str
    partition: int


_GIVEN_BACK = "given-back:"


def given_back_source(source: Source) -> Source:
    """Source for documents given back; their drops keep their positions in `source`.

    >>> plain_source(given_back_source(Source("topic", 3)))
    Source(stream='topic', partition=3)
    """
    return Source(_GIVEN_BACK + source.stream, source.partition)


def is_given_back(stream: str) -> bool:
    """Whether a stream holds another stream's given-back documents."""
    return stream.startswith(_GIVEN_BACK)


def plain_source(source: Source) -> Source:
    """Revert `given_back_source`; returns any other source unchanged."""
    return Source(source.stream.removeprefix(_GIVEN_BACK), source.partition)


class Position(NamedTuple):
    """A record's position in the input: the journal's key.

    >>> Position(Source("topic", 3), 17).source.partition
    3
    """

    source: Source
    offset: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A batch of n records, in decision order.

    sources         distinct sources of the batch
    source_numbers  uint32 [n], row i comes from sources[source_numbers[i]]
    offsets         uint64 [n], strictly increasing within a source; gaps are allowed
    kinds           uint8 [n], `Kind` values
    reasons         uint8 [n], journaled and returned unread
    fingerprints    uint64 [n, bits / 64]; ignored in UNDECIDABLE and DEAD_LETTER rows
    times_ms        int64 [n], record times, milliseconds since 1970
    ids             n document ids
    looks           uint8 [n, look bytes], for the second look at NEAR rows; None without one
    hosts           n names of the documents' sites, None or "" if unknown; None: all unknown
    named           bool [n], whether the document brought its id, so that later ones with this id are its versions; an
                    empty id is none; None: all brought theirs
    digests         uint64 [n, 2], of the exact text and its substance (the text without counters and dates); None:
                    derived from fingerprint and look
    host_digests    uint32 [n], host that each id belongs to; None: derived from `hosts`
    lengths         uint32 [n], the fingerprinted text's letters; 0: unknown; None: all unknown

    >>> zero = np.zeros(2, np.uint64)
    >>> ids = ["https://example.com/a", "https://example.com/b"]
    >>> Entries((Source("topic", 0),), zero, zero, zero, zero, zero[:, None], zero, ids).take(np.array([1])).ids
    ['https://example.com/b']
    """

    sources: tuple[Source, ...]
    source_numbers: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    times_ms: npt.NDArray[np.int64]
    ids: Sequence[str]
    looks: npt.NDArray[np.uint8] | None = None
    hosts: Sequence[str | None] | None = None
    named: npt.NDArray[np.bool_] | None = None
    digests: npt.NDArray[np.uint64] | None = None
    host_digests: npt.NDArray[np.uint32] | None = None
    lengths: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def look_rows(self) -> npt.NDArray[np.uint8]:
        """Looks, uint8 [n, look bytes]; empty rows without a second look."""
        return np.zeros((len(self), 0), np.uint8) if self.looks is None else self.looks

    @property
    def letters(self) -> npt.NDArray[np.uint32]:
        """Lengths, uint32 [n]; 0 for unknown ones."""
        return np.zeros(len(self), np.uint32) if self.lengths is None else self.lengths

    def take(self, rows: npt.NDArray[np.int64]) -> "Entries":
        """Only these rows, int64 [m], with the same sources; arrays of consecutive rows are views."""
        begin = int(rows[0]) if len(rows) else 0
        together = slice(begin, begin + len(rows))
        if np.array_equal(rows, np.arange(together.start, together.stop)):
            return self._with(lambda column: column[together])
        numbers = rows.tolist()
        return self._with(
            lambda column: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in numbers]
        )

    def _with(self, changed: Callable[[Any], Any]) -> "Entries":
        columns = {each.name: getattr(self, each.name) for each in fields(self)[1:]}
        given: dict[str, Any] = {name: changed(column) for name, column in columns.items() if column is not None}
        return replace(self, **given)


class HostShare(NamedTuple):
    """Recent documents of a watched host, counted by `matching.host_sketch`.

    unequal  near but unequal duplicates among them
    beyond   whether it exceeds the limits

    >>> host = HostShare("example.com", documents=200, unequal=150, beyond=True)
    >>> host.unequal / host.documents
    0.75
    """

    host: str
    documents: int
    unequal: int
    beyond: bool


class WatchedHosts(NamedTuple):
    """Hosts with the most near but unequal duplicates, worst first.

    beyond  number of hosts beyond the guard's limits, including those not in `worst`

    >>> hosts = WatchedHosts([HostShare("a.example", 200, 180, beyond=True)], beyond=12)
    >>> f"{hosts.beyond} hosts are beyond the limits, first {hosts.worst[0].host}"
    '12 hosts are beyond the limits, first a.example'
    """

    worst: list[HostShare]
    beyond: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """Verdicts on n records, row for row with their `Entries`.

    verdicts            uint8 [n], `Verdict` values
    reasons             uint8 [n], as journaled at the first decision
    distances           int16 [n], Hamming distance to the match, or ten-thousandths of 1 - similarity if the parameters
                        are `by_similarity`; NO_DISTANCE without a match
    originals           uint64 [n], number of the original; its own number for a row that is one; else NO_NUMBER
    original_ids        the originals' ids; None for rows that name none, as in `original_positions`
    replayed            bool [n], whether the verdict comes from the journal
    candidates          int64 [n], entries compared with the row; 0 if replayed
    crossings           hosts that crossed the guard's limits with this batch, in either direction
    ratios              uint16 [n], the document's length in thousandths of its original's, at most RATIO_MAX; 0 if a length
                        is unknown, or the row names none

    >>> nothing = np.zeros(2, np.uint64)
    >>> decisions = Decisions(np.array([0, 1], np.uint8), *[nothing] * 3, [None, "a"], [None, None], nothing, nothing)
    >>> [Verdict(verdict).label for verdict in decisions.verdicts], decisions.ratios.tolist()
    (['unique', 'duplicate'], [0, 0])
    """

    verdicts: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    originals: npt.NDArray[np.uint64]
    original_ids: list[str | None]
    original_positions: list[Position | None]
    replayed: npt.NDArray[np.bool_]
    candidates: npt.NDArray[np.int64]
    crossings: Sequence[HostShare] = ()
    ratios: npt.NDArray[np.uint16] = field(default_factory=lambda: np.zeros((), np.uint16))

    def __post_init__(self) -> None:
        if not self.ratios.ndim:
            object.__setattr__(self, "ratios", np.zeros(len(self), np.uint16))

    def __len__(self) -> int:
        return len(self.verdicts)


class Applied(NamedTuple):
    """A source's progress.

    offset  every record below it is decided
    mark    the caller's proof of content

    >>> progress = Applied(offset=17, mark=b"")
    >>> [offset for offset in (15, 16, 17, 18) if offset < progress.offset]
    [15, 16]
    """

    offset: int
    mark: bytes
