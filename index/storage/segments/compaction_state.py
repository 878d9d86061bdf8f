"""Compaction state, and the keys of segments, as in `layout`."""

import struct
from enum import IntEnum
from typing import NamedTuple

_COMPACTION = struct.Struct("<QQQQQQQQBB")
HASH_KEY = struct.Struct(">BBQQ")
"""A segment's key: table, level, and the bound: hash, number."""

BOUND_BYTES = HASH_KEY.size - 2
"""Bytes in a bound."""


class Level(IntEnum):
    """A hash table's levels.

    >>> HASH_KEY.pack(3, Level.LAST, 0, 0)[:2]
    b'\\x03\\x01'
    """

    FIRST = 0
    """Receives entries from memory."""
    LAST = 1
    """Receives the first level's excess."""
    REMOVED = 2
    """Removed entries, which leave the last level as others enter it."""


class CompactionState(NamedTuple):
    """How far entries have moved from the log into segments.

    merged_to, merged_rows  log key below which segments hold all batches: number and rows
    frozen_to, frozen_rows  the same for the frozen memtable's end
    version                 increases with every change to the segments
    table, bound            cursor; undefined, and empty, if nothing is frozen
    first_entries           entries in the first level, in all hash tables
    last_entries            the same for the last level
    settled_to              key at which the next entries leave the first level

    >>> state = unpack_compaction(None)
    >>> state.is_moving, state._replace(bound=bytes(BOUND_BYTES)).is_moving
    (False, True)
    """

    merged_to: int
    frozen_to: int
    frozen_tombstones: int
    version: int
    table: int
    bound: bytes
    first_entries: int = 0
    last_entries: int = 0
    settled_to: bytes = b""
    merged_rows: int = 0
    frozen_rows: int = 0

    @property
    def is_moving(self) -> bool:
        """Whether a frozen memtable is moving into segments."""
        return bool(self.bound)


def pack_compaction(state: CompactionState) -> bytes:
    """The value of `merge` or `ids` in `meta`."""
    rows, counts = (state.merged_rows, state.frozen_rows), (state.first_entries, state.last_entries)
    return _COMPACTION.pack(*state[:4], *rows, *counts, state.table, len(state.bound)) + state.bound + state.settled_to


def unpack_compaction(value: bytes | None) -> CompactionState:
    """Undo `pack_compaction`; all zero without a value."""
    if value is None:
        return CompactionState(0, 0, 0, 0, 0, b"")
    merged_to, frozen_to, tombstones, version, *rows, first, last, table, size = _COMPACTION.unpack_from(value)
    end = _COMPACTION.size + size
    bound, settled_to = value[_COMPACTION.size : end], value[end:]
    return CompactionState(merged_to, frozen_to, tombstones, version, table, bound, first, last, settled_to, *rows)
