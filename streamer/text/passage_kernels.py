"""Compiled loop over texts' characters: collapses white space, and cuts passages that may hold counters and dates.

`index.kernels` says how kernels are written; `substance` defines passages.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

SPACE = 1
BREAK = 2
SENTENCE_END = 3
FULL_STOP = 4
DIGIT = 5
"""Roles of characters: white space, a line break, a sentence end, a sentence end only before white space, a digit."""

_BLANK = np.uint32(0x20)


@compiled
def passages(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], roles: npt.NDArray[np.uint8], letters_max: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Texts with white space collapsed, uint32 [m], their bounds, int64 [n + 1], and their short passages with digits.

    roles  uint8 [all code points], role of each; most have none

    A passage is int64 [4]: text, begin and end among the collapsed characters, whether a sentence end closes it.
    """
    written, written_bounds = np.empty(len(codepoints), np.uint32), np.zeros(len(bounds), np.int64)
    found, count, filled = np.empty((64, 4), np.int64), 0, np.int64(0)
    for text in range(len(bounds) - 1):
        first = begin = filled
        blanks, digits, pending = 0, False, False
        for place in range(bounds[text], bounds[text + 1]):
            codepoint = codepoints[place]
            role = roles[codepoint]
            if role == 0 and not pending:
                # Nearly every character.
                written[filled] = codepoint
                filled += 1
                continue
            last = place + 1 == bounds[text + 1]
            if codepoint == _BLANK and not (pending or last or filled == begin) and roles[codepoints[place + 1]] == 0:
                # Nearly every blank.
                written[filled] = _BLANK
                filled += 1
                blanks += 1
                continue
            if role in (SPACE, BREAK):
                pending = bool(filled > first)
            else:
                if pending:
                    if filled == begin:
                        begin += 1
                    else:
                        blanks += 1
                    written[filled] = _BLANK
                    filled += 1
                pending = False
                written[filled] = codepoint
                filled += 1
                digits = digits or role == DIGIT
            sentence = role == SENTENCE_END
            if role == FULL_STOP:
                sentence = last or roles[codepoints[place + 1]] == SPACE or roles[codepoints[place + 1]] == BREAK
            if sentence or role == BREAK:
                if digits and filled - begin - blanks <= letters_max:
                    found, count = _with(found, count), count + 1
                    found[count - 1] = text, begin, filled, np.int64(sentence)
                begin, blanks, digits = filled, 0, False
        if digits and filled - begin - blanks <= letters_max:
            found, count = _with(found, count), count + 1
            found[count - 1] = text, begin, filled, 0
        written_bounds[text + 1] = filled
    return written[:filled], written_bounds, found[:count]


@compiled
def _with(found: npt.NDArray[np.int64], count: Any) -> Any:
    """The passages, with room for one more."""
    if count < len(found):
        return found
    wider = np.empty((2 * count, 4), np.int64)
    wider[:count] = found
    return wider
