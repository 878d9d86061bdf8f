"""Keys -> numbers, whole columns at a time: a hash table in numpy arrays, with open addressing and linear probing.

Where a key lies depends on a multiplier drawn for each table (multiply-shift hashing: Dietzfelbinger, Hagerup, Katajainen,
Penttonen 1997), so that nobody can write texts whose keys all meet; what it answers does not depend on it.
"""

import secrets

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

ABSENT = -1
_CAPACITY_FIRST = 1 << 10


class KeyTable:
    """Keys, none of them 0, each with a number of its own choosing."""

    def __init__(self) -> None:
        self._multiplier = np.uint64(secrets.randbits(64) | 1)
        self._count = 0
        self._empty(_CAPACITY_FIRST)

    def find(self, keys: Keys) -> Numbers:
        """The number of every key, ABSENT where it has none: int64 [n]. Keys may repeat."""
        found = np.full(len(keys), ABSENT, np.int64)
        rows, slots = np.arange(len(keys)), self._slots(keys)
        while len(rows):
            there = self._keys[slots]
            here = there == keys
            found[rows[here]] = self._numbers[slots[here]]
            further = ~here & (there != 0)
            rows, keys, slots = rows[further], keys[further], self._next(slots[further])
        return found

    def add(self, keys: Keys, numbers: Numbers) -> None:
        """Enter different keys that are not there yet."""
        self._count += len(keys)
        if 2 * self._count > len(self._keys):
            filled = self._keys != 0
            known = self._keys[filled], self._numbers[filled]
            self._empty(1 << (2 * self._count).bit_length())
            self._put(*known)
        self._put(keys, numbers)

    def _put(self, keys: Keys, numbers: Numbers) -> None:
        slots = self._slots(keys)
        while len(keys):
            free = self._keys[slots] == 0
            # Where several want one slot, one of them stays in it.
            self._keys[slots[free]] = keys[free]
            placed = self._keys[slots] == keys
            self._numbers[slots[placed]] = numbers[placed]
            keys, numbers, slots = keys[~placed], numbers[~placed], self._next(slots[~placed])

    def _empty(self, capacity: int) -> None:
        self._keys = np.zeros(capacity, np.uint64)
        self._numbers = np.zeros(capacity, np.int64)
        self._shift = np.uint64(65 - capacity.bit_length())

    def _slots(self, keys: Keys) -> Numbers:
        return (keys * self._multiplier >> self._shift).astype(np.int64)

    def _next(self, slots: Numbers) -> Numbers:
        return (slots + 1) & (len(self._keys) - 1)
