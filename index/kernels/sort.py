"""Compiled loops over millions of entries: search for equal fingerprints, and sorting. See `index.kernels`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, prefetch

AT_ONCE = 64
"""Slots loaded from memory together."""

DIGIT_BITS = 11
HIGH_BIT = 31
"""A key's bits from this bit on are three digits."""

OCTET_BITS = 8
"""Bits of a digit in a sort of few keys."""

INDEX_BITS = 24
"""Bits of a word below the hash of a band."""

INSERTED_MAX = 16
"""Insertion sorts at most this many keys, or keys at most this many steps from their places."""


@compiled
def _slot_of(fingerprints: npt.NDArray[np.uint64], row: int, slots: int) -> Any:
    """First slot to probe for a fingerprint; slots: their number, a power of two."""
    mixed = np.uint64(0)
    for word in range(fingerprints.shape[1]):
        mixed = (mixed ^ fingerprints[row, word]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(slots - 1))


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
    for place in range(end - 1, begin - 1, -1):
        slot = _slot_of(fingerprints, place, len(slots))
        while slots[slot] != place:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = -1


@compiled
def equal_places(
    asked: npt.NDArray[np.uint64], fingerprints: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Equal fingerprints, from `hash_entries`, for rows asked, uint64 [n, words].

    Returns rows and places, int64 [m] twice, ascending by row.
    """
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
            equal = True
            for word in range(asked.shape[1]):
                if asked[row, word] != fingerprints[slots[slot], word]:
                    equal = False
                    break
            if equal:
                if count == len(rows):
                    rows, places = np.append(rows, np.empty_like(rows)), np.append(places, np.empty_like(places))
                rows[count], places[count] = row, slots[slot]
                count += 1
            slot = (slot + 1) & (len(slots) - 1)
    return rows[:count], places[:count]


@compiled
def first_equals(fingerprints: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """First equal row of every row: uint64 [n, words] -> int64 [n]; slots: as in `hash_entries`, all -1, changed."""
    firsts = np.empty(len(fingerprints), np.int64)
    for row in range(len(fingerprints)):
        slot = _slot_of(fingerprints, row, len(slots))
        firsts[row] = row
        while slots[slot] >= 0:
            equal = True
            for word in range(fingerprints.shape[1]):
                if fingerprints[row, word] != fingerprints[slots[slot], word]:
                    equal = False
                    break
            if equal:
                firsts[row] = slots[slot]
                break
            slot = (slot + 1) & (len(slots) - 1)
        if firsts[row] == row:
            slots[slot] = row
    return firsts


@compiled
def _by_digits(
    keys: npt.NDArray[np.uint64],
    places: npt.NDArray[np.uint32],
    other_keys: npt.NDArray[np.uint64],
    other_places: npt.NDArray[np.uint32],
    low_bit: int,
    high_bit: int,
) -> bool:
    """Sort stably by the keys' bits low_bit <= b < high_bit; True if the result is in the other arrays."""
    in_others = False
    for first_bit in range(low_bit, high_bit, DIGIT_BITS):
        bits = min(DIGIT_BITS, high_bit - first_bit)
        shift, mask = np.uint64(first_bit), np.uint64((1 << bits) - 1)
        begins = np.zeros((1 << bits) + 1, np.int64)
        for key in keys:
            begins[np.int64((key >> shift) & mask) + 1] += 1
        # All keys share this digit, so the pass would only copy them.
        if begins.max() == len(keys):
            continue
        for digit in range(1 << bits):
            begins[digit + 1] += begins[digit]
        for place in range(len(keys)):
            begin = np.int64((keys[place] >> shift) & mask)
            to = begins[begin]
            other_keys[to], other_places[to] = keys[place], places[place]
            begins[begin] = to + 1
        keys, other_keys, places, other_places = other_keys, keys, other_places, places
        in_others = not in_others
    return in_others


@compiled
def _by_insertion(keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], steps: int) -> bool:
    """Sort nearly sorted keys stably, in place; False after too many steps."""
    for place in range(1, len(keys)):
        key, own, to = keys[place], places[place], place
        while to > 0 and keys[to - 1] > key:
            keys[to], places[to] = keys[to - 1], places[to - 1]
            to -= 1
        keys[to], places[to] = key, own
        steps -= place - to
        if steps < 0:
            return False
    return True


