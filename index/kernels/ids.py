"""Compiled loops over document ids: their hashes, and where the hashes stand. See `index.kernels`.

A hash is the 40 high bits of XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), seed 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import array_at, compiled, pointer_at

NO_HASH = np.uint64(2**64 - 1)
"""What stands for the hash of an empty id, which is none."""

STEP = 16
"""First step away from a guess, in places."""

_SHIFT = np.uint64(24)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@compiled
def _turned(value: Any, bits: int) -> Any:
    """A uint64 rotated to the left."""
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)


@compiled
def _word(octets: npt.NDArray[np.uint8], at: int, size: int) -> Any:
    """The little-endian number in `size` octets: uint64."""
    word = np.uint64(0)
    for place in range(size):
        word |= np.uint64(octets[at + place]) << np.uint64(8 * place)
    return word


@compiled
def _round(lane: Any, word: Any) -> Any:
    return _turned(lane + word * _P2, 31) * _P1


@compiled
def _xxh64(octets: npt.NDArray[np.uint8], at: int, end: int) -> Any:
    """XXH64 of octets at <= place < end, seed 0: uint64."""
    size = np.uint64(end - at)
    if end - at >= 32:
        first, second, third, fourth = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        while end - at >= 32:
            first = _round(first, _word(octets, at, 8))
            second = _round(second, _word(octets, at + 8, 8))
            third = _round(third, _word(octets, at + 16, 8))
            fourth = _round(fourth, _word(octets, at + 24, 8))
            at += 32
        mixed = _turned(first, 1) + _turned(second, 7) + _turned(third, 12) + _turned(fourth, 18)
        for lane in (first, second, third, fourth):
            mixed = (mixed ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        mixed = _P5
    mixed += size
    while end - at >= 8:
        mixed = _turned(mixed ^ _round(np.uint64(0), _word(octets, at, 8)), 27) * _P1 + _P4
        at += 8
    if end - at >= 4:
        mixed = _turned(mixed ^ (_word(octets, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        mixed = _turned(mixed ^ (np.uint64(octets[at]) * _P5), 11) * _P1
        at += 1
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
    return mixed ^ (mixed >> np.uint64(32))


@compiled
def hashes(octets: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes of n texts, one behind the other in octets, with their ends int64 [n]: uint64 [n]; NO_HASH of empty ones."""
    found, begin = np.empty(len(ends), np.uint64), 0
    for place in range(len(ends)):
        end = ends[place]
        found[place] = _xxh64(octets, begin, end) >> _SHIFT if end > begin else NO_HASH
        begin = end
    return found


@compiled
def _slot_of_hash(hashed: Any, slots: int) -> Any:
    """The slot at which the probing for a hash begins; slots: their number, a power of two."""
    mixed = hashed * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))


@compiled
def _slot_with(hashed: npt.NDArray[np.uint64], slots: npt.NDArray[np.int32], wanted: Any) -> Any:
    """The slot of a hash: where a place with it stands, or the empty slot where it would."""
    slot = _slot_of_hash(wanted, len(slots))
    while slots[slot] >= 0 and hashed[slots[slot]] != wanted:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@compiled
def enter(
    hashed: npt.NDArray[np.uint64],
    begin: int,
    end: int,
    slots: npt.NDArray[np.int32],
    previous: npt.NDArray[np.int32],
) -> None:
    """Enter places begin <= p < end of hashes, uint64 [capacity], into a hash table; changes slots and previous.

    slots     int32 [s], s a power of two and above `end`: the last place with a hash, or -1 where the slot is empty
    previous  int32 [capacity], the place before it with the same hash, or -1
    """
    for place in range(begin, end):
        if hashed[place] == NO_HASH:
            continue
        slot = _slot_with(hashed, slots, hashed[place])
        previous[place] = slots[slot]
        slots[slot] = place


@compiled
def take_out(
    hashed: npt.NDArray[np.uint64],
    begin: int,
    end: int,
    slots: npt.NDArray[np.int32],
    previous: npt.NDArray[np.int32],
) -> None:
    """The reverse of `enter` for the places entered last."""
    for place in range(end - 1, begin - 1, -1):
        if hashed[place] == NO_HASH:
            continue
        slot = _slot_with(hashed, slots, hashed[place])
        slots[slot] = previous[place]


