"""Seeded choices, equal in every Python release."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Random choices from a seed alone. Only `random()` is stable across Python releases.

    >>> Dice(1).some("abcd", 4) == Dice(1).some("abcd", 4)
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """Integer from `low` to `high`, inclusive."""
        return low + int(self._random.random() * (high - low + 1))

    def one(self, items: Sequence[Item]) -> Item:
        """A random item."""
        return items[self.number(0, len(items) - 1)]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items in random order."""
        left = list(items)
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """All items in random order."""
        return self.some(items, len(items))

    def falls(self, chance: float) -> bool:
        """True with this probability."""
        return self._random.random() < chance
