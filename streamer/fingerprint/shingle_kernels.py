"""SplitMix64, and compiled loops over the hashes of words; `word_shingles` defines the results."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

GOLDEN_RATIO = 0x9E37_79B9_7F4A_7C15
"""2^64 by the golden ratio, made odd: SplitMix64's increment."""


def mix_column(numbers: Any) -> Any:
    """One SplitMix64 step for a column, one to one: uint64 [any] -> uint64 [any], modulo 2^64.

    Adds GOLDEN_RATIO and applies the finaliser (Steele, Lea, Flood 2014; Stafford's variant 13).
    """
    mixed = numbers + np.uint64(GOLDEN_RATIO)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


mix: Any = compiled(mix_column)
"""The same step for one number, inside a kernel."""


@compiled
def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], shingle_bounds: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.uint64]:
    """Shingle hashes, uint64 [shingles, lanes]; text i has the shingles shingle_bounds[i]:shingle_bounds[i + 1]."""
    lanes = hashes.shape[1]
    shingles = np.empty((shingle_bounds[-1], lanes), np.uint64)
    for text in range(len(bounds) - 1):
        for row in range(shingle_bounds[text], shingle_bounds[text + 1]):
            begin = bounds[text] + row - shingle_bounds[text]
            for lane in range(lanes):
                chain = np.uint64(0)
                for word in range(begin, min(begin + size, bounds[text + 1])):
                    chain = mix(chain + hashes[word, lane])
                shingles[row, lane] = chain
    return shingles


@compiled
def salt(hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], salts: npt.NDArray[np.uint64]) -> None:
    """Make features of each scope unlike those of the others, one to one: mix(hash ^ salt), in place; salt 0: unchanged.

    hashes  uint64 [features, lanes], text i has hashes[bounds[i]:bounds[i + 1]] and the salt salts[i], uint64 [n]
    """
    for text in range(len(salts)):
        if salts[text] != 0:
            for row in range(bounds[text], bounds[text + 1]):
                for lane in range(hashes.shape[1]):
                    hashes[row, lane] = mix(hashes[row, lane] ^ salts[text])


@compiled
def key(hashes: npt.NDArray[np.uint64], lanes: npt.NDArray[np.uint64]) -> None:
    """Kernel for `key.HashKey.keyed`: changes uint64 [features, lanes] in place."""
    for row in range(hashes.shape[0]):
        for lane in range(hashes.shape[1]):
            hashes[row, lane] = mix(hashes[row, lane] ^ lanes[lane])
