"""Bins of MinHash signatures, word by word: distances without and with the frames of hosts, and lengths of own text.

`index.matching.minhash` and `index.matching.frame` define the results. A fingerprint is a signature followed by its
frame's bits. A mask of bins has the lowest bit of each value set.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, inner, ones


class OwnLimits(NamedTuple):
    """Limits from `index.matching.frame`: OWN_BINS_MIN, OWN_DOUBT, APART_BINS_MIN and OWN_SHARE_MIN."""

    bins_min: int
    doubt: int
    template_bins_min: int
    share_min: float


@inner
def _filled(word: Any, bin_bits: int, lowest: Any) -> Any:
    """Lowest bit of every value in a word, set if the value is not 0; lowest: these bits for all values."""
    # 4 bits a value: 0x0A40 folds to bits 0x0110.
    folded = word | (word >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        folded |= folded >> np.uint64(4)
    return folded & lowest


@inner
def _lowest(bin_bits: int) -> Any:
    return np.uint64(0x1111_1111_1111_1111 if bin_bits == 4 else 0x0101_0101_0101_0101)


@inner
def signature_words(words: int) -> Any:
    """See `frame.signature_words`."""
    signature = 1
    while 2 * signature <= words:
        signature *= 2
    return signature


@inner
def _spread(bits: Any, bin_bits: int) -> Any:
    """Spread one word's frame bits, from the lowest on, to each value's lowest bit."""
    # 8 bits a value: 0b101 becomes 0x010001.
    if bin_bits == 8:
        bits = (bits | bits << np.uint64(28)) & np.uint64(0x0000_000F_0000_000F)
        bits = (bits | bits << np.uint64(14)) & np.uint64(0x0003_0003_0003_0003)
        return (bits | bits << np.uint64(7)) & np.uint64(0x0101_0101_0101_0101)
    bits = (bits | bits << np.uint64(24)) & np.uint64(0x0000_00FF_0000_00FF)
    bits = (bits | bits << np.uint64(12)) & np.uint64(0x000F_000F_000F_000F)
    bits = (bits | bits << np.uint64(6)) & np.uint64(0x0303_0303_0303_0303)
    return (bits | bits << np.uint64(3)) & np.uint64(0x1111_1111_1111_1111)


@inner
def _in_frame(fingerprints: npt.NDArray[np.uint64], row: Any, word: Any, signature: Any, bin_bits: int) -> Any:
    """Values in a fingerprint's word that are in its frame, at the lowest bit of each."""
    per_word = 64 // bin_bits
    bit = word * per_word
    bits = fingerprints[row, signature + (bit >> 6)] >> np.uint64(bit & 63)
    return _spread(bits & np.uint64((1 << per_word) - 1), bin_bits)


@inner
def brings_nothing_new(fingerprints: npt.NDArray[np.uint64], row: Any, signature: Any) -> Any:
    """Whether all bins are in the fingerprint's frame."""
    for word in range(signature, fingerprints.shape[1]):
        if ~fingerprints[row, word] != 0:
            return False
    return signature < fingerprints.shape[1]


@compiled
def is_framed(fingerprints: npt.NDArray[np.uint64], row: Any, signature: Any) -> Any:
    """Whether any bin is in the fingerprint's frame."""
    framed = np.uint64(0)
    for word in range(signature, fingerprints.shape[1]):
        framed |= fingerprints[row, word]
    return framed != 0


@inner
def _distance(either: Any, both: Any, differing: Any, bin_bits: int, units: int) -> Any:
    """1 - similarity in units, from counts of bins; `matching.minhash` defines it. Without any value: the largest distance.

    Integers only: 1 - similarity = (V differing - either + both) / ((V - 1) either), with `differing` the bins filled in
    either that do not agree.
    """
    values = (1 << bin_bits) - 1
    above, below = values * differing - either + both, max((values - 1) * either, np.int64(1))
    distance = (2 * units * above + below) // (2 * below) if either else np.int64(units)
    return max(np.int64(0), min(np.int64(units), distance))


@inner
def _counts(one: Any, other: Any, bin_bits: int, bins: Any) -> Any:
    """Bins of two words with a value in either, in both, and with unlike values, int64 each; bins: those that count."""
    filled_one, filled_other = _filled(one, bin_bits, bins), _filled(other, bin_bits, bins)
    unlike = _filled(one ^ other, bin_bits, bins)
    return np.int64(ones(filled_one | filled_other)), np.int64(ones(filled_one & filled_other)), np.int64(ones(unlike))


