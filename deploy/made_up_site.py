"""A made-up site whose pages share a template, edited copies of them, and other documents around: the same for a seed.

Words are made up too: of syllables in English, of one to three characters in Chinese. A page's own words stand in three runs
at fixed places, as a title, a text and a price do. Sites have no words in common with the other documents but by chance.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

OTHER = -1
"""A document of no site, in a column of pages."""

_VOCABULARY = 20_000
_RUNS = 3
_COPIES_AMONG_OTHERS = 6
"""Of so many other documents, one is an edited copy of another."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """n documents, in the order in which they are crawled.

    texts  n texts
    pages  int64 [n], number of the page that a text is, or is a copy of; OTHER for those of no site
    """

    texts: list[str]
    pages: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def of_site(self) -> npt.NDArray[np.bool_]:
        """Which documents are pages of the site or copies of them, bool [n]."""
        return self.pages != OTHER


def site(
    language: Language,
    own_share: float,
    *,
    pages: int = 500,
    copies: int = 200,
    words: int = 500,
    changed: int = 3,
    seed: int = 1,
) -> MadeUp:
    """Pages of a site and edited copies of some of them, in random order.

    own_share  of a page's words, those that no other page has in their place
    changed    words changed in a copy
    """
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(language, rng)
    documents = np.tile(rng.integers(len(vocabulary), size=words), (pages, 1))
    sizes = np.diff(np.linspace(0, max(_RUNS, round(words * own_share)), _RUNS + 1).round().astype(int))
    for run, size in enumerate(sizes.tolist()):
        begin = round((run + 0.5) * words / _RUNS) - size // 2
        documents[:, begin : begin + size] = rng.integers(len(vocabulary), size=(pages, size))
    copied = rng.choice(pages, copies, replace=False)
    edited = _edited(documents[copied], changed, len(vocabulary), rng)
    of_page = np.concatenate([np.arange(pages), copied])
    order = rng.permutation(len(of_page))
    texts = _texts(language, vocabulary, np.concatenate([documents, edited])[order])
    return MadeUp(texts, of_page[order])


def others(language: Language, count: int, *, words: int = 100, seed: int = 2) -> MadeUp:
    """Documents of no site; one in six is an edited copy of an earlier one."""
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(language, rng)
    documents = rng.integers(len(vocabulary), size=(count, words))
    for place in range(_COPIES_AMONG_OTHERS, count, _COPIES_AMONG_OTHERS):
        documents[place] = _edited(documents[rng.integers(place)][None], 1, len(vocabulary), rng)[0]
    return MadeUp(_texts(language, vocabulary, documents), np.full(count, OTHER))


def amid(some: MadeUp, rest: MadeUp, *, seed: int = 3) -> MadeUp:
    """Documents amid others, at random places; both keep their order."""
    total = len(some) + len(rest)
    places = np.random.default_rng(seed).permutation(total) < len(some)
    texts, pages = [""] * total, np.full(total, OTHER)
    for chosen, given in ((places, some), (~places, rest)):
        pages[chosen] = given.pages
        for place, text in zip(np.flatnonzero(chosen).tolist(), given.texts, strict=True):
            texts[place] = text
    return MadeUp(texts, pages)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a site.

    pages   its pages
    kept    those of which at least one text, the page or its copy, was delivered as unique
    copies  pages that came twice
    found   of these, whose later text was found to be a duplicate
    """

    pages: int
    kept: int
    copies: int
    found: int


def kept(pages: npt.NDArray[np.int64], dropped: npt.NDArray[np.bool_]) -> Kept:
    """Count what became of a site: pages as in `MadeUp`, int64 [n], and which documents were dropped, bool [n]."""
    of_site = np.flatnonzero(pages != OTHER)
    numbers, first, places, counts = np.unique(
        pages[of_site], return_index=True, return_inverse=True, return_counts=True
    )
    is_later = np.ones(len(of_site), np.bool_)
    is_later[first] = False
    delivered = np.unique(places[~dropped[of_site]])
    found = int(np.count_nonzero(dropped[of_site][is_later]))
    return Kept(len(numbers), len(delivered), int(np.count_nonzero(counts > 1)), found)


def _edited(
    documents: npt.NDArray[np.int64], changed: int, vocabulary: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Copies of documents, int64 [n, words], in each of which so many words are others."""
    edited = documents.copy()
    for document in edited:
        document[rng.choice(documents.shape[1], changed, replace=False)] = rng.integers(vocabulary, size=changed)
    return edited


def _vocabulary(language: Language, rng: np.random.Generator) -> npt.NDArray[np.object_]:
    if language == "en":
        syllables = np.array([first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"], object)
        parts = syllables[rng.integers(len(syllables), size=(_VOCABULARY, 4))]
    else:
        characters = np.array([chr(code) for code in range(0x4E00, 0x4E00 + 3_000)], object)
        parts = characters[rng.integers(len(characters), size=(_VOCABULARY, 3))]
    lengths = rng.integers(1, parts.shape[1] + 1, size=_VOCABULARY)
    return np.array(["".join(word[:length]) for word, length in zip(parts, lengths.tolist(), strict=True)], object)


def _texts(language: Language, vocabulary: npt.NDArray[np.object_], documents: npt.NDArray[np.int64]) -> list[str]:
    separator = " " if language == "en" else ""
    return [separator.join(words) for words in vocabulary[documents]]
