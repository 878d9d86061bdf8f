"""Levels of the segments of MinHash: what leaves memory enters the first, and moves on into the last, range by range.

The first level is small beside the last, and large beside a memtable. So a memtable writes little anew, and what is written a
document grows with the square root of the index alone. Levels overlap in nothing: an entry stands in one of them, and moves
within one transaction. So a crash loses nothing, and look-ups need not know how far anything has moved.

A removed entry leaves the first level at once. Where it is not there, it is noted, and leaves the last level when the range is
written anew. Until then look-ups find it, and it does not count: it is retired, or its batch has left the log.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import bands
from index.storage.layout import Table
from index.storage.segments.band_codec import NO_ENTRIES, BandKey, Entries, pack_band_segment, unpack_band_segment
from index.storage.segments.compaction_state import BAND_KEY, CompactionState, Level
from index.storage.store import Transaction

FIRST_SHARE = 2
"""A segment of the first level has this many times fewer entries: one meets few segments of the last level.

Not many times fewer: of the one in which a range ends, what is left over is written once more.
"""

SETTLED_SHARE = 2
"""Where the first level has too many entries, this many times as many leave it as come, until it has not."""

FIRST_MEMTABLES = 2
"""The first level holds this many memtables at least."""


_NO_WORDS = np.frombuffer(b"", np.uint64)


class Written(NamedTuple):
    """What `merge_in` did.

    more    how many entries more the level has
    absent  entries to remove that were not there
    """

    more: int
    absent: Entries


def first_entries_max(tables: int, memtable_entries: int, entries: int) -> int:
    """How many entries the first level holds at most, in all tables; `entries`: those of both levels.

    With N documents, M in a memtable and F in the first level, every document is written F / M times there, and N / 2F times
    in the last level: least where F is the root of N M / 2.
    """
    documents = entries // tables
    return tables * max(FIRST_MEMTABLES * memtable_entries, int((documents * memtable_entries / 2) ** 0.5))


def first_capacity(capacity: int) -> int:
    """Number of entries of a segment of the first level, where those of the last have `capacity`."""
    return max(1, capacity // FIRST_SHARE)


def bound_above(transaction: Transaction, band: int, level: Level, bound: bytes) -> bytes | None:
    """The bound of the first segment of a level behind a bound; None: there is none."""
    prefix = bytes([band, level])
    above = transaction.key_above(Table.SEGMENTS, prefix + bound)
    return above[2:] if above is not None and above[:2] == prefix else None


def move_in(
    transaction: Transaction, now: CompactionState, added: Entries, removed: Entries, capacity: int
) -> CompactionState:
    """Move entries of the table at the cursor out of memory, uint64 [2, n] each; returns the state with its new counts."""
    written = merge_in(transaction, now.table, Level.FIRST, added, removed, first_capacity(capacity))
    merge_in(transaction, now.table, Level.REMOVED, written.absent, NO_ENTRIES, first_capacity(capacity))
    return now._replace(first_entries=now.first_entries + written.more)


def merge_in(
    transaction: Transaction, band: int, level: Level, added: Entries, removed: Entries, capacity: int
) -> Written:
    """Write entries into the segments of a level that they belong to, and others out of them."""
    added, removed = np.ascontiguousarray(added), np.ascontiguousarray(removed)
    more, absent, of_added, of_removed = 0, [NO_ENTRIES], 0, 0
    while of_added < added.shape[1] or of_removed < removed.shape[1]:
        places = ((added, of_added), (removed, of_removed))
        first = min(tuple(each[:, place].tolist()) for each, place in places if place < each.shape[1])
        key, words = BandKey(band, level), _NO_WORDS
        below = transaction.floor(Table.SEGMENTS, BandKey(band, level, *first).packed(), anew=True)
        if below is not None and below[0][:2] == key.packed()[:2]:
            key, words = BandKey(*BAND_KEY.unpack(below[0])), _words_of(below[1])
        bound = bound_above(transaction, band, level, key.packed()[2:])
        found, left, of_added, of_removed, before = bands.merged_bands(
            words, added, removed, of_added, of_removed, _words_of_bound(bound)
        )
        if before < 0:
            raise ValueError("its head does not fit")
        absent.append(left)
        more += found.shape[1] - before
        _put(transaction, key, before > 0, found, capacity)
    return Written(more, np.hstack(absent))


def settle(
    transaction: Transaction, now: CompactionState, tables: int, first_max: int, capacity: int, entries_max: int
) -> CompactionState:
    """Move entries from the first level into the last until the first has at most `first_max`; returns the new state.

    Stops with the slice that brings the `entries_max`-th entry.
    """
    least = max(first_max, now.first_entries - entries_max)
    while now.first_entries > least:
        now = _slice(transaction, now, tables, capacity)
    return now


def _slice(transaction: Transaction, now: CompactionState, tables: int, capacity: int) -> CompactionState:
    """Move entries of the first level from the cursor on, with what is removed in their range.

    A segment of them, or more, up to where a segment of the last level begins. So that level has each of its segments written
    anew once a turn, and the first level only what is left over of its own.
    """
    cursor = now.settled_to or BandKey(0, Level.FIRST).packed()
    band, prefix, begin = cursor[0], cursor[:2], cursor[2:]
    key: bytes | None = cursor
    if transaction.view(Table.SEGMENTS, cursor) is None:
        above = bound_above(transaction, band, Level.FIRST, begin)
        key = None if above is None else prefix + above
    gathered, count, end = [NO_ENTRIES], 0, None
    while key is not None:
        value = transaction.view(Table.SEGMENTS, key, anew=True)
        assert value is not None
        entries, end = unpack_band_segment(value), bound_above(transaction, band, Level.FIRST, key[2:])
        edge = None if end is None else _last_bound(transaction, band, key[2:], end)
        transaction.delete(Table.SEGMENTS, key)
        if edge is not None:
            entries, left = divided(entries, edge)
            if left.shape[1]:
                own = BandKey(band, Level.FIRST, *map(int, _words_of_bound(edge)))
                transaction.put(Table.SEGMENTS, own.packed(), pack_band_segment(own, left))
            end = edge
        gathered.append(entries)
        count += entries.shape[1]
        key = None if end is None or edge is not None or count >= capacity else prefix + end
    removed = _taken(transaction, band, begin, end)
    written = merge_in(transaction, band, Level.LAST, np.hstack(gathered), removed, capacity)
    following = BandKey((band + 1) % tables, Level.FIRST).packed() if end is None else prefix + end
    return now._replace(
        version=now.version + 1,
        first_entries=now.first_entries - count,
        last_entries=now.last_entries + written.more,
        settled_to=following,
    )


def _last_bound(transaction: Transaction, band: int, begin: bytes, end: bytes) -> bytes | None:
    """The last bound of a segment of the last level that is above one bound and not above another; None: there is none."""
    below = transaction.floor(Table.SEGMENTS, BandKey(band, Level.LAST).packed()[:2] + end)
    if below is None or below[0][:2] != bytes([band, Level.LAST]) or below[0][2:] <= begin:
        return None
    return below[0][2:]


def _taken(transaction: Transaction, band: int, begin: bytes, end: bytes | None) -> Entries:
    """Take the removed entries of a band from one bound to below another (None: the end) out of their level."""
    first = BandKey(band, Level.REMOVED).packed()
    below = transaction.floor(Table.SEGMENTS, first[:2] + begin)
    if below is not None and below[0][:2] == first[:2]:
        first = below[0]
    last = first[:2] + (b"\xff" * len(begin) if end is None else end)
    found = [NO_ENTRIES]
    for key in transaction.keys(Table.SEGMENTS, first, last):
        value = transaction.view(Table.SEGMENTS, key, anew=True)
        assert value is not None
        before, rest = divided(unpack_band_segment(value), begin)
        inside, behind = divided(rest, end)
        if not inside.shape[1]:
            continue
        found.append(inside)
        transaction.delete(Table.SEGMENTS, key)
        for left in (before, behind):
            merge_in(transaction, band, Level.REMOVED, left, NO_ENTRIES, max(1, left.shape[1]))
    return np.hstack(found)


def divided(entries: Entries, bound: bytes | None) -> tuple[Entries, Entries]:
    """Entries below a bound, and the others; None: all are below."""
    if bound is None or not entries.shape[1]:
        return entries, entries[:, :0]
    hashed, number = _words_of_bound(bound)
    low, high = np.searchsorted(entries[0], hashed), np.searchsorted(entries[0], hashed, side="right")
    place = low + np.searchsorted(entries[1, low:high], number)
    return entries[:, :place], entries[:, place:]


def _words_of(value: memoryview) -> npt.NDArray[np.uint64]:
    """Words of a segment, uint64 [w], as a view where they stand."""
    return np.frombuffer(value, "<u8", len(value) // 8).astype(np.uint64, copy=False)


def _words_of_bound(bound: bytes | None) -> npt.NDArray[np.uint64]:
    """Hash and number of a bound, uint64 [2]; uint64 [0]: there is none."""
    return np.frombuffer(bound or b"", ">u8").astype(np.uint64)


def _put(transaction: Transaction, key: BandKey, exists: bool, entries: Entries, capacity: int) -> None:
    """Write a segment anew, in as many as it takes."""
    count = entries.shape[1]
    parts = -(-count // capacity)
    if not parts and exists:
        transaction.delete(Table.SEGMENTS, key.packed())
    for begin, end in pairwise([count * part // max(1, parts) for part in range(parts + 1)]):
        own = key if begin == 0 else BandKey(key.band, key.level, *entries[:, begin].tolist())
        transaction.put(Table.SEGMENTS, own.packed(), pack_band_segment(own, entries[:, begin:end]))
