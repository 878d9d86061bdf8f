"""State of the compaction, and the keys of segments, as `layout` draws them."""

import struct
from enum import IntEnum
from typing import NamedTuple

_COMPACTION = struct.Struct("<QQQQQQBB")
BAND_KEY = struct.Struct(">BBQQ")
"""Key of a segment of MinHash: table, level, and the bound: hash, number."""


class Level(IntEnum):
    """Levels of a table of MinHash."""

    FIRST = 0
    """Takes what leaves memory."""
    LAST = 1
    """Takes what the first level has too much of."""
    REMOVED = 2
    """Removed entries, which leave the last level as others enter it."""


class CompactionState(NamedTuple):
    """How far entries have moved from the log into segments; the top of this module defines the fields.

    version        rises with every change of the segments
    table          undefined where nothing is frozen
    bound          empty where nothing is frozen
    first_entries  MinHash: entries of the first level, in all tables
    last_entries   MinHash: entries of the last level, in all tables
    settled_to     MinHash: where the next entries leave the first level
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

    @property
    def is_moving(self) -> bool:
        """Whether a frozen memtable is moving into segments."""
        return bool(self.bound)


def pack_compaction(state: CompactionState) -> bytes:
    """The value of `merge` in `meta`."""
    numbers = _COMPACTION.pack(*state[:4], state.first_entries, state.last_entries, state.table, len(state.bound))
    return numbers + state.bound + state.settled_to


def unpack_compaction(value: bytes | None) -> CompactionState:
    """The reverse of `pack_compaction`; all zero where there is no value."""
    if value is None:
        return CompactionState(0, 0, 0, 0, 0, b"")
    merged_to, frozen_to, tombstones, version, first, last, table, size = _COMPACTION.unpack_from(value)
    end = _COMPACTION.size + size
    bound, settled_to = value[_COMPACTION.size : end], value[end:]
    return CompactionState(merged_to, frozen_to, tombstones, version, table, bound, first, last, settled_to)


def segment_key(table: int, bound: bytes) -> bytes:
    """A key of `chunks`."""
    return bytes([table]) + bound
