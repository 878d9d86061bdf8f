"""Word weights: one function a formula, in whole numbers, so that sums are exact in any order.

A factor counts units of 1 / FACTOR_UNIT; FACTOR_UNIT itself means 1. An occurrence's factors multiply (`multiply`). A feature
with several words weighs their sum (`shingle_weights`). `feature_weights` combines its occurrences.

`bounds` is int64 [n + 1]: text i has the words bounds[i]:bounds[i + 1].
"""

import math

import numpy as np
import numpy.typing as npt

from streamer.fingerprint.word_shingles import shingle_counts
from streamer.text.characters import ragged

FACTOR_BITS = 16
FACTOR_UNIT = 1 << FACTOR_BITS
_HALF = FACTOR_UNIT >> 1

TOPIC_LENGTH_MEAN_CHARACTERS = 4.51
TOPIC_LENGTH_DEVIATION_CHARACTERS = 2.207
"""Fitted on the lengths of 10,000 Chinese terms; published with improved SimHash I."""

_LINE_FEED, _FULL_STOP, _IDEOGRAPHIC_STOP = 0x0A, 0x2E, 0x3002
_SENTENCE_ENDS = (_LINE_FEED, _IDEOGRAPHIC_STOP, 0x21, 0x3B, 0x3F)
_WHITE_SPACE = (0x09, _LINE_FEED, 0x0D, 0x20)


def fixed(factor: float) -> int:
    """Factor in units of 1 / FACTOR_UNIT, rounded."""
    return round(factor * FACTOR_UNIT)


def multiply(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Products of two factor columns, rounded to the nearest, halves upwards: int64.

    >>> multiply(np.array([fixed(1.5)]), np.array([fixed(2)])) == fixed(3)
    array([ True])
    """
    return (left * right + _HALF) >> FACTOR_BITS


def topic_length_factor(characters: int) -> int:
    """1 + len(x) for a word with x characters: len is the normal density for topic words' lengths, scaled to a peak of 1.

    len(x) = exp(-(x - mean)**2 / (2 * deviation**2)), mean 4.51 and deviation 2.207 characters (improved SimHash I).
    """
    away = (characters - TOPIC_LENGTH_MEAN_CHARACTERS) / TOPIC_LENGTH_DEVIATION_CHARACTERS
    return fixed(1.0 + math.exp(-0.5 * away * away))


def word_length_factors(lengths: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 + (length - shortest) / (longest - shortest) over each text's words, rounded down (improved SimHash II): int64 [words].

    lengths  int64 [words], characters

    1 if all words in a text are equally long.
    """
    counts = np.diff(bounds)
    filled = np.flatnonzero(counts)
    shortest, longest = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    if filled.size:
        shortest[filled] = np.minimum.reduceat(lengths, bounds[filled])
        longest[filled] = np.maximum.reduceat(lengths, bounds[filled])
    spread = np.repeat(np.maximum(longest - shortest, 1), counts)
    return np.asarray(FACTOR_UNIT + (lengths - np.repeat(shortest, counts)) * FACTOR_UNIT // spread)


def sentences(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Words' sentence numbers, int64 [words], ascending, distinct between texts.

    bounds  int64 [n + 1], the texts' bounds among the characters
    starts  int64 [words], the first character of each word

    A sentence ends at a line feed, at 。 ! ? or ;, at a full stop before white space, and with its text.
    """
    borders = np.zeros(len(codepoints) + 1, np.bool_)
    borders[bounds] = True
    ends = _is_any(codepoints, _SENTENCE_ENDS)
    followed = np.ones(len(codepoints), np.bool_)
    followed[:-1] = _is_any(codepoints[1:], _WHITE_SPACE) | borders[1:-1]
    ends |= (codepoints == _FULL_STOP) & followed
    borders[1:] |= ends
    return np.asarray(np.cumsum(borders, dtype=np.int64)[starts])


def marked(numbers: npt.NDArray[np.int64], opens_marker: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether each word's sentence has a marker: bool [words].

    numbers       int64 [words], the words' sentences (`sentences`)
    opens_marker  bool [words], True at the first word of a marker
    """
    if len(numbers) == 0:
        return opens_marker
    has_marker = np.zeros(int(numbers[-1]) + 1, np.bool_)
    has_marker[numbers[opens_marker]] = True
    return has_marker[numbers]


def in_title(
    keys: npt.NDArray[np.uint64],
    texts: npt.NDArray[np.int64],
    title_keys: npt.NDArray[np.uint64],
    title_texts: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Whether each feature also occurs in its text's title: bool [features].

    keys, title_keys    uint64 [features]
    texts, title_texts  int64 [features], each feature's text number
    """
    distinct = np.unique(title_keys)
    if len(distinct) == 0:
        return np.zeros(len(keys), np.bool_)
    # One number holds a feature's rank and its text, so that no feature meets the title of another text.
    ranks = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    pairs = np.unique(title_texts * len(distinct) + np.searchsorted(distinct, title_keys))
    return np.asarray((distinct[ranks] == keys) & np.isin(texts * len(distinct) + ranks, pairs))


def shingle_weights(weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Each shingle's sum of word weights, int64 [shingles], ordered as by `word_shingles.shingle`."""
    counts = shingle_counts(bounds, size)
    starts, ends = ragged(bounds[:-1], counts), np.repeat(bounds[1:], counts)
    until = np.zeros(len(weights) + 1, np.int64)
    np.cumsum(weights, out=until[1:])
    return np.asarray(until[np.minimum(starts + size, ends)] - until[starts])


def feature_weights(
    totals: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], logarithms: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """Weight of features that occur `counts` times with weights that add up to `totals`: int64 [features].

    Without logarithms the weight is the total: tf times an occurrence's mean weight. Logarithms, 1 + ln tf in units of 1 /
    FACTOR_UNIT, replace tf. Every product and mean is rounded to the nearest.
    """
    if logarithms is None:
        return totals
    return multiply((totals + (counts >> 1)) // counts, logarithms)


def _is_any(codepoints: npt.NDArray[np.uint32], wanted: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    matches = np.zeros(len(codepoints), np.bool_)
    for codepoint in wanted:
        matches |= codepoints == codepoint
    return matches
