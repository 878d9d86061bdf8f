"""Compiled loops from characters to MinHash; `shingles` and `minhash` define what they compute.

See `index.kernels` for how kernels are written.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled
from streamer.fingerprint.shingle_kernels import mix

DROPPED, NARROW, WIDE = range(3)


@compiled
def shingle(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    wide_size: int,
    narrow_size: int,
    multiplier: Any,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """`shingles.shingle_characters`: hashes, and the bounds of the texts among them.

    kinds       uint8 [all code points], DROPPED, NARROW or WIDE
    multiplier  of the polynomial, uint64
    """
    hashes, hash_bounds = np.empty(len(codepoints), np.uint64), np.zeros(len(bounds), np.int64)
    are_wide = np.empty(len(codepoints), np.bool_)
    # By letter the polynomial of all before it, from which that of any run of letters follows.
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
            hashes[found] = mix(before[count])
            found += 1
        else:
            for first in range(count):
                size, power = (wide_size, wide_power) if are_wide[first] else (narrow_size, narrow_power)
                if first + size <= count:
                    hashes[found] = mix(before[first + size] - before[first] * power)
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
    """Lower minima, uint64 [cells], to the smallest hash that lies in each: hashes[i] lies in cell cells[i]."""
    for place in range(len(cells)):
        # Without a branch, which nothing could foretell.
        minima[cells[place]] = min(minima[cells[place]], hashes[place])
