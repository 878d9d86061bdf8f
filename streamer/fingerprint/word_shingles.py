"""Word hashes -> word shingle hashes, a whole batch at once: features of both schemes.

`bounds` is int64 [n + 1]: text i has the words bounds[i]:bounds[i + 1].
"""

import numpy as np
import numpy.typing as npt

from streamer.fingerprint import shingle_kernels


def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes of each text's runs of `size` words, uint64 [shingles, lanes], and the texts' bounds among them, int64 [n
    + 1].

    The hash of words w1 ... wk is ak in the chain a0 = 0, ai = mix(a(i-1) + wi), lane by lane, with `shingle_kernels.mix`. Word
    order counts, and the hash depends on each word bijectively.
    """
    shingle_bounds = np.concatenate([[0], np.cumsum(shingle_counts(bounds, size))])
    return shingle_kernels.shingle(hashes, bounds, shingle_bounds, size), shingle_bounds


def shingle_counts(bounds: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Shingles with `size` words in each text: int64 [n]; one if it has fewer words, none without words.

    >>> shingle_counts(np.array([0, 5, 7, 7]), 3)
    array([3, 1, 0])
    """
    word_counts = np.diff(bounds)
    return np.asarray(np.maximum(word_counts - (size - 1), np.minimum(word_counts, 1)))
