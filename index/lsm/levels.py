"""Levels of hash segments: entries leave memory into the first level, and later the last, range by range.

The first level is small compared to the last, and large compared to a memtable. So a memtable rewrites little, and the
bytes written per document grow with the index's square root. An entry is in one level, and changes levels within one
transaction: a crash loses nothing, and lookups need no progress.

A removed entry leaves the first level at once. A missing one is noted, and leaves the last level when its range is
rewritten. Until then lookups match it, but it does not count: it is retired, or its batch has left the log.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.kernels import hash_segments
from index.storage.layout import Table
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, Level
from index.storage.segments.hash_codec import NO_ENTRIES, Entries, HashKey, pack_hash_segment, unpack_hash_segment
from index.storage.store import Transaction

FIRST_SHARE = 2
"""A first-level segment has this many times fewer entries, so it meets few segments in the last level.

Not many times fewer: the rest after a range's end is written once more.
"""

SETTLED_SHARE = 2
"""Entries that leave an overfull first level, relative to those that come."""

FIRST_MEMTABLES = 2
"""Minimum first-level size, in memtables."""

_NO_WORDS = np.frombuffer(b"", np.uint64)


def first_entries_max(tables: int, memtable_entries: int, entries: int) -> int:
    """Maximum entries in the first level, in all tables; `entries`: those in both levels.

    With N documents, M in a memtable and F in the first level, every document is written F / M times there, and N / 2F
    times in the last level. Their sum is least if F^2 = N M / 2.

    >>> first_entries_max(1, 100, 20_000)
    1000
    """
    documents = entries // tables
    return tables * max(FIRST_MEMTABLES * memtable_entries, int((documents * memtable_entries / 2) ** 0.5))


def first_capacity(capacity: int) -> int:
    """Entries in a first-level segment, if those in the last level have `capacity`."""
    return max(1, capacity // FIRST_SHARE)


class Levels:
    """Hash segments in a table of the file, within one writing transaction.

    >>> entries = np.array([[5 << 24, 9 << 24], [1, 2]], np.uint64)
    >>> opened.store.write(lambda now: Levels(now, Table.SEGMENTS, 10).merge_in(0, Level.FIRST, entries, NO_ENTRIES, 10)[0])
    2
    """

    def __init__(self, transaction: Transaction, table: Table, capacity: int, first_number: int = 0) -> None:
        """capacity: entries in a last-level segment; first_number: rewriting drops lower numbers."""
        self._transaction, self._table = transaction, table
        self._capacity, self._first_number = capacity, first_number

    def bound_above(self, band: int, level: Level, bound: bytes) -> bytes | None:
        """A level's next bound above this one, or None."""
        prefix = bytes([band, level])
        above = self._transaction.key_above(self._table, prefix + bound)
        return above[2:] if above is not None and above[:2] == prefix else None

    def move_in(self, now: CompactionState, added: Entries, removed: Entries) -> CompactionState:
        """Move entries of the cursor's table out of memory, uint64 [2, n] each; returns the state with new counts."""
        capacity = first_capacity(self._capacity)
        more, absent = self.merge_in(now.table, Level.FIRST, added, removed, capacity)
        self.merge_in(now.table, Level.REMOVED, absent, NO_ENTRIES, capacity)
        return now._replace(first_entries=now.first_entries + more)

    def merge_in(self, band: int, level: Level, added: Entries, removed: Entries, capacity: int) -> tuple[int, Entries]:
        """Add entries to a level's segments, and remove others: how many more it has, and the absent ones to remove."""
        added, removed = np.ascontiguousarray(added), np.ascontiguousarray(removed)
        more, absent, next_added, next_removed = 0, [NO_ENTRIES], 0, 0
        while next_added < added.shape[1] or next_removed < removed.shape[1]:
            places = ((added, next_added), (removed, next_removed))
            first = min(tuple(each[:, place].tolist()) for each, place in places if place < each.shape[1])
            key, words = HashKey(band, level), _NO_WORDS
            below = self._transaction.floor(self._table, HashKey(band, level, *first).packed(), recheck=True)
            if below is not None and below[0][:2] == key.packed()[:2]:
                key, words = HashKey(*HASH_KEY.unpack(below[0])), _words_of(below[1])
            bound = _words_of_bound(self.bound_above(band, level, key.packed()[2:]))
            merged, left, next_added, next_removed, before = hash_segments.merged_entries(
                words, added, removed, next_added, next_removed, bound, self._first_number
            )
            if before < 0:
                raise ValueError("its head does not fit")
            absent.append(left)
            more += merged.shape[1] - before
            self._put(key, before > 0, merged, capacity)
        return more, np.hstack(absent)

    def settle(self, now: CompactionState, tables: int, first_max: int, entries_max: int) -> CompactionState:
        """Move entries from the first level into the last until the first has at most `first_max`; returns the new state.

        Stops with the slice that brings the `entries_max`-th entry.
        """
        least = max(first_max, now.first_entries - entries_max)
        while now.first_entries > least:
            now = self._slice(now, tables)
        return now

    def _slice(self, now: CompactionState, tables: int) -> CompactionState:
        """Move first-level entries from the cursor on, with the removed entries in their range.

        It moves at least one segment, up to a last-level bound. So a turn rewrites each last-level segment once, and in
        the first level only the rests of its own segments.
        """
        cursor = now.settled_to or HashKey(0, Level.FIRST).packed()
        band, prefix, begin = cursor[0], cursor[:2], cursor[2:]
        key: bytes | None = cursor
        if self._transaction.view(self._table, cursor) is None:
            above = self.bound_above(band, Level.FIRST, begin)
            key = None if above is None else prefix + above
        gathered, count, end = [NO_ENTRIES], 0, None
        while key is not None:
            entries, end = self._entries(key), self.bound_above(band, Level.FIRST, key[2:])
            edge = None if end is None else self._last_bound(band, key[2:], end)
            self._transaction.delete(self._table, key)
            if edge is not None:
                entries, left = divided(entries, edge)
                if left.shape[1]:
                    own = HashKey(band, Level.FIRST, *map(int, _words_of_bound(edge)))
                    self._transaction.put(self._table, own.packed(), pack_hash_segment(own, left))
                end = edge
            gathered.append(entries)
            count += entries.shape[1]
            key = None if end is None or edge is not None or count >= self._capacity else prefix + end
        removed = self._taken(band, begin, end)
        more, _ = self.merge_in(band, Level.LAST, np.hstack(gathered), removed, self._capacity)
        following = HashKey((band + 1) % tables, Level.FIRST).packed() if end is None else prefix + end
        return now._replace(
            version=now.version + 1,
            first_entries=now.first_entries - count,
            last_entries=now.last_entries + more,
            settled_to=following,
        )

    def _entries(self, key: bytes) -> Entries:
        value = self._transaction.view(self._table, key, recheck=True)
        assert value is not None
        return unpack_hash_segment(value)

    def _last_bound(self, band: int, begin: bytes, end: bytes) -> bytes | None:
        """Last bound in the last level above `begin` and not above `end`, or None."""
        below = self._transaction.floor(self._table, HashKey(band, Level.LAST).packed()[:2] + end)
        if below is None or below[0][:2] != bytes([band, Level.LAST]) or below[0][2:] <= begin:
            return None
        return below[0][2:]

    def _taken(self, band: int, begin: bytes, end: bytes | None) -> Entries:
        """Remove and return a band's noted removals in [begin, end) (None: the end)."""
        first = HashKey(band, Level.REMOVED).packed()
        below = self._transaction.floor(self._table, first[:2] + begin)
        if below is not None and below[0][:2] == first[:2]:
            first = below[0]
        last = first[:2] + (b"\xff" * len(begin) if end is None else end)
        taken = [NO_ENTRIES]
        for key in self._transaction.keys(self._table, first, last):
            before, rest = divided(self._entries(key), begin)
            inside, after = divided(rest, end)
            if not inside.shape[1]:
                continue
            taken.append(inside)
            self._transaction.delete(self._table, key)
            for left in (before, after):
                self.merge_in(band, Level.REMOVED, left, NO_ENTRIES, max(1, left.shape[1]))
        return np.hstack(taken)

    def _put(self, key: HashKey, exists: bool, entries: Entries, capacity: int) -> None:
        """Rewrite a segment, as several if it has more than `capacity` entries."""
        count = entries.shape[1]
        parts = -(-count // capacity)
        if not parts and exists:
            self._transaction.delete(self._table, key.packed())
        for begin, end in pairwise([count * part // max(1, parts) for part in range(parts + 1)]):
            own = key if begin == 0 else HashKey(key.band, key.level, *entries[:, begin].tolist())
            self._transaction.put(self._table, own.packed(), pack_hash_segment(own, entries[:, begin:end]))


def divided(entries: Entries, bound: bytes | None) -> tuple[Entries, Entries]:
    """Entries below a bound, and the others; None: all are below."""
    if bound is None or not entries.shape[1]:
        return entries, entries[:, :0]
    hashed, number = _words_of_bound(bound)
    low, high = np.searchsorted(entries[0], hashed), np.searchsorted(entries[0], hashed, side="right")
    place = low + np.searchsorted(entries[1, low:high], number)
    return entries[:, :place], entries[:, place:]


def are_below(entries: Entries, bound: bytes) -> npt.NDArray[np.bool_]:
    """Which entries, uint64 [2, n], sort before a bound: bool [n]."""
    hashed, number = _words_of_bound(bound)
    below: npt.NDArray[np.bool_] = (entries[0] < hashed) | ((entries[0] == hashed) & (entries[1] < number))
    return below


def _words_of(value: memoryview) -> npt.NDArray[np.uint64]:
    return np.frombuffer(value, "<u8", len(value) // 8).astype(np.uint64, copy=False)


def _words_of_bound(bound: bytes | None) -> npt.NDArray[np.uint64]:
    """A bound's hash and number, uint64 [2]; uint64 [0] if there is none."""
    return np.frombuffer(bound or b"", ">u8").astype(np.uint64)
