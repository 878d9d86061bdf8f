"""Sentences lost: how many distinct sentences only dropped documents hold.

A sentence is a piece without mark-up, up to a line break, a sentence's end (`_ENDS`), or a full stop before a blank.
Two are the same if their letters, marks and digits in the normal form are. Pieces without any are none.

Memory is bounded: beyond `sentences_max` distinct sentences, one in two counts, then one in four, and so on, chosen by hash.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.settings.types import PlainText
from streamer.text.characters import Rule, rule_table
from streamer.text.normalisation import Normaliser

Hashes = npt.NDArray[np.uint64]

SENTENCES_MAX = 2**21
_WAITING_MAX = 2**18
_TEXTS_AT_ONCE = 256

_ENDS = re.compile(r"[\n\r\v\f\x85\u2028\u2029。！？!?؟۔।॥…]+|\.(?=\s|$)")


class SentencesLost(NamedTuple):
    """Distinct sentences that were seen, and those that no kept document holds, from a sample by hash.

    >>> SentencesLost(4_000, 10, one_in=2).per_10_000
    25.0
    """

    distinct: int
    lost: int
    one_in: int = 1

    @property
    def per_10_000(self) -> float:
        """Lost ones per 10,000; 0 without sentences."""
        return 1e4 * self.lost / max(self.distinct, 1)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {**self._asdict(), "per_10_000": round(self.per_10_000, 2)}


NO_SENTENCES = SentencesLost(0, 0)


class Sentences:
    """Distinct sentences, from kept and dropped documents.

    >>> from streamer.settings.settings import Fingerprint
    >>> hashes, bounds = sentences_of(["One. Two.", "Two! Three."], Normaliser(Fingerprint()))
    >>> seen = Sentences()
    >>> seen.add(hashes, kept=np.repeat([True, False], np.diff(bounds)))
    >>> seen.lost()
    SentencesLost(distinct=3, lost=1, one_in=1)
    """

    def __init__(self, sentences_max: int = SENTENCES_MAX) -> None:
        self._sentences_max, self._one_in = sentences_max, 1
        self._seen: Hashes = np.zeros(0, np.uint64)
        self._kept: Hashes = np.zeros(0, np.uint64)
        self._waiting: list[tuple[Hashes, npt.NDArray[np.bool_]]] = []
        self._waiting_count = 0

    def add(self, hashes: Hashes, kept: npt.NDArray[np.bool_]) -> None:
        """Add sentences, each with whether its document is kept: bool [m]."""
        chosen = hashes % np.uint64(self._one_in) == 0
        self._waiting.append((hashes[chosen], kept[chosen]))
        self._waiting_count += int(chosen.sum())
        if self._waiting_count > _WAITING_MAX:
            self._merge()

    def lost(self) -> SentencesLost:
        """What no kept document holds so far."""
        self._merge()
        return SentencesLost(len(self._seen), len(self._seen) - len(self._kept), self._one_in)

    def _merge(self) -> None:
        self._seen = np.unique(np.concatenate([self._seen, *(hashes for hashes, _ in self._waiting)]))
        self._kept = np.unique(np.concatenate([self._kept, *(hashes[kept] for hashes, kept in self._waiting)]))
        self._waiting, self._waiting_count = [], 0
        while len(self._seen) > self._sentences_max:
            self._one_in *= 2
            self._seen, self._kept = (each[each % np.uint64(self._one_in) == 0] for each in (self._seen, self._kept))


def sentences_lost(texts: Sequence[str], kept: npt.NDArray[np.bool_], normaliser: Normaliser) -> SentencesLost:
    """Sentences that no kept text holds; kept, bool [n]."""
    seen = Sentences()
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        hashes, bounds = sentences_of(texts[begin : begin + _TEXTS_AT_ONCE], normaliser)
        seen.add(hashes, np.repeat(kept[begin : begin + _TEXTS_AT_ONCE], np.diff(bounds)))
    return seen.lost()


def sentences_of(texts: Sequence[str], normaliser: Normaliser) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Hashes of every text's sentences, uint64 [m], and the texts' bounds among them, int64 [n + 1]."""
    listed = [[PlainText(each) for each in _ENDS.split(text)] for text in normaliser.without_markup(texts)]
    bounds = np.concatenate([[0], np.cumsum([len(each) for each in listed], dtype=np.int64)])
    characters = normaliser.characters([sentence for each in listed for sentence in each])
    rules = rule_table()[characters.codepoints]
    lettered = (rules != Rule.SEPARATOR) & (rules != Rule.APOSTROPHE)
    ends = np.concatenate([[0], np.cumsum(lettered)])[characters.bounds].tolist()
    octets = characters.codepoints[lettered].astype("<u4", copy=False).tobytes()
    hashes = [xxhash.xxh3_64_intdigest(octets[4 * begin : 4 * end]) for begin, end in pairwise(ends)]
    filled = np.diff(ends) > 0
    return np.array(hashes, np.uint64)[filled], np.concatenate([[0], np.cumsum(filled)])[bounds]
