"""Block keys of fingerprints, and a look-up that misses nothing within a distance.

Blocks: an entry is filed under the exact value of each 16-bit block. Only the look-up depends on the distance
(multi-index hashing: Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with Multi-Index Hashing", CVPR 2012).
Write distance_max = blocks * r + a with 0 <= a < blocks. If each of the first a + 1 blocks differs in more than r bits,
and each other block in more than r - 1, then the fingerprints differ in at least
(a + 1)(r + 1) + (blocks - a - 1) r = distance_max + 1 bits. So a look-up flips up to r bits in the first a + 1 blocks
and up to r - 1 in the others; with r = 0 the others need no look-up.

Ring: a candidate needs comparison only if its next block is near too, with the first block next to the last (the
pigeonring: Qin, Xiao, "Pigeonring: A Principle for Faster Thresholded Similarity Search", VLDB 2018). Let t be the
radii, -1 for a block without look-up: all t + 1 sum to distance_max + 1. Let d be the differing bits in each block, for
two fingerprints within distance_max: all d - (t + 1) sum to less than 0. Start after the block at which the running sum
has its (last) maximum, and go round once: every running sum stays below 0 (the cycle lemma). The first block's sum says
that the look-up hits it: d <= t. The first two blocks' sum says that the next block differs in at most t + 1 + t' - d
bits, with its own radius t'. So a look-up with f flipped bits needs only entries whose next block is that near, with f
for d.
"""

from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

BLOCK_BITS = 16


def blocks_of(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Blocks: uint64 [n, words] -> uint16 [n, words * 4], block 0 the first word's top 16 bits."""
    return fingerprints.astype(">u8").view(">u2").astype(np.uint16)


def block_keys(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Filing keys, the block's number times 65,536 plus its value: uint64 [n, words] -> uint32 [n, words * 4].

    >>> block_keys(np.array([[0xAAAA_BBBB_0000_0001]], np.uint64)).tolist() == [[0xAAAA, 0x1BBBB, 0x20000, 0x30001]]
    True
    """
    values = blocks_of(fingerprints).astype(np.uint32)
    return values | (np.arange(values.shape[1], dtype=np.uint32) << np.uint32(BLOCK_BITS))


def probe_radii(block_count: int, distance_max: int) -> tuple[int, ...]:
    """Bits that a look-up may flip in each block; -1: the block needs no look-up.

    Lossless: two fingerprints within `distance_max` agree to within its radius on at least one block.

    >>> probe_radii(4, 3), probe_radii(4, 5)
    ((0, 0, 0, 0), (1, 1, 0, 0))
    """
    radius, rest = divmod(distance_max, block_count)
    return (radius,) * (rest + 1) + (radius - 1,) * (block_count - rest - 1)


@cache
def flips(radius: int, width: int = BLOCK_BITS) -> npt.NDArray[np.uint32]:
    """All masks of `width` bits with at most `radius` bits set, none for -1: uint32 [sum of C(width, i), i <= radius].

    >>> flips(1, width=2).tolist()
    [0, 1, 2]
    """
    masks = [sum(1 << bit for bit in bits) for size in range(radius + 1) for bits in combinations(range(width), size)]
    return np.array(masks, dtype=np.uint32)


def probe_keys(fingerprints: npt.NDArray[np.uint64], distance_max: int) -> npt.NDArray[np.uint32]:
    """Keys to look up: uint64 [n, words] -> uint32 [n, probes].

    An entry within `distance_max` of fingerprint i has at least one of row i's keys. 64 bits have 4 probes at distance 3 and
    68 at distance 7; 128 bits 4 and 8.
    """
    keys = block_keys(fingerprints)
    radii = probe_radii(keys.shape[1], distance_max)
    return np.concatenate([keys[:, block, None] ^ flips(radius) for block, radius in enumerate(radii)], axis=1)


def next_bits(block_count: int, distance_max: int, width: int = BLOCK_BITS) -> npt.NDArray[np.int8]:
    """Bits in which an entry's next block may differ, for each probe: int8 [probes].

    Lossless: for every entry within `distance_max`, some probe hits it and allows its next block's difference.
    """
    radii = probe_radii(block_count, distance_max)
    following = (*radii[1:], radii[0])
    allowed = [
        radius + next_radius + 1 - np.bitwise_count(flips(radius, width)).astype(np.int8)
        for radius, next_radius in zip(radii, following, strict=True)
    ]
    return np.concatenate(allowed).astype(np.int8)
