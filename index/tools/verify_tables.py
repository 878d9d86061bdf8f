"""The tables' expected and actual entries, in one comparable form, streamed in batches.

The log, `retired` and the compaction state determine the expected entries, as in `layout`.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.entry import Kind
from index.lsm import compaction
from index.lsm.levels import are_below
from index.lsm.shape import Shape, shape_of
from index.matching.minhash import mixed
from index.session import ReadSession
from index.storage import log, scan
from index.storage.codec import Tombstones, unpack_tombstones
from index.storage.layout import TOMBSTONE_KEY, Filing, Table
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, Level
from index.storage.segments.hash_codec import NO_ENTRIES, unpack_hash_segment

PARTS = 2**16
"""Parts per table: by an entry's first 16 hash bits in the segments, else by its number's low bits."""

ENTRIES_MAX = 2**22
"""Maximum entries held in memory for a comparison entry by entry."""

_DOCUMENTS_AT_ONCE = 2**15

Numbers = npt.NDArray[np.uint64]
Note = Callable[[Iterable[str]], None]
"""Takes problems, in words."""


@dataclass(frozen=True, slots=True)
class TableEntries:
    """Some entries in one table.

    table       table in the segments; the next number means `exact`
    parts       int64 [n], 0 to PARTS - 1
    identities  uint64 [n, w], different for any two entries in the table
    numbers     uint64 [n]

    >>> entries = TableEntries(0, np.arange(2), np.array([[5], [7]], np.uint64), np.array([0, 1], np.uint64))
    >>> entries.take(entries.numbers == 1).identities
    array([[7]], dtype=uint64)
    """

    table: int
    parts: npt.NDArray[np.int64]
    identities: Numbers
    numbers: Numbers

    def hashes(self) -> Numbers:
        """Every identity's hash, uint64 [n]."""
        return hashes_of(self.identities)

    def take(self, places: npt.NDArray[np.bool_]) -> "TableEntries":
        """Only a mask's entries, bool [n]."""
        return TableEntries(self.table, self.parts[places], self.identities[places], self.numbers[places])


def hashes_of(identities: Numbers) -> Numbers:
    """Hashes, uint64 [n, w] -> uint64 [n]: SplitMix64, word by word."""
    hashes = np.zeros(len(identities), np.uint64)
    for word in identities.T:
        hashes = mixed((hashes ^ word) + np.uint64(0x9E3779B97F4A7C15))
    return hashes


class Tally:
    """Hashes added minus hashes taken off, summed by table and part.

    >>> tally, places = Tally(1), np.arange(2)
    >>> entries = TableEntries(0, places, places.astype(np.uint64)[:, None], places.astype(np.uint64))
    >>> tally.add(entries)
    >>> tally.take_off(entries.take(places == 0))
    >>> tally.differing().tolist()
    [[0, 1]]
    """

    def __init__(self, tables: int) -> None:
        self.shape = tables, PARTS
        self._sums = np.zeros(self.shape, np.uint64)

    def add(self, entries: TableEntries) -> None:
        """Add the entries' hashes."""
        np.add.at(self._sums[entries.table], entries.parts, entries.hashes())

    def take_off(self, entries: TableEntries) -> None:
        """Subtract the entries' hashes."""
        np.subtract.at(self._sums[entries.table], entries.parts, entries.hashes())

    def differing(self) -> npt.NDArray[np.int64]:
        """Tables and parts, int64 [n, 2], whose sums are not 0."""
        return np.argwhere(self._sums)


