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
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from streamer.text import Characters, Rule, decode, fold, ragged, rules

_BLANK = 0x20
_REMEMBERED = 1 << 17
_REMEMBERED_CHARACTERS = 1 << 21


@dataclass(frozen=True, slots=True)
class Segmenter:
    """What cuts runs of Han characters into words.

    cut         text -> words; a line feed in the text ends a run and comes back as a word of its own
    dictionary  names the dictionary and the release that it cuts by: equal names, equal words
    """

    cut: Callable[[str], list[str]]
    dictionary: str


class Numbered:
    """Different strings, numbered from 0 in the order in which they were met; there are only ever more of them."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._characters = 0

    def is_full(self) -> bool:
        """Whether what it holds in memory is enough, so that it is time for a new one."""
        return len(self.strings) > _REMEMBERED or self._characters > _REMEMBERED_CHARACTERS

    def numbers_of(self, strings: Sequence[str]) -> npt.NDArray[np.int64]:
        """The number of every string, a new one for each that was not met before: int64 [strings]."""
        numbers = np.fromiter(map(self._numbers.__getitem__, strings), np.int64, len(strings))
        # A dict keeps the order of its keys, so that the new ones are the last.
        new = list(islice(reversed(self._numbers), len(self._numbers) - len(self.strings)))[::-1]
        self.strings += new
        self._characters += sum(map(len, new))
        return numbers


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
        self._words, self._cuts = _empty_memory(han)

    def split(self, characters: Characters) -> Words:
        """Words of a batch of normalised texts.

        A run of letters of a script without spaces that is shorter than the shingle is one word; a letter and the marks
        that follow it count as one character there. Words hold letters, marks, digits and inner apostrophes, nothing else.
        """
        if self._words.is_full() or self._cuts.is_full():
            self._words, self._cuts = _empty_memory(self._han)
        resolved, codepoints = rules(characters)
        begins = np.zeros(len(resolved) + 1, np.bool_)
        begins[characters.bounds] = True
        is_han = resolved == Rule.HAN
        starts = _run_starts(resolved, begins)
        if (resolved == Rule.UNSPACED).any():
            starts, spelt = self._shingled(resolved, codepoints, begins, starts)
        else:
            spelt = _spelt(codepoints, ~is_han & (resolved != Rule.SEPARATOR), starts[~is_han[starts]])
        runs_of_han = is_han[starts]
        counts = np.ones(len(starts), np.int64)
        cut, counts[runs_of_han] = self._cuts.of(_spelt(codepoints, is_han, starts[runs_of_han]))
        until = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(counts, out=until[1:])
        numbers = np.zeros(until[-1], np.int64)
        words_of_han = np.repeat(runs_of_han, counts)
        numbers[words_of_han] = cut
        numbers[~words_of_han] = self._words.numbers_of(spelt)
        return Words(self._words, numbers, until[np.searchsorted(starts, characters.bounds)], starts, counts)

    def _shingled(
        self,
        resolved: npt.NDArray[np.uint8],
        codepoints: npt.NDArray[np.uint32],
        begins: npt.NDArray[np.bool_],
        starts: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Where runs and shingles begin, and all of them as strings that are no runs of Han characters."""
        lengths = np.add.reduceat(resolved != Rule.SEPARATOR, starts, dtype=np.int64)
        unspaced = resolved[starts] == Rule.UNSPACED
        starts, lengths = _shingle(starts, lengths, unspaced, begins, self._character_shingle_size)
        others = resolved[starts] != Rule.HAN
        return starts, _strings(codepoints, starts[others], lengths[others])


class _Cuts:
    """Runs of Han characters, and the words that the segmenter cuts each into."""

    def __init__(self, han: Segmenter, words: Numbered) -> None:
        self._han = han
        self._words = words
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
        numbers = self._words.numbers_of(cut)
        feeds = np.flatnonzero(numbers == self._feed)
        assert len(feeds) == len(runs), "the segmenter lost or gained line feeds"
        assert sum(map(len, cut)) == len(fed), "the segmenter lost or gained characters"
        self._begins.frombytes((feeds + 1 + len(self._cut)).tobytes())
        self._counts.frombytes((np.diff(feeds, append=len(cut)) - 1).tobytes())
        self._cut.frombytes(numbers.tobytes())


def _empty_memory(han: Segmenter) -> tuple[Numbered, _Cuts]:
    words = Numbered()
    return words, _Cuts(han, words)


def _run_starts(resolved: npt.NDArray[np.uint8], begins: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Where a run of Han characters or a word begins, or one letter of a script without spaces: int64, ascending."""
    starting = (resolved == Rule.IDEOGRAPH) | (resolved == Rule.UNSPACED)
    opening = np.ones(len(resolved), np.bool_)
    opening[1:] = (resolved[1:] != resolved[:-1]) | begins[1:-1]
    starting |= opening & ((resolved == Rule.HAN) | (resolved == Rule.WORD))
    return np.flatnonzero(starting)


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
