"""Compiled loops over pages of hosts: their frames, and the samples that these are counted in. See `index.kernels`.

`index.matching.frame` defines what a frame is.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

_OF_OCTETS = 0x0101_0101_0101_0101


class Counting(NamedTuple):
    """Numbers that stay the same: fields of `FrameRule`, and OFTEN_PAGES_MIN and OFTEN_SHARE_MIN of `frame`."""

    pages_min: int
    every: int
    often_pages: int
    often_share: float
    bin_bits: int


@compiled
def _equal(one: Any, other: Any, bin_bits: int) -> Any:
    """The lowest bit of every value of two words, set where both have the same value."""
    differing = one ^ other
    folded = differing | (differing >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        return ~(folded | (folded >> np.uint64(4))) & np.uint64(0x0101_0101_0101_0101)
    return ~folded & np.uint64(0x1111_1111_1111_1111)


@compiled
def _is_sampled(samples: npt.NDArray[np.uint64], host: int, pages: int, fingerprints: Any, row: int) -> bool:
    """Whether a sample has the signature of a row."""
    words = samples.shape[2]
    for page in range(pages):
        word = 0
        while word < words and samples[host, page, word] == fingerprints[row, word]:
            word += 1
        if word == words:
            return True
    return False


@compiled
def _set_frame(
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    samples: npt.NDArray[np.uint64],
    host: int,
    pages: int,
    counting: Counting,
) -> None:
    """Set the frame's bits of a row: bins whose value enough pages of the sample have."""
    words, bin_bits = samples.shape[2], counting.bin_bits
    octets = np.uint64(_OF_OCTETS)
    least = max(np.int64(counting.often_pages), np.int64(np.ceil(counting.often_share * pages)))
    of_word, halves = 64 // bin_bits, 8 // bin_bits
    for word in range(words):
        value = fingerprints[row, word]
        # Eight counters of 8 bits each; values of 4 bits have two times eight.
        even, odd = np.uint64(0), np.uint64(0)
        for page in range(pages):
            equal = _equal(value, samples[host, page, word], bin_bits)
            even += equal & octets
            odd += (equal >> np.uint64(4)) & octets
        for place in range(of_word):
            count = (odd if halves == 2 and place % 2 else even) >> np.uint64(8 * (place // halves)) & np.uint64(0xFF)
            is_filled = (value >> np.uint64(place * bin_bits)) & np.uint64((1 << bin_bits) - 1)
            if is_filled != 0 and np.int64(count) >= least:
                bit = word * of_word + place
                fingerprints[row, words + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)


@compiled
def set_frames(
    fingerprints: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    hosts: npt.NDArray[np.int64],
    samples: npt.NDArray[np.uint64],
    taken: npt.NDArray[np.int64],
    learning: bool,
    counting: Counting,
) -> npt.NDArray[np.bool_]:
    """Set the frames of rows, in order, each by the pages of its host before it: changes fingerprints, uint64 [n, words].

    rows      int64 [m]
    hosts     int64 [m], the sample of each
    samples   uint64 [h, pages, signature words]; changed, unless no row is to be learnt from
    taken     int64 [h], pages taken into each, ever; changed too

    Gives which samples were changed, bool [h].
    """
    changed, most = np.zeros(len(taken), np.bool_), samples.shape[1]
    words = samples.shape[2]
    for at in range(len(rows)):
        row, host = rows[at], hosts[at]
        pages = min(taken[host], most)
        if pages >= counting.pages_min:
            _set_frame(fingerprints, row, samples, host, pages, counting)
        if not learning or _is_sampled(samples, host, pages, fingerprints, row):
            continue
        if pages == most:
            chance = np.uint64(0)
            for word in range(words):
                chance = (chance ^ fingerprints[row, word]) * np.uint64(0x9E3779B97F4A7C15)
            if np.int64(chance >> np.uint64(33)) % counting.every:
                continue
        place = taken[host] % most
        for word in range(words):
            samples[host, place, word] = fingerprints[row, word]
        taken[host] += 1
        changed[host] = True
    return changed