def differences(
    tally: Tally, differing: npt.NDArray[np.int64], wanted: Iterable[TableEntries], actual: Iterable[TableEntries]
) -> Iterator[tuple[int, TableEntries, TableEntries]]:
    """Compare some table parts entry by entry; differing: int64 [n, 2], table and part.

    Yields each table, its missing entries, and those that do not belong there or are there twice.
    """
    chosen = np.zeros(tally.shape, np.bool_)
    chosen[tuple(differing.T)] = True
    by_table = [_gathered(portions, chosen) for portions in (wanted, actual)]
    for table in sorted({*by_table[0], *by_table[1]}):
        ours, theirs = (_joined(table, entries.get(table, [])) for entries in by_table)
        hashes, hashes_of_actual = ours.hashes(), theirs.hashes()
        repeated = np.ones(len(hashes_of_actual), np.bool_)
        repeated[np.unique(hashes_of_actual, return_index=True)[1]] = False
        wrong = ~np.isin(hashes_of_actual, hashes) | repeated
        yield table, ours.take(~np.isin(hashes, hashes_of_actual)), theirs.take(wrong)


def _joined(table: int, portions: Sequence[TableEntries]) -> TableEntries:
    if not portions:
        return TableEntries(table, np.empty(0, np.int64), np.empty((0, 1), np.uint64), np.empty(0, np.uint64))
    columns = ((each.parts, each.identities, each.numbers) for each in portions)
    return TableEntries(table, *map(np.concatenate, zip(*columns, strict=True)))


def _gathered(portions: Iterable[TableEntries], chosen: npt.NDArray[np.bool_]) -> dict[int, list[TableEntries]]:
    """Entries in the chosen parts, bool [tables, PARTS], by table."""
    by_table: dict[int, list[TableEntries]] = {}
    count = 0
    for entries in portions:
        inside = chosen[entries.table, entries.parts]
        if inside.any() and count < ENTRIES_MAX:
            by_table.setdefault(entries.table, []).append(entries.take(inside))
            count += int(np.count_nonzero(inside))
    return by_table


def nothing_noted(_: Iterable[str]) -> None:
    """A `note` for problems that are already noted."""