@inner
def bin_distances(
    left: npt.NDArray[np.uint64],
    row: Any,
    right: npt.NDArray[np.uint64],
    place: Any,
    bin_bits: int,
    units: int,
    limits: OwnLimits,
) -> Any:
    """Distances of a row in left to an earlier document in right, int64 each: plain, and as `matching.frame` defines it."""
    either, both, differing = np.int64(0), np.int64(0), np.int64(0)
    lowest, signature = _lowest(bin_bits), signature_words(left.shape[1])
    for word in range(signature):
        more = _counts(left[row, word], right[place, word], bin_bits, lowest)
        either, both, differing = either + more[0], both + more[1], differing + more[2]
    plain = _distance(either, both, differing, bin_bits, units)
    has_frame = is_framed(left, row, signature) or is_framed(right, place, signature)
    if not has_frame or differing == 0 or brings_nothing_new(left, row, signature):
        return plain, plain
    # Frames matter only from here on: count the bins that are the pages' own.
    shared, unlike, any_side, alike = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for word in range(signature):
        one, other = left[row, word], right[place, word]
        one_framed = _in_frame(left, row, word, signature, bin_bits)
        other_framed = _in_frame(right, place, word, signature, bin_bits)
        unequal = _filled(one ^ other, bin_bits, lowest)
        own_one = _filled(one, bin_bits, lowest) & ~one_framed
        own_other = _filled(other, bin_bits, lowest) & ~other_framed
        on_any_side = (own_one | own_other) & (unequal | ~(one_framed | other_framed))
        shared += np.int64(ones(own_one & own_other))
        unlike += np.int64(ones(own_one & own_other & unequal))
        any_side += np.int64(ones(on_any_side))
        alike += np.int64(ones(on_any_side & ~unequal))
    least = np.int64(units)
    # Few own bins must agree better than many.
    if shared >= limits.bins_min:
        by_own = _distance(shared, shared, unlike, bin_bits, units) * (shared + limits.doubt) // shared
        least = max(np.int64(1), min(np.int64(units), by_own))
    # Too few equal own bins: two pages with one template, so the plain distance does not count.
    if any_side < limits.template_bins_min or alike >= limits.share_min * any_side:
        least = min(least, plain)
    return plain, least


@inner
def own_distance(
    left: npt.NDArray[np.uint64],
    row: Any,
    right: npt.NDArray[np.uint64],
    place: Any,
    bin_bits: int,
    units: int,
) -> Any:
    """1 - similarity in units by the bins in neither frame; 0 if both pages have no others."""
    either, both, differing = np.int64(0), np.int64(0), np.int64(0)
    lowest, signature = _lowest(bin_bits), signature_words(left.shape[1])
    has_frame = is_framed(left, row, signature) or is_framed(right, place, signature)
    for word in range(signature):
        own = lowest
        if has_frame:
            own &= ~_in_frame(left, row, word, signature, bin_bits)
            own &= ~_in_frame(right, place, word, signature, bin_bits)
        more = _counts(left[row, word], right[place, word], bin_bits, own)
        either, both, differing = either + more[0], both + more[1], differing + more[2]
    return _distance(either, both, differing, bin_bits, units) if either else np.int64(0)


@compiled
def distances(
    left: npt.NDArray[np.uint64],
    right: npt.NDArray[np.uint64],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
    bin_bits: int,
    units: int,
    limits: OwnLimits,
) -> npt.NDArray[np.int16]:
    """`bin_distances` between left[left_rows[i]] and right[right_rows[i]]: int16 [2, m]."""
    found = np.empty((2, len(left_rows)), np.int16)
    for pair in range(len(left_rows)):
        found[0, pair], found[1, pair] = bin_distances(
            left, left_rows[pair], right, right_rows[pair], bin_bits, units, limits
        )
    return found


@compiled
def exceeds(length: Any, root_length: Any, longer: int) -> Any:
    """Whether a length is `longer` ten-thousandths above a root's, for numbers or int64 [n] each; never if either is 0."""
    # 1,100 letters are too many for a root of 1,000 with longer = 1,000; 1,099 are not.
    return (length * 10_000 >= root_length * (10_000 + longer)) & (root_length > 0) & (longer > 0)


@compiled
def in_one_frame(fingerprints: npt.NDArray[np.uint64], row: Any, root: Any, bin_bits: int) -> Any:
    """Whether two pages agree in at least half of the bins that are in either one's frame."""
    lowest, agreeing = _lowest(bin_bits), np.int64(0)
    signature = signature_words(fingerprints.shape[1])
    for word in range(signature):
        either = _in_frame(fingerprints, row, word, signature, bin_bits)
        either |= _in_frame(fingerprints, root, word, signature, bin_bits)
        unlike = either & _filled(fingerprints[row, word] ^ fingerprints[root, word], bin_bits, lowest)
        agreeing += np.int64(ones(either)) - 2 * np.int64(ones(unlike))
    return agreeing >= 0


@inner
def own_length(fingerprints: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], row: Any, bin_bits: int) -> Any:
    """Length of a row without its frame, as the share of its own bins."""
    lowest, signature = _lowest(bin_bits), signature_words(fingerprints.shape[1])
    filled, own = np.int64(0), np.int64(0)
    for word in range(signature):
        values = _filled(fingerprints[row, word], bin_bits, lowest)
        filled += np.int64(ones(values))
        own += np.int64(ones(values & ~_in_frame(fingerprints, row, word, signature, bin_bits)))
    return lengths[row] * own // max(filled, np.int64(1))
