"""XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): value checksums and document id hashes.

Compiled functions in other modules may call `xxh64`: it never changes. See `index.kernels.jit`.
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
