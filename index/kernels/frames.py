"""Frames of hosts' pages, and the samples that count them. `index.matching.frame` defines a frame."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, ones

_OCTETS = 0x0101_0101_0101_0101


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
    same_share: float
    version_share: float
    template_pages: int
    split_share: float
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
    octets = np.uint64(_OCTETS)
    least = max(np.int64(counting.often_pages), np.int64(np.ceil(counting.often_share * (end - begin))))
    per_word, halves, new = 64 // bin_bits, 8 // bin_bits, 0
    for word in range(words):
        value = fingerprints[row, word]
        own[word] = 0
        # Eight counters of 8 bits each; 4-bit values need two such words.
        even, odd = np.uint64(0), np.uint64(0)
        for page in range(begin, end):
            equal = _equal(value, samples[page, word], bin_bits)
            even += equal & octets
            odd += (equal >> np.uint64(4)) & octets
        for place in range(per_word):
            if (value >> np.uint64(place * bin_bits)) & np.uint64((1 << bin_bits) - 1) == 0:
                continue
            count = (odd if halves == 2 and place % 2 else even) >> np.uint64(8 * (place // halves)) & np.uint64(0xFF)
            new += count == 0
            if end - begin >= counting.pages_min and np.int64(count) >= least:
                bit = word * per_word + place
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
def _like(
    own: npt.NDArray[np.uint64],
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    pages: npt.NDArray[np.uint64],
    begin: int,
    end: int,
    share: float,
    bin_bits: int,
) -> int:
    """First of these pages that has this share of a row's own values, or -1."""
    count = np.int64(0)
    for word in own:
        count += np.int64(ones(word))
    least = share * count
    for page in range(begin, end):
        alike, left = np.int64(0), count
        for word in range(len(own)):
            # Most pages drop out after a few words.
            if own[word] == 0 or alike + left < least:
                continue
            alike += np.int64(ones(_equal(fingerprints[row, word], pages[page, word], bin_bits) & own[word]))
            left -= np.int64(ones(own[word]))
        if alike >= least:
            return page
    return -1


@compiled
def _template_of(
    own: npt.NDArray[np.uint64],
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    sampled: npt.NDArray[np.uint64],
    waiting: npt.NDArray[np.uint64],
    count: int,
    counting: Counting,
    chosen: npt.NDArray[np.int64],
) -> int:
    """Choose the waiting pages of a row's template, in order: sets chosen, int64 [waiting_max]. Returns how many; 0: none.

    sampled  uint64 [words], the sampled page of which the row may be a version
    waiting  uint64 [waiting_max, words], of which `count` are there
    """
    found, bin_bits = 0, counting.bin_bits
    for page in range(count):
        if _like(own, fingerprints, row, waiting, page, page + 1, counting.version_share, bin_bits) == page:
            chosen[found] = page
            found += 1
    if found + 1 < counting.template_pages:
        return 0
    new, split = np.int64(0), np.int64(0)
    for word in range(len(own)):
        value = fingerprints[row, word]
        had, against = _equal(value, sampled[word], bin_bits), np.uint64(0)
        for place in range(found):
            one = waiting[chosen[place], word]
            equal = _equal(value, one, bin_bits)
            had |= equal
            against |= _equal(one, sampled[word], bin_bits) & ~equal
            for other in range(place):
                against |= _equal(one, waiting[chosen[other], word], bin_bits) & ~equal
        new += np.int64(ones(own[word] & ~had))
        split += np.int64(ones(own[word] & had & against))
    # Values AABBC: edits pile up. Values AAABC: each page has its own.
    return found if split < counting.split_share * new else 0


@compiled
def _remove(pages: npt.NDArray[np.uint64], count: int, chosen: npt.NDArray[np.int64], found: int) -> int:
    """Close up the pages behind the `found` chosen ones, in order. Returns how many stay."""
    stay, place = 0, 0
    for page in range(count):
        if place < found and chosen[place] == page:
            place += 1
        else:
            pages[stay] = pages[page]
            stay += 1
    return stay


