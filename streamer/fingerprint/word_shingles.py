"""Hashes of words -> hashes of word shingles, a whole batch at once; both schemes take them as features."""

import numpy as np
import numpy.typing as npt

from streamer.fingerprint import shingle_kernels


def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes of the runs of `size` consecutive words of each text, and the texts' bounds among them.

    A text with fewer words, but any, has one shingle: all of them. The hash of words w1 ... wk is a chain,
    a0 = 0, ai = mix(a(i-1) + wi + 0x9E3779B97F4A7C15), with the finaliser of SplitMix64 as `mix` (Steele, Lea, Flood
    2014; Stafford's variant 13), lane by lane: it depends on the order of the words and on each of them bijectively.
    """
    word_counts = np.diff(bounds)
    counts = np.maximum(word_counts - (size - 1), np.minimum(word_counts, 1))
    shingle_bounds = np.concatenate([[0], np.cumsum(counts)])
    return shingle_kernels.shingle(hashes, bounds, shingle_bounds, size), shingle_bounds
