"""The compared form: the characters behind features. Digests and short texts keep the normal form.

In the normal form, these steps follow:

1. Marks without meaning do not count: general combining marks anywhere, and any mark behind `_WITHOUT_MARKS`, digits and
   separators. Vowel signs stay in scripts that need them.
2. Latin, Cyrillic and Greek letters lose their accents: é is e, й is и. So do Latin letters with a stroke or a hook, and i and j
   get their dots.
3. A long string counts as KEPT + DRAWN letters: its first KEPT characters, and letters drawn from a hash over it all. A string
   is a run with LINK_SIGNS, ASCII letters and digits. It is long with more than LONG letters and digits, if at least one
   character in LETTERS_A_SIGN is no letter: else it may be a text without blanks. Lines with equal length and
   Base64's letters and signs alone are one string, with a shorter last line that has a digit or a sign.
"""

import unicodedata
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from index.kernels.jit import compiled, xxh3_64
from streamer.text.characters import CODE_POINTS, Characters, Rule, decode, kept, rule_table

LONG = 40
KEPT, DRAWN = 16, 8
LETTERS_A_SIGN = 16
BASE64_SIGNS, LINK_SIGNS = "+/=-_", "+/=-_.~:?#@&%"

_GENERAL_MARKS = r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_WITHOUT_MARKS = (
    r"[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}"
    r"\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Cherokee}\p{Script=Common}]"
)
_ACCENTED = regex.compile(r"[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}]", regex.VERSION1)
_WITH_SOMETHING = regex.compile(r"LATIN SMALL LETTER (?:DOTLESS )?([A-Z])(?: WITH .*)?")
_LETTERED_BLOCKS = (*range(0x80, 0x590), *range(0x1D00, 0x2000), *range(0x2C60, 0x2C80), *range(0xA720, 0xA800))
"""Blocks with accented letters, except compatibility forms."""

_BEARS_MARKS, _BARE, _MARK, _GENERAL_MARK, _LINK_SIGN, _BASE64_SIGN, _DIGIT, _LETTER = range(8)
"""What a character is to the kernel: from _LINK_SIGN on it may be in a string."""


class _Tables(NamedTuple):
    """uint32 and uint8 [CODE_POINTS]: every character without its accents, and what it is."""

    plain: npt.NDArray[np.uint32]
    roles: npt.NDArray[np.uint8]


def compared(characters: Characters) -> Characters:
    """Normalised texts in the compared form.

    >>> from streamer.text.characters import fold
    >>> compared(fold(["Đây là café"])).text(0)
    'day la cafe'
    >>> compared(fold(["see https://example.org/archive/2019/an-old-harbour/page-3"])).text(0)
    'see https://example.vqbookat'
    """
    return Characters(*_written(characters.codepoints, characters.bounds, *_tables()))


def without_accents(characters: Characters) -> Characters:
    """Steps 1 and 2 alone: for words, which are no strings."""
    codepoints, bounds, _ = _plain(characters.codepoints, characters.bounds, *_tables())
    return Characters(codepoints, bounds)


@cache
def _tables() -> _Tables:
    return _Tables(**kept("compared", lambda: _make_tables()._asdict()))


def _make_tables() -> _Tables:
    plain = np.arange(CODE_POINTS, dtype=np.uint32)
    for codepoint in _LETTERED_BLOCKS:
        character = chr(codepoint)
        if _ACCENTED.match(character) and character.isalpha():
            named = _WITH_SOMETHING.fullmatch(unicodedata.name(character, ""))
            plain[codepoint] = ord(named[1].lower() if named else unicodedata.normalize("NFD", character)[0])
    rules = rule_table()
    roles = np.where((rules == Rule.SEPARATOR) | (rules == Rule.APOSTROPHE), _BARE, _BEARS_MARKS).astype(np.uint8)
    counted = np.flatnonzero(rules).astype(np.uint32)
    shown = decode(counted)
    for pattern, role in ((_WITHOUT_MARKS, _BARE), (r"\p{M}", _MARK), (_GENERAL_MARKS, _GENERAL_MARK)):
        for run in regex.finditer(f"{pattern}+", shown, regex.VERSION1):
            roles[counted[run.start() : run.end()]] = role
    for signs, role in ((LINK_SIGNS, _LINK_SIGN), (BASE64_SIGNS, _BASE64_SIGN), ("0123456789", _DIGIT)):
        roles[list(map(ord, signs))] = role
    roles[ord("a") : ord("z") + 1] = _LETTER
    return _Tables(plain, roles)


