"""Han character runs -> words, by jieba's algorithm and dictionary. The only importer of jieba.

A run's words are those of the likeliest path through its dictionary words, by their share in the dictionary's frequencies.
Neighbouring single characters left by the path go to a hidden Markov model. The segmenter `compiled` is this algorithm
compiled, step by step in the same floating point numbers; `jieba` is jieba.
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError
from streamer.text import segmentation_kernels
from streamer.text.characters import decode
from streamer.text.segmentation_kernels import ENTRIES_MAX, HAN_FIRST, HAN_LAST, SYMBOLS, Dictionary

Name = Literal["compiled", "jieba"]
Numbers = npt.NDArray[np.int64]

_IMPOSSIBLE = -3.14e100
"""jieba's logarithm for probability 0."""

_STATES = "BEMS"
_ENTRIES = 1 << 20
"""Initial size of the trie's table: twice what jieba's dictionary needs."""

_HAN_WORD = re.compile(f"[{chr(HAN_FIRST)}-{chr(HAN_LAST)}]+")


@dataclass(frozen=True, slots=True)
class Segmenter:
    """Splits runs of Han characters into words.

    segment     (code points uint32, starts of runs int64 [runs], their lengths int64 [runs], which are Han bool [runs])
                -> starts and lengths of words, int64 [words] twice, ascending; a run that is not Han is one word
    dictionary  names the dictionary and its release; equal names give equal words, by either segmenter

    >>> codepoints = np.array(list(map(ord, "北京大学生")), np.uint32)
    >>> starts, lengths = segmenter("compiled").segment(codepoints, np.array([0]), np.array([5]), np.array([True]))
    >>> lengths.tolist()
    [2, 3]
    """

    segment: Callable[[npt.NDArray[np.uint32], Numbers, Numbers, npt.NDArray[np.bool_]], tuple[Numbers, Numbers]]
    dictionary: str


@cache
def segmenter(name: Name) -> Segmenter:
    """The segmenter, loaded at its first use (compiled 0.2 s, jieba 1 s)."""
    return _segmenter(name, ())


def segmenter_with(name: Name, entries: Sequence[tuple[str, int | None]], digest: str) -> Segmenter:
    """A segmenter that also knows `entries`: (word, frequency); None: high enough to make it one word.

    `digest` identifies the entries in the dictionary's name. Missing frequencies, which jieba itself computes, take one more
    second.
    """
    base = _segmenter(name, entries)
    return Segmenter(base.segment, f"{base.dictionary} and {digest}")


def jieba_file(path: str) -> bytes:
    """A file from the installed jieba, such as its dictionary `dict.txt` (word frequency tag), without loading jieba."""
    return _jieba_path(path).read_bytes()


def _jieba_path(path: str) -> Path:
    return Path(str(importlib.metadata.distribution("jieba").locate_file(f"jieba/{path}")))


def _segmenter(name: Name, entries: Sequence[tuple[str, int | None]]) -> Segmenter:
    content = jieba_file("dict.txt")
    named = f"jieba {importlib.metadata.version('jieba')} sha256 {hashlib.sha256(content).hexdigest()}"
    if name == "jieba":
        return Segmenter(partial(_segment_by_jieba, _tokenizer(entries)), named)
    return Segmenter(partial(segmentation_kernels.segment, _dictionary(content, entries)), named)


# --- compiled --------------------------------------------------------------------------------------------------------


def _dictionary(content: bytes, entries: Sequence[tuple[str, int | None]]) -> Dictionary:
    """jieba's dictionary with `entries`, and its model, for the kernels. Raises SettingsError."""
    weighted = list(entries)
    if any(frequency is None for _, frequency in entries):
        tokenizer = _tokenizer(())
        weighted = []
        for word, frequency in entries:
            tokenizer.add_word(word, frequency)
            weighted.append((word, tokenizer.FREQ[word]))
    # A word with other than Han characters never occurs in a run, but its frequency counts in the sum.
    lines = "".join(f"{word if _HAN_WORD.fullmatch(word) else '-'} {frequency}\n" for word, frequency in weighted)
    octets = np.frombuffer(content + lines.encode(), np.uint8)
    size = _ENTRIES
    while True:
        # numpy asks for large pages, which the scattered look-ups need.
        children = np.zeros(size, np.uint64)
        frequencies, struck, total, is_enough = segmentation_kernels.read(octets, children)
        if is_enough:
            break
        size *= 2
        if size > ENTRIES_MAX:
            raise SettingsError("fingerprint.dictionary: holds too many words")
    # Python's logarithm, as in jieba: numpy's may differ in the last bit.
    whole = math.log(total)
    words = np.flatnonzero(frequencies)
    distinct = np.unique(frequencies[words])
    weight_numbers = np.searchsorted(distinct, frequencies[words])
    weights = np.array([-math.inf, *(math.log(each) - whole for each in distinct.tolist())])
    is_single = words < SYMBOLS
    singles = np.full(SYMBOLS, -math.inf)
    singles[words[is_single]] = weights[1 + weight_numbers[is_single]]
    children[words[~is_single] - SYMBOLS] |= (1 + weight_numbers[~is_single]).astype(np.uint64)
    return Dictionary(
        children, singles, weights, math.log(1) - whole, struck if struck.any() else struck[:0], *_model()
    )


@cache
def _model() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    starts = _probabilities("prob_start")
    moves, emitted = _probabilities("prob_trans"), _probabilities("prob_emit")
    transitions = [[moves[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES]
    emissions = np.full((HAN_LAST - HAN_FIRST + 1, len(_STATES)), _IMPOSSIBLE)
    for column, state in enumerate(_STATES):
        for character, logarithm in emitted[state].items():
            if HAN_FIRST <= ord(character) <= HAN_LAST:
                emissions[ord(character) - HAN_FIRST, column] = logarithm
    return np.array([starts[state] for state in _STATES]), np.array(transitions), emissions


def _probabilities(name: str) -> dict[str, Any]:
    """A table from jieba's model, without loading the rest of jieba."""
    spec = importlib.util.spec_from_file_location(name, _jieba_path(f"finalseg/{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: dict[str, Any] = module.P
    return table


# --- jieba -----------------------------------------------------------------------------------------------------------


def _segment_by_jieba(
    tokenizer: Any,
    codepoints: npt.NDArray[np.uint32],
    starts: Numbers,
    lengths: Numbers,
    are_han: npt.NDArray[np.bool_],
) -> tuple[Numbers, Numbers]:
    word_starts: list[int] = []
    word_lengths: list[int] = []
    for start, length, is_han in zip(starts.tolist(), lengths.tolist(), are_han.tolist(), strict=True):
        split = list(map(len, tokenizer.lcut(decode(codepoints[start : start + length])))) if is_han else [length]
        word_starts += accumulate(split[:-1], initial=start)
        word_lengths += split
    return np.array(word_starts, np.int64), np.array(word_lengths, np.int64)


def _tokenizer(entries: Sequence[tuple[str, int | None]]) -> Any:
    """jieba's tokenizer, without lines on standard error, and without its cache file in /tmp, where anyone may write."""
    with warnings.catch_warnings():
        # jieba's own sources and its use of pkg_resources raise warnings.
        warnings.simplefilter("ignore")
        import jieba
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    for word, frequency in entries:
        tokenizer.add_word(word, frequency)
    return tokenizer
