"""Normalised characters -> words. The only module that imports the segmenters.

Han runs are cut by jieba or its port rjieba, words of spaced scripts are runs of letters and digits, scripts without
spaces yield overlapping shingles of characters (`text.Rule` says which character is which).
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import warnings
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from streamer.text import Characters, Rule, decode, fold, ragged, rules
from streamer.vocabulary import Numbered, ShortStrings, windows

_BLANK = 0x20


@dataclass(frozen=True, slots=True)
class Segmenter:
    """What cuts runs of Han characters into words.

    cut         text -> words; a line feed in the text ends a run and comes back as a word of its own
    dictionary  names the dictionary and the release that it cuts by: equal names, equal words
    """

    cut: Callable[[str], list[str]]
    dictionary: str


@dataclass(frozen=True, slots=True)
class Words:
    """The words of n texts in reading order, as numbers: a word is written out only where it is new.

    vocabulary  what the numbers mean; it holds words of other texts too
    numbers     int64 [words]
    bounds      int64 [n + 1], text i has numbers[bounds[i]:bounds[i + 1]]
    run_starts  int64 [runs], where each run of words that follow one another without a gap begins among the characters
    run_counts  int64 [runs], how many words it has
    """

    vocabulary: Numbered
    numbers: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    run_starts: npt.NDArray[np.int64]
    run_counts: npt.NDArray[np.int64]

    @property
    def words(self) -> list[str]:
        """The words of all texts as strings, one after the other."""
        return [self.vocabulary.strings[number] for number in self.numbers.tolist()]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many code points each word has: int64 [words]."""
        return np.fromiter(map(len, self.vocabulary.strings), np.int64, len(self.vocabulary.strings))[self.numbers]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each word begins among the characters: int64 [words], ascending."""
        lengths = self.lengths
        before = np.cumsum(lengths) - lengths
        firsts = np.cumsum(self.run_counts) - self.run_counts
        return np.asarray(before + np.repeat(self.run_starts - before[firsts], self.run_counts))


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
    listed = found.words
    return [listed[begin:end] for begin, end in pairwise(found.bounds.tolist())]


def split(characters: Characters, han: Segmenter, character_shingle_size: int) -> Words:
    """Words of one batch of normalised texts, as `Splitter` gives them."""
    return Splitter(han, character_shingle_size).split(characters)


class Splitter:
    """Normalised texts -> words. Words and runs of Han characters met lately are remembered, within bounded memory."""

    def __init__(self, han: Segmenter, character_shingle_size: int) -> None:
        self._han = han
        self._character_shingle_size = character_shingle_size
        self._forget()

    def split(self, characters: Characters) -> Words:
        """Words of a batch of normalised texts.

        A run of letters of a script without spaces that is shorter than the shingle is one word; a letter and the marks
        that follow it count as one character there. Words hold letters, marks, digits and inner apostrophes, nothing else.
        """
        if self._words.is_full() or self._cuts.is_full():
            self._forget()
        resolved, codepoints = rules(characters)
        begins = np.zeros(len(resolved) + 1, np.bool_)
        begins[characters.bounds] = True
        starts, lengths = _runs(resolved, begins)
        unspaced = resolved[starts] == Rule.UNSPACED
        if unspaced.any():
            starts, lengths = _shingle(starts, lengths, unspaced, begins, self._character_shingle_size)
        is_han = resolved == Rule.HAN
        runs_of_han = is_han[starts]
        counts = np.ones(len(starts), np.int64)
        cut, counts[runs_of_han] = self._cuts.of(_spelt(codepoints, is_han, starts[runs_of_han]))
        until = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(counts, out=until[1:])
        numbers = np.zeros(until[-1], np.int64)
        words_of_han = np.repeat(runs_of_han, counts)
        numbers[words_of_han] = cut
        numbers[~words_of_han] = self._numbers(codepoints, starts[~runs_of_han], lengths[~runs_of_han])
        return Words(self._words, numbers, until[np.searchsorted(starts, characters.bounds)], starts, counts)

    def _forget(self) -> None:
        self._words = Numbered()
        self._short = ShortStrings(self._words, np.uint8)
        self._cuts = _Cuts(self._han, self._words)

    def _numbers(
        self, codepoints: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The numbers of the words at these places: int64 [words]."""
        narrow = lengths <= self._short.length_max
        is_wide = (codepoints > np.iinfo(np.uint8).max).view(np.uint8)
        narrow[narrow] = windows(is_wide, starts[narrow], lengths[narrow]) == 0
        numbers = np.zeros(len(starts), np.int64)
        numbers[narrow] = self._short.numbers_of(codepoints.astype(np.uint8), starts[narrow], lengths[narrow])
        numbers[~narrow] = self._words.numbers_of(_strings(codepoints, starts[~narrow], lengths[~narrow]))
        return numbers


