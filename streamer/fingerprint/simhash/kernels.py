"""Compiled loops from feature hashes to bit sums; `simhash` defines the results."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

_EMPTY = -1


@compiled
def gather(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], weights: npt.NDArray[np.int64], multiplier: Any
) -> Any:
    """Every text's distinct features, by first occurrence: hashes uint64 [distinct, lanes], counts int64 [distinct],
    totals int64 [distinct], bounds int64 [n + 1].

    weights     int64 [features]; length 0: every occurrence weighs 1
    multiplier  uint64, odd: chooses the hash table's slots
    """
    lanes, longest = hashes.shape[1], np.int64(0)
    for text in range(len(bounds) - 1):
        longest = max(longest, bounds[text + 1] - bounds[text])
    bits = 1
    while (1 << bits) < 2 * longest:
        bits += 1
    # The feature's row in each slot. Rows below a text's first row belong to earlier texts and count as empty, so the table is
    # never cleared.
    slots = np.full(1 << bits, _EMPTY, np.int64)
    distinct = np.empty(hashes.shape, np.uint64)
    counts, totals = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    distinct_bounds = np.zeros(len(bounds), np.int64)
    count = np.int64(0)
    for text in range(len(bounds) - 1):
        first, text_bits = count, 1
        while (1 << text_bits) < 2 * (bounds[text + 1] - bounds[text]):
            text_bits += 1
        shift, mask = np.uint64(64 - text_bits), (1 << text_bits) - 1
        for feature in range(bounds[text], bounds[text + 1]):
            weight = weights[feature] if len(weights) else np.int64(1)
            slot = np.int64((hashes[feature, 0] * multiplier) >> shift)
            row = slots[slot]
            while row >= first:
                equal = True
                for lane in range(lanes):
                    equal &= distinct[row, lane] == hashes[feature, lane]
                if equal:
                    break
                slot = (slot + 1) & mask
                row = slots[slot]
            if row < first:
                row = slots[slot] = count
                count += 1
                for lane in range(lanes):
                    distinct[row, lane] = hashes[feature, lane]
                counts[row], totals[row] = 1, weight
            else:
                counts[row] += 1
                totals[row] += weight
        distinct_bounds[text + 1] = count
    return distinct[:count], counts[:count], totals[:count], distinct_bounds


@compiled
def bit_sums(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sums for every text: sum i adds the weights of the features whose bit i is 1 and subtracts all others.

    Returns int64 [n, 64 * lanes], exact while a text's weights add up to less than 2**62.
    """
    lanes = hashes.shape[1]
    sums = np.zeros((len(bounds) - 1, 64 * lanes), np.int64)
    for text in range(len(bounds) - 1):
        total = np.int64(0)
        for feature in range(bounds[text], bounds[text + 1]):
            weight = weights[feature]
            total += weight
            for lane in range(lanes):
                value = np.int64(hashes[feature, lane])
                lane_sums = sums[text, 64 * lane : 64 * lane + 64]
                for bit in range(64):
                    lane_sums[bit] += weight & -(value >> bit & 1)
        for bit in range(64 * lanes):
            sums[text, bit] = 2 * sums[text, bit] - total
    return sums
