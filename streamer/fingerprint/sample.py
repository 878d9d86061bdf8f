"""Coordinated sample: near-duplicates enter it together, whatever the bands and the signatures see.

A text is sampled if its least feature by a hash of its own is 0 modulo `one_in`. Two texts share their least feature with
probability J, the similarity between their sets of features (Broder 1997), so a sampled text's near-duplicates are mostly
sampled too.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled
from streamer.fingerprint.key import HashKey
from streamer.fingerprint.shingle_kernels import mix_column


class Sample(NamedTuple):
    """A sampled text.

    least     its least feature, keyed
    features  uint32 [m], the low halves of its distinct features' hashes, ascending

    >>> Sample(7, np.array([1, 3], np.uint32)).features.tolist()
    [1, 3]
    """

    least: int
    features: npt.NDArray[np.uint32]


@compiled
def least(hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], mask: np.uint64) -> npt.NDArray[np.uint64]:
    """Least hash ^ mask of every text, uint64 [n]; all ones for a text without features.

    hashes  uint64 [features], text i has hashes[bounds[i]:bounds[i + 1]]
    """
    minima = np.full(len(bounds) - 1, 2**64 - 1, np.uint64)
    for text in range(len(bounds) - 1):
        lowest = minima[text]
        for place in range(bounds[text], bounds[text + 1]):
            lowest = min(lowest, hashes[place] ^ mask)
        minima[text] = lowest
    return minima


def samples(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], one_in: int, key: HashKey
) -> npt.NDArray[np.object_]:
    """`Sample` for every sampled text and None for the others: object [n].

    hashes  uint64 [features], with or without repetitions; text i has hashes[bounds[i]:bounds[i + 1]]
    one_in  1: every text
    """
    # Feature hashes are uniform, so their order under a mask is a hash of its own; a mixed one, so that near seeds differ.
    minima = least(hashes, bounds, mix_column(np.array([key.seed], np.uint64))[0])
    chosen = (mix_column(minima) % np.uint64(one_in) == 0) & (np.diff(bounds) > 0)
    found = np.full(len(minima), None, np.object_)
    for row in np.flatnonzero(chosen).tolist():
        low_halves = hashes[bounds[row] : bounds[row + 1]].astype(np.uint32)
        found[row] = Sample(int(minima[row]), np.unique(low_halves))
    return found
