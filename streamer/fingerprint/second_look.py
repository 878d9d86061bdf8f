"""What is kept of a document for a second look at matches, a batch at a time; `index.matching.second_look` compares it.

A vector of its weighted features, as many cells as wanted: every feature falls into one cell and adds its weight to it, or
takes it away, both by its hash (signed feature hashing: Weinberger, Dasgupta, Langford, Smola, Attenberg, "Feature Hashing
for Large Scale Multitask Learning", ICML 2009). Products of such vectors are those of the whole ones, but for noise that
has no bias; for a cosine c its deviation is about (1 - c^2) / sqrt(cells).

A MinHash signature of a set (Broder 1997), one value for each of many hash functions.
"""

import numpy as np
import numpy.typing as npt

from index.matching.second_look import SIGNATURE_VALUES

FORMAT_VERSION = 1
"""Raised whenever the same documents begin to give other sketches."""

_PEAK = 127
_CELLS_AT_ONCE = 2**22
_LOW = np.uint64(0xFFFF_FFFF)
_ODD = 0x9E37_79B9_7F4A_7C15
"""Of which the hash functions are multiples: 2^64 by the golden ratio."""


def feature_vectors(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64], cells: int
) -> npt.NDArray[np.int8]:
    """The vector of every text, int8 [n, cells]: its sums, scaled so that the largest is 127 or -127.

    hashes   uint64 [features], well mixed; a feature may occur more than once, and then adds up
    weights  int64 [features], 0 or more
    bounds   int64 [n + 1], text j has the features bounds[j]:bounds[j + 1]
    Sums are exact, whatever the order, while the weights of a text add up to less than 2**53. A text without features,
    and one whose features all cancel out, has a vector of zeros.
    """
    count = len(bounds) - 1
    # Other bits than those of the fingerprint, so that the second look is one of its own.
    mixed = mix(hashes)
    of_cells = ((mixed >> np.uint64(32)) * np.uint64(cells) >> np.uint64(32)).astype(np.int64)
    signed = np.where(mixed & np.uint64(1), weights, -weights)
    vectors = np.zeros((count, cells), np.int8)
    step = max(1, _CELLS_AT_ONCE // cells)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        features = slice(bounds[begin], bounds[end])
        texts = np.repeat(np.arange(end - begin), np.diff(bounds[begin : end + 1]))
        size = (end - begin) * cells
        sums = np.bincount(texts * cells + of_cells[features], signed[features], size).reshape(-1, cells)
        peaks = np.abs(sums).max(axis=1, keepdims=True)
        vectors[begin:end] = np.rint(sums * _PEAK / np.maximum(peaks, 1.0))
    return vectors


def set_signatures(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], functions: int
) -> npt.NDArray[np.uint8]:
    """The MinHash signature of every set, uint8 [n, functions]: 1 to 255, zeros for the empty set.

    hashes  uint64 [members], well mixed; a member that occurs twice changes nothing
    bounds  int64 [n + 1], set j has the members bounds[j]:bounds[j + 1]
    Function i gives a member of hash h mix(h + (i + 1) * 0x9E3779B97F4A7C15); of the smallest value of a set the low 32
    bits are kept, scaled to the range.
    """
    signatures = np.zeros((len(bounds) - 1, functions), np.uint8)
    filled = np.flatnonzero(np.diff(bounds))
    if not len(filled):
        return signatures
    for function in range(functions):
        smallest = np.minimum.reduceat(mix(hashes + np.uint64(_ODD * (function + 1) % 2**64)), bounds[filled])
        signatures[filled, function] = ((smallest & _LOW) * np.uint64(SIGNATURE_VALUES) >> np.uint64(32)) + np.uint64(1)
    return signatures


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser of each number plus 0x9E3779B97F4A7C15, one to one: uint64 [any]."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