class Documents:
    """Documents in the log at places 0, 1, .. by number, without gaps.

    >>> from types import SimpleNamespace
    >>> batches = [SimpleNamespace(first_number=first, fingerprints=range(2)) for first in (10, 15)]
    >>> Documents(batches).places(np.array([11, 12, 15], np.uint64))
    (array([1, 0, 2]), array([ True, False,  True]))
    """

    def __init__(self, batches: Iterable[log.Batch]) -> None:
        columns = [(batch.first_number, len(batch.fingerprints)) for batch in batches if len(batch.fingerprints)]
        self._firsts = np.array([first for first, _ in columns], np.uint64)
        counts = np.array([count for _, count in columns], np.int64)
        self._ends = self._firsts + counts.astype(np.uint64)
        self._begins = np.cumsum(counts) - counts
        self.count = int(counts.sum())

    def places(self, numbers: Numbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Each number's place, uint64 [n] -> int64 [n], and whether the log holds it, bool [n]; else place 0."""
        if not self.count:
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
        batches = np.searchsorted(self._firsts, numbers, side="right") - 1
        there = (batches >= 0) & (numbers < self._ends[batches])
        behind = numbers[there] - self._firsts[batches[there]]
        places = np.zeros(len(numbers), np.int64)
        places[there] = self._begins[batches[there]] + behind.astype(np.int64)
        return places, there


def _removed_by(tombstones: list[Tombstones], words: int) -> Tombstones:
    """The removed entries of tombstones that wait for compaction."""
    nothing = Tombstones(np.empty(0, np.uint64), np.empty((0, words), np.uint64), np.empty(0, np.uint8))
    return Tombstones(*(np.concatenate(column) for column in zip(nothing, *tombstones, strict=True)))


class Expected:
    """The tables' expected entries at one moment.

    >>> opened.read(lambda session: Expected(session, Documents([]), print).holds(np.array([7], np.uint64)))
    array([ True])
    """

    def __init__(self, session: ReadSession, documents: Documents, note: Note) -> None:
        """note: takes unreadable tombstones."""
        self.shape = shape_of(session.parameters)
        self.exact = self.shape.tables
        self.compaction: CompactionState = compaction.state(session.transaction, self.shape)
        self._transaction = session.transaction
        self._documents = documents
        self._visibility = session.visibility
        frozen: list[Tombstones] = []
        active: list[Tombstones] = []
        self.tombstones: list[int] = []
        """The tombstones' numbers, ascending."""
        for key, value in session.transaction.walk(Table.TOMBSTONES):
            try:
                number, tombstone = TOMBSTONE_KEY.unpack(key)[0], unpack_tombstones(value, session.words)
            except (ValueError, struct.error) as problem:
                note([f"the tombstone {key.hex()} cannot be read: {problem}"])
                continue
            self.tombstones.append(number)
            (frozen if number < self.compaction.frozen_tombstones else active).append(tombstone)
        self._frozen, self._active = (_removed_by(some, session.words) for some in (frozen, active))
        self.nowhere: list[int] = []
        """NEAR documents, by number, that count and have no keys."""

    def entries(self, batches: Iterable[log.Batch]) -> Iterator[TableEntries]:
        """All expected entries."""
        self.nowhere.clear()
        yield from self._removed()
        yield from self._leaving()
        parts: list[tuple[Numbers, Numbers, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]] = []
        count = 0
        for batch in batches:
            rows = batch.rows[batch.entered()]
            parts.append((batch.numbers(), batch.fingerprints.astype(np.uint64), rows["kind"], rows["filing"]))
            count += len(rows)
            if count >= _DOCUMENTS_AT_ONCE:
                yield from self._entered(*map(np.concatenate, zip(*parts, strict=True)))
                parts, count = [], 0
        if parts:
            yield from self._entered(*map(np.concatenate, zip(*parts, strict=True)))

    def _entered(
        self, numbers: Numbers, fingerprints: Numbers, kinds: npt.NDArray[np.uint8], filings: npt.NDArray[np.uint8]
    ) -> Iterator[TableEntries]:
        stays = ~self._visibility.are_retired(numbers)
        exact = stays & (kinds == Kind.EXACT)
        yield exact_entries(self.exact, fingerprints[exact], numbers[exact])
        near = stays & (kinds == Kind.NEAR)
        filed = near & (filings == Filing.BLOCKS) & (numbers < np.uint64(self.compaction.frozen_to))
        self.nowhere += numbers[near & (filings == Filing.ASIDE)].tolist()
        moved = numbers[filed] >= np.uint64(self.compaction.merged_to)
        yield from self._in_tables(fingerprints[filed], numbers[filed], moved=moved)

    def holds(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Which entries count, uint64 [n] -> bool [n]: not those of expired documents that have left the log.

        A batch may leave the log while compaction moves its entries. Another process that continues it does not
        see them, so only some tables have them. They are retired, and a later memtable removes them.
        """
        return self._documents.places(numbers)[1] | (numbers >= np.uint64(self._visibility.expired_below))

    def _removed(self) -> Iterator[TableEntries]:
        """Removed entries that segments hold until compaction reaches their tombstones."""
        for removed in (self._frozen, self._active):
            numbers, fingerprints, _ = removed
            here = (numbers < np.uint64(self.compaction.frozen_to)) & self.holds(numbers)
            moving = (numbers >= np.uint64(self.compaction.merged_to)) & here
            if removed is self._frozen:
                here &= ~moving
                yield from self._in_tables(fingerprints[here], numbers[here], left=True)
            else:
                yield from self._in_tables(fingerprints[here], numbers[here], moved=moving[here])

    def _leaving(self) -> Iterator[TableEntries]:
        """Removed entries that the last level holds until its rewriting."""
        for key, value in self._transaction.walk(self.shape.table):
            if not is_segment(self.shape, key) or key[1] != Level.REMOVED:
                continue
            with suppress(ValueError, struct.error):
                entries = unpack_hash_segment(value)
                yield entries_in_segments(key[0], entries[:, self.holds(entries[1])])

    def _in_tables(
        self, fingerprints: Numbers, numbers: Numbers, *, moved: npt.NDArray[np.bool_] | None = None, left: bool = False
    ) -> Iterator[TableEntries]:
        """Entries in all segment tables.

        moved  bool [n], entries expected only before the cursor; None: no such entry
        left   all entries are expected only from the cursor on
        """
        if not len(numbers):
            return
        hashes = self.shape.hashes(fingerprints)
        for table in range(self.shape.tables):
            entries = entries_in_segments(table, np.stack([hashes[:, table], numbers]))
            before = self._before_cursor(entries)
            if left:
                yield entries.take(~before)
            else:
                yield entries if moved is None else entries.take(before | ~moved)

    def _before_cursor(self, entries: TableEntries) -> npt.NDArray[np.bool_]:
        """Which entries are in the part of their table that the compaction has passed."""
        if entries.table != self.compaction.table or not self.compaction.is_moving:
            return np.full(len(entries.parts), self.compaction.is_moving and entries.table < self.compaction.table)
        return are_below(entries.identities.T, self.compaction.bound)


def entries_in_segments(table: int, entries: Numbers) -> TableEntries:
    """Entries in a segment table, uint64 [2, n]: hashes and numbers."""
    return TableEntries(table, (entries[0] >> np.uint64(48)).astype(np.int64), entries.T, entries[1])


def exact_entries(table: int, fingerprints: Numbers, numbers: Numbers) -> TableEntries:
    """Entries filed by their whole fingerprint."""
    parts = (numbers & np.uint64(PARTS - 1)).astype(np.int64)
    return TableEntries(table, parts, np.column_stack([fingerprints, numbers]), numbers)


def actual_exact(session: ReadSession, place: int, note: Note) -> Iterator[TableEntries]:
    """Actual entries of `exact`, which is table number `place`; `note` takes malformed keys."""
    count = 0
    for fingerprints, numbers in scan.exact(session.transaction, session.words):
        count += len(numbers)
        yield exact_entries(place, fingerprints, numbers)
    others = session.transaction.count(Table.EXACT) - count
    note([f"{others} keys of `exact` are none"] if others else [])


def actual_in_segments(
    session: ReadSession, shape: Shape, note: Note, in_levels: Counter[int]
) -> Iterator[TableEntries]:
    """Actual entries of the segments; `note` takes malformed segments, `in_levels` the entry count per level."""
    last, last_entry = b"", NO_ENTRIES
    for key, value in session.transaction.walk(shape.table):
        where = f"the segment {key.hex()}"
        if not is_segment(shape, key):
            note([f"{where} is of no table"])
            continue
        try:
            entries = unpack_hash_segment(value)
        except (ValueError, struct.error) as problem:
            note([f"{where} cannot be read: {problem}"])
            continue
        if not _ascend(entries):
            note([f"{where} is not in order"])
        prefix, bound = key[:2], key[2:]
        if are_below(entries[:, :1], bound)[0] or (last == prefix and not are_below(last_entry, bound)[0]):
            note([f"{where} begins before its bound, or in the one before it"])
        last, last_entry = prefix, entries[:, -1:]
        in_levels[prefix[1]] += entries.shape[1]
        if prefix[1] != Level.REMOVED:
            yield entries_in_segments(prefix[0], entries)


def is_segment(shape: Shape, key: bytes) -> bool:
    """Whether a segment table may have this key."""
    return len(key) == HASH_KEY.size and key[0] < shape.tables and key[1] in set(Level)


def _ascend(entries: Numbers) -> bool:
    (hashes, numbers), (next_hashes, next_numbers) = entries[:, :-1], entries[:, 1:]
    return bool(((hashes < next_hashes) | ((hashes == next_hashes) & (numbers < next_numbers))).all())
