"""Helpers for several kernels. numba does not watch them (see `index.kernels.jit`): a changed one needs another name."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled


@compiled
def grown(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column twice as long that begins with this one."""
    larger = np.empty((column.shape[0] * 2, *column.shape[1:]), column.dtype)
    larger[: column.shape[0]] = column
    return larger
