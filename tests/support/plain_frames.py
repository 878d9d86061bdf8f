"""Distances of signatures with frames, as plainly as they can be computed: the oracle of the kernels."""

import numpy as np
import numpy.typing as npt

from index.matching.frame import (
    APART_BINS_MIN,
    OWN_BINS_MIN,
    OWN_DOUBT,
    OWN_SHARE_MIN,
    bins_of,
    frame_bins,
)
from index.matching.minhash import DISTANCE_UNITS


def framed_distances(
    left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64], bin_bits: int
) -> npt.NDArray[np.int16]:
    """Distances from documents to earlier ones, row by row: uint64 [n, words] twice -> int16 [n]."""
    one, other = bins_of(left, bin_bits), bins_of(right, bin_bits)
    of_one, of_other = frame_bins(left, bin_bits), frame_bins(right, bin_bits)
    filled, differing = (one != 0, other != 0), one != other
    own = filled[0] & ~of_one, filled[1] & ~of_other
    both, either = own[0] & own[1], (own[0] | own[1]) & (differing | ~(of_one | of_other))

    plain = _distances(_counts(filled[0] | filled[1]), _counts(filled[0] & filled[1]), _counts(differing), bin_bits)
    shared, unlike = _counts(both), _counts(both & differing)
    any_side, alike = _counts(either), _counts(either & ~differing)
    alone = _distances(shared, shared, unlike, bin_bits)
    alone = np.clip(alone * (shared + OWN_DOUBT) // np.maximum(shared, 1), 1, DISTANCE_UNITS)
    alone[shared < OWN_BINS_MIN] = DISTANCE_UNITS
    are_apart = (any_side >= APART_BINS_MIN) & (alike < OWN_SHARE_MIN * any_side)
    framed = np.minimum(np.where(are_apart, DISTANCE_UNITS, plain), alone)
    is_plain = ~(of_one | of_other).any(axis=1) | of_one.all(axis=1) | (plain == 0)
    return np.where(is_plain, plain, framed).astype(np.int16)


def _counts(columns: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    counted: npt.NDArray[np.int64] = np.count_nonzero(columns, axis=1).astype(np.int64)
    return counted


def _distances(
    either: npt.NDArray[np.int64], both: npt.NDArray[np.int64], differing: npt.NDArray[np.int64], bin_bits: int
) -> npt.NDArray[np.int64]:
    """1 - similarity in units of 1 / DISTANCE_UNITS, from counts of bins: int64 [n] thrice -> int64 [n], 0 to 10,000."""
    values = (1 << bin_bits) - 1
    above, below = values * differing - either + both, np.maximum((values - 1) * either, 1)
    distances = (2 * DISTANCE_UNITS * above + below) // (2 * below)
    distances[either == 0] = DISTANCE_UNITS
    clipped: npt.NDArray[np.int64] = np.clip(distances, 0, DISTANCE_UNITS)
    return clipped
