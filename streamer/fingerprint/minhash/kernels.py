"""Compiled loops from characters to MinHash; `shingles` and `minhash` define the results.

`index.kernels` says how kernels are written. `mix` stands in another file, which numba's cache does not watch: a process
would go on with the old `mix` after a change there. SplitMix64 is fixed, so one copy is worth that.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled
from streamer.fingerprint.shingle_kernels import mix

DROPPED, NARROW, WIDE = range(3)

NOTHING = np.uint64(2**64 - 1)
"""The minimum of a cell without members."""


@compiled
def shingle(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    wide_size: int,
    narrow_size: int,
    multiplier: Any,
    mask: Any,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Kernel of `shingles.shingle_characters`: hashes uint64 [shingles], and the texts' bounds among them int64 [n + 1].

    kinds       uint8 [all code points], DROPPED, NARROW or WIDE
    multiplier  uint64, of the polynomial
    mask        uint64, joined to every polynomial
    """
    hashes, hash_bounds = np.empty(len(codepoints), np.uint64), np.zeros(len(bounds), np.int64)
    are_wide = np.empty(len(codepoints), np.bool_)
    # Polynomials of prefixes: the polynomial of any run of letters follows from two of them.
    before = np.zeros(len(codepoints) + 1, np.uint64)
    wide_power, narrow_power = _power(multiplier, wide_size), _power(multiplier, narrow_size)
    found = np.int64(0)
    for text in range(len(bounds) - 1):
        count = 0
        for place in range(bounds[text], bounds[text + 1]):
            kind = kinds[codepoints[place]]
            if kind != DROPPED:
                are_wide[count] = kind == WIDE
                before[count + 1] = before[count] * multiplier + np.uint64(codepoints[place])
                count += 1
        if count > 0 and count < (wide_size if are_wide[0] else narrow_size):
            hashes[found] = mix(before[count] ^ mask)
            found += 1
        else:
            for first in range(count):
                size, power = (wide_size, wide_power) if are_wide[first] else (narrow_size, narrow_power)
                if first + size <= count:
                    hashes[found] = mix((before[first + size] - before[first] * power) ^ mask)
                    found += 1
        hash_bounds[text + 1] = found
    return hashes[:found], hash_bounds


@compiled
def _power(base: Any, exponent: int) -> Any:
    power = np.uint64(1)
    for _ in range(exponent):
        power *= base
    return power


@compiled
def smallest(cells: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64], minima: npt.NDArray[np.uint64]) -> None:
    """MinHash itself: lower each of `minima`, uint64 [cells], to the smallest hash of its cell.

    Member i of a set has hash hashes[i] and lies in cell cells[i]. A cell is a set and a hash function (Broder 1997), or,
    as here, a bin of one hash function's range.
    """
    for place in range(len(cells)):
        # `min` compiles to no branch; a branch here would be unpredictable.
        minima[cells[place]] = min(minima[cells[place]], hashes[place])


@compiled
def bin_values(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], bins: int, bin_bits: int
) -> npt.NDArray[np.uint8]:
    """Kernel of `minhash.bin_values`: shingles uint64 [m], and the texts' bounds among them, int64 [n + 1]."""
    count, shift, longest = len(bounds) - 1, np.uint64(64), 0
    while np.uint64(1) << (np.uint64(64) - shift) < np.uint64(bins):
        shift -= np.uint64(1)
    for text in range(count):
        longest = max(longest, bounds[text + 1] - bounds[text])
    values, largest = np.zeros((count, bins), np.uint8), np.uint64((1 << bin_bits) - 1)
    minima, cells = np.empty(bins, np.uint64), np.empty(longest, np.int64)
    for text in range(count):
        own = hashes[bounds[text] : bounds[text + 1]]
        for place in range(len(own)):
            cells[place] = np.int64(own[place] >> shift)
        minima[:] = NOTHING
        smallest(cells[: len(own)], own, minima)
        for each in range(bins):
            if minima[each] != NOTHING:
                low = minima[each] & np.uint64(0xFFFF_FFFF)
                values[text, each] = (low * largest >> np.uint64(32)) + np.uint64(1)
    return values
