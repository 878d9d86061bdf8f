"""Equal fingerprints by compiled loops, and sorting of many entries by numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled


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
def first_equals(fingerprints: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """First equal row for every row: uint64 [n, words] -> int64 [n].

    slots  int32 [s], all -1, changed; s is a power of two and above n
    """
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
