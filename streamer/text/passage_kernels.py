"""Compiled loops over texts' characters: collapse white space, and cut out passages that may hold counters and dates.

`substance` defines passages and items.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

LETTER, BLANK, BREAK, SENTENCE_END, FULL_STOP, PUNCTUATION, SEPARATOR, DATE_SIGN, MARK_SIGN, DIGIT, OTHER_DIGIT = range(
    11
)
"""Roles of characters: in a word; white space, as a line break or not; a sentence end, only before white space or not; other
punctuation, as between items or not; in dates or in marks, without being in a word; a digit, ASCII or not.
"""

DATE, MARK, LABEL = range(3)
"""Words in dates; marks, which are words for readers' actions; marks for publishing, after any letters."""

LETTERS_MAX = 64
PASSAGES_MAX = 32
_BLOCK = 16
_SPACE = np.uint32(0x20)
_LINE_FEED = np.uint32(0x0A)
_ZERO = np.uint32(0x30)


class Signs(NamedTuple):
    """What items are made of.

    roles  uint8 [all code points]
    words  uint64, as in `_kind`
    """

    roles: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]


@compiled
def passages(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], signs: Signs
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Texts with white space collapsed, uint32 [m], their bounds, int64 [n + 1], and passages that may hold items.

    A passage is int64 [4]: text, begin and end among the collapsed characters, whether a sentence end closes it. All passages
    have digits, and are among the first or last PASSAGES_MAX of their text that have.
    """
    written, written_bounds = np.empty(len(codepoints), np.uint32), np.zeros(len(bounds), np.int64)
    cut, kept, filled = np.empty((64, 4), np.int64), np.int64(0), np.int64(0)
    for text in range(len(bounds) - 1):
        first = filled
        filled, has_digits = _collapse(codepoints, bounds[text], bounds[text + 1], signs.roles, written, first)
        if has_digits:
            cut, count = _cut(written, first, filled, signs.roles, cut, kept)
            begin = kept
            for number in range(begin, count):
                is_outer = number < begin + PASSAGES_MAX or number >= count - PASSAGES_MAX
                if is_outer and _may_hold(written, cut[number, 1], cut[number, 2], cut[number, 3], signs):
                    cut[kept, 0] = text
                    for column in range(1, 4):
                        cut[kept, column] = cut[number, column]
                    kept += 1
        target = written[first:filled]
        for place in range(len(target)):
            target[place] = _SPACE if target[place] == _LINE_FEED else target[place]
        written_bounds[text + 1] = filled
    return written[:filled], written_bounds, cut[:kept]


@compiled
def _collapse(
    codepoints: npt.NDArray[np.uint32],
    place: Any,
    end: Any,
    roles: npt.NDArray[np.uint8],
    written: npt.NDArray[np.uint32],
    filled: Any,
) -> Any:
    """Write a text from `filled` on, every run of white space as one line feed if it has a line break, else as one space.

    Returns the end, and whether the text has digits.
    """
    while place < end and (roles[codepoints[place]] == BLANK or roles[codepoints[place]] == BREAK):
        place += 1
    if place == end:
        return filled, False
    written[filled] = codepoints[place]
    has_digits = roles[codepoints[place]] == DIGIT
    place, filled, after_white = place + 1, filled + 1, False
    while place < end:
        size = min(_BLOCK, end - place)
        if size == _BLOCK:
            # Nearly all blocks stay as they are: a loop without branches, many characters at a time.
            source, before = codepoints[place : place + _BLOCK], codepoints[place - 1 : place - 1 + _BLOCK]
            target = written[filled : filled + _BLOCK]
            changes, digits = np.uint32(0), np.uint32(0)
            for offset in range(_BLOCK):
                codepoint = source[offset]
                target[offset] = codepoint
                changes |= _is_changed(codepoint, before[offset])
                digits |= np.uint32(codepoint - _ZERO < np.uint32(10))
            has_digits |= digits > 0
            # A block that begins with white space, after white space that is neither: its loop did not see that.
            if not (changes or (after_white and source[0] <= _SPACE)):
                place, filled = place + _BLOCK, filled + _BLOCK
                after_white = source[_BLOCK - 1] <= _SPACE
                continue
        for at in range(place, place + size):
            codepoint = codepoints[at]
            role = roles[codepoint]
            is_white = role in (BLANK, BREAK)
            value = _LINE_FEED if role == BREAK else _SPACE if is_white else codepoint
            if is_white and after_white:
                filled -= 1
                value = min(value, written[filled])
            written[filled] = value
            filled += 1
            after_white = is_white
            has_digits |= role == DIGIT
        place += size
    return filled - after_white, has_digits


@compiled
def _is_changed(codepoint: Any, before: Any) -> Any:
    """Whether a character may be white space other than a space or a line feed, or white space after another, as uint32."""
    return (
        np.uint32(codepoint <= _SPACE)
        & np.uint32((before <= _SPACE) | ((codepoint != _SPACE) & (codepoint != _LINE_FEED)))
        | np.uint32(codepoint - np.uint32(0x7F) < np.uint32(0x22))
        | np.uint32(codepoint == np.uint32(0x1680))
        | np.uint32(codepoint - np.uint32(0x2000) < np.uint32(0xB))
        | np.uint32(codepoint - np.uint32(0x2028) < np.uint32(8))
        | np.uint32(codepoint == np.uint32(0x205F))
        | np.uint32(codepoint == np.uint32(0x3000))
    )


@compiled
def _cut(
    written: npt.NDArray[np.uint32],
    first: Any,
    last: Any,
    roles: npt.NDArray[np.uint8],
    cut: npt.NDArray[np.int64],
    count: Any,
) -> Any:
    """Short passages with digits in written[first:last], into `cut` from row `count` on; `cut`, perhaps longer, and their end.

    Walks from every digit to both ends of its passage, up to LETTERS_MAX.
    """
    floor, letters_before = first, 0
    for block in range(first, last, _BLOCK):
        digits = np.uint32(0)
        for codepoint in written[block : min(block + _BLOCK, last)]:
            digits |= np.uint32(codepoint - _ZERO < np.uint32(10))
        if not digits:
            continue
        for digit in range(max(block, floor), min(block + _BLOCK, last)):
            if digit < floor or written[digit] - _ZERO >= np.uint32(10):
                continue
            begin, letters = digit, 1
            while begin > floor and letters <= LETTERS_MAX and not _ends(roles[written[begin - 1]], written[begin]):
                begin -= 1
                letters += written[begin] != _SPACE
            if begin == floor:
                letters += letters_before
            end, is_closed = digit, False
            while letters <= LETTERS_MAX and not is_closed and end + 1 < last and written[end + 1] != _LINE_FEED:
                end += 1
                letters += written[end] != _SPACE
                following = written[end + 1] if end + 1 < last else _SPACE
                is_closed = _ends(roles[written[end]], following)
            floor = end + 1
            letters_before = 0 if is_closed else letters
            if letters > LETTERS_MAX:
                continue
            if count == len(cut):
                wider = np.empty((2 * count, 4), np.int64)
                for row in range(count):
                    for column in range(4):
                        wider[row, column] = cut[row, column]
                cut = wider
            cut[count, 1], cut[count, 2], cut[count, 3] = begin + (written[begin] == _SPACE), end + 1, is_closed
            count += 1
    return cut, count


@compiled
def _ends(role: Any, following: Any) -> Any:
    """Whether a passage ends here. Takes no array: its reference count costs more than the test."""
    is_stop = role == FULL_STOP and following in (_SPACE, _LINE_FEED)
    return is_stop or role in (SENTENCE_END, BREAK)


@compiled
def _may_hold(written: npt.NDArray[np.uint32], begin: Any, end: Any, is_sentence: Any, signs: Signs) -> Any:
    """Whether `counters_and_dates` may leave anything out: a chain at the beginning, after a separator, or at the end."""
    place, may_hold = _reach(written, begin, end, np.int64(1), signs)
    while place < end and not (may_hold or is_sentence):
        if signs.roles[written[place]] == SEPARATOR:
            place, may_hold = _reach(written, place, end, np.int64(1), signs)
        else:
            place += 1
    if not (may_hold or is_sentence):
        place, may_hold = _reach(written, end - 1, begin - 1, np.int64(-1), signs)
    return may_hold


@compiled
def _reach(written: npt.NDArray[np.uint32], place: Any, edge: Any, step: Any, signs: Signs) -> Any:
    """How far a chain may reach, over digits, punctuation and items' words; and whether it may be left out.

    A chain has digits. Without a mark it is only dates, and left out only between the passage's edges or separators.
    """
    roles = signs.roles
    digits, dashes, dates, marks, is_closed = 0, 0, 0, 0, False
    while place != edge:
        codepoint = written[place]
        role = roles[codepoint]
        if role != LETTER:
            digits += role >= DIGIT
            dates += role == DATE_SIGN
            marks += role == MARK_SIGN
            dashes += codepoint - np.uint32(0x2D) < np.uint32(3)
            place += step
            is_closed |= digits > 0 and (role == SEPARATOR or place == edge)
            continue
        first = last = place
        while place != edge and roles[written[place]] == LETTER:
            first, last = min(first, place), max(last, place)
            place += step
        kind = _kind(written[first : last + 1], signs.words)
        if kind < 0:
            break
        is_closed |= digits > 0 and place == edge
        dates += kind == DATE
        marks += kind != DATE
    is_date = dates > 0 or (digits >= 6 and dashes >= 2)
    return place, digits > 0 and (marks > 0 or (is_date and is_closed and step > 0))


@compiled
def _kind(word: npt.NDArray[np.uint32], words: npt.NDArray[np.uint64]) -> Any:
    """Kind of a word by its first three letters, or LABEL if a label may begin at a later letter; -1 if in no item.

    words  uint64, ascending, the first three letters of each, 21 bits a letter, and two bits for the kind
    """
    for first in range(max(1, len(word) - 2)):
        letters = np.uint64(0)
        for letter in word[first : first + 3]:
            letters = letters << np.uint64(21) | np.uint64(letter)
        low, high = 0, len(words)
        while low < high:
            middle = (low + high) >> 1
            if words[middle] >> np.uint64(2) < letters:
                low = middle + 1
            else:
                high = middle
        if low < len(words) and words[low] >> np.uint64(2) == letters:
            kind = np.int64(words[low] & np.uint64(3))
            if first == 0 or kind == LABEL:
                return kind
    return -1
