"""Normalised characters -> words. The only module that imports the segmenters.

Han runs are cut by jieba or its port rjieba, words of spaced scripts are runs of letters and digits, scripts without
spaces yield overlapping shingles of characters (`text.Rule` says which character is which).
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from streamer.text import Characters, Rule, decode, fold, ragged, rules

_LINE_FEED = 0x0A
_BLANK = 0x20


@dataclass(frozen=True, slots=True)
class Words:
    """The words of n texts in reading order.

    words   the words of all texts, one after the other
    bounds  int64 [n + 1], text i has words[bounds[i]:bounds[i + 1]]
    starts  int64 [words], where each begins among the characters
    """

    words: list[str]
    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segmenter:
    """What cuts runs of Han characters into words.

    cut         text -> words; a line feed in the text ends a run and comes back as a word of its own
    dictionary  names the dictionary and the release that it cuts by: equal names, equal words
    """

    cut: Callable[[str], list[str]]
    dictionary: str


@cache
def segmenter(name: Literal["rjieba", "jieba"]) -> Segmenter:
    """The segmenter of this name, loaded at its first use (rjieba 0.1 s, jieba 1 s); the other one stays unloaded."""
    return _rjieba() if name == "rjieba" else _jieba()


def segmenter_with(
    name: Literal["rjieba", "jieba"], entries: Sequence[tuple[str, int | None]], digest: str
) -> Segmenter:
    """A segmenter of its own that knows more words: (word, frequency; None: enough to be cut out as one word).

    `digest` stands for the entries in the name of the dictionary.
    """
    found = _rjieba(entries) if name == "rjieba" else _jieba(entries)
    return Segmenter(found.cut, f"{found.dictionary} and {digest}")


def jieba_file(path: str) -> bytes:
    """A file of the installed jieba, such as its dictionary `dict.txt` (word frequency tag); jieba is not loaded."""
    found = importlib.util.find_spec("jieba")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / path).read_bytes()


def words(texts: Sequence[str], name: Literal["rjieba", "jieba"], character_shingle_size: int) -> list[list[str]]:
    """The words of every text, in reading order; an empty list for a text without letters and digits."""
    found = split(fold(texts), segmenter(name), character_shingle_size)
    bounds = found.bounds.tolist()
    return [found.words[begin:end] for begin, end in pairwise(bounds)]


def split(characters: Characters, han: Segmenter, character_shingle_size: int) -> Words:
    """Words of a batch of normalised texts.

    A run of letters of a script without spaces that is shorter than the shingle is one word; a letter and the marks
    that follow it count as one character there. Words hold letters, marks, digits and inner apostrophes, nothing else.
    """
    resolved, codepoints = rules(characters)
    begins = np.zeros(len(resolved) + 1, np.bool_)
    begins[characters.bounds] = True
    starts = _starts(resolved, codepoints, begins, han)
    if starts.size == 0:
        return Words([], np.zeros(len(characters.bounds), np.int64), starts)
    lengths = np.add.reduceat(resolved != Rule.SEPARATOR, starts, dtype=np.int64)
    if (resolved == Rule.UNSPACED).any():
        starts, lengths = _shingle(starts, lengths, resolved[starts] == Rule.UNSPACED, begins, character_shingle_size)
    bounds = np.searchsorted(starts, characters.bounds).astype(np.int64, copy=False)
    return Words(_strings(codepoints, starts, lengths), bounds, starts)


def _starts(
    resolved: npt.NDArray[np.uint8],
    codepoints: npt.NDArray[np.uint32],
    begins: npt.NDArray[np.bool_],
    han: Segmenter,
) -> npt.NDArray[np.int64]:
    """Where a word begins, or one character of a script without spaces: int64, ascending."""
    starting = (resolved == Rule.IDEOGRAPH) | (resolved == Rule.UNSPACED)
    lettered = resolved == Rule.WORD
    starting |= lettered
    starting[1:] &= ~(lettered[1:] & lettered[:-1]) | begins[1:-1]
    positions = np.flatnonzero(resolved == Rule.HAN)
    if positions.size:
        starting[_han_starts(codepoints, positions, begins, han)] = True
    return np.flatnonzero(starting)


def _han_starts(
    codepoints: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.int64],
    begins: npt.NDArray[np.bool_],
    han: Segmenter,
) -> npt.NDArray[np.int64]:
    """Where the segmenter begins a word: all runs of the batch go to it in one call, each behind a line feed."""
    opening = np.ones(len(positions), np.bool_)
    opening[1:] = (np.diff(positions) > 1) | begins[positions[1:]]
    places = np.arange(len(positions)) + np.cumsum(opening)
    fed = np.full(int(places[-1]) + 1, _LINE_FEED, np.uint32)
    fed[places] = codepoints[positions]
    cut = han.cut(decode(fed))
    ends = np.cumsum(np.fromiter(map(len, cut), np.int64, len(cut)))
    assert int(ends[-1]) == len(fed), "the segmenter lost or gained characters"
    opened = np.zeros(len(fed), np.bool_)
    opened[0] = True
    opened[ends[:-1]] = True
    return positions[opened[places]]


def _shingle(
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    unspaced: npt.NDArray[np.bool_],
    begins: npt.NDArray[np.bool_],
    size: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Replace the single characters of each run without spaces by its shingles of `size` characters."""
    follows = np.zeros(len(starts), np.bool_)
    follows[1:] = unspaced[1:] & unspaced[:-1] & (starts[1:] == starts[:-1] + lengths[:-1]) & ~begins[starts[1:]]
    opening = np.flatnonzero(~follows)
    run_lengths = np.diff(opening, append=len(starts))
    run_lasts = np.repeat(opening + run_lengths - 1, run_lengths)
    numbers = np.arange(len(starts))
    kept = (numbers + size - 1 <= run_lasts) | ~follows
    lasts = np.minimum(numbers + size - 1, run_lasts)[kept]
    return starts[kept], starts[lasts] + lengths[lasts] - starts[kept]


def _strings(
    codepoints: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> list[str]:
    """The words as strings: written out once with a blank behind each, and split there."""
    ends = np.cumsum(lengths + 1)
    spaced = np.full(int(ends[-1]), _BLANK, np.uint32)
    spaced[ragged(ends - lengths - 1, lengths)] = codepoints[ragged(starts, lengths)]
    return decode(spaced[:-1]).split(" ")


def _rjieba(entries: Sequence[tuple[str, int | None]] = ()) -> Segmenter:
    import rjieba

    # The dictionary is compiled in and cannot be read out: the release stands for it.
    release = f"rjieba {importlib.metadata.version('rjieba')}"
    if not entries:
        return Segmenter(rjieba.cut, release)
    own = rjieba.Jieba()
    for word, frequency in entries:
        own.add_word(word, frequency, None)
    return Segmenter(own.cut, release)


def _jieba(entries: Sequence[tuple[str, int | None]] = ()) -> Segmenter:
    """jieba without its habits: no line on standard error, no cache file that anybody may have put into /tmp."""
    with warnings.catch_warnings():
        # Its own sources and its use of pkg_resources warn; neither is ours to mend.
        warnings.simplefilter("ignore")
        import jieba
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as dictionary:
        digest = hashlib.sha256(dictionary.read()).hexdigest()
        dictionary.seek(0)
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    for word, frequency in entries:
        tokenizer.add_word(word, frequency)
    return Segmenter(tokenizer.lcut, f"jieba {jieba.__version__} sha256 {digest}")
