"""Hashes and weights of features -> fingerprints: SimHash (Charikar 2002; Manku, Jain, Das Sarma 2007).

All sums are sums of integers, so the order of features, the batch and the machine change nothing.
"""

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.fingerprint.simhash import kernels
from streamer.fingerprint.simhash.weights import FACTOR_UNIT

WEIGHT_UNIT = FACTOR_UNIT
"""Logarithmic weights are counted in this fraction of one."""

_MULTIPLIER = np.uint64(secrets.randbits(64) | 1)
"""Where features lie in the table that finds equal ones depends on it (multiply-shift hashing: Dietzfelbinger, Hagerup,
Katajainen, Penttonen 1997), so that nobody can write texts whose features all meet; what is found does not."""

_UNWEIGHED = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different features of n texts, each once.

    hashes  uint64 [features, lanes], text after text, in the order in which they are met
    counts  int64 [features], how often the text holds it (tf)
    totals  int64 [features], the weights of its occurrences added up
    bounds  int64 [n + 1], text i has the features bounds[i]:bounds[i + 1]
    """

    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]

    @property
    def texts(self) -> npt.NDArray[np.int64]:
        """The text of each feature: int64 [features], ascending."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


def count_distinct(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None = None
) -> Distinct:
    """Gather equal features of each text. An occurrence without weights weighs 1."""
    return Distinct(*kernels.gather(hashes, bounds, _UNWEIGHED if weights is None else weights, _MULTIPLIER))


def log_weights(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 + ln tf in units of 1 / WEIGHT_UNIT, rounded to the nearest: int64 [features]."""
    known = np.arange(1, int(counts.max(initial=1)) + 1)
    return np.rint((1.0 + np.log(known)) * WEIGHT_UNIT).astype(np.int64)[counts - 1]


def simhash(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Bit i of a text's fingerprint is 1 where its sum i is over 0; a sum of 0 gives 0. uint64 [n, lanes]."""
    positive = bit_sums(hashes, weights, bounds) > 0
    return np.packbits(positive, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def bit_sums(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sum i of a text: over its features, + weight where bit i of the hash is 1, else - weight.

    hashes   uint64 [features, lanes]
    weights  int64 [features], 0 or more
    bounds   int64 [n + 1], text j has the features bounds[j]:bounds[j + 1]
    Returns int64 [n, 64 * lanes], exact while the weights of a text add up to less than 2**62.
    """
    return kernels.bit_sums(hashes, weights, bounds)
