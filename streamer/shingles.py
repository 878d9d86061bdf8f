"""Normalised characters -> hashes of character shingles, a whole batch at once.

A shingle is a run of k letters, marks and digits; everything else is dropped first, so that neither white space nor
punctuation nor line breaks change one, and shingles span words and sentences. What a character tells depends on its
script, and so does k: a shingle takes its k from its first character, whichever document that stands in. Of two kinds:

wide    carries a syllable or a word (ideographs, kana, Hangul, Yi: those that Unicode's East_Asian_Width calls Wide), or is
        a letter or mark of a script without spaces (Thai, Lao, Khmer ...), where words are short runs that nothing parts
narrow  all others: alphabets, abjads, most of the Indic family, digits, which spell words sound by sound
"""

import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import regex

from streamer.text import CODE_POINTS, UNSPACED_SCRIPTS, Characters, Rule, look_up, rule_table

_DROPPED, _NARROW, _WIDE = range(3)
_MULTIPLIER = 0xD6E8FEB86659FD93
"""Of the polynomial: any odd number with its bits well spread (this one is from Wang Yi's and Pelle Evensen's mixers)."""


@dataclass(frozen=True, slots=True)
class Shingles:
    """The shingles of n texts in reading order, repeated ones included.

    hashes  uint64 [shingles]
    bounds  int64 [n + 1], text i has hashes[bounds[i]:bounds[i + 1]]
    """

    hashes: npt.NDArray[np.uint64]
    bounds: npt.NDArray[np.int64]


def shingle_characters(characters: Characters, wide_size: int, narrow_size: int) -> Shingles:
    """Hash every shingle of a batch of normalised texts.

    wide_size, narrow_size  k of a shingle that begins with a wide character, and of any other; 1 to 32

    The hash of code points c1 ... ck is mix(c1 m^(k-1) + ... + ck) modulo 2^64, m = _MULTIPLIER, with the finaliser of
    SplitMix64 as `mix` (Steele, Lea, Flood 2014; Stafford's variant 13). A text that has letters but fewer than its
    first one asks for is one shingle. Shingles never cross the border of a text.
    """
    kinds = look_up(_kinds(), characters.codepoints)
    kept = kinds != _DROPPED
    # By position, not by mask: dropped characters lie scattered, which costs a mask several times as much.
    positions = np.flatnonzero(kept)
    letters = characters.codepoints[positions].astype(np.uint64)
    wide = kinds[positions] == _WIDE
    bounds = _counted(kept, characters.bounds)
    hashes = _polynomials(letters, wide, wide_size, narrow_size)
    whole = np.ones(len(letters), np.bool_)
    _end_shingles(whole, bounds, wide, wide_size, narrow_size)

    begins, lengths = bounds[:-1], np.diff(bounds)
    filled = np.flatnonzero(lengths)
    for text in filled[~whole[begins[filled]]].tolist():
        begin, end = bounds[text : text + 2].tolist()
        whole[begin:end] = False
        whole[begin] = True
        hashes[begin] = _polynomial(letters[begin:end])
    return Shingles(_mix(hashes[whole]), _counted(whole, bounds))


def _counted(taken: npt.NDArray[np.bool_], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many are taken before each bound: the bounds of what is left when only they are."""
    starts = bounds[:-1]
    counts = np.zeros(len(bounds), np.int64)
    filled = np.diff(bounds) > 0
    if filled.any():
        counts[1:][filled] = np.add.reduceat(taken, starts[filled], dtype=np.int64)
    return np.cumsum(counts)


def _end_shingles(
    whole: npt.NDArray[np.bool_],
    bounds: npt.NDArray[np.int64],
    wide: npt.NDArray[np.bool_],
    wide_size: int,
    narrow_size: int,
) -> None:
    """Strike out, in place, the letters too near to the end of their text to begin a shingle."""
    for before_end in range(1, max(wide_size, narrow_size)):
        last = bounds[1:] - before_end
        last = last[last >= bounds[:-1]]
        whole[last] = np.where(wide[last], before_end >= wide_size, before_end >= narrow_size)


def _polynomials(
    letters: npt.NDArray[np.uint64], wide: npt.NDArray[np.bool_], wide_size: int, narrow_size: int
) -> npt.NDArray[np.uint64]:
    """The polynomial of the shingle that begins at each letter, of the size that this letter asks for."""
    known = {1: letters}
    if wide_size == narrow_size or wide.all():
        return _rolling(known, wide_size)
    if not wide.any():
        return _rolling(known, narrow_size)
    return np.where(wide, _rolling(known, wide_size), _rolling(known, narrow_size))


def _rolling(known: dict[int, npt.NDArray[np.uint64]], size: int) -> npt.NDArray[np.uint64]:
    """The polynomial of every run of `size` letters, by halves; runs that pass the end are read as if zeros followed.

    With p(k) the polynomials of length k, p(a + b)[i] = p(a)[i] m^b + p(b)[i + a]. `known` holds p by length.
    """
    if size not in known:
        half = _rolling(known, size // 2)
        even = _joined(half, half, size // 2, size // 2)
        known[size] = even if size % 2 == 0 else _joined(even, known[1], size - 1, 1)
    return known[size]


def _joined(
    left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64], left_size: int, right_size: int
) -> npt.NDArray[np.uint64]:
    longer = left * np.uint64(pow(_MULTIPLIER, right_size, 1 << 64))
    longer[:-left_size] += right[left_size:]
    return longer


def _polynomial(letters: npt.NDArray[np.uint64]) -> np.uint64:
    total = 0
    for letter in letters.tolist():
        total = (total * _MULTIPLIER + letter) % (1 << 64)
    return np.uint64(total)


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """Per code point whether it is dropped, narrow or wide (0.2 s, once per process)."""
    rules = rule_table()
    kinds = np.where((rules == Rule.SEPARATOR) | (rules == Rule.APOSTROPHE), _DROPPED, _NARROW).astype(np.uint8)
    taken = np.flatnonzero(kinds)
    unspaced = regex.compile(r"(?=[\p{L}\p{M}])" + UNSPACED_SCRIPTS, regex.VERSION1).match
    kinds[[at for at in taken.tolist() if unicodedata.east_asian_width(chr(at)) == "W" or unspaced(chr(at))]] = _WIDE
    assert len(kinds) == CODE_POINTS
    return kinds
