"""Equal fingerprints by compiled loops, and sorting of many entries by numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.columns import grown
from index.kernels.jit import compiled, prefetch

AT_ONCE = 64
"""Slots loaded from memory together."""


@compiled
def _slot_of(fingerprints: npt.NDArray[np.uint64], row: int, slots: int) -> Any:
    """First slot to probe for a fingerprint; slots: their number, a power of two."""
    mixed = np.uint64(0)
    for word in range(fingerprints.shape[1]):
        mixed = (mixed ^ fingerprints[row, word]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(slots - 1))


@compiled
def _are_equal(left: npt.NDArray[np.uint64], row: int, right: npt.NDArray[np.uint64], place: int) -> bool:
    word = 0
    while word < left.shape[1] and left[row, word] == right[place, word]:
        word += 1
    return bool(word == left.shape[1])


@compiled
def _find_slots(
    fingerprints: npt.NDArray[np.uint64],
    first: int,
    count: int,
    slots: npt.NDArray[np.int32],
    here: npt.NDArray[np.int64],
) -> None:
    """Fill in `_slot_of` for `count` fingerprints from `first` on, and prefetch their slots."""
    base = np.uint64(slots.ctypes.data)
    for place in range(count):
        here[place] = _slot_of(fingerprints, first + place, len(slots))
        prefetch(base + np.uint64(4 * here[place]))


@compiled
def hash_entries(fingerprints: npt.NDArray[np.uint64], begin: int, end: int, slots: npt.NDArray[np.int32]) -> None:
    """Enter places begin <= p < end in fingerprints, uint64 [capacity, words], into a hash table; changes slots.

    slots  int32 [s], s a power of two and above `end`: a place, or -1 for an empty slot
    """
    here = np.empty(AT_ONCE, np.int64)
    for first in range(begin, end, AT_ONCE):
        count = min(AT_ONCE, end - first)
        _find_slots(fingerprints, first, count, slots, here)
        for place in range(count):
            slot = here[place]
            while slots[slot] >= 0:
                slot = (slot + 1) & (len(slots) - 1)
            slots[slot] = first + place


@compiled
def unhash_entries(fingerprints: npt.NDArray[np.uint64], begin: int, end: int, slots: npt.NDArray[np.int32]) -> None:
    """Revert `hash_entries` for the places entered last."""
    # Last in, first out: a sequence of probes never gets a gap.
    for place in range(end - 1, begin - 1, -1):
        slot = _slot_of(fingerprints, place, len(slots))
        while slots[slot] != place:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = -1


@compiled
def equal_places(
    asked: npt.NDArray[np.uint64], fingerprints: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and places, int64 [m] each, ascending by row: fingerprints in slots that equal rows uint64 [n, words]."""
    rows, places = np.empty(1024, np.int64), np.empty(1024, np.int64)
    count, here = 0, np.empty(AT_ONCE, np.int64)
    base, row_bytes = np.uint64(fingerprints.ctypes.data), 8 * fingerprints.shape[1]
    for row in range(asked.shape[0]):
        if row % AT_ONCE == 0:
            some = min(AT_ONCE, asked.shape[0] - row)
            _find_slots(asked, row, some, slots, here)
            for place in here[:some]:
                prefetch(base + np.uint64(row_bytes * max(0, slots[place])))
        slot = here[row % AT_ONCE]
        while slots[slot] >= 0:
            if _are_equal(asked, row, fingerprints, slots[slot]):
                if count == len(rows):
                    rows, places = grown(rows), grown(places)
                rows[count], places[count] = row, slots[slot]
                count += 1
            slot = (slot + 1) & (len(slots) - 1)
    return rows[:count], places[:count]


@compiled
def first_equals(fingerprints: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """First equal row for every row: uint64 [n, words] -> int64 [n]; slots: as in `hash_entries`, all -1, changed."""
    firsts = np.empty(len(fingerprints), np.int64)
    for row in range(len(fingerprints)):
        slot = _slot_of(fingerprints, row, len(slots))
        firsts[row] = row
        # Every slot on the way is in use, so equal rows meet before the first empty one.
        while slots[slot] >= 0:
            if _are_equal(fingerprints, row, fingerprints, slots[slot]):
                firsts[row] = slots[slot]
                break
            slot = (slot + 1) & (len(slots) - 1)
        if firsts[row] == row:
            slots[slot] = row
    return firsts


def by_top_bits(keys: npt.NDArray[np.uint64], bits: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Places of keys, uint64 [n], sorted stably by their top `bits` bits, at most 16: uint32 [n].

    Also returns each value's begin, int64 [2^bits + 1].

    >>> places, begins = by_top_bits(np.array([3 << 62, 1 << 62], np.uint64), 2)
    >>> places.tolist(), begins.tolist()
    ([1, 0], [0, 0, 1, 1, 2])
    """
    # Two shifts, because one shift by all 64 bits would not shift. numpy sorts 16 bits by digits.
    values = (keys >> np.uint64(1) >> np.uint64(63 - bits)).astype(np.uint16)
    begins = np.append(0, np.cumsum(np.bincount(values, minlength=1 << bits)))
    return np.argsort(values, kind="stable").astype(np.uint32), begins


def by_high_bits(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Keys uint64 [n] at places uint32 [m], ascending by their high bits, and the places; ties stay in order.

    In the result the low bits, as many as m has, are zero: they carry the order, so that words are sorted alone.
    """
    # 5 places take 3 bits: key 0b1011_0110 at place 1 sorts as 0b1011_0001.
    low = np.uint64((1 << len(places).bit_length()) - 1)
    words = keys[places] & ~low | np.arange(len(places), dtype=np.uint64)
    words.sort()
    return words & ~low, places[(words & low).astype(np.int64)]
