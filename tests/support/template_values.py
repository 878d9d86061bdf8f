"""What `index.matching.template` counts, written as plainly as it can be."""

import math
from collections.abc import Sequence


def own_of(values: Sequence[int], template: Sequence[int]) -> list[int]:
    """Bins that a page has of its own."""
    return [bin_ for bin_, (value, of) in enumerate(zip(values, template, strict=True)) if value not in (0, of)]


def needed_of(values: Sequence[int]) -> int:
    """Own bins from which on a page has text of its own to speak of."""
    bins, filled = len(values), sum(value != 0 for value in values)
    shingles = -bins * math.log(max(1 - filled / bins, math.exp(-6.25)))
    return max(4, round(32 * filled / max(shingles, 1.0)))
