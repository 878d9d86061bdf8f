"""Signatures that are drawn, of several shapes."""

import numpy as np

from index.matching.minhash import Banding, pack_bins

BANDINGS = [Banding(64, 4, 11, 4), Banding(64, 8, 12, 5), Banding(128, 8, 17, 5), Banding(256, 4, 35, 7)]


def signatures_of(seed: int, count: int, banding: Banding, filled: float) -> np.ndarray:
    """Signatures with about this share of their bins filled; every second one is like the one before, changed a little."""
    generator = np.random.default_rng(seed)
    values = generator.integers(1, 1 << banding.bin_bits, (count, banding.bins), dtype=np.uint8)
    values[generator.random(values.shape) >= filled] = 0
    changed = generator.random(values.shape) < 0.1
    values[1::2] = np.where(changed[1::2], values[1::2], values[: 2 * (count // 2) : 2])
    return pack_bins(values, banding.bin_bits)
