"""An open index and its operations' sessions: one transaction each, with everything a decision needs.

A read session sees one snapshot. A write session is atomic and synced: it takes over other processes' commits first,
stores the counters at the end, and compacts a little.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from index.entry import RecrawlPolicy
from index.kernels.bins import exceeds
from index.lsm.id_table import IdTable
from index.lsm.tree import Tree
from index.matching.host_sketch import RECENT_DOCUMENTS, HostLimits
from index.matching.minhash import DISTANCE_UNITS
from index.storage.bases import BaseName
from index.storage.counters import counters_of, put_counters
from index.storage.layout import Counters
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from index.storage.visibility import Visibility

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long entries count. May differ between openings; expired entries stay expired.

    entries_max  newest entries that count; None: all
    age_max_ms   entries count until their source's record time has advanced by more than this; None: always

    >>> Retention(entries_max=0)
    Traceback (most recent call last):
    ValueError: entries_max must be at least 1
    """

    entries_max: int | None = None
    age_max_ms: int | None = None

    def __post_init__(self) -> None:
        if self.entries_max is not None and self.entries_max < 1:
            raise ValueError("entries_max must be at least 1")
        if self.age_max_ms is not None and self.age_max_ms < 1:
            raise ValueError("age_max_ms must be at least 1")


@dataclass(frozen=True, slots=True)
class Guard:
    """Limits for a host's share of near but unequal duplicates. May differ between openings.

    share_max      their share among the host's recent documents
    documents_min  least recent documents for a share to count, at most RECENT_DOCUMENTS
    suspects       beyond the limits they are SUSPECT, not DUPLICATE; not with insert = "unique", which would not
                   recognise a suspect's copies

    >>> Guard(share_max=0.5).limits
    HostLimits(share_max=0.5, documents_min=100)
    """

    share_max: float = 0.8
    documents_min: int = 100
    suspects: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share_max <= 1:
            raise ValueError("share_max must be above 0 and at most 1")
        if not 1 <= self.documents_min <= RECENT_DOCUMENTS:
            raise ValueError(f"documents_min must be from 1 to {RECENT_DOCUMENTS}")

    @property
    def limits(self) -> HostLimits:
        """The limits for a host."""
        return HostLimits(self.share_max, self.documents_min)


