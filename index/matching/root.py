"""Roots: the second condition for a match with insert = "root". Pure.

A duplicate becomes a member of its root, the kept document that it resembles, and later documents may match the
member. Along a chain of members, documents could drift away from the kept one. So a match counts only if the root is
near enough too: every dropped document resembles a kept one.
"""

from dataclasses import dataclass

from index.entry import Insert, Verdict
from index.kernels.minhash import Limits
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS

_BEYOND = 2**15
"""Farther than any two documents."""


@dataclass(frozen=True, slots=True)
class RootRule:
    """Limits, in the unit of the index's `distance_max`.

    distance_max  largest distance from a document to its match's root for the match to count
    apart         a duplicate farther than this from its matches becomes a member; a nearer one would match hardly anything
                  that its match does not

    >>> RootRule(distance_max=-1)
    Traceback (most recent call last):
    ValueError: distances are not negative
    """

    distance_max: int
    apart: int = 0

    def __post_init__(self) -> None:
        if self.apart < 0 or self.distance_max < 0:
            raise ValueError("distances are not negative")


def limits_of(insert: Insert, root: RootRule | None, distance_max: int, bin_bits: int, longer: int = 0) -> Limits:
    """Limits of the rule in `index.decide.rule`; longer: `Longer.ten_thousandths`, or 0."""
    apart = _BEYOND if insert == "unique" else -1
    farthest, apart = (_BEYOND, apart) if root is None else (root.distance_max, root.apart)
    # A document with all of its root's text and a tenth more is at a distance of 1 - 1 / 1.1 from it.
    lengths = longer, longer * DISTANCE_UNITS // (DISTANCE_UNITS + longer)
    verdicts = int(Verdict.DUPLICATE), int(Verdict.TEMPLATE), int(Verdict.EXTENDS)
    of_scheme = bin_bits, DISTANCE_UNITS, OWN_LIMITS
    return Limits(distance_max, farthest, apart, insert == "all", *of_scheme, *lengths, *verdicts)
