"""Feature hashes and weights -> fingerprints: SimHash (Charikar 2002; Manku, Jain, Das Sarma 2007).

All sums are integers, so neither feature order nor batch nor machine changes a fingerprint. Features have hashes uint64
[features, lanes] and weights int64 [features], 0 or more; text i has the features bounds[i]:bounds[i + 1].
"""

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.fingerprint.methods.weights import FACTOR_UNIT
from streamer.fingerprint.simhash import kernels

WEIGHT_UNIT = FACTOR_UNIT
"""Logarithmic weights count 1 / WEIGHT_UNIT."""

_MULTIPLIER = np.uint64(secrets.randbits(64) | 1)
"""Chooses slots in the hash table of features (multiply-shift hashing: Dietzfelbinger, Hagerup, Katajainen, Penttonen 1997).
A random one keeps anyone from writing texts whose features all collide. No result depends on it.
"""

_UNWEIGHED = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct features in n texts.

    hashes  text after text, by first occurrence
    counts  int64 [features], occurrences in the text (tf)
    totals  int64 [features], sum of their weights

    >>> count_distinct(np.array([[7], [9], [7]], np.uint64), np.array([0, 3])).counts.tolist()
    [2, 1]
    """

    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]

    @property
    def texts(self) -> npt.NDArray[np.int64]:
        """Text of each feature: int64 [features], ascending."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


def count_distinct(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None = None
) -> Distinct:
    """Gather each text's equal features. Without weights each occurrence weighs 1."""
    return Distinct(*kernels.gather(hashes, bounds, _UNWEIGHED if weights is None else weights, _MULTIPLIER))


def log_weights(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 + ln tf in units of 1 / WEIGHT_UNIT, rounded to the nearest: int64 [features]."""
    every_count = np.arange(1, int(counts.max(initial=1)) + 1)
    return np.rint((1.0 + np.log(every_count)) * WEIGHT_UNIT).astype(np.int64)[counts - 1]


def simhash(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Fingerprint of every text, uint64 [n, lanes]: bit i is 1 if sum i in `kernels.bit_sums` is above 0, else 0.

    >>> hashes, bounds = np.array([[0b01], [0b11]], np.uint64), np.array([0, 2])
    >>> simhash(hashes, np.array([1, 2]), bounds)
    array([[3]], dtype=uint64)
    """
    positive = kernels.bit_sums(hashes, weights, bounds) > 0
    return np.packbits(positive, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)
