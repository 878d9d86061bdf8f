"""Helpers for several kernels. numba does not watch them (see `index.kernels.jit`): a changed one needs another name."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import array_at, compiled, pointer_at


@compiled
def grown(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column twice as long that begins with this one."""
    larger = np.empty((column.shape[0] * 2, *column.shape[1:]), column.dtype)
    larger[: column.shape[0]] = column
    return larger


@compiled
def lower(column: npt.NDArray[np.uint16], value: Any, low: Any, high: Any) -> Any:
    """First place in column[low:high], ascending, whose value is not below this one, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if np.int64(column[middle]) < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def count_at(address: Any) -> Any:
    """Number of entries in a segment: int64."""
    # A 32-bit count in two 16-bit halves, low half first: 0x0001, 0x0002 are 0x20001 entries.
    halves = array_at(pointer_at(address), 2)
    return np.int64(halves[0]) | np.int64(halves[1]) << 16


@compiled
def columns_at(address: Any, count: int) -> Any:
    """A segment's first columns, uint16 [count, entries], as a view."""
    return array_at(pointer_at(address + np.uint64(8)), (count, count_at(address)))
