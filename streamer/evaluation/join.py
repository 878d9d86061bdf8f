"""Exact near-duplicate truth: all pairs whose Jaccard similarity reaches a floor.

A text's set is its runs of 5 consecutive tokens, or of 3 if most letters belong to scripts with spaces.

The join is exact, by prefixes (Chaudhuri, Ganti, Kaushik, ICDE 2006; Bayardo, Ma, Srikant, WWW 2007). All sets list
their members in one order, the rarest first. Two sets with similarity t or more share a member among the first n -
ceil(t n) + 1 of each, n being its size. So only sets with a common prefix member are compared in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import regex
import xxhash

from streamer.fingerprint.word_shingles import shingle
from streamer.text.characters import normalise, ragged

TOKENS_UNPARTED, TOKENS_PARTED = 5, 3

_UNPARTED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}"
_TOKEN = regex.compile(rf"[{_UNPARTED}]|[\w--[{_UNPARTED}]]+", regex.VERSION1)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Row pairs, int64 [pairs], and their similarities, float64 [pairs]; sorted by `later`, then `earlier`.

    >>> similar_pairs(["杭州的春天到了", "杭州的春天到", "北京"], floor=0.5, run=5).nearest(3)[1].tolist()
    [-1, 0, -1]
    """

    later: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]

    def nearest(self, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Each document's largest similarity to an earlier one (or 0), and the earliest such row (or -1)."""
        largest, rows = np.zeros(count), np.full(count, -1, np.int64)
        order = np.lexsort((-self.earlier, self.similarities, self.later))
        largest[self.later[order]], rows[self.later[order]] = self.similarities[order], self.earlier[order]
        return largest, rows


def tokens(text: str) -> list[str]:
    """Split a normalised text into tokens: each Han, kana, Hangul or Thai character, and each run of other word characters.

    Word characters follow UTS 18: letters, marks, digits and connectors such as `_`.

    >>> tokens("read_file 杭州")
    ['read_file', '杭', '州']
    """
    matches: list[str] = _TOKEN.findall(text)
    return matches


def tokens_in_a_run(texts: Sequence[str]) -> int:
    """TOKENS_UNPARTED if most letters belong to scripts without spaces, else TOKENS_PARTED."""
    sample = "".join(texts[:: max(1, len(texts) // 200)])
    unparted = len(regex.findall(f"[{_UNPARTED}]", sample, regex.VERSION1))
    return TOKENS_UNPARTED if 2 * unparted > len(regex.findall(r"\p{L}", sample)) else TOKENS_PARTED


def similar_pairs(texts: Sequence[str], floor: float, run: int) -> SimilarPairs:
    """All pairs whose runs of `run` tokens, by 64-bit hashes, are at least `floor` similar, above 0."""
    members, bounds = _members(texts, run)
    sizes = np.diff(bounds)
    # Look up only prefixes, and only members in another prefix.
    prefixes = np.where(sizes > 0, sizes - np.ceil(floor * sizes - _ROUNDING).astype(np.int64) + 1, 0)
    places = np.arange(len(members)) - np.repeat(bounds[:-1], sizes)
    looked_up = np.flatnonzero(places < np.repeat(prefixes, sizes))
    filed = np.argsort(members[looked_up], kind="stable")
    documents = np.repeat(np.arange(len(texts)), sizes)[looked_up][filed]
    edges = np.searchsorted(members[looked_up][filed], np.arange(int(members.max(initial=-1)) + 2))
    present = np.zeros(len(edges), np.bool_)
    similar: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
    for row in range(len(texts)):
        row_members = members[bounds[row] : bounds[row + 1]]
        prefix = row_members[: prefixes[row]]
        begins, ends = edges[prefix], edges[prefix + 1]
        held = ends - begins > 1
        others = np.unique(documents[ragged(begins[held], (ends - begins)[held])])
        smaller, larger = np.minimum(sizes[others], sizes[row]), np.maximum(sizes[others], sizes[row])
        others = others[(others < row) & (smaller >= floor * larger - _ROUNDING)]
        if not len(others):
            continue
        present[row_members] = True
        in_both = present[members[ragged(bounds[others], sizes[others])]]
        present[row_members] = False
        shared = np.add.reduceat(in_both, np.concatenate([[0], np.cumsum(sizes[others])[:-1]]), dtype=np.int64)
        similarities = shared / (sizes[row] + sizes[others] - shared)
        reached = similarities >= floor - _ROUNDING
        similar.append((np.full(int(reached.sum()), row), others[reached], similarities[reached]))
    if not similar:
        return SimilarPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    later, earlier, similarities = (np.concatenate(parts) for parts in zip(*similar, strict=True))
    return SimilarPairs(later, earlier, similarities)


def _members(texts: Sequence[str], run: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All sets' members, numbered from the rarest on and sorted, and each set's bounds."""
    token_hashes: dict[str, int] = {}
    hashes: list[npt.NDArray[np.uint64]] = []
    for text in texts:
        of_text = tokens(normalise(text))
        for token in of_text:
            if token not in token_hashes:
                token_hashes[token] = xxhash.xxh3_64_intdigest(token.encode("utf-8", "surrogatepass"))
        column = np.fromiter((token_hashes[token] for token in of_text), np.uint64, len(of_text))[:, None]
        hashes.append(np.unique(shingle(column, np.array([0, len(of_text)]), run)[0][:, 0]))
    bounds = np.concatenate([[0], np.cumsum([len(each) for each in hashes], dtype=np.int64)])
    everything = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
    _, numbers, counts = np.unique(everything, return_inverse=True, return_counts=True)
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    ranked = ranks[numbers.reshape(-1)]
    order = np.lexsort((ranked, np.repeat(np.arange(len(texts)), np.diff(bounds))))
    return ranked[order], bounds
