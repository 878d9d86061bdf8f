"""The neighbours of missing keys: what a damaged key would stand between, or be."""

from collections.abc import Sequence, Set
from typing import Protocol


class Cursor(Protocol):
    """A cursor at a pair of a sorted table, or nowhere; steps give whether it stands at a pair then."""

    def set_range(self, key: bytes) -> bool:
        """Step to the least key not below this one."""

    def prev(self) -> bool:
        """Step to the key before."""

    def last(self) -> bool:
        """Step to the last key."""

    def item(self) -> tuple[memoryview, memoryview]:
        """The pair."""


def neighbours(cursor: Cursor, keys: Sequence[bytes], checked: Set[bytes]) -> dict[bytes, memoryview]:
    """The pairs right above and right below each key that is missing, but for those that were checked.

    keys     ascending; those that are not missing are among the checked ones
    checked  keys of the table that need no further look
    """
    above: bytes | None = b""
    found: dict[bytes, memoryview] = {}
    for key in keys:
        # Keys without any key of the table between them have the same neighbours.
        if above is None or key < above or key in checked:
            continue
        above, stands = None, cursor.set_range(key)
        if stands:
            place, value = cursor.item()
            above = bytes(place)
            if above not in checked:
                found[above] = value
        if cursor.prev() if stands else cursor.last():
            place, value = cursor.item()
            below = bytes(place)
            if below not in checked:
                found[below] = value
    return found
