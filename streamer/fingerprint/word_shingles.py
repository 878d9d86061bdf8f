"""Word hashes -> word shingle hashes, a whole batch at once. Both schemes use them as features."""

import numpy as np
import numpy.typing as npt

from streamer.fingerprint import shingle_kernels


def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes for each run of `size` consecutive words in a text, and the texts' bounds among them.

    hashes  uint64 [words, lanes]
    bounds  int64 [n + 1], text i has the words bounds[i]:bounds[i + 1]
    Returns uint64 [shingles, lanes] and int64 [n + 1].

    The hash of words w1 ... wk is ak in the chain a0 = 0, ai = mix(a(i-1) + wi), lane by lane, with `shingle_kernels.mix`. Word
    order counts, and the hash depends on each word bijectively.
    """
    shingle_bounds = np.concatenate([[0], np.cumsum(shingle_counts(bounds, size))])
    return shingle_kernels.shingle(hashes, bounds, shingle_bounds, size), shingle_bounds


def shingle_counts(bounds: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Number of shingles with `size` words in each text: int64 [n].

    bounds  int64 [n + 1], text i has the words bounds[i]:bounds[i + 1]
    A text with one word or more, but fewer than `size`, has one shingle with all its words. A text without words has none.
    """
    word_counts = np.diff(bounds)
    return np.asarray(np.maximum(word_counts - (size - 1), np.minimum(word_counts, 1)))