@compiled
def _is_due(page: npt.NDArray[np.uint64], every: int) -> Any:
    """Whether a full sample takes the page: one in `every`. A hash of the page decides, so a replay decides alike."""
    chance = np.uint64(0)
    for word in page:
        chance = (chance ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(chance >> np.uint64(33)) % every == 0


@compiled
def _hold(
    own: npt.NDArray[np.uint64],
    fingerprints: npt.NDArray[np.uint64],
    row: int,
    sampled: npt.NDArray[np.uint64],
    held: npt.NDArray[np.uint64],
    count: int,
    counting: Counting,
    chosen: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """Let a version wait, in place of the oldest one if all places are taken, or find its template.

    Returns how many pages wait after it, and how many are chosen, which still wait; -1 for both: a like one waits already.
    """
    if _like(own, fingerprints, row, held, 0, count, counting.same_share, counting.bin_bits) >= 0:
        return -1, -1
    found = _template_of(own, fingerprints, row, sampled, held, count, counting, chosen)
    if found:
        return count, found
    if count == len(held):
        chosen[0] = 0
        count = _remove(held, count, chosen, 1)
    held[count] = fingerprints[row, : held.shape[1]]
    return count + 1, 0


@compiled
def set_frames(
    fingerprints: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    hosts: npt.NDArray[np.int64],
    samples: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    taken: npt.NDArray[np.int64],
    waiting: npt.NDArray[np.uint64],
    waits: npt.NDArray[np.int64],
    learning: bool,
    counting: Counting,
) -> npt.NDArray[np.bool_]:
    """Set the rows' frames, in order, each from the host's earlier pages: changes fingerprints, uint64 [n, words].

    rows     int64 [m]
    hosts    int64 [m], sample of each row
    samples  uint64 [p, signature words], for all hosts; changed if `learning`
    begins   int64 [h], each sample's first page, with room for all its rows and what waits, up to sample_max
    taken    int64 [h], pages ever taken into each sample; changed too
    waiting  uint64 [h, waiting_max, signature words], versions of sampled pages; changed too
    waits    int64 [h], how many of them are there; changed too

    Returns the changed samples, bool [h].
    """
    changed, most, words = np.zeros(len(taken), np.bool_), counting.sample_max, samples.shape[1]
    own, chosen = np.empty(words, np.uint64), np.empty(waiting.shape[1], np.int64)
    for at in range(len(rows)):
        row, host = rows[at], hosts[at]
        begin = begins[host]
        end, held = begin + min(taken[host], most), waiting[host]
        is_new = _set_frame(fingerprints, row, samples, begin, end, counting, own)
        if not learning or not is_new:
            continue
        if _like(own, fingerprints, row, samples, begin, end, counting.same_share, counting.bin_bits) >= 0:
            continue
        version, found = -1, 0
        if end - begin >= counting.pages_min:
            version = _like(own, fingerprints, row, samples, begin, end, counting.version_share, counting.bin_bits)
        if version >= 0:
            count, found = _hold(own, fingerprints, row, samples[version], held, waits[host], counting, chosen)
            if found < 0:
                continue
            waits[host], changed[host] = count, True
            if found == 0:
                continue
        elif taken[host] >= most and not _is_due(fingerprints[row, :words], counting.every):
            continue
        # The sample is a ring: with 4 places, the sixth page replaces the second.
        for place in range(found):
            samples[begin + taken[host] % most] = held[chosen[place]]
            taken[host] += 1
        samples[begin + taken[host] % most] = fingerprints[row, :words]
        taken[host] += 1
        waits[host], changed[host] = _remove(held, waits[host], chosen, found), True
    return changed


@compiled
def admit_hosts(
    keys: npt.NDArray[np.uint64],
    group_places: npt.NDArray[np.int64],
    counted: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.uint8],
    hosts: npt.NDArray[np.uint64],
    seen: npt.NDArray[np.uint64],
    met_min: int,
    halved_every: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Count documents of these hosts in order, uint64 [m], and give hosts places for samples; changes the groups.

    group_places  int64 [m], each host's group
    counted, ...  as `HostGroups`; a new host takes the place that was not seen for longest
    met_min       a host's documents before its sample begins
    halved_every  a group's documents between two halvings

    Returns each document's place for its host's sample, int64 [m], -1 without one; and bool [m], whether it begins there.
    """
    places, begins = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.bool_)
    count, most = counts.shape[1], hosts.shape[1]
    for at in range(len(keys)):
        key, group = keys[at], group_places[at]
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
