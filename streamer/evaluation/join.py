"""Exact near-duplicate truth for anybody's documents: every pair whose Jaccard similarity reaches a floor, all pairs looked at.

Sets are the runs of consecutive tokens of a text: 5 tokens, or 3 where most letters of the documents belong to scripts that
part their words, unless somebody says how many. `tokens` says what a token is.

The join is exact, by prefixes (Chaudhuri, Ganti, Kaushik, ICDE 2006; Bayardo, Ma, Srikant, WWW 2007). Members are put in
one order for all sets, the rarest first. Two sets whose similarity is t or more share a member among the first
n - ceil(t n) + 1 of each, n being its size. So only sets that share such a member are compared, by all their members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import regex
import xxhash

from streamer.fingerprint.word_shingles import shingle
from streamer.text.characters import normalise

TOKENS_UNPARTED, TOKENS_PARTED = 5, 3

_UNPARTED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}"
_TOKEN = regex.compile(rf"[{_UNPARTED}]|[\w--[{_UNPARTED}]]+", regex.VERSION1)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Pairs of documents by row, each int64 [pairs] or float64 [pairs]; sorted by `later`, then by `earlier`."""

    later: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]

    def nearest(self, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Of `count` documents the largest similarity with an earlier one, 0 without any, and its row, -1 without any.

        Of equally similar ones the earliest counts.
        """
        largest, rows = np.zeros(count), np.full(count, -1, np.int64)
        order = np.lexsort((-self.earlier, self.similarities, self.later))
        largest[self.later[order]], rows[self.later[order]] = self.similarities[order], self.earlier[order]
        return largest, rows


def tokens(text: str) -> list[str]:
    """The tokens of a text in normal form: each character of Han, kana, Hangul or Thai, and each run of other word characters.

    Word characters are those of Unicode's annex UTS 18: letters, marks, digits, and what joins words, such as `_`. So
    `read_file` is one token, and so is a word of a script that writes its vowels as marks.
    """
    found: list[str] = _TOKEN.findall(text)
    return found


def tokens_in_a_run(texts: Sequence[str]) -> int:
    """Tokens in a run: TOKENS_UNPARTED where most letters need no blanks between words, else TOKENS_PARTED."""
    sample = "".join(texts[:: max(1, len(texts) // 200)])
    unparted = len(regex.findall(f"[{_UNPARTED}]", sample, regex.VERSION1))
    return TOKENS_UNPARTED if 2 * unparted > len(regex.findall(r"\p{L}", sample)) else TOKENS_PARTED


def similar_pairs(texts: Sequence[str], floor: float, run: int) -> SimilarPairs:
    """Every pair of texts whose sets of runs of `run` tokens are `floor` or more similar, above 0.

    Runs are compared by hashes of 64 bits. Texts without tokens are similar to none.
    """
    members, bounds = _members(texts, run)
    sizes = np.diff(bounds)
    # What must be looked up of each set, and nothing of it where no other set has the member.
    prefixes = np.where(sizes > 0, sizes - np.ceil(floor * sizes - _ROUNDING).astype(np.int64) + 1, 0)
    places = np.arange(len(members)) - np.repeat(bounds[:-1], sizes)
    looked_up = np.flatnonzero(places < np.repeat(prefixes, sizes))
    filed = np.argsort(members[looked_up], kind="stable")
    documents = np.repeat(np.arange(len(texts)), sizes)[looked_up][filed]
    edges = np.searchsorted(members[looked_up][filed], np.arange(int(members.max(initial=-1)) + 2))
    present = np.zeros(len(edges), np.bool_)
    found: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
    for row in range(len(texts)):
        own = members[bounds[row] : bounds[row + 1]]
        begins, ends = edges[own[: prefixes[row]]], edges[own[: prefixes[row]] + 1]
        held = ends - begins > 1
        others = np.unique(documents[_ranges(begins[held], ends[held])])
        smaller, larger = np.minimum(sizes[others], sizes[row]), np.maximum(sizes[others], sizes[row])
        others = others[(others < row) & (smaller >= floor * larger - _ROUNDING)]
        if not len(others):
            continue
        present[own] = True
        theirs = present[members[_ranges(bounds[others], bounds[others + 1])]]
        present[own] = False
        shared = np.add.reduceat(theirs, np.concatenate([[0], np.cumsum(sizes[others])[:-1]]), dtype=np.int64)
        similarities = shared / (sizes[row] + sizes[others] - shared)
        reached = similarities >= floor - _ROUNDING
        found.append((np.full(int(reached.sum()), row), others[reached], similarities[reached]))
    if not found:
        return SimilarPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    later, earlier, similarities = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return SimilarPairs(later, earlier, similarities)


def _ranges(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """All numbers from each begin to before its end, one range behind the other."""
    lengths = ends - begins
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths))


def _members(texts: Sequence[str], run: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The members of the texts' sets, numbered from the rarest on and in that order, and the sets' bounds among them."""
    known: dict[str, int] = {}
    hashes: list[npt.NDArray[np.uint64]] = []
    for text in texts:
        found = tokens(normalise(text))
        for token in found:
            if token not in known:
                known[token] = xxhash.xxh3_64_intdigest(token.encode("utf-8", "surrogatepass"))
        column = np.fromiter((known[token] for token in found), np.uint64, len(found))[:, None]
        hashes.append(np.unique(shingle(column, np.array([0, len(found)]), run)[0][:, 0]))
    bounds = np.concatenate([[0], np.cumsum([len(each) for each in hashes], dtype=np.int64)])
    everything = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
    _, numbers, counts = np.unique(everything, return_inverse=True, return_counts=True)
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    ranked = ranks[numbers.reshape(-1)]
    order = np.lexsort((ranked, np.repeat(np.arange(len(texts)), np.diff(bounds))))
    return ranked[order], bounds
