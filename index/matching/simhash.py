"""Block keys of fingerprints, and the keys to look up so that nothing within a distance is missed.

Blocks: a fingerprint is cut into blocks of 16 bits, and every entry is filed under the exact value of each block. Only the
lookup depends on the distance (multi-index hashing: Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with
Multi-Index Hashing", CVPR 2012). Write distance_max = blocks * r + a with 0 <= a < blocks. Assume that each of the first
a + 1 blocks differs in more than r bits, and each of the others in more than r - 1. Then the fingerprints differ in at
least (a + 1)(r + 1) + (blocks - a - 1) r = distance_max + 1 bits. So it is enough to look up the first a + 1 blocks with
up to r flipped bits and the others with up to r - 1; with r = 0 the others need no lookup.

Ring: an entry found so needs comparing only where its next block is near too, the first block being next to the last (the
pigeonring: Qin, Xiao, "Pigeonring: A Principle for Faster Thresholded Similarity Search", VLDB 2018). Let t be the radii,
-1 where a block is not looked up: all t + 1 sum to distance_max + 1. Let d be the differing bits of each block of two
fingerprints within distance_max: all d - (t + 1) sum to less than 0. Start behind the block at which the running sum has
its (last) maximum, and go round once: every running sum stays below 0 (the cycle lemma). The sum of the first block says
that the block is found: d <= t. The sum of the first two says that the next block differs in at most t + 1 + t' - d bits,
t' being its own radius. So a lookup with f flipped bits needs only entries whose next block is that near, with f for d.
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
    """Keys under which fingerprints are filed: uint64 [n, words] -> uint32 [n, words * 4].

    A key is the block's number times 65,536 plus the block's value.
    """
    values = blocks_of(fingerprints).astype(np.uint32)
    return values | (np.arange(values.shape[1], dtype=np.uint32) << np.uint32(BLOCK_BITS))


def probe_radii(block_count: int, distance_max: int) -> tuple[int, ...]:
    """Radius of each block: the number of bits that a lookup may flip; -1: the block needs no lookup.

    Lossless: two fingerprints within `distance_max` agree to within its radius on at least one block.
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

    An entry within `distance_max` of fingerprint i is filed under at least one of row i's keys. For 64 bits there are
    4 probes at distance 3 and 68 at distance 7; for 128 bits 4 and 8.
    """
    keys = block_keys(fingerprints)
    radii = probe_radii(keys.shape[1], distance_max)
    return np.concatenate([keys[:, block, None] ^ flips(radius) for block, radius in enumerate(radii)], axis=1)


def next_bits(block_count: int, distance_max: int, width: int = BLOCK_BITS) -> npt.NDArray[np.int8]:
    """Bits in which the next block of an entry may differ, for each probe of `probe_keys`: int8 [probes].

    Lossless: for every entry within `distance_max`, some probe finds it and allows the difference of its next block.
    """
    radii = probe_radii(block_count, distance_max)
    following = (*radii[1:], radii[0])
    allowed = [
        radius + next_radius + 1 - np.bitwise_count(flips(radius, width)).astype(np.int8)
        for radius, next_radius in zip(radii, following, strict=True)
    ]
    return np.concatenate(allowed).astype(np.int8)