@compiled
def _grown(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column twice as long that begins with this one."""
    larger = np.empty((column.shape[0] * 2, *column.shape[1:]), column.dtype)
    larger[: column.shape[0]] = column
    return larger


@compiled
def memtable_hits(
    asked: npt.NDArray[np.uint64],
    hashed: npt.NDArray[np.uint64],
    slots: npt.NDArray[np.int32],
    previous: npt.NDArray[np.int32],
    limit: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Places with the hashes asked for, uint64 [n], at most `limit` each, the last ones.

    Gives which hash was asked for and the place, int64 [m] twice.
    """
    which, places, count = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    for one in range(len(asked)):
        if asked[one] == NO_HASH:
            continue
        place, met = np.int64(slots[_slot_with(hashed, slots, asked[one])]), 0
        while place >= 0 and met < limit:
            if count == len(which):
                which, places = _grown(which), _grown(places)
            which[count], places[count] = one, place
            count, met, place = count + 1, met + 1, np.int64(previous[place])
    return which[:count], places[:count]


@compiled
def _number_at(halves: npt.NDArray[np.uint16], place: Any) -> Any:
    """The number <u32 at a place of a column that is given in halves: int64."""
    return np.int64(halves[2 * place]) | np.int64(halves[2 * place + 1]) << 16


@compiled
def _first_offset(offsets: npt.NDArray[np.uint16], count: Any, offset: Any, guess: Any) -> Any:
    """The first of `count` places whose offset is not below this one, by steps of doubling length away from a guess."""
    low, high, step = guess, guess, STEP
    while low > 0 and _number_at(offsets, low) >= offset:
        low, step = max(0, low - step), step * 2
    step = STEP
    while high < count and _number_at(offsets, high) < offset:
        low, high, step = high + 1, min(count, high + step), step * 2
    while low < high:
        middle = (low + high) >> 1
        if _number_at(offsets, middle) < offset:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def segment_hits(
    asked: npt.NDArray[np.uint64],
    addresses: npt.NDArray[np.uint64],
    bounds: npt.NDArray[np.uint64],
    firsts: npt.NDArray[np.int64],
    lasts: npt.NDArray[np.int64],
    limit: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Rows of the hashes asked for, uint64 [n] ascending, in k segments of ids, at most `limit` each, the last ones.

    addresses      uint64 [k], of the segments' values, ascending by their keys
    bounds         uint64 [k], the hash in each segment's key
    firsts, lasts  int64 [k] twice: hashes firsts <= place < lasts of `asked` may stand in the segment

    Gives which hash was asked for, int64 [m], and the row, uint64 [m].
    """
    which, rows, count = np.empty(1024, np.int64), np.empty(1024, np.uint64), 0
    met = np.zeros(len(asked), np.int64)
    for segment in range(len(addresses) - 1, -1, -1):
        address = addresses[segment]
        size = _number_at(array_at(pointer_at(address), 2), 0)
        offsets = array_at(pointer_at(address + np.uint64(8)), 2 * size)
        low_rows = array_at(pointer_at(address + np.uint64(8 + 4 * size)), 2 * size)
        high_rows = array_at(pointer_at(address + np.uint64(8 + 8 * size)), (size + 1) // 2)
        breadth = _number_at(offsets, size - 1) + 1
        for one in range(firsts[segment], lasts[segment]):
            if asked[one] < bounds[segment]:
                continue
            offset = np.int64(asked[one] - bounds[segment])
            if offset >= breadth:
                continue
            place = _first_offset(offsets, size, offset + 1, min(size - 1, offset * size // breadth)) - 1
            while place >= 0 and _number_at(offsets, place) == offset and met[one] < limit:
                if count == len(which):
                    which, rows = _grown(which), _grown(rows)
                high = np.int64(high_rows[place >> 1]) >> (8 * (place & 1)) & 0xFF
                which[count], rows[count] = one, np.uint64(high << 32 | _number_at(low_rows, place))
                count, met[one], place = count + 1, met[one] + 1, place - 1
    return which[:count], rows[:count]
