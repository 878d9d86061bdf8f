"""The second look of one pair. `index.matching.second_look` defines it."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import inner

NO_LOOK, COSINE, METADATA = 0, 1, 2
_SIGNATURE_VALUES = 255.0


class LookRule(NamedTuple):
    """A second look's limits.

    kind            NO_LOOK, COSINE or METADATA
    least           least cosine
    content_weight  mu
    distance_max    largest distance by metadata, in units
    units           units of distance in 1 - similarity = 1
    """

    kind: int
    least: float
    content_weight: float
    distance_max: int
    units: int


@inner
def look_again(
    left: npt.NDArray[np.uint8], row: Any, right: npt.NDArray[np.uint8], place: Any, distance: Any, rule: LookRule
) -> Any:
    """Whether the second look accepts a pair, and the distance by which the pair ranks, int64.

    left, right  uint8 [n, look bytes] and [m, look bytes]
    distance     of the fingerprints
    """
    if rule.kind == NO_LOOK:
        return True, np.int64(distance)
    if rule.kind == COSINE:
        product, one, other, equal = np.int64(0), np.int64(0), np.int64(0), True
        for cell in range(left.shape[1]):
            # Cells are signed.
            first, second = np.int64(np.int8(left[row, cell])), np.int64(np.int8(right[place, cell]))
            product += first * second
            one += first * first
            other += second * second
            equal &= first == second
        size = np.sqrt(np.float64(one) * np.float64(other))
        cosine = 1.0 if equal else (np.float64(product) / size if size > 0 else 0.0)
        return cosine >= rule.least, np.int64(distance)
    agreeing = 0
    for value in range(left.shape[1]):
        agreeing += left[row, value] == right[place, value] and left[row, value] != 0
    chance = 1.0 / _SIGNATURE_VALUES
    alike = max(0.0, (agreeing / left.shape[1] - chance) / (1.0 - chance))
    similarity = rule.content_weight / (1.0 + distance) + (1.0 - rule.content_weight) * alike
    ranked = np.int64(np.rint((1.0 - similarity) * rule.units))
    return ranked <= rule.distance_max, ranked
