"""Confidence intervals of shares."""

import math
from dataclasses import dataclass

CONFIDENCE_DEVIATIONS = 1.959964
"""Half a normal 95% interval, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A share and its 95% confidence interval.

    >>> wilson(9, 10).value
    0.9
    """

    value: float
    low: float
    high: float


def wilson(hits: float, count: float) -> Interval:
    """A share and its 95% score interval (Wilson 1927). Count 0 gives 1, from 0 to 1."""
    if count == 0:
        return Interval(1.0, 0.0, 1.0)
    share, square = hits / count, CONFIDENCE_DEVIATIONS**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    half = CONFIDENCE_DEVIATIONS * spread
    # At either end the bound equals the share; rounding would miss it.
    low, high = 0.0 if hits == 0 else middle - half, 1.0 if hits == count else middle + half
    return Interval(share, low, high)
