"""Fingerprint -> block keys, and which of them to look up so that nothing within a distance is missed.

A fingerprint is cut into blocks of 16 bits. Every entry is filed under the exact value of each of its blocks, whatever
the distance asked for later; only the looking up depends on the distance (multi-index hashing: Norouzi, Punjani, Fleet,
"Fast Tree in Hamming Space with Multi-Index Hashing", CVPR 2012). Write distance_max = blocks * r + a with
0 <= a < blocks. Were each of the first a + 1 blocks more than r bits off and each of the others more than r - 1, the
fingerprints would differ in at least (a + 1)(r + 1) + (blocks - a - 1) r = distance_max + 1 bits. So it is enough to
look up the first a + 1 blocks with up to r flipped bits and the others with up to r - 1; with r = 0 the others are not
looked up at all.

Of what is found so, only entries need comparing whose next block, round from the last to the first, is near too (the
pigeonring: Qin, Xiao, "Pigeonring: A Principle for Faster Thresholded Similarity Tree", VLDB 2018). Let t be the radii,
-1 where a block is not looked up: all t + 1 sum to distance_max + 1. Let d be the differing bits of each block of two
fingerprints within distance_max: all d - (t + 1) sum to less than 0. Going round once from the block behind the one at
which the running sum is at its (last) maximum, every running sum stays below 0 (the cycle lemma). That of the first
block says that it is found, d <= t; that of the first two that the next one differs in at most t + 1 + t' - d bits, t'
being its own radius. So a look-up with f flipped bits needs only entries whose next block is that near, with f for d.
"""

from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

BLOCK_BITS = 16


def block_keys(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """The keys under which fingerprints are filed: uint64 [n, words] -> uint32 [n, words * 4].

    A key is the block's number times 65,536 plus the block's value. Block 0 is the top 16 bits of the first word.
    """
    values = fingerprints.astype(">u8").view(">u2").astype(np.uint32)
    return values | (np.arange(values.shape[1], dtype=np.uint32) << np.uint32(BLOCK_BITS))


def probe_radii(block_count: int, distance_max: int) -> tuple[int, ...]:
    """Per block the number of bits that may be flipped when it is looked up; -1: the block need not be looked up.

    Lossless: two fingerprints within `distance_max` agree to within its radius on at least one block.
    """
    radius, rest = divmod(distance_max, block_count)
    return (radius,) * (rest + 1) + (radius - 1,) * (block_count - rest - 1)


@cache
def flips(radius: int, width: int = BLOCK_BITS) -> npt.NDArray[np.uint32]:
    """All masks of `width` bits with at most `radius` bits set, none for -1: uint32 [sum of C(width, i)]."""
    masks = [sum(1 << bit for bit in bits) for size in range(radius + 1) for bits in combinations(range(width), size)]
    return np.array(masks, dtype=np.uint32)


def probe_keys(fingerprints: npt.NDArray[np.uint64], distance_max: int) -> npt.NDArray[np.uint32]:
    """The keys to look up for each fingerprint: uint64 [n, words] -> uint32 [n, probes].

    An entry within `distance_max` of fingerprint i is filed under at least one of row i's keys. For 64 bits there are
    4 probes at distance 3 and 68 at distance 7; for 128 bits 4 and 8.
    """
    keys = block_keys(fingerprints)
    radii = probe_radii(keys.shape[1], distance_max)
    return np.concatenate([keys[:, block, None] ^ flips(radius) for block, radius in enumerate(radii)], axis=1)


def next_bits(block_count: int, distance_max: int, width: int = BLOCK_BITS) -> npt.NDArray[np.int8]:
    """Per probe, in the order of `probe_keys`: in how many bits the next block of an entry may differ, int8 [probes].

    Lossless: an entry within `distance_max` is found by at least one probe that allows what its next block differs in.
    """
    radii = probe_radii(block_count, distance_max)
    following = (*radii[1:], radii[0])
    allowed = [
        radius + next_radius + 1 - np.bitwise_count(flips(radius, width)).astype(np.int8)
        for radius, next_radius in zip(radii, following, strict=True)
    ]
    return np.concatenate(allowed).astype(np.int8)
