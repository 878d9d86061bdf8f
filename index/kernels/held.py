"""Which segments hold a hash: the first look, before `hash_segments.candidates` reads what they hold."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.hash_segments import part_of, shape_at
from index.kernels.jit import compiled, inner, prefetch, word_at

APART = 16
"""Look-ups between a prefetch and its use."""

STEPS_MAX = 64
"""Longest way from a rest's likely place. Rests that crowd a part are left to `candidates`, which halves."""


@inner
def _bits_from(column: Any, bit: Any, mask: Any) -> Any:
    """A column's bits under a mask, from a bit on; column: its address."""
    return (word_at(column + (bit >> np.uint64(3))) >> (bit & np.uint64(7))) & mask


@inner
def _holds(rests: Any, bits: Any, rest: Any, place: Any, first: Any, end: Any) -> Any:
    """Whether ascending rests in [first, end) may include this one; place: its likely place. All uint64.

    rests  the column's address; each has `bits` bits
    """
    if first >= end:
        return False
    mask, at, last = (np.uint64(1) << bits) - np.uint64(1), place * bits, (end - np.uint64(1)) * bits
    value, left = _bits_from(rests, at, mask), STEPS_MAX
    if value < rest:
        while value < rest and at < last and left:
            at, left = at + bits, left - 1
            value = _bits_from(rests, at, mask)
    else:
        while value > rest and at > first * bits and left:
            at, left = at - bits, left - 1
            value = _bits_from(rests, at, mask)
    return value == rest or not left


@compiled
def those_held(
    lowest: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Look-ups that may find something, if probes name hashes: int64 [m], some from `order`. Most others end here.

    Arguments as for `hash_segments.candidates`.
    """
    all_begins, all_ends, lows, half = begins.reshape(-1), ends.reshape(-1), lowest.reshape(-1), np.uint64(0xFFFFFFFF)
    found, count, total, steps = np.empty_like(order), np.int64(0), len(order), np.empty((4 * APART, 5), np.uint64)
    # A turn takes one look-up's first step, an earlier one's second and a still earlier one's last: what a step reads was
    # prefetched long before.
    for turn in range(total + 2 * APART):
        if turn + APART < total:
            prefetch(addresses[all_begins[order[turn + APART]]])
        if turn < total:
            at, address = turn % len(steps), addresses[all_begins[order[turn]]]
            _, rest_bits, _, parts, starts, rests, _ = shape_at(address)
            part, rest = part_of(address, lows[order[turn]])
            # Past the last part the segment does not hold the hash.
            start = address + np.uint64(8 * starts + 4 * min(part, parts - 1))
            prefetch(start)
            steps[at, 0], steps[at, 1], steps[at, 2] = address + np.uint64(8 * rests), np.uint64(rest_bits), rest
            steps[at, 3] = start
        if APART <= turn < total + APART:
            at = (turn - APART) % len(steps)
            rests_address, bits, rest, both = steps[at, 0], steps[at, 1], steps[at, 2], word_at(steps[at, 3])
            # Hashes are random: among 24 rests, one a third up its part is near place 8.
            first = both & half
            place = first + (((both >> np.uint64(32)) - first) * rest >> bits)
            prefetch(rests_address + (place * bits >> np.uint64(3)))
            steps[at, 3], steps[at, 4] = both, place
        if turn >= 2 * APART:
            at, which = (turn - 2 * APART) % len(steps), order[turn - 2 * APART]
            both = steps[at, 3]
            is_held = _holds(steps[at, 0], steps[at, 1], steps[at, 2], steps[at, 4], both & half, both >> np.uint64(32))
            found[count] = which
            count += np.int64(is_held or all_begins[which] + 1 < all_ends[which])
    return found[:count]
