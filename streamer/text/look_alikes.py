"""Look-alike letters in different alphabets, by Unicode's table of confusables (UTS 39)."""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

ALPHABETS = ("Latin", "Cyrillic", "Greek", "Armenian", "Cherokee")
TABLED = 0x2000
"""Upper bound for letters of these alphabets that are ever mixed in a word."""

_USUAL = frozenset(map(chr, [*range(0x3B1, 0x3CA), *range(0x430, 0x460), *range(0x561, 0x587)]))
_MICRO = "\u03bc"
"""Its capital looks like an M, but 5 micrometres are not 5 millimetres."""


class LookAlikes(NamedTuple):
    """Look-alikes for the letters below TABLED.

    alphabets  uint8 [TABLED], bit i if a letter is in alphabet i
    forms      uint32 [alphabets, TABLED], the look-alike in alphabet i; the letter itself in its own; else 0

    >>> cyrillic_a, latin = ord("\\u0430"), 0
    >>> chr(look_alikes().forms[latin, cyrillic_a])
    'a'
    """

    alphabets: npt.NDArray[np.uint8]
    forms: npt.NDArray[np.uint32]


@cache
def look_alikes() -> LookAlikes:
    """The table, for casefolded letters (10 ms, once per process).

    Letters look alike as lower-case letters, or else as capitals: Cyrillic U+0432 is a b, because its capital is a B. Only pairs
    with a Latin letter are known. A Latin letter has the form of a letter in use today, if possible one that looks alike in lower
    case.
    """
    # A megabyte of JSON, which only a process that makes the tables needs.
    from confusable_homoglyphs.confusables import confusables_data

    letters = [chr(codepoint) for codepoint in range(TABLED)]
    alphabets, forms = np.zeros(TABLED, np.uint8), np.zeros((len(ALPHABETS), TABLED), np.uint32)
    for number, name in enumerate(ALPHABETS):
        is_letter = regex.compile(rf"(?=\p{{L}})\p{{Script={name}}}", regex.VERSION1).match
        codepoints = [ord(letter) for letter in letters if is_letter(letter)]
        alphabets[codepoints] = 1 << number
        forms[number, codepoints] = codepoints
    others = [letter for letter in letters if alphabets[ord(letter)] > 1 and _is_normal(letter) and letter != _MICRO]
    for shown in (str, str.upper):
        for letter in others:
            latin = next((each for each in _confusable(shown(letter), confusables_data) if _is_small_latin(each)), None)
            if latin is None or forms[0, ord(letter)]:
                continue
            forms[0, ord(letter)] = ord(latin)
            number = int(alphabets[ord(letter)]).bit_length() - 1
            if letter in _USUAL and not forms[number, ord(latin)]:
                forms[number, ord(latin)] = ord(letter)
    return LookAlikes(alphabets, forms)


def _is_normal(letter: str) -> bool:
    return unicodedata.normalize("NFKC", letter.casefold()) == letter


def _confusable(letter: str, confusables: Mapping[str, Sequence[Mapping[str, str]]]) -> list[str]:
    """A letter's look-alikes, casefolded; a capital's only if capitals."""
    letters = [each["c"] for each in confusables.get(letter, ())]
    return [each.casefold() for each in letters if each.isupper() == letter.isupper()]


def _is_small_latin(letter: str) -> bool:
    return len(letter) == 1 and "a" <= letter <= "z"
