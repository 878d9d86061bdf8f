"""Compiled loops from characters to MinHash; `shingles` and `minhash` define the results.

numba's cache does not watch the file of `mix`, so a change there would keep the old code. SplitMix64 never changes.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled
from streamer.fingerprint.shingle_kernels import mix

DROPPED, NARROW, WIDE = range(3)

NOTHING = np.uint64(2**64 - 1)
"""Minimum for a cell without members."""

RUN_SCORE_MIN = 25.0
RUN_MINIMA_MIN = 6
RUNS_MAX = 64
"""Most crafted runs cut from a text; an ordinary text has one with probability exp(-RUN_SCORE_MIN) per pair of bins, about."""


@compiled
def shingle(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    wide_size: int,
    narrow_size: int,
    multiplier: Any,
    mask: Any,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Kernel for `shingles.shingle_characters`: the columns of `shingles.Shingles`.

    kinds       uint8 [all code points], DROPPED, NARROW or WIDE
    multiplier  uint64, for the polynomial
    mask        uint64, XORed with every polynomial
    """
    hashes, hash_bounds = np.empty(len(codepoints), np.uint64), np.zeros(len(bounds), np.int64)
    are_wide, letters = np.empty(len(codepoints), np.bool_), np.zeros(len(bounds) - 1, np.uint32)
    # Prefix polynomials: any run's polynomial follows from two of them.
    before = np.zeros(len(codepoints) + 1, np.uint64)
    wide_power, narrow_power = _power(multiplier, wide_size), _power(multiplier, narrow_size)
    wide_ends, narrow_ends = before[wide_size:], before[narrow_size:]
    filled = np.int64(0)
    for text in range(len(bounds) - 1):
        count, polynomial = 0, np.uint64(0)
        for place in range(bounds[text], bounds[text + 1]):
            kind = kinds[codepoints[place]]
            are_wide[count] = kind == WIDE
            longer = polynomial * multiplier + np.uint64(codepoints[place])
            # No branches: a letter's kind is unpredictable. What a dropped one writes is written over.
            polynomial = longer if kind != DROPPED else polynomial
            count += kind != DROPPED
            before[count] = polynomial
        if count > 0 and count < (wide_size if are_wide[0] else narrow_size):
            hashes[filled] = mix(before[count] ^ mask)
            filled += 1
        else:
            # Where both sizes fit, a loop over many letters at a time.
            both = max(0, count + 1 - max(wide_size, narrow_size))
            for first in range(both):
                wide, narrow = wide_ends[first], narrow_ends[first]
                end, power = (wide, wide_power) if are_wide[first] else (narrow, narrow_power)
                hashes[filled + first] = mix((end - before[first] * power) ^ mask)
            filled += both
            for first in range(both, count):
                size, power = (wide_size, wide_power) if are_wide[first] else (narrow_size, narrow_power)
                if first + size <= count:
                    hashes[filled] = mix((before[first + size] - before[first] * power) ^ mask)
                    filled += 1
        hash_bounds[text + 1], letters[text] = filled, count
    return hashes[:filled], hash_bounds, letters


@compiled
def _power(base: Any, exponent: int) -> Any:
    power = np.uint64(1)
    for _ in range(exponent):
        power *= base
    return power


@compiled
def smallest(cells: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64], minima: npt.NDArray[np.uint64]) -> None:
    """MinHash itself: lower each value in `minima`, uint64 [cells], to the smallest hash in its cell.

    Hash hashes[i] lies in cell cells[i]. A cell is a set and a hash function (Broder 1997), or a bin of one function's range.
    """
    for place in range(len(cells)):
        # `min` compiles to no branch; a branch here would be unpredictable.
        minima[cells[place]] = min(minima[cells[place]], hashes[place])


