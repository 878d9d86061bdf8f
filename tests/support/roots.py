"""Rules for roots, and parameters with them."""

from dataclasses import replace

from hypothesis import strategies as st

from index.entry import Insert
from index.matching.root import RootRule
from index.storage.parameters import Parameters

NEAR_ROOT = RootRule(64)
"""However far from its root, each duplicate becomes a member that equals no match."""


def root_rules(insert: str, distance_max: int, data: st.DataObject) -> RootRule | None:
    """Some rule where `insert` needs one: roots from as near as a match to far away."""
    if insert != "root":
        return None
    return RootRule(distance_max + data.draw(st.integers(0, 8)), data.draw(st.integers(0, 3)))


def with_insert(parameters: Parameters, insert: Insert) -> Parameters:
    """These parameters; members are a third of the distance from their matches, and at most twice from their roots."""
    root = RootRule(2 * parameters.distance_max, parameters.distance_max // 3) if insert == "root" else None
    return replace(parameters, insert=insert, root=root)
