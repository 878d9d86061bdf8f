"""Compiled loops from code points to their normal form, one by one; `characters` defines it.

`index.kernels` says how kernels are written.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

COUNT_BITS = 0b0011_1111
NONSTARTER = 0b0100_0000
INTERACTS = 0b1000_0000
"""The bits of a code point's behaviour: how many code points its form has; the form is one mark; it acts upon others."""


@compiled
def survey(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    behaviours: npt.NDArray[np.uint8],
    classes: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.bool_], np.int64]:
    """Which of n texts hold composing characters or marks out of canonical order, and the code points of all forms.

    behaviours, classes  uint8 [all code points], the tables of `characters`
    Returns bool [n] and a count.
    """
    found = np.zeros(len(bounds) - 1, np.bool_)
    total = np.int64(0)
    for text in range(len(bounds) - 1):
        seen, previous = np.uint8(0), np.uint8(0)
        for place in range(bounds[text], bounds[text + 1]):
            behaviour = behaviours[codepoints[place]]
            seen |= behaviour
            total += np.int64(behaviour & np.uint8(COUNT_BITS))
            if behaviour & np.uint8(NONSTARTER):
                own = classes[codepoints[place]]
                if own < previous:
                    found[text] = True
                previous = own
            elif behaviour & np.uint8(COUNT_BITS):
                previous = np.uint8(0)
        if seen & np.uint8(INTERACTS):
            found[text] = True
    return found, total


@compiled
def write(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    behaviours: npt.NDArray[np.uint8],
    folded: npt.NDArray[np.uint32],
    pool: npt.NDArray[np.uint32],
    pool_starts: npt.NDArray[np.int64],
    total: Any,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The forms of all code points, uint32 [total], and the texts' bounds among them, int64 [n + 1].

    behaviours, folded, pool, pool_starts  the tables of `characters`
    total                                  the count that `survey` returns
    """
    written, written_bounds = np.empty(total, np.uint32), np.zeros(len(bounds), np.int64)
    filled = np.int64(0)
    for text in range(len(bounds) - 1):
        for place in range(bounds[text], bounds[text + 1]):
            codepoint = codepoints[place]
            count = np.int64(behaviours[codepoint] & np.uint8(COUNT_BITS))
            if count == 1:
                written[filled] = folded[codepoint]
            elif count > 1:
                for offset in range(count):
                    written[filled + offset] = pool[pool_starts[codepoint] + offset]
            filled += count
        written_bounds[text + 1] = filled
    return written, written_bounds
