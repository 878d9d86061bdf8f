"""Roots: what insert = "root" asks of a document beside a match. Pure.

A duplicate becomes a member of its root, the kept document that it resembles, and later documents may match the member. Along
a chain of members documents could drift away from what was kept. So a match counts only where the document is near enough to
the root as well: whatever is dropped resembles what was kept.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RootRule:
    """Limits, in the unit of the index's `distance_max`.

    distance_max  a match counts where the document is at most so far from the root of the match
    apart         a duplicate becomes a member where it is farther than this from its match. A nearer one would find hardly
                  anything that its match does not find.
    """

    distance_max: int
    apart: int = 0

    def __post_init__(self) -> None:
        if self.apart < 0 or self.distance_max < 0:
            raise ValueError("distances are not negative")
