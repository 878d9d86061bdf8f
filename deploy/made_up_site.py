"""A made-up site whose pages share a template, edited copies of them, and other documents around; what an index keeps of them.

Words are made up too: of syllables in English, of one to three characters in Chinese. A page's own words stand in three runs
at fixed places, as a title, a text and a price do. All of it is the same for the same seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from index import Decisions, Entries, Index, Source
from streamer.fingerprint.fingerprints import Fingerprints

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

_VOCABULARY = 20_000
_RUNS = 3
_COPIES_AMONG_OTHERS = 6
"""Of so many other documents, one is an edited copy of another."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """n documents, in the order in which they are crawled.

    texts  n texts
    pages  int64 [n], number of the page that a text is, or is a copy of; for other documents -1 - number of the one of which
           they are a copy, by however many steps, or of themselves
    """

    texts: list[str]
    pages: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def of_site(self) -> npt.NDArray[np.bool_]:
        """Which documents are pages of the site or copies of them, bool [n]."""
        return self.pages >= 0


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
    documents, firsts = rng.integers(len(vocabulary), size=(count, words)), np.arange(count)
    for place in range(_COPIES_AMONG_OTHERS, count, _COPIES_AMONG_OTHERS):
        copied = rng.integers(place)
        documents[place], firsts[place] = _edited(documents[copied][None], 1, len(vocabulary), rng)[0], firsts[copied]
    return MadeUp(_texts(language, vocabulary, documents), -1 - firsts)


def amid(some: MadeUp, rest: MadeUp, *, seed: int = 3) -> MadeUp:
    """Documents amid others, at random places; both keep their order."""
    total = len(some) + len(rest)
    places = np.random.default_rng(seed).permutation(total) < len(some)
    texts, pages = [""] * total, np.zeros(total, np.int64)
    for chosen, given in ((places, some), (~places, rest)):
        pages[chosen] = given.pages
        for place, text in zip(np.flatnonzero(chosen).tolist(), given.texts, strict=True):
            texts[place] = text
    return MadeUp(texts, pages)


@dataclass(frozen=True, slots=True)
class Reprints:
    """Articles that many hosts show, in the order in which they are crawled.

    texts     n texts
    hosts     n names of hosts
    articles  int64 [n], number of the article; -1 for a page that one host alone has
    """

    texts: list[str]
    hosts: list[str]
    articles: npt.NDArray[np.int64]


def reprints(
    language: Language,
    frame_share: float,
    *,
    articles: int,
    hosts: int,
    known: int = 0,
    words: int = 400,
    seed: int = 1,
) -> Reprints:
    """Articles on hosts, each in the frame of its host, in random order; before them pages that one host alone has.

    frame_share  of a page's words, those that all pages of its host have
    known        pages of each host before the articles
    """
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(language, rng)
    shown = rng.integers(len(vocabulary), size=(articles, words))
    frames = rng.integers(len(vocabulary), size=(hosts, round(words * frame_share / (1 - frame_share))))
    half = frames.shape[1] // 2
    own = rng.integers(len(vocabulary), size=(known * hosts, words))
    order = rng.permutation(articles * hosts)
    of_hosts = np.concatenate([np.arange(known * hosts) % hosts, order % hosts])
    texts = np.concatenate([own, shown[order // hosts]])
    framed = np.hstack([frames[of_hosts, :half], texts, frames[of_hosts, half:]])
    numbers = np.concatenate([np.full(known * hosts, -1), order // hosts])
    names = [f"host-{number}.example" for number in of_hosts.tolist()]
    return Reprints(_texts(language, vocabulary, framed), names, numbers)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a site.

    pages   its pages
    kept    those of which at least one text, the page or its copy, was delivered as unique
    copies  pages that came twice
    found   of these, of which at most one text was delivered, whichever was decided first
    """

    pages: int
    kept: int
    copies: int
    found: int


def kept(pages: npt.NDArray[np.int64], dropped: npt.NDArray[np.bool_]) -> Kept:
    """Count what became of a site: pages as in `MadeUp`, int64 [n], and which documents were dropped, bool [n]."""
    of_site = pages >= 0
    came = np.bincount(pages[of_site])
    delivered = np.bincount(pages[of_site & ~dropped], minlength=len(came))
    counts = (came > 0, delivered > 0, came > 1, (came > 1) & (delivered < 2))
    return Kept(*(int(np.count_nonzero(each)) for each in counts))


def admitted(
    index: Index,
    fingerprints: Fingerprints,
    *,
    begin: int = 0,
    at_once: int = 500,
    host: str | None = None,
    hosts: Sequence[str | None] | None = None,
) -> Iterator[Decisions]:
    """Let an index decide documents of one source, in batches; their ids are their offsets, which begin at `begin`.

    host   of all documents; hosts: of each, in its place
    """
    source = Source("made-up", 0)
    for first in range(0, len(fingerprints), at_once):
        rows = np.arange(first, min(first + at_once, len(fingerprints)))
        prints, offsets = fingerprints.rows(rows), (rows + begin).astype(np.uint64)
        entries = Entries(
            (source,),
            np.zeros(len(rows), np.uint32),
            offsets,
            prints.kinds,
            prints.reasons,
            prints.fingerprints,
            np.zeros(len(rows), np.int64),
            [str(offset) for offset in offsets.tolist()],
            prints.looks,
            hosts=[host] * len(rows) if hosts is None else [hosts[row] for row in rows.tolist()],
        )
        yield index.admit(entries, {source: int(offsets[-1]) + 1})


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