@compiled
def by_top_bits(keys: npt.NDArray[np.uint64], bits: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Places of keys, uint64 [n], sorted stably by their `bits` top bits, uint32 [n].

    Also returns the begin of each value of those bits, int64 [2^bits + 1].
    """
    # Two shifts, because one shift by all 64 bits would not shift.
    shift, begins = np.uint64(63 - bits), np.zeros((1 << bits) + 1, np.int64)
    for key in keys:
        begins[np.int64((key >> np.uint64(1)) >> shift) + 1] += 1
    for value in range(1 << bits):
        begins[value + 1] += begins[value]
    places, ends = np.empty(len(keys), np.uint32), begins.copy()
    for place in range(len(keys)):
        own = np.int64((keys[place] >> np.uint64(1)) >> shift)
        places[ends[own]] = place
        ends[own] += 1
    return places, begins


@compiled
def sorted_by(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Keys uint64 [n] with their places uint32 [n], sorted stably by key, as new arrays.

    A radix sort from the lowest digit on. Hashes are spread evenly, so their high half and a few insertion steps
    suffice.
    """
    keys, places = keys.copy(), places.copy()
    other_keys, other_places = np.empty_like(keys), np.empty_like(places)
    if _by_digits(keys, places, other_keys, other_places, HIGH_BIT, 64):
        keys, other_keys, places, other_places = other_keys, keys, other_places, places
    if not _by_insertion(keys, places, len(keys)) and _by_digits(keys, places, other_keys, other_places, 0, 64):
        keys, places = other_keys, other_places
    return keys, places


@compiled
def _sort_span(
    keys: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], begin: int, end: int, low_bit: int, high_bit: int
) -> None:
    """Sort keys begin <= p < end, stably by bits low_bit <= b < high_bit; changes others at the same places."""
    source, target = keys, others
    begins = np.empty((1 << OCTET_BITS) + 1, np.int64)
    for first_bit in range(low_bit, high_bit, OCTET_BITS):
        shift, mask = np.uint64(first_bit), np.uint64((1 << min(OCTET_BITS, high_bit - first_bit)) - 1)
        begins[:] = 0
        for place in range(begin, end):
            begins[np.int64((source[place] >> shift) & mask) + 1] += 1
        begins[0] = begin
        for digit in range(1 << OCTET_BITS):
            begins[digit + 1] += begins[digit]
        for place in range(begin, end):
            own = np.int64((source[place] >> shift) & mask)
            target[begins[own]] = source[place]
            begins[own] += 1
        source, target = target, source
    # After an odd number of passes the result is in the other array.
    if ((high_bit - low_bit + OCTET_BITS - 1) // OCTET_BITS) & 1:
        keys[begin:end] = others[begin:end]


@compiled
def _inserted(keys: npt.NDArray[np.uint64], begin: int, end: int, steps: int) -> bool:
    """Sort nearly sorted keys begin <= p < end, in place; False after too many steps."""
    for place in range(begin + 1, end):
        key, to = keys[place], place
        while to > begin and keys[to - 1] > key:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = key
        steps -= place - to
        if steps < 0:
            return False
    return True


@compiled
def sorted_band(
    hashes: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], numbers: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """MinHash: entries at places uint32 [m], ascending: hashes and numbers, uint64 [2, m], ascending by hash and place.

    hashes, numbers  uint64 [n] twice; hashes take a word's top 40 bits, so there may be 2^24 places

    Sorts by the high bits into parts that fit the nearest cache, then each part by itself.
    """
    count, differing = len(places), np.uint64(0)
    found, keys, others = np.empty((2, count), np.uint64), np.empty(count, np.uint64), np.empty(count, np.uint64)
    for place in range(count):
        # The low 24 bits carry the place, so sorting single words also sorts the places.
        others[place] = hashes[places[place]] | np.uint64(place)
        differing |= others[place] ^ others[0]
    high_bit = INDEX_BITS
    while high_bit < 64 and differing >> np.uint64(high_bit):
        high_bit += 1
    bits = min(DIGIT_BITS, high_bit - INDEX_BITS)
    low_bit = high_bit - bits
    shift, mask, begins = np.uint64(low_bit), np.uint64((1 << bits) - 1), np.zeros((1 << bits) + 1, np.int64)
    for key in others:
        begins[np.int64((key >> shift) & mask) + 1] += 1
    for digit in range(1 << bits):
        begins[digit + 1] += begins[digit]
    ends = begins.copy()
    for key in others:
        own = np.int64((key >> shift) & mask)
        keys[ends[own]] = key
        ends[own] += 1
    for digit in range(1 << bits):
        begin, end = begins[digit], begins[digit + 1]
        if end - begin > INSERTED_MAX:
            _sort_span(keys, others, begin, end, max(INDEX_BITS, low_bit - 2 * OCTET_BITS), low_bit)
        if not _inserted(keys, begin, end, INSERTED_MAX * (end - begin)):
            _sort_span(keys, others, begin, end, 0, low_bit)
    base, index = np.uint64(numbers.ctypes.data), np.uint64((1 << INDEX_BITS) - 1)
    for place in range(count):
        if place + AT_ONCE < count:
            prefetch(base + np.uint64(8) * np.uint64(places[np.int64(keys[place + AT_ONCE] & index)]))
        found[0, place] = keys[place] & ~index
        found[1, place] = numbers[places[np.int64(keys[place] & index)]]
    return found
