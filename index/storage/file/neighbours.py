"""Neighbours of missing keys: a damaged key would be one or lie between two."""

from collections.abc import Sequence, Set
from typing import Protocol


class Cursor(Protocol):
    """A cursor on a sorted table; steps return whether it is at a pair."""

    def set_range(self, key: bytes) -> bool:
        """Move to the least key not below this one."""

    def prev(self) -> bool:
        """Move to the previous key."""

    def last(self) -> bool:
        """Move to the last key."""

    def item(self) -> tuple[memoryview, memoryview]:
        """The current pair."""


def neighbours(cursor: Cursor, keys: Sequence[bytes], checked: Set[bytes]) -> dict[bytes, memoryview]:
    """The pairs right above and below each missing key, except the checked ones.

    keys     ascending; existing ones are among the checked ones
    checked  the table's keys that need no further check
    """
    above: bytes | None = b""
    pairs: dict[bytes, memoryview] = {}
    for key in keys:
        # Adjacent missing keys have the same neighbours.
        if above is None or key < above or key in checked:
            continue
        above, stands = None, cursor.set_range(key)
        if stands:
            place, value = cursor.item()
            above = bytes(place)
            if above not in checked:
                pairs[above] = value
        if cursor.prev() if stands else cursor.last():
            place, value = cursor.item()
            below = bytes(place)
            if below not in checked:
                pairs[below] = value
    return pairs
