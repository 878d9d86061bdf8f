"""Hashes and weights of features -> fingerprints: SimHash (Charikar 2002; Manku, Jain, Das Sarma 2007) in plain numpy.

All sums are sums of integers, so the order of features, the batch and the machine change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.text import ragged
from streamer.weights import FACTOR_UNIT

WEIGHT_UNIT = FACTOR_UNIT
"""Logarithmic weights are counted in this fraction of one."""

# Byte lanes count to 255, so no segment of equally weighted features is longer.
_SEGMENT_FEATURES = 255
_SLICE_FEATURES = 64 * _SEGMENT_FEATURES
_SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view("<u8").ravel()
"""A byte's eight bits as the eight bytes of one number, bit i in byte i."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different features of n texts, each once.

    hashes  uint64 [features, lanes], text after text, in no particular order within one
    counts  int64 [features], how often the text holds it (tf)
    totals  int64 [features], the weights of its occurrences added up
    texts   int64 [features], ascending
    bounds  int64 [n + 1]
    """

    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]


def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes of the runs of `size` consecutive words of each text, and the texts' bounds among them.

    A text with fewer words, but any, has one shingle: all of them. The hash of words w1 ... wk is a chain,
    a0 = 0, ai = mix(a(i-1) + wi + 0x9E3779B97F4A7C15), with the finaliser of SplitMix64 as `mix` (Steele, Lea, Flood
    2014; Stafford's variant 13), lane by lane: it depends on the order of the words and on each of them bijectively.
    """
    word_counts = np.diff(bounds)
    counts = np.maximum(word_counts - (size - 1), np.minimum(word_counts, 1))
    shingle_bounds = np.concatenate([[0], np.cumsum(counts)])
    starts = ragged(bounds[:-1], counts)
    ends = np.repeat(bounds[1:], counts)
    chain = np.zeros((len(starts), hashes.shape[1]), np.uint64)
    for step in range(size):
        present = starts + step < ends
        if present.all():
            chain = mix(chain + hashes[starts + step])
        else:
            chain[present] = mix(chain[present] + hashes[starts[present] + step])
    return chain, shingle_bounds


def count_distinct(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None = None
) -> Distinct:
    """Gather equal features of each text. At most 65,536 texts. An occurrence without weights weighs 1."""
    texts = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    digits = [*np.ascontiguousarray(hashes, "<u8").view("<u2").T, texts.astype(np.uint16)]
    # 32 bits of the hash nearly always suffice to bring equal features of a text together.
    order = sorted_by([*digits[:2], digits[-1]])
    sorted_hashes, sorted_texts = hashes[order], texts[order]
    equal = _equals_previous(sorted_hashes)
    low = sorted_hashes[:, 0].astype(np.uint32)
    if ((low[1:] == low[:-1]) & (sorted_texts[1:] == sorted_texts[:-1]) & ~equal[1:]).any():
        order = sorted_by(digits)
        sorted_hashes, sorted_texts = hashes[order], texts[order]
        equal = _equals_previous(sorted_hashes)
    equal[1:] &= sorted_texts[1:] == sorted_texts[:-1]
    firsts = np.flatnonzero(~equal)
    counts = np.diff(firsts, append=len(order))
    return Distinct(
        sorted_hashes[firsts],
        counts,
        counts if weights is None or not len(firsts) else np.add.reduceat(weights[order], firsts),
        sorted_texts[firsts],
        np.searchsorted(sorted_texts[firsts], np.arange(len(bounds))),
    )


def sorted_by(digits: Sequence[npt.NDArray[np.uint16]]) -> npt.NDArray[np.int64]:
    """The order of rows by numbers of several digits, the highest digit last; equal rows as they stood: int64 [rows].

    numpy sorts 16 bits by counting, several times as fast as it compares wider numbers on most machines.
    """
    order = np.argsort(digits[0], kind="stable")
    for digit in digits[1:]:
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def log_weights(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 + ln tf in units of 1 / WEIGHT_UNIT, rounded to the nearest: int64 [features]."""
    return np.rint((1.0 + np.log(counts)) * WEIGHT_UNIT).astype(np.int64)


def simhash(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Bit i of a text's fingerprint is 1 where its sum i is over 0; a sum of 0 gives 0. uint64 [n, lanes]."""
    positive = bit_sums(hashes, weights, bounds) > 0
    return np.packbits(positive, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def bit_sums(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sum i of a text: over its features, + weight where bit i of the hash is 1, else - weight.

    hashes   uint64 [features, lanes]
    weights  int64 [features], 0 or more; fastest where equal ones of a text are neighbours
    bounds   int64 [n + 1], text j has the features bounds[j]:bounds[j + 1]
    Returns int64 [n, 64 * lanes], exact while the weights of a text add up to less than 2**62.

    The bits of a hash byte are spread to eight byte counters in one number, and features of one text and weight are
    counted by adding such numbers: eight bits at once, 255 features at most.
    """
    lanes = hashes.shape[1]
    sums = np.zeros((len(bounds) - 1, 64 * lanes), np.int64)
    totals = np.zeros(len(bounds) - 1, np.int64)
    octets = hashes.astype("<u8", copy=False).view(np.uint8)
    starting = np.zeros(len(hashes) + 1, np.bool_)
    starting[bounds] = True
    starting[1:-1] |= weights[1:] != weights[:-1]
    starting[::_SEGMENT_FEATURES] = True
    for begin in range(0, len(hashes), _SLICE_FEATURES):
        end = min(begin + _SLICE_FEATURES, len(hashes))
        starts = np.flatnonzero(starting[begin:end])
        spread = _SPREAD[octets[begin:end].T]
        counted = np.add.reduceat(spread, starts, axis=1)
        counters = np.ascontiguousarray(counted.T).view(np.uint8).astype(np.int64)
        segment_weights = weights[begin + starts]
        segment_texts = np.searchsorted(bounds, begin + starts, side="right") - 1
        texts_begin = np.flatnonzero(np.diff(segment_texts, prepend=-1))
        rows = segment_texts[texts_begin]
        sums[rows] += np.add.reduceat(counters * segment_weights[:, None], texts_begin, axis=0)
        segment_lengths = np.diff(starts, append=end - begin)
        totals[rows] += np.add.reduceat(segment_lengths * segment_weights, texts_begin)
    return 2 * sums - totals[:, None]


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser of each number plus 0x9E3779B97F4A7C15, one to one: uint64 [any]."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _equals_previous(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    equal = np.zeros(len(rows), np.bool_)
    equal[1:] = (rows[1:] == rows[:-1]).all(axis=1)
    return equal
