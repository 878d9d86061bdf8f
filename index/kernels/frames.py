"""Frames of hosts' pages, and the samples that count them. `index.matching.frame` defines a frame."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, ones

_OF_OCTETS = 0x0101_0101_0101_0101


class Counting(NamedTuple):
    """Constants: fields from `FrameRule` and limits from `index.matching.frame`.

    >>> from index.frames.hosts import counting_by
    >>> from index.matching.frame import FrameRule
    >>> counting_by(FrameRule(pages_min=7), bin_bits=8)[:3]
    (7, 128, 4)
    """

    pages_min: int
    sample_max: int
    every: int
    often_pages: int
    often_share: float
    new_min: int
    version_share: float
    version_share_unframed: float
    bin_bits: int


@compiled
def _equal(one: Any, other: Any, bin_bits: int) -> Any:
    """Lowest bit of every value in two words, set if both have the same value."""
    # Words 0x3A and 0x3B, 4 bits a value: the low values differ, so bit 0 is clear and bit 4 set.
    differing = one ^ other
    folded = differing | (differing >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        return ~(folded | (folded >> np.uint64(4))) & np.uint64(0x0101_0101_0101_0101)
    return ~folded & np.uint64(0x1111_1111_1111_1111)


@compiled
def _set_frame(
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    samples: npt.NDArray[np.uint64],
    begin: int,
    end: int,
    counting: Counting,
    own: npt.NDArray[np.uint64],
) -> bool:
    """Set the frame's bits in a row: bins whose value enough sampled pages have. Returns whether the row is novel.

    own  uint64 [signature words], changed: the lowest bit of each value that is the page's own
    """
    words, bin_bits = samples.shape[1], counting.bin_bits
    octets = np.uint64(_OF_OCTETS)
    least = max(np.int64(counting.often_pages), np.int64(np.ceil(counting.often_share * (end - begin))))
    of_word, halves, new = 64 // bin_bits, 8 // bin_bits, 0
    for word in range(words):
        value = fingerprints[row, word]
        own[word] = 0
        # Eight counters of 8 bits each; 4-bit values need two such words.
        even, odd = np.uint64(0), np.uint64(0)
        for page in range(begin, end):
            equal = _equal(value, samples[page, word], bin_bits)
            even += equal & octets
            odd += (equal >> np.uint64(4)) & octets
        for place in range(of_word):
            if (value >> np.uint64(place * bin_bits)) & np.uint64((1 << bin_bits) - 1) == 0:
                continue
            count = (odd if halves == 2 and place % 2 else even) >> np.uint64(8 * (place // halves)) & np.uint64(0xFF)
            new += count == 0
            if end - begin >= counting.pages_min and np.int64(count) >= least:
                bit = word * of_word + place
                fingerprints[row, words + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)
            else:
                own[word] |= np.uint64(1) << np.uint64(place * bin_bits)
    # A page without novelty has all bins in its frame: the plain distance applies.
    if new >= counting.new_min or end - begin < counting.pages_min:
        return True
    for word in range(words, fingerprints.shape[1]):
        fingerprints[row, word] = ~np.uint64(0)
    return False


@compiled
def _is_version(
    own: npt.NDArray[np.uint64],
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    samples: npt.NDArray[np.uint64],
    begin: int,
    end: int,
    counting: Counting,
) -> bool:
    """Whether a sampled page has enough of a row's own values to be a version of it, or equal."""
    count = np.int64(0)
    for word in own:
        count += np.int64(ones(word))
    framed = end - begin >= counting.pages_min
    least = (counting.version_share if framed else counting.version_share_unframed) * count
    for page in range(begin, end):
        alike, left = np.int64(0), count
        for word in range(len(own)):
            # Most pages drop out after a few words.
            if own[word] == 0 or alike + left < least:
                continue
            alike += np.int64(ones(_equal(fingerprints[row, word], samples[page, word], counting.bin_bits) & own[word]))
            left -= np.int64(ones(own[word]))
        if alike >= least:
            return True
    return False


@compiled
def set_frames(
    fingerprints: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    hosts: npt.NDArray[np.int64],
    samples: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    taken: npt.NDArray[np.int64],
    learning: bool,
    counting: Counting,
) -> npt.NDArray[np.bool_]:
    """Set the rows' frames, in order, each from the host's earlier pages: changes fingerprints, uint64 [n, words].

    rows     int64 [m]
    hosts    int64 [m], sample of each row
    samples  uint64 [p, signature words], for all hosts; changed if `learning`
    begins   int64 [h], each sample's first page, with room for all its rows, up to sample_max
    taken    int64 [h], pages ever taken into each sample; changed too

    Returns the changed samples, bool [h].
    """
    changed, most = np.zeros(len(taken), np.bool_), counting.sample_max
    words = samples.shape[1]
    own = np.empty(words, np.uint64)
    for at in range(len(rows)):
        row, host = rows[at], hosts[at]
        begin = begins[host]
        end = begin + min(taken[host], most)
        is_new = _set_frame(fingerprints, row, samples, begin, end, counting, own)
        if not learning or not is_new or _is_version(own, fingerprints, row, samples, begin, end, counting):
            continue
        # A full sample takes one page in `every`. A hash of the page decides, so a replay decides alike.
        if taken[host] >= most:
            chance = np.uint64(0)
            for word in range(words):
                chance = (chance ^ fingerprints[row, word]) * np.uint64(0x9E3779B97F4A7C15)
            if np.int64(chance >> np.uint64(33)) % counting.every:
                continue
        # The sample is a ring: with 4 places, the sixth page replaces the second.
        place = begin + taken[host] % most
        for word in range(words):
            samples[place, word] = fingerprints[row, word]
        taken[host] += 1
        changed[host] = True
    return changed


@compiled
def admit_hosts(
    keys: npt.NDArray[np.uint64],
    of_groups: npt.NDArray[np.int64],
    counted: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.uint8],
    hosts: npt.NDArray[np.uint64],
    seen: npt.NDArray[np.uint64],
    met_min: int,
    halved_every: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Count documents of these hosts in order, uint64 [m], and give hosts places for samples; changes the groups.

    of_groups     int64 [m], each host's group
    counted, ...  as `HostGroups`; a new host takes the place that was not seen for longest
    met_min       a host's documents before its sample begins
    halved_every  a group's documents between two halvings

    Returns each document's place for its host's sample, int64 [m], -1 without one; and bool [m], whether it begins there.
    """
    places, begins = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.bool_)
    count, most = counts.shape[1], hosts.shape[1]
    for at in range(len(keys)):
        key, group = keys[at], of_groups[at]
        # 16 groups and 4,096 counters: 4 high bits and the next 12.
        slot = np.int64((key >> np.uint64(48)) & np.uint64(count - 1))
        place, oldest = 0, 0
        while place < most and hosts[group, place] != key:
            if seen[group, place] < seen[group, oldest]:
                oldest = place
            place += 1
        if place == most and counts[group, slot] >= met_min:
            place, begins[at] = oldest, True
            hosts[group, place] = key
        counted[group] += np.uint64(1)
        if place < most:
            places[at], seen[group, place] = group * most + place, counted[group]
        counts[group, slot] = min(counts[group, slot], 254) + 1
        if counted[group] % np.uint64(halved_every) == 0:
            for each in range(count):
                counts[group, each] >>= 1
    return places, begins
