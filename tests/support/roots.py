"""Rules for roots, drawn for properties."""

from hypothesis import strategies as st

from index.matching.root import RootRule


def root_rules(insert: str, distance_max: int, data: st.DataObject) -> RootRule | None:
    """Some rule where `insert` needs one: roots from as near as a match to far away."""
    if insert != "root":
        return None
    return RootRule(distance_max + data.draw(st.integers(0, 8)), data.draw(st.integers(0, 3)))
