"""Compiled loop over short sealed values: XXH3 of 8 bytes, as `index.storage.codec.seal_of` takes it. See `index.kernels`.

XXH3 is defined in github.com/Cyan4973/xxHash, doc/xxhash_spec.md; of 8 bytes it is a few operations.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

_SECRET = np.uint64(0x1CAD21F72C81017C ^ 0xDB979083E96DD4DE)
_PRIME = np.uint64(0x9FB21C651E98DF25)
_LOW = np.uint64(0xFFFFFFFF)


@compiled
def _turned(value: Any, bits: int) -> Any:
    """A uint64 rotated to the left."""
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)


@compiled
def _swapped(value: Any) -> Any:
    """A uint64 below 2^32 with the order of its four bytes reversed."""
    of_pairs = (value & np.uint64(0x00FF00FF)) << np.uint64(8) | (value >> np.uint64(8)) & np.uint64(0x00FF00FF)
    return (of_pairs & np.uint64(0xFFFF)) << np.uint64(16) | of_pairs >> np.uint64(16)


@compiled
def _eight(octets: npt.NDArray[np.uint8], at: int) -> Any:
    """The little-endian number in 8 octets: uint64."""
    word = np.uint64(0)
    for place in range(8):
        word |= np.uint64(octets[at + place]) << np.uint64(8 * place)
    return word


@compiled
def _seal(content: Any, seed: Any) -> Any:
    """XXH3 of 64 bits of the 8 bytes of a little-endian uint64, with a seed: uint64."""
    seed ^= _swapped(seed & _LOW) << np.uint64(32)
    mixed = (content >> np.uint64(32) | content << np.uint64(32)) ^ (_SECRET - seed)
    mixed ^= _turned(mixed, 49) ^ _turned(mixed, 24)
    mixed *= _PRIME
    mixed ^= (mixed >> np.uint64(35)) + np.uint64(8)
    mixed *= _PRIME
    return mixed ^ mixed >> np.uint64(28)


@compiled
def seals(contents: npt.NDArray[np.uint64], seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Seals of values of 8 bytes, as little-endian numbers, uint64 [n], with the seeds of their keys, uint64 [n]: uint64 [n]."""
    found = np.empty(len(contents), np.uint64)
    for place in range(len(contents)):
        found[place] = _seal(contents[place], seeds[place])
    return found


@compiled
def sealed_values(
    pairs: npt.NDArray[np.uint8], keys: npt.NDArray[np.uint8], seeds: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], int]:
    """How many of the pairs, uint8 [m, length + 16], each key has, int64 [n]; their values, uint64 [m]; the first wrong pair.

    A pair is a key, a value of 8 bytes and its seal; pairs come in the order of the keys.

    keys   uint8 [n, length], distinct
    seeds  uint64 [n], seeds of the seals under each key

    A pair is wrong whose seal does not fit, or whose key was not asked for; -1: none is.
    """
    counts, values = np.zeros(len(keys), np.int64), np.empty(len(pairs), np.uint64)
    length, key = keys.shape[1], 0
    for place in range(len(pairs)):
        pair = pairs[place]
        while key < len(keys):
            same = 0
            while same < length and keys[key, same] == pair[same]:
                same += 1
            if same == length:
                break
            key += 1
        if key == len(keys):
            return counts, values, place
        values[place] = _eight(pair, length)
        if _seal(values[place], seeds[key]) != _eight(pair, length + 8):
            return counts, values, place
        counts[key] += 1
    return counts, values, -1
