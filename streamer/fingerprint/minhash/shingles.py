"""Characters in the compared form -> hashes of character shingles, a whole batch at once.

A shingle is a run of k letters, marks and digits. All else is dropped first: white space, punctuation and line breaks change no
shingle, and shingles span words and sentences. k depends on the script of the first character, as does a character's
information:

wide    a syllable or a word (ideographs, kana, Hangul, Yi: Wide in Unicode's East_Asian_Width), or a letter or mark in
        a script without spaces (Thai, Lao, Khmer ...), whose words are short and have no borders
narrow  all others: alphabets, abjads, most Indic scripts and digits, which spell words sound by sound
"""

import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import regex

from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.minhash import kernels
from streamer.fingerprint.minhash.kernels import DROPPED, NARROW, WIDE
from streamer.text.characters import CODE_POINTS, UNSPACED_SCRIPTS, Characters, Rule, decode, kept, rule_table


@dataclass(frozen=True, slots=True)
class Shingles:
    """Shingles for n texts in reading order, with repetitions.

    hashes   uint64 [shingles]
    bounds   int64 [n + 1], text i has hashes[bounds[i]:bounds[i + 1]]
    letters  uint32 [n], as `characters.letters` counts them

    >>> from streamer.text.characters import fold
    >>> shingle_characters(fold(["harbour", "杭州西湖"]), wide_size=2, narrow_size=5).bounds.tolist()
    [0, 3, 6]
    """

    hashes: npt.NDArray[np.uint64]
    bounds: npt.NDArray[np.int64]
    letters: npt.NDArray[np.uint32]


def shingle_characters(characters: Characters, wide_size: int, narrow_size: int, key: HashKey = PUBLIC) -> Shingles:
    """Hash every shingle in a batch of texts in the compared form.

    wide_size, narrow_size  k for a shingle that begins with a wide character, and for any other; 1 to 32

    The hash of code points c1 ... ck is mix((c1 m^(k-1) + ... + ck) ^ mask) modulo 2^64, with the key's multiplier m and mask,
    and `shingle_kernels.mix`. A text with fewer letters than its first letter's k is one shingle.
    """
    return Shingles(
        *kernels.shingle(
            characters.codepoints,
            characters.bounds,
            _kinds(),
            wide_size,
            narrow_size,
            np.uint64(key.multiplier),
            np.uint64(key.mask),
        )
    )


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """DROPPED, NARROW or WIDE for every code point: uint8 [CODE_POINTS]."""
    return kept("kinds", lambda: {"kinds": _make_kinds()}, __file__, kernels.__file__)["kinds"]


def _make_kinds() -> npt.NDArray[np.uint8]:
    rules = rule_table()
    kinds = np.where((rules == Rule.SEPARATOR) | (rules == Rule.APOSTROPHE), DROPPED, NARROW).astype(np.uint8)
    taken = np.flatnonzero(kinds)
    characters = decode(taken.astype(np.uint32))
    wide = np.fromiter((width == "W" for width in map(unicodedata.east_asian_width, characters)), np.bool_, len(taken))
    for run in regex.finditer(r"(?:(?=[\p{L}\p{M}])" + UNSPACED_SCRIPTS + ")+", characters, regex.VERSION1):
        wide[run.start() : run.end()] = True
    kinds[taken[wide]] = WIDE
    assert len(kinds) == CODE_POINTS
    return kinds
