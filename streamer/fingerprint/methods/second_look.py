"""An entry's data for the second look at matches, a batch at a time; `index.matching.second_look` compares it.

Feature vector: a text's weighted features in a fixed number of cells. A feature's hash chooses its cell and sign (Weinberger,
Dasgupta, Langford, Smola, Attenberg, "Feature Hashing for Large Scale Multitask Learning", ICML 2009). Inner products are
unbiased estimates. For a cosine c the standard deviation is about (1 - c^2) / sqrt(cells).

Set signature: a set's MinHash (Broder 1997), one value for each hash function.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index import second_look
from streamer.fingerprint.hashing import hash_strings
from streamer.fingerprint.key import HashKey
from streamer.fingerprint.shingle_kernels import GOLDEN_RATIO, mix_column
from streamer.text.characters import fold

FORMAT_VERSION = 1
"""Raised whenever equal documents begin to give other vectors or signatures."""

_PEAK = 127
_CELLS_AT_ONCE = 2**22
_LOW = np.uint64(0xFFFF_FFFF)


def looks_of(
    look: second_look.Look | None,
    hashes: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.int64],
    metadata: Sequence[Sequence[str]] | None,
    key: HashKey,
) -> npt.NDArray[np.uint8] | None:
    """What a second look compares: uint8 [n, look bytes]; None without one.

    hashes    uint64 [features, lanes], with `weights` and `bounds` as in `feature_vectors`
    metadata  a set of texts for each text; those with an empty normal form do not count
    """
    if isinstance(look, second_look.CosineLook):
        return feature_vectors(hashes[:, 0], weights, bounds, look.cells).view(np.uint8)
    if not isinstance(look, second_look.MetadataLook):
        return None
    sets: Sequence[Sequence[str]] = [()] * (len(bounds) - 1) if metadata is None else metadata
    folded = fold([member for members in sets for member in members])
    members = [folded.text(row) for row in range(len(folded.bounds) - 1)]
    counted = np.concatenate([[0], np.cumsum([bool(member) for member in members], dtype=np.int64)])
    ends = np.concatenate([[0], np.cumsum([len(members) for members in sets], dtype=np.int64)])
    hashed = key.keyed(hash_strings([member for member in members if member], lanes=1))
    return set_signatures(hashed[:, 0], counted[ends], look.functions)


def feature_vectors(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64], cells: int
) -> npt.NDArray[np.int8]:
    """Feature vector for every text, int8 [n, cells]: its sums, scaled so that the largest is 127 or -127.

    hashes   uint64 [features], well mixed; a repeated feature's weights add up
    weights  int64 [features], 0 or more
    bounds   int64 [n + 1], text j has the features bounds[j]:bounds[j + 1]

    Sums are exact in any order while a text's weights add up to less than 2**53. A vector without features is all zeros.
    """
    count = len(bounds) - 1
    # Mixed again: other bits than the fingerprint's make the second look independent of the first.
    mixed = mix_column(hashes)
    of_cells = ((mixed >> np.uint64(32)) * np.uint64(cells) >> np.uint64(32)).astype(np.int64)
    signed = np.where(mixed & np.uint64(1), weights, -weights)
    vectors = np.zeros((count, cells), np.int8)
    step = max(1, _CELLS_AT_ONCE // cells)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        features = slice(bounds[begin], bounds[end])
        texts = np.repeat(np.arange(end - begin), np.diff(bounds[begin : end + 1]))
        size = (end - begin) * cells
        sums = np.bincount(texts * cells + of_cells[features], signed[features], size).reshape(-1, cells)
        peaks = np.abs(sums).max(axis=1, keepdims=True)
        vectors[begin:end] = np.rint(sums * _PEAK / np.maximum(peaks, 1.0))
    return vectors


def set_signatures(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], functions: int
) -> npt.NDArray[np.uint8]:
    """MinHash signature for every set, uint8 [n, functions]: 1 to 255, zeros for the empty set.

    hashes  uint64 [members], well mixed; repeats change nothing
    bounds  as in `feature_vectors`

    Function i maps a member with hash h to mix(h + (i + 1) * GOLDEN_RATIO). The signature holds the low 32 bits of each
    function's smallest value, scaled to the range.
    """
    signatures = np.zeros((len(bounds) - 1, functions), np.uint8)
    filled = np.flatnonzero(np.diff(bounds))
    if not len(filled):
        return signatures
    for function in range(functions):
        of_function = hashes + np.uint64(GOLDEN_RATIO * (function + 1) % 2**64)
        smallest = np.minimum.reduceat(mix_column(of_function), bounds[filled])
        signatures[filled, function] = (
            (smallest & _LOW) * np.uint64(second_look.SIGNATURE_VALUES) >> np.uint64(32)
        ) + np.uint64(1)
    return signatures