class _Cuts:
    """Runs of Han characters, and the words that the segmenter cuts each into."""

    def __init__(self, han: Segmenter, words: Numbered) -> None:
        self._han = han
        self._words = words
        self._short = ShortStrings(words, np.uint16)
        self._feed = words.numbers_of("\n")[0]
        self._runs = Numbered()
        # By the number of a run: where its words begin among `_cut`, and how many they are.
        self._begins, self._counts = array("q"), array("q")
        self._cut = array("q")

    def is_full(self) -> bool:
        """Whether it is time to forget them all."""
        return self._runs.is_full()

    def of(self, runs: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The words of these runs, one after the other, as numbers; how many each run has: int64 [words], int64 [runs]."""
        known = len(self._runs.strings)
        numbers = self._runs.numbers_of(runs)
        if len(self._runs.strings) > known:
            self._add(self._runs.strings[known:])
        # The views of the arrays must be gone before more can be added.
        begins, counts = (np.frombuffer(column, np.int64)[numbers] for column in (self._begins, self._counts))
        return np.frombuffer(self._cut, np.int64)[ragged(begins, counts)], counts

    def _add(self, runs: list[str]) -> None:
        """Cut new runs, all in one call, each behind a line feed."""
        fed = "\n" + "\n".join(runs)
        cut = self._han.cut(fed)
        lengths = np.fromiter(map(len, cut), np.int64, len(cut))
        ends = np.cumsum(lengths)
        assert ends[-1] == len(fed), "the segmenter lost or gained characters"
        numbers = np.zeros(len(cut), np.int64)
        short = lengths <= self._short.length_max
        # All characters that the segmenter is given are of 16 bits (`text.Rule.HAN`).
        characters = np.frombuffer(fed.encode("utf-16-le"), "<u2").astype(np.uint16, copy=False)
        numbers[short] = self._short.numbers_of(characters, (ends - lengths)[short], lengths[short])
        numbers[~short] = self._words.numbers_of(list(compress(cut, (~short).tolist())))
        feeds = np.flatnonzero(numbers == self._feed)
        assert len(feeds) == len(runs), "the segmenter lost or gained line feeds"
        self._begins.frombytes((feeds + 1 + len(self._cut)).tobytes())
        self._counts.frombytes((np.diff(feeds, append=len(cut)) - 1).tobytes())
        self._cut.frombytes(numbers.tobytes())


def _runs(
    resolved: npt.NDArray[np.uint8], begins: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Runs of Han characters, words of spaced scripts, and every other letter with the marks that follow it.

    Where they begin, ascending, and how many characters they have: int64 [runs] each.
    """
    opening = np.ones(len(resolved) + 1, np.bool_)
    opening[1:-1] = (resolved[1:] != resolved[:-1]) | begins[1:-1]
    opening[:-1] |= (resolved == Rule.IDEOGRAPH) | (resolved == Rule.UNSPACED)
    # A resolved mark belongs to the letter before it.
    opening[:-1] &= resolved != Rule.MARK
    borders = np.flatnonzero(opening)
    taken = resolved[borders[:-1]] != Rule.SEPARATOR
    return borders[:-1][taken], np.diff(borders)[taken]


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


def _spelt(
    codepoints: npt.NDArray[np.uint32], members: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]
) -> list[str]:
    """The runs that begin at `starts` as strings: all that are no `members` of any become blanks, and it is split there."""
    spaced = np.where(members, codepoints, np.uint32(_BLANK))
    touching = starts[members[starts - 1] & (starts > 0)]
    if touching.size:
        spaced = np.insert(spaced, touching, _BLANK)
    return decode(spaced).split()


def _strings(
    codepoints: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> list[str]:
    """Words that may overlap as strings: written out once with a blank behind each, and split there."""
    if len(starts) == 0:
        return []
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