@dataclass(frozen=True, slots=True)
class Recrawl:
    """Treatment of a known id with another text. May differ between openings.

    policy            "duplicate": ids play no role. "update": it is an UPDATE that retires the older version
    minor_reasons     of a version that differs in counters and dates alone: the reason to journal, by the document's own
                      reason; others keep theirs
    returned_reasons  of a version that has returned to an earlier text too often, likewise
    other_reasons     of an update with nothing in common with the text before, likewise
    shared_reasons    of a unique document that is no version, because many documents share its id, likewise

    >>> Recrawl("update", minor_reasons={0: 4}).minor_reasons.get(0), Recrawl().policy
    (4, 'duplicate')
    """

    policy: RecrawlPolicy = "duplicate"
    minor_reasons: Mapping[int, int] = field(default_factory=dict)
    returned_reasons: Mapping[int, int] = field(default_factory=dict)
    other_reasons: Mapping[int, int] = field(default_factory=dict)
    shared_reasons: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Longer:
    """Text that the root of a match may lack. May differ between openings.

    A match counts only if the document is less than this longer than the match's root, and has no more new text, or if it
    has the root's fingerprint. A document with only such matches is EXTENDS, or ADDS if the nearest one fails by the new text
    alone. With learnt frames the length of the own text counts too.

    ten_thousandths  growth, as a share in the root's length: 1,000 is a tenth; 0: any
    new_max          with signatures: new shingles, in ten-thousandths of the document's (`kernels.judge.new_share`);
                     10,000: any

    >>> Longer(0)
    Traceback (most recent call last):
    ValueError: ten_thousandths must be at least 1, or new_max below 10000
    """

    ten_thousandths: int = 1_000
    new_max: int = DISTANCE_UNITS

    def __post_init__(self) -> None:
        if self.ten_thousandths < 0 or not 0 <= self.new_max <= DISTANCE_UNITS:
            raise ValueError(f"ten_thousandths must be at least 0, and new_max from 0 to {DISTANCE_UNITS}")
        if self.ten_thousandths == 0 and self.new_max == DISTANCE_UNITS:
            raise ValueError(f"ten_thousandths must be at least 1, or new_max below {DISTANCE_UNITS}")

    def exceeded(self, lengths: npt.NDArray[np.uint32], originals: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether each document is at least this much longer than its original: letters, uint32 [n] each; 0: unknown."""
        return np.asarray(exceeds(lengths.astype(np.int64), originals.astype(np.int64), self.ten_thousandths))


@dataclass(frozen=True, slots=True)
class Base:
    """A base set: an index that is open for reading below another one.

    first  number that its first document has in the index above, as `storage.bases` says

    >>> opened.bases
    ()
    """

    name: BaseName
    first: int
    opened: "OpenIndex"


class BelowSession(NamedTuple):
    """A base set with its snapshot in a session.

    >>> opened.read(lambda session: session.bases)
    ()
    """

    base: Base
    session: "ReadSession"


class ReadSession:
    """Snapshot of an index. Tree and ids load on first use, so operations on tables alone do not wait for them.

    >>> opened.read(lambda session: (session.words, session.counters.next_number))
    (1, 0)
    """

    def __init__(self, transaction: Transaction, opened: "OpenIndex", bases: tuple["BelowSession", ...] = ()) -> None:
        """Use `OpenIndex.read`."""
        self.transaction = transaction
        self.opened = opened
        self.bases = bases
        self.streams_of_bases: dict[int, str] = {}
        """Bases' streams by the numbers that they have in this session."""
        self.parameters = opened.parameters
        self.words = opened.parameters.stored_words
        self.longer = opened.longer

    @cached_property
    def counters(self) -> Counters:
        """Counts and next numbers. Operations that write update them, and the end of their session stores them."""
        return counters_of(self.transaction)

    @cached_property
    def tree(self) -> Tree:
        """All NEAR entries filed by blocks."""
        self.opened.tree.follow(self.transaction)
        return self.opened.tree

    @cached_property
    def ids(self) -> IdTable:
        """All ids."""
        self.opened.ids.follow(self.transaction)
        return self.opened.ids

    @cached_property
    def visibility(self) -> Visibility:
        """Which entries still count."""
        return Visibility(self.transaction, self.words)


class WriteSession(ReadSession):
    """A write transaction of an index.

    >>> opened.write(lambda session: session.tree.is_moving)
    False
    """

    def __init__(self, transaction: Transaction, opened: "OpenIndex", bases: tuple["BelowSession", ...] = ()) -> None:
        """Use `OpenIndex.write`."""
        super().__init__(transaction, opened, bases)
        # Both follow other processes before this session's first write.
        _ = self.tree, self.ids
        self._counters_stored = self.counters

    def horizon_moved(self) -> None:
        """Reload `visibility` on its next use: more entries have expired."""
        self.__dict__.pop("visibility", None)

    def end(self) -> None:
        """Store the counters and compact a little; no look-up may follow."""
        if self.counters != self._counters_stored:
            put_counters(self.transaction, self.counters)
        self.tree.end_batch(self.transaction, self.counters)
        self.ids.end_batch(self.transaction, self.counters)


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An open index's internals, for the operations in `Index`, `index.tools` and tests.

    identity       the index's id, shared with its copies
    tree, ids      this process's views of all entries and ids
    equal_reasons, longer  as in `Index.open`
    named_hosts    hosts that the file names for stories, by digest; None: the index counts no stories
    bases          base sets below it

    >>> opened.read(lambda session: session.counters.journal_rows), opened.write(lambda session: session.words)
    (0, 1)
    """

    directory: Path
    identity: str
    store: Store
    tree: Tree
    ids: IdTable
    parameters: Parameters
    retention: Retention
    guard: Guard
    recrawl: Recrawl
    equal_reasons: Mapping[int, int]
    longer: Longer | None
    named_hosts: set[int] | None
    bases: tuple[Base, ...] = ()

    def __post_init__(self) -> None:
        if self.named_hosts is not None and self.parameters.insert != "root":
            raise ValueError(f'stories need insert = "root", and the index has "{self.parameters.insert}"')

    def read(self, operation: Callable[[ReadSession], Result]) -> Result:
        """Run `operation` on a snapshot. Raises IndexDamagedError.

        Pages that writers free meanwhile are not reused: the file grows by about 1 KB per admitted document.
        """
        return self.store.read(
            lambda transaction: self._above_bases(lambda bases: operation(ReadSession(transaction, self, bases)))
        )

    def write(self, operation: Callable[[WriteSession], Result]) -> Result:
        """Run `operation` in one synced write transaction, possibly twice. Raises IndexFullError, IndexDamagedError."""

        def within(transaction: Transaction, bases: tuple[BelowSession, ...]) -> Result:
            session = WriteSession(transaction, self, bases)
            result = operation(session)
            session.end()
            return result

        return self.store.write(
            lambda transaction: self._above_bases(lambda bases: within(transaction, bases)), self.committed
        )

    def _above_bases(
        self, operation: Callable[[tuple[BelowSession, ...]], Result], bases: tuple[BelowSession, ...] = ()
    ) -> Result:
        """Run `operation` with a snapshot of every base."""
        if len(bases) == len(self.bases):
            return operation(bases)
        base = self.bases[len(bases)]
        return base.opened.read(lambda session: self._above_bases(operation, (*bases, BelowSession(base, session))))

    def committed(self) -> None:
        """Keep what a committed transaction added to the views."""
        self.tree.committed()
        self.ids.committed()
