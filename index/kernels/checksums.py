"""Compiled XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): value checksums and document id hashes.

Other modules' compiled functions may call `xxh64`: it never changes. See `index.kernels.jit`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, word_at

NO_HASH = np.uint64(2**64 - 1)
"""Hash of an empty id, which is no id."""

_LOW_BITS = np.uint64(2**24 - 1)
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
def _round(lane: Any, word: Any) -> Any:
    return _turned(lane + word * _P2, 31) * _P1


@compiled
def _with_word(mixed: Any, word: Any) -> Any:
    return _turned(mixed ^ _round(np.uint64(0), word), 27) * _P1 + _P4


@compiled
def _avalanched(mixed: Any) -> Any:
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
    return mixed ^ (mixed >> np.uint64(32))


@compiled
def xxh64(octets: npt.NDArray[np.uint8], at: int, end: int, seed: Any) -> Any:
    """XXH64 of octets at <= place < end: uint64."""
    base, size = np.uint64(octets.ctypes.data), np.uint64(end - at)
    mixed = seed + _P5
    # Four lanes take 32 bytes at a time. 45 bytes are one such step, one word, one half word and one single byte.
    if end - at >= 32:
        first, second, third, fourth = seed + _P1 + _P2, seed + _P2, seed + np.uint64(0), seed - _P1
        while end - at >= 32:
            address = base + np.uint64(at)
            first = _round(first, word_at(address))
            second = _round(second, word_at(address + np.uint64(8)))
            third = _round(third, word_at(address + np.uint64(16)))
            fourth = _round(fourth, word_at(address + np.uint64(24)))
            at += 32
        mixed = _turned(first, 1) + _turned(second, 7) + _turned(third, 12) + _turned(fourth, 18)
        for lane in (first, second, third, fourth):
            mixed = (mixed ^ _round(np.uint64(0), lane)) * _P1 + _P4
    mixed += size
    while end - at >= 8:
        mixed = _with_word(mixed, word_at(base + np.uint64(at)))
        at += 8
    if end - at >= 4:
        word = np.uint64(0)
        for place in range(4):
            word |= np.uint64(octets[at + place]) << np.uint64(8 * place)
        mixed = _turned(mixed ^ (word * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        mixed = _turned(mixed ^ (np.uint64(octets[at]) * _P5), 11) * _P1
        at += 1
    return _avalanched(mixed)


@compiled
def id_hashes(octets: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes of n concatenated ids with these ends int64 [n]: uint64 [n], 40 bits at the top; NO_HASH for an empty id."""
    found, begin = np.empty(len(ends), np.uint64), 0
    for place in range(len(ends)):
        end = ends[place]
        found[place] = xxh64(octets, begin, end, np.uint64(0)) & ~_LOW_BITS if end > begin else NO_HASH
        begin = end
    return found


@compiled
def _of_word(content: Any, seed: Any) -> Any:
    """XXH64 of the 8 bytes of a little-endian uint64."""
    return _avalanched(_with_word(seed + _P5 + np.uint64(8), content))


@compiled
def short_checksums(contents: npt.NDArray[np.uint64], seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Checksums of 8-byte values, as little-endian numbers uint64 [n], with their keys' seeds: uint64 [n]."""
    found = np.empty(len(contents), np.uint64)
    for place in range(len(contents)):
        found[place] = _of_word(contents[place], seeds[place])
    return found


@compiled
def checked_values(
    pairs: npt.NDArray[np.uint8], keys: npt.NDArray[np.uint8], seeds: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], int]:
    """Number of pairs of each key, int64 [n]; their values, uint64 [m]; and the first wrong pair, or -1.

    A pair is a key, an 8-byte value and its checksum: uint8 [m, length + 16], in key order. A pair is
    wrong if its checksum does not fit or its key is not in `keys`.

    keys   uint8 [n, length], distinct
    seeds  uint64 [n], the keys' checksum seeds
    """
    counts, values = np.zeros(len(keys), np.int64), np.empty(len(pairs), np.uint64)
    length, key, base = keys.shape[1], 0, np.uint64(pairs.ctypes.data)
    for place in range(len(pairs)):
        pair, address = pairs[place], base + np.uint64(place * pairs.shape[1] + length)
        while key < len(keys):
            same = 0
            while same < length and keys[key, same] == pair[same]:
                same += 1
            if same == length:
                break
            key += 1
        if key == len(keys):
            return counts, values, place
        values[place] = word_at(address)
        if _of_word(values[place], seeds[key]) != word_at(address + np.uint64(8)):
            return counts, values, place
        counts[key] += 1
    return counts, values, -1
