"""Compiled loops over the hashes of words; `word_shingles` defines what they compute. See `index.kernels`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled


@compiled
def mix(number: Any) -> Any:
    """A step of SplitMix64 (Steele, Lea, Flood 2014; finaliser of Stafford's variant 13): uint64 -> uint64."""
    number += np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@compiled
def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], shingle_bounds: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.uint64]:
    """The hashes of shingles, uint64 [shingles, lanes]; text i has those shingle_bounds[i]:shingle_bounds[i + 1]."""
    lanes = hashes.shape[1]
    found = np.empty((shingle_bounds[-1], lanes), np.uint64)
    for text in range(len(bounds) - 1):
        for row in range(shingle_bounds[text], shingle_bounds[text + 1]):
            begin = bounds[text] + row - shingle_bounds[text]
            for lane in range(lanes):
                chain = np.uint64(0)
                for word in range(begin, min(begin + size, bounds[text + 1])):
                    chain = mix(chain + hashes[word, lane])
                found[row, lane] = chain
    return found
