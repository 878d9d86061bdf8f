"""Hash table from numbers to places."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

EMPTY = np.uint64(2**64 - 1)
"""Number in an empty slot; no document has it."""


@compiled
def _slot_of_number(numbers: npt.NDArray[np.uint64], number: Any) -> Any:
    """Slot for a number, uint64 [slots], or the empty slot for it."""
    last = len(numbers) - 1
    mixed = number * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(last))
    while numbers[slot] != EMPTY and numbers[slot] != number:
        slot = (slot + 1) & last
    return slot


@compiled
def found(
    numbers: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], asked: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Places of the requested numbers, uint64 [m] -> int64 [m]; -1 for absent ones.

    numbers, places  uint64 [slots] and int64 [slots], the table; slots is a power of two, some EMPTY
    """
    of_asked = np.empty(len(asked), np.int64)
    for one in range(len(asked)):
        slot = _slot_of_number(numbers, asked[one])
        of_asked[one] = -1 if numbers[slot] == EMPTY else places[slot]
    return of_asked


@compiled
def entered(
    numbers: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], asked: npt.NDArray[np.uint64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64], int]:
    """As `found`, but unknown numbers enter at the next places. Also returns the table, perhaps larger, and its count.

    count  numbers entered so far; changes numbers and places
    """
    of_asked = np.empty(len(asked), np.int64)
    for one in range(len(asked)):
        slot = _slot_of_number(numbers, asked[one])
        if numbers[slot] == EMPTY:
            # At most half the slots are in use, so probing stays short: 8 numbers take 16 slots, the ninth doubles
            # them.
            if 2 * count >= len(numbers):
                former, of_former = numbers, places
                numbers, places = np.full(2 * len(former), EMPTY, np.uint64), np.empty(2 * len(former), np.int64)
                for each in range(len(former)):
                    if former[each] != EMPTY:
                        moved = _slot_of_number(numbers, former[each])
                        numbers[moved], places[moved] = former[each], of_former[each]
                slot = _slot_of_number(numbers, asked[one])
            numbers[slot], places[slot] = asked[one], count
            count += 1
        of_asked[one] = places[slot]
    return of_asked, numbers, places, count
