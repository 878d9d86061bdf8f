"""A synthetic site whose pages share a template, with edited copies and other documents, and its fate in an index.

Words are random: syllables in English, one to three characters in Chinese. A page's unique words form three runs at fixed
places, like a title, a text and a price. Equal seeds give equal sites.
"""

from collections.abc import Iterable, Iterator, Sequence
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
"""One in this many other documents is an edited copy."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """n documents in crawl order.

    texts  n texts
    pages  int64 [n], page number, also for copies; for other documents -1 - their first original's number, which
           may be themselves
    """

    texts: list[str]
    pages: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def of_site(self) -> npt.NDArray[np.bool_]:
        """Whether each document is one of the site's pages or copies, bool [n]."""
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
    """A site's pages and some edited copies, in random order.

    own_share  unique share in a page's words
    changed    changed words in a copy
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
    """Documents outside the site; one in six is an edited copy of an earlier one."""
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(language, rng)
    documents, firsts = rng.integers(len(vocabulary), size=(count, words)), np.arange(count)
    for place in range(_COPIES_AMONG_OTHERS, count, _COPIES_AMONG_OTHERS):
        copied = rng.integers(place)
        documents[place], firsts[place] = _edited(documents[copied][None], 1, len(vocabulary), rng)[0], firsts[copied]
    return MadeUp(_texts(language, vocabulary, documents), -1 - firsts)


def amid(some: MadeUp, rest: MadeUp, *, seed: int = 3) -> MadeUp:
    """Interleave two document sets at random; both keep their order."""
    total = len(some) + len(rest)
    places = np.random.default_rng(seed).permutation(total) < len(some)
    texts, pages = [""] * total, np.zeros(total, np.int64)
    for chosen, documents in ((places, some), (~places, rest)):
        pages[chosen] = documents.pages
        for place, text in zip(np.flatnonzero(chosen).tolist(), documents.texts, strict=True):
            texts[place] = text
    return MadeUp(texts, pages)


@dataclass(frozen=True, slots=True)
class Reprints:
    """Articles that many hosts show, in crawl order.

    texts     n texts
    hosts     n host names
    articles  int64 [n], number of the article; -1 for a page on one host only
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
    earlier_pages: int = 0,
    words: int = 400,
    frames_vary: bool = False,
    seed: int = 1,
) -> Reprints:
    """Articles on hosts in random order, each in its host's frame, after pages on one host only.

    frame_share    share in a page's words that all its host's pages have
    earlier_pages  pages per host before the articles
    frames_vary    each host's share is drawn from 0 to twice `frame_share`
    """
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(language, rng)
    shown = rng.integers(len(vocabulary), size=(articles, words))
    shares = rng.uniform(0, 2 * frame_share, hosts) if frames_vary else np.full(hosts, frame_share)
    sizes = (words * shares / (1 - shares)).round().astype(int)
    frames = rng.integers(len(vocabulary), size=(hosts, sizes.max()))
    host_pages = rng.integers(len(vocabulary), size=(earlier_pages * hosts, words))
    order = rng.permutation(articles * hosts)
    of_hosts = np.concatenate([np.arange(earlier_pages * hosts) % hosts, order % hosts])
    texts = np.concatenate([host_pages, shown[order // hosts]])
    framed = [
        np.concatenate([frames[host, : size // 2], text, frames[host, size // 2 : size]])
        for host, size, text in zip(of_hosts, sizes[of_hosts], texts, strict=True)
    ]
    numbers = np.concatenate([np.full(earlier_pages * hosts, -1), order // hosts])
    names = [f"host-{number}.example" for number in of_hosts.tolist()]
    return Reprints(_texts(language, vocabulary, framed), names, numbers)


@dataclass(frozen=True, slots=True)
class Kept:
    """A site's outcome.

    pages    pages in all
    kept     pages with at least one unique text, the page or its copy
    copies   pages with a copy
    matched  pages with a copy and at most one unique text
    """

    pages: int
    kept: int
    copies: int
    matched: int


def kept(pages: npt.NDArray[np.int64], dropped: npt.NDArray[np.bool_]) -> Kept:
    """Count a site's outcome from `MadeUp.pages`, int64 [n], and the dropped documents, bool [n]."""
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
    """Admit one source's documents in batches, with offsets from `begin` on as ids.

    host   one host for all documents
    hosts  each document's host, in place of `host`
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
            lengths=prints.lengths,
        )
        yield index.admit(entries, {source: int(offsets[-1]) + 1})


def _edited(
    documents: npt.NDArray[np.int64], changed: int, vocabulary: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Copies of documents, int64 [n, words], with `changed` random words each."""
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


def _texts(
    language: Language, vocabulary: npt.NDArray[np.object_], documents: Iterable[npt.NDArray[np.int64]]
) -> list[str]:
    separator = " " if language == "en" else ""
    return [separator.join(vocabulary[words]) for words in documents]
