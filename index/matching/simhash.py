"""Block keys of fingerprints, and a look-up that misses nothing within a distance.

Blocks: a fingerprint consists of 16-bit blocks, and every entry is filed under the exact value of each block. Only
the look-up depends on the distance (multi-index hashing: Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with
Multi-Index Hashing", CVPR 2012). Write distance_max = blocks * r + a with 0 <= a < blocks. Assume that each of the
first a + 1 blocks differs in more than r bits, and each other block in more than r - 1. Then the fingerprints differ
in at least (a + 1)(r + 1) + (blocks - a - 1) r = distance_max + 1 bits. So a look-up flips up to r bits in the first
a + 1 blocks and up to r - 1 in the others; with r = 0 the others need no look-up.

Ring: a candidate needs comparison only if its next block is near too, with the first block next to the last (the
pigeonring: Qin, Xiao, "Pigeonring: A Principle for Faster Thresholded Similarity Search", VLDB 2018). Let t be the
radii, -1 for a block without look-up: all t + 1 sum to distance_max + 1. Let d be the differing bits in each block,
for two fingerprints within distance_max: all d - (t + 1) sum to less than 0. Start after the block at which the
running sum has its (last) maximum, and go round once: every running sum stays below 0 (the cycle lemma). The first
block's sum says that the look-up hits the block: d <= t. The first two blocks' sum says that the next block differs
in at most t + 1 + t' - d bits, with its own radius t'. So a look-up with f flipped bits needs only entries whose next
block is that near, with f for d.
"""

from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

BLOCK_BITS = 16


def blocks_of(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Blocks of fingerprints: uint64 [n, words] -> uint16 [n, words * 4], block 0 the top 16 bits of the first word."""
    return fingerprints.astype(">u8").view(">u2").astype(np.uint16)


def block_keys(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Filing keys of fingerprints: uint64 [n, words] -> uint32 [n, words * 4].

    A key is the block's number times 65,536 plus the block's value.
    """
    values = blocks_of(fingerprints).astype(np.uint32)
    return values | (np.arange(values.shape[1], dtype=np.uint32) << np.uint32(BLOCK_BITS))


def probe_radii(block_count: int, distance_max: int) -> tuple[int, ...]:
    """Radius of each block: the number of bits that a look-up may flip; -1: the block needs no look-up.

    Lossless: two fingerprints within `distance_max` agree to within its radius on at least one block.

    >>> probe_radii(4, 3), probe_radii(4, 5)
    ((0, 0, 0, 0), (1, 1, 0, 0))
    """
    radius, rest = divmod(distance_max, block_count)
    return (radius,) * (rest + 1) + (radius - 1,) * (block_count - rest - 1)


@cache
def flips(radius: int, width: int = BLOCK_BITS) -> npt.NDArray[np.uint32]:
    """All masks of `width` bits with at most `radius` bits set, none for -1: uint32 [sum of C(width, i), i <= radius]."""
    masks = [sum(1 << bit for bit in bits) for size in range(radius + 1) for bits in combinations(range(width), size)]
    return np.array(masks, dtype=np.uint32)


def probe_keys(fingerprints: npt.NDArray[np.uint64], distance_max: int) -> npt.NDArray[np.uint32]:
    """Keys to look up for each fingerprint: uint64 [n, words] -> uint32 [n, probes].

    An entry within `distance_max` of fingerprint i has at least one of row i's keys. For 64 bits there are 4 probes
    at distance 3 and 68 at distance 7; for 128 bits 4 and 8.
    """
    keys = block_keys(fingerprints)
    radii = probe_radii(keys.shape[1], distance_max)
    return np.concatenate([keys[:, block, None] ^ flips(radius) for block, radius in enumerate(radii)], axis=1)


def next_bits(block_count: int, distance_max: int, width: int = BLOCK_BITS) -> npt.NDArray[np.int8]:
    """Bits in which an entry's next block may differ, for each probe from `probe_keys`: int8 [probes].

    Lossless: for every entry within `distance_max`, some probe hits it and allows its next block's difference.
    """
    radii = probe_radii(block_count, distance_max)
    following = (*radii[1:], radii[0])
    allowed = [
        radius + next_radius + 1 - np.bitwise_count(flips(radius, width)).astype(np.int8)
        for radius, next_radius in zip(radii, following, strict=True)
    ]
    return np.concatenate(allowed).astype(np.int8)
