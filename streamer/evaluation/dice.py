"""Seeded random choices that are the same in every release of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Random choices that depend only on the seed. Built on `random()`, which alone stays the same in every release."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def one(self, items: Sequence[Item]) -> Item:
        """One of the items."""
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
