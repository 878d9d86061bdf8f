"""How well a setting tells duplicates from others, on documents whose truth is known: distances, scores, intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.entry import Kind
from streamer.fingerprint import Fingerprints

DUPLICATE_MIN = 0.8
"""Jaccard similarity with an earlier document from which on a document is a duplicate."""

UNIQUE_BELOW = 0.5
"""Below this similarity with every earlier document it is unique; between the two lies the grey, which counts nowhere."""

CONFIDENCE_DEVIATIONS = 1.959964
"""Of the normal distribution, for 95 of 100."""

BOOTSTRAP_DRAWS = 2_000
_SEED = 2026
_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known about n documents or pairs: bool [n] each. What is neither is grey."""

    duplicate: npt.NDArray[np.bool_]
    different: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Interval:
    """A share and what it may be with a confidence of 95 of 100."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Counts of decisions against the truth; the grey apart."""

    true_duplicates: int
    false_duplicates: int
    missed: int
    true_uniques: int

    @property
    def precision(self) -> Interval:
        """Share of the flagged that are duplicates."""
        return wilson(self.true_duplicates, self.true_duplicates + self.false_duplicates)

    @property
    def recall(self) -> Interval:
        """Share of the duplicates that were flagged."""
        return wilson(self.true_duplicates, self.true_duplicates + self.missed)

    @property
    def f1(self) -> Interval:
        """Harmonic mean of precision and recall, with a bootstrap interval."""
        return bootstrap_f1(self)

    @property
    def false_per_million(self) -> float:
        """False duplicates per million documents that are none."""
        different = self.false_duplicates + self.true_uniques
        return self.false_duplicates / different * 1e6 if different else 0.0


def pair_distances(left: Fingerprints, right: Fingerprints) -> npt.NDArray[np.int64]:
    """Bits between the fingerprints of each pair: int64 [n]; `unreachable` where the index would never match them."""
    apart = np.bitwise_count(left.fingerprints ^ right.fingerprints).sum(axis=1, dtype=np.int64)
    both_near = (left.kinds == Kind.NEAR) & (right.kinds == Kind.NEAR)
    equal = (left.kinds == Kind.EXACT) & (right.kinds == Kind.EXACT) & (apart == 0)
    return np.where(both_near | equal, apart, unreachable(left))


def nearest_earlier(prints: Fingerprints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The nearest earlier document that the index could match, the earliest of equally near ones.

    Returns its distance in bits, `unreachable` where there is none, and its row, -1 where there is none: int64 [n] each.
    Brute force over all pairs, which the block index is proven to equal: the policy is `insert = all`.
    """
    nearest = np.full(len(prints), unreachable(prints), np.int64)
    found = np.full(len(prints), -1, np.int64)
    for kind, farthest in ((Kind.NEAR, 64 * prints.fingerprints.shape[1]), (Kind.EXACT, 0)):
        rows = np.flatnonzero(prints.kinds == kind)
        columns = np.ascontiguousarray(prints.fingerprints[rows].T)
        for begin in range(0, len(rows), _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, len(rows))
            apart = np.zeros((end - begin, end), np.uint8)
            for lane in columns:
                apart += np.bitwise_count(lane[begin:end, None] ^ lane[None, :end])
            apart[np.arange(end)[None, :] >= np.arange(begin, end)[:, None]] = 255
            places = apart.argmin(axis=1)
            least = apart[np.arange(end - begin), places].astype(np.int64)
            within = least <= farthest
            nearest[rows[begin:end][within]] = least[within]
            found[rows[begin:end][within]] = rows[places[within]]
    return nearest, found


def unreachable(prints: Fingerprints) -> int:
    """A distance beyond all others: one more than the fingerprint has bits."""
    return 64 * int(prints.fingerprints.shape[1]) + 1


def truth_of_similarities(similarities: npt.NDArray[np.float64], floor: float) -> Truth:
    """The truth of documents by their largest Jaccard similarity with an earlier one.

    Nothing is known below `floor`; where it lies above UNIQUE_BELOW, what is below it counts as different, the grey
    included: precision is then no more than a lower bound.
    """
    return Truth(similarities >= DUPLICATE_MIN, similarities < max(UNIQUE_BELOW, floor))


def truth_of_labels(labels: Sequence[str]) -> Truth:
    """The truth of labelled pairs: `dup`, 2 and 3 are duplicates, `neg` and 0.5 are not, all else is grey."""
    return Truth(
        np.array([label in ("dup", "2", "3") for label in labels], np.bool_),
        np.array([label in ("neg", "0.5") for label in labels], np.bool_),
    )


def score(distances: npt.NDArray[np.int64], truth: Truth, distance_max: int) -> Scores:
    """Flag what is within the distance, and count."""
    flagged = distances <= distance_max
    return Scores(
        true_duplicates=int((flagged & truth.duplicate).sum()),
        false_duplicates=int((flagged & truth.different).sum()),
        missed=int((~flagged & truth.duplicate).sum()),
        true_uniques=int((~flagged & truth.different).sum()),
    )


def wilson(hits: int, count: int) -> Interval:
    """A share and its score interval (Wilson 1927), 95 of 100; of nothing the share is 1 and may be anything."""
    if count == 0:
        return Interval(1.0, 0.0, 1.0)
    share, square = hits / count, CONFIDENCE_DEVIATIONS**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    half = CONFIDENCE_DEVIATIONS * spread
    # At either end the bound is the share itself; only rounding would say otherwise.
    low, high = 0.0 if hits == 0 else middle - half, 1.0 if hits == count else middle + half
    return Interval(share, low, high)


def bootstrap_f1(scores: Scores) -> Interval:
    """F1 and the middle 95 of 100 of what it is when documents are drawn anew with replacement (Efron 1979).

    F1 depends on the documents through four counts alone, so that drawing these (multinomially) is drawing documents.
    """
    counts = np.array([scores.true_duplicates, scores.false_duplicates, scores.missed, scores.true_uniques])
    total = int(counts.sum())
    if total == 0:
        return Interval(1.0, 0.0, 1.0)
    draws = np.random.default_rng(_SEED).multinomial(total, counts / total, BOOTSTRAP_DRAWS)
    low, high = np.quantile(_f1(draws), [0.025, 0.975])
    return Interval(float(_f1(counts[None, :])[0]), float(low), float(high))


def _f1(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """2 TP / (2 TP + FP + FN) by row; 1 where there is neither a duplicate nor anything flagged."""
    doubled = 2 * counts[:, 0]
    whole = doubled + counts[:, 1] + counts[:, 2]
    return np.where(whole == 0, 1.0, doubled / np.maximum(whole, 1))
