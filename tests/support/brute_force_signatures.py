"""MinHash signatures by their definitions, one value at a time, and the index of them by brute force."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from index.matching.minhash import Banding, band_keys, pack_bins
from tests.support.brute_force_index import BruteForceIndex

FAR = 10_001
"""Farther than any distance: the two share no band."""


def distance_by_definition(left: list[int], right: list[int], bin_bits: int) -> int:
    """(1 - similarity) in ten-thousandths of two lists of bins, 0 an empty one."""
    filled = [(one, other) for one, other in zip(left, right, strict=True) if one or other]
    if not filled:
        return 10_000
    chance = Fraction(1, 2**bin_bits - 1)
    same = sum(one == other for one, other in filled)
    both = sum(one > 0 and other > 0 for one, other in filled)
    similarity = (same - both * chance) / (1 - chance) / len(filled)
    # Halves are rounded up.
    return min(10_000, max(0, int(((1 - similarity) * 10_000 + Fraction(1, 2)) // 1)))


def unpacked(signature: int, banding: Banding) -> list[int]:
    """The bins of a packed signature that `entries_of` would make from this number: its highest word is the first."""
    words = [(signature >> 64 * place) & (2**64 - 1) for place in range(banding.bits // 64)][::-1]
    per_word = 64 // banding.bin_bits
    return [
        (word >> banding.bin_bits * place) & (2**banding.bin_bits - 1) for word in words for place in range(per_word)
    ]


def as_number(values: np.ndarray, bin_bits: int) -> int:
    """A row of bins as the number that `Row.fingerprint` wants."""
    number = 0
    for word in pack_bins(values[None, :], bin_bits)[0].tolist():
        number = number << 64 | word
    return number


@dataclass
class BruteForceSignatures(BruteForceIndex):
    banding: Banding = field(default_factory=lambda: Banding(64, 8, 12, 5))

    known_distances: dict[tuple[int, int], int] = field(default_factory=dict)

    def distance(self, known: int, fingerprint: int) -> int:
        pair = known, fingerprint
        if pair not in self.known_distances:
            self.known_distances[pair] = 0 if known == fingerprint else self._distance(known, fingerprint)
        return self.known_distances[pair]

    def _distance(self, known: int, fingerprint: int) -> int:
        words = [
            [(one >> 64 * place) & (2**64 - 1) for place in range(self.banding.bits // 64)][::-1]
            for one in (known, fingerprint)
        ]
        keys = band_keys(np.array(words, np.uint64), self.banding)
        if not (keys[0] == keys[1]).any():
            return FAR
        return self.distance_to_root(known, fingerprint)

    def is_unlike(self, known: int, fingerprint: int) -> bool:
        return self.distance_to_root(known, fingerprint) > 9_500

    def distance_to_root(self, root: int, fingerprint: int) -> int:
        left, right = (unpacked(one, self.banding) for one in (root, fingerprint))
        return distance_by_definition(left, right, self.banding.bin_bits)


def clustered_bins(generator: np.random.Generator, count: int, banding: Banding, *, centres: int) -> np.ndarray:
    """Bins of few centres with up to half of them changed or emptied: plenty of similar and nearly similar signatures."""
    middles = generator.integers(0, 2**banding.bin_bits, (centres, banding.bins)).astype(np.uint8)
    middles[:, ::7] = 0
    rows = middles[generator.integers(centres, size=count)].copy()
    for row in rows:
        changed = generator.choice(banding.bins, int(generator.integers(0, banding.bins // 2)), replace=False)
        row[changed] = generator.integers(0, 2**banding.bin_bits, len(changed))
        row[generator.integers(banding.bins)] = 1
    return rows