@compiled
def _plain(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    plain: npt.NDArray[np.uint32],
    roles: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Steps 1 and 2, and which texts may have a long string, bool [n]."""
    written, written_bounds, filled = np.empty_like(codepoints), np.zeros_like(bounds), np.int64(0)
    may_be_long = np.zeros(len(bounds) - 1, np.bool_)
    for text in range(len(bounds) - 1):
        before, run, longest = np.uint8(_BARE), np.int64(0), np.int64(0)
        for place in range(bounds[text], bounds[text + 1]):
            role = roles[codepoints[place]]
            written[filled] = plain[codepoints[place]]
            if role in (_MARK, _GENERAL_MARK):
                filled += role == _MARK and before == _BEARS_MARKS
                continue
            filled += 1
            before = role
            run = run + 1 if role >= _LINK_SIGN else np.int64(0)
            longest = max(longest, run)
        written_bounds[text + 1], may_be_long[text] = filled, longest > LONG
    return written[:filled], written_bounds, may_be_long


@compiled
def _written(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    plain: npt.NDArray[np.uint32],
    roles: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Every step: first those that read one character after the other. Then strings become shorter, in place."""
    written, written_bounds, may_be_long = _plain(codepoints, bounds, plain, roles)
    if not may_be_long.any():
        return written, written_bounds
    filled, octets = np.int64(0), np.empty(len(written), np.uint8)
    for text in range(len(bounds) - 1):
        place, end = written_bounds[text], written_bounds[text + 1]
        written_bounds[text] = filled
        while place < end:
            first = place
            if may_be_long[text]:
                place, is_long, is_base64 = _string_end(written, first, end, roles)
                place = max(place, first + 1)
            else:
                place, is_long, is_base64 = end, False, False
            kept = first + KEPT if is_long else place
            size = _octets(written, first, place, octets, np.int64(0)) if is_long else np.int64(0)
            if is_base64:
                begin, line = place, place - first
                place = _lines_end(written, place, end, line, roles)
                size = _octets(written, begin, place, octets, size)
            for each in range(kept - KEPT if is_long else first, kept):
                written[filled] = written[each]
                filled += 1
            if is_long:
                filled = _drawn(written, filled, xxh3_64(np.uint64(octets.ctypes.data), np.uint64(size)))
    written_bounds[len(bounds) - 1] = filled
    return written[:filled], written_bounds


@compiled
def _drawn(codepoints: npt.NDArray[np.uint32], filled: Any, number: Any) -> Any:
    """Write DRAWN letters that are a number's digits; returns where they end."""
    for _ in range(DRAWN):
        codepoints[filled] = np.uint32(ord("a")) + np.uint32(number % np.uint64(26))
        number //= np.uint64(26)
        filled += 1
    return filled


@compiled
def _string_end(codepoints: npt.NDArray[np.uint32], place: Any, end: Any, roles: npt.NDArray[np.uint8]) -> Any:
    """The end for a string that begins at a place; whether it is long; and whether it is long and may be Base64."""
    first, letters, others, is_base64 = place, 0, 0, True
    while place < end and roles[codepoints[place]] >= _LINK_SIGN:
        role = roles[codepoints[place]]
        letters += role >= _DIGIT
        others += role != _LETTER
        is_base64 &= role != _LINK_SIGN
        place += 1
    is_long = letters > LONG and others * LETTERS_A_SIGN >= place - first
    return place, is_long, is_long and is_base64


@compiled
def _lines_end(
    codepoints: npt.NDArray[np.uint32], place: Any, end: Any, length: Any, roles: npt.NDArray[np.uint8]
) -> Any:
    """Base64's end in lines with this length; the first ends at `place`."""
    lines = 1
    while True:
        begin = _after_blanks(codepoints, place, end)
        stop, _, is_base64 = _string_end(codepoints, begin, end, roles)
        if begin == place or stop == begin:
            return place
        if is_base64 and stop - begin == length:
            place, lines = stop, lines + 1
            continue
        has_sign, is_line = False, lines > 1 and stop - begin < length
        for each in range(begin, stop):
            role = roles[codepoints[each]]
            has_sign |= role != _LETTER
            is_line &= role != _LINK_SIGN
        return stop if is_line and has_sign else place


@compiled
def _octets(codepoints: npt.NDArray[np.uint32], first: Any, end: Any, octets: npt.NDArray[np.uint8], size: Any) -> Any:
    """Add ASCII characters but blanks to the octets behind `size`; returns the new size."""
    for place in range(first, end):
        octets[size] = np.uint8(codepoints[place])
        size += codepoints[place] > 32
    return size


@compiled
def _after_blanks(codepoints: npt.NDArray[np.uint32], place: Any, end: Any) -> Any:
    while place < end and (codepoints[place] == 32 or 9 <= codepoints[place] <= 13):
        place += 1
    return place