@compiled
def bin_values(
    hashes: npt.NDArray[np.uint64],
    bounds: npt.NDArray[np.int64],
    bins: int,
    bin_bits: int,
    suspect: npt.NDArray[np.int64],
    certain: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Kernel for `minhash.bin_values`: shingles uint64 [m], and the texts' bounds among them, int64 [n + 1].

    suspect, certain  int64 [levels], `minhash.low_minima_max`
    """
    count, shift, longest = len(bounds) - 1, np.uint64(64), 0
    while np.uint64(1) << (np.uint64(64) - shift) < np.uint64(bins):
        shift -= np.uint64(1)
    for text in range(count):
        longest = max(longest, bounds[text + 1] - bounds[text])
    values, crafted = np.zeros((count, bins), np.uint8), np.zeros(count, np.bool_)
    minima, cells = np.empty(bins, np.uint64), np.empty(longest, np.int64)
    seen, largest = np.empty(max(2, 2 * longest), np.uint8), np.uint64((1 << bin_bits) - 1)
    for text in range(count):
        shingles = hashes[bounds[text] : bounds[text + 1]]
        for place in range(len(shingles)):
            cells[place] = np.int64(shingles[place] >> shift)
        minima[:] = NOTHING
        smallest(cells[: len(shingles)], shingles, minima)
        if len(shingles):
            distinct = _distinct(shingles, seen)
            mean = np.float64(np.uint64(1) << shift) * bins / distinct
            if _too_many_low(minima, shift, mean, suspect):
                crafted[text] = _too_many_low(minima, shift, mean, certain)
                if _cut_runs(shingles, cells, minima, shift, mean, distinct):
                    crafted[text] = True
                if _too_many_low(minima, shift, mean, certain):
                    minima[:] = NOTHING
        for each in range(bins):
            if minima[each] != NOTHING:
                low = minima[each] & np.uint64(0xFFFF_FFFF)
                values[text, each] = (low * largest >> np.uint64(32)) + np.uint64(1)
    return values, crafted


@compiled
def _distinct(hashes: npt.NDArray[np.uint64], seen: npt.NDArray[np.uint8]) -> Any:
    """Estimated number of distinct hashes, by linear counting (Whang, Vander-Zanden, Taylor 1990); at least 1.

    Repeated text must not count: padding would make crafted minima look ordinary.

    seen  uint8 [2 * hashes], scratch
    """
    size = 2
    while size < len(hashes):
        size *= 2
    seen[:size] = 0
    for place in range(len(hashes)):
        seen[np.int64((hashes[place] >> np.uint64(16)) & np.uint64(size - 1))] = 1
    taken = np.int64(0)
    for place in range(size):
        taken += np.int64(seen[place])
    return min(np.float64(len(hashes)), size * np.log(size / np.float64(max(size - int(taken), 1))))


@compiled
def _too_many_low(minima: npt.NDArray[np.uint64], shift: Any, mean: Any, low_max: npt.NDArray[np.int64]) -> bool:
    """Whether more minima lie below 1/2, 1/4 ... of their mean than `low_max` allows."""
    levels, heights = len(low_max), _heights(minima, shift, mean)
    # The exponent of a number below 1 counts its halvings: levels by bits, not by logarithms.
    exponents, counts = heights.view(np.int64), np.zeros(levels + 1, np.int64)
    for each in range(len(minima)):
        counts[min(max(np.int64(1022) - (exponents[each] >> 52), 0), levels)] += 1
    low = 0
    for level in range(levels, 0, -1):
        low += counts[level]
        if low > low_max[level - 1]:
            return True
    return False


@compiled
def _heights(minima: npt.NDArray[np.uint64], shift: Any, mean: Any) -> npt.NDArray[np.float64]:
    """Minima as multiples of their mean, float64 [bins]; infinite in empty bins."""
    heights = np.empty(len(minima), np.float64)
    for each in range(len(minima)):
        heights[each] = np.float64(minima[each] - (np.uint64(each) << shift)) / mean
        if minima[each] == NOTHING:
            heights[each] = np.inf
    return heights


@compiled
def _cut_runs(
    hashes: npt.NDArray[np.uint64],
    cells: npt.NDArray[np.int64],
    minima: npt.NDArray[np.uint64],
    shift: Any,
    mean: Any,
    distinct: Any,
) -> bool:
    """Remove runs with far more low minima than by chance, and update `minima`; returns whether there were any."""
    left, were = hashes.copy(), False
    places, order = np.empty(len(minima), np.int64), np.empty(len(minima), np.int64)
    for _ in range(RUNS_MAX):
        places[:], filled = -1, 0
        for place in range(len(left)):
            if left[place] != NOTHING and left[place] == minima[cells[place]] and places[cells[place]] < 0:
                places[cells[place]], order[filled] = place, cells[place]
                filled += 1
        first, last = _densest_run(places, order[:filled], _heights(minima, shift, mean), distinct)
        if first > last:
            break
        were = True
        left[first : last + 1] = NOTHING
        minima[:] = NOTHING
        smallest(cells[: len(left)], left, minima)
    return were


@compiled
def _densest_run(
    places: npt.NDArray[np.int64], order: npt.NDArray[np.int64], heights: npt.NDArray[np.float64], distinct: Any
) -> tuple[np.int64, np.int64]:
    """First and last place of the run whose low minima are least likely by chance; 0 and -1 if none is unlikely.

    places   int64 [bins], place of the shingle with a bin's minimum; -1 in an empty bin
    order    int64 [filled bins], by these places: a sort would take longer to compile than all else
    heights  float64 [bins], minima as multiples of their mean

    A place holds a minimum below h with probability p = bins / distinct (1 - exp(-h)). By Chernoff, l places hold c or
    more with a probability of at most exp(-l KL(c / l, p)). Tried are h = 1, 1/4, 1/16 ... 1/1024.
    """
    best, first, last = RUN_SCORE_MIN, np.int64(0), np.int64(-1)
    low = np.empty(len(places), np.int64)
    height = 1.0
    while height > 0.0005:
        chance, count = min(len(places) / distinct * (1 - np.exp(-height)), 0.999), 0
        for each in order:
            if heights[each] < height:
                low[count] = places[each]
                count += 1
        for begin in range(count - RUN_MINIMA_MIN + 1):
            for end in range(begin + RUN_MINIMA_MIN - 1, count):
                length, minima = np.float64(low[end] - low[begin] + 1), np.float64(end - begin + 1)
                # The bound costs two logarithms, and ordinary runs never come near it.
                if minima > 1.3 * length * chance:
                    score = minima * np.log(minima / (length * chance))
                    if minima < length:
                        score += (length - minima) * np.log((length - minima) / (length * (1 - chance)))
                    if score > best:
                        best, first, last = score, low[begin], low[end]
        height /= 4
    return first, last
