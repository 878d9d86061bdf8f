"""Roots: the second condition for a match with insert = "root". Pure.

A duplicate becomes a member of its root, the kept document that it resembles, and later documents may match the
member. Along a chain of members, documents could drift away from the kept one. So a match counts only if the root is
near enough too: every dropped document resembles a kept one.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RootRule:
    """Limits, in the unit of the index's `distance_max`.

    distance_max         largest distance from a document to its match's root for the match to count
    member_distance_min  a duplicate farther than this from all its matches becomes a member; a nearer one would match hardly
                         anything that they do not

    >>> RootRule(distance_max=-1)
    Traceback (most recent call last):
    ValueError: distances are not negative
    """

    distance_max: int
    member_distance_min: int = 0

    def __post_init__(self) -> None:
        if self.member_distance_min < 0 or self.distance_max < 0:
            raise ValueError("distances are not negative")
