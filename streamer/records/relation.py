"""How a document stands to its original: from their similarity and length ratio. Pure.

With documents A and B, r = |B| / |A| and J their Jaccard similarity, |A n B| = J / (1 + J) (|A| + |B|). So the share of B that A
lacks is

    new = 1 - |A n B| / |B| = 1 - J / (1 + J) (1 + 1/r)

Broder, "On the resemblance and containment of documents", SEQUENCES 1997, relates both measures. A has no more than itself to
share, so new is at least 1 - 1/r. Lengths are letters, which stand for the numbers of distinct shingles.

The estimate's standard error, from that of J with V values in a bin (255 of 8 bits, 15 of 4), is at most

    (1 + 1/r) / (1 + J)^2 sqrt((1 - J) (J + 1/V) / bins)

with as many bins as either document fills.
"""

from math import isnan
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Decisions, Verdict, minhash
from streamer.records.reason import Reason

SAME, EDITED, SHORTER, LONGER, CONTAINED = RELATIONS = ("same", "edited", "shorter", "longer", "contained")

RATIO_UNITS = 1000
"""A ratio of 1 in `Decisions.ratios`."""

CONTAINED_NEW_MAX = 0.1
"""Largest share that new shingles have in a shorter document that its original contains."""

_OF_EQUAL_TEXTS = (Reason.SAME_TEXT, Reason.SHORT_TEXT)


def new_shares(similarities: npt.NDArray[np.float64], ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Estimated share that new shingles have in each document: float64 [n], NaN if either input is.

    similarities  float64 [n], estimated Jaccard similarity of the sets of shingles
    ratios        float64 [n], length of the document divided by that of its original

    >>> new_shares(np.array([1.0, 1.0, 0.5]), np.array([1.0, 2.0, 0.5])).tolist()
    [0.0, 0.5, 0.0]
    """
    shared = similarities / (1 + similarities) * (1 + 1 / ratios)
    return np.maximum(0.0, np.maximum(1 - 1 / ratios, 1 - shared))


def relation(verdict: Verdict, reason: int, length: float | None, new: float | None, longer_min: float) -> str | None:
    """One of RELATIONS, for a document that names an original; None if `length` is.

    reason      a value of `Reason`
    length      the document's length divided by the original's; None: unknown
    new         new shingles' share; None: unknown
    longer_min  `index.longer_min`

    >>> relation(Verdict.DUPLICATE, Reason.ORDINARY, 0.8, 0.02, longer_min=0.1)
    'contained'
    """
    if length is None:
        return None
    if verdict is Verdict.DUPLICATE and reason in _OF_EQUAL_TEXTS:
        return SAME
    if verdict is Verdict.EXTENDS or length > 1 + longer_min:
        return LONGER
    if length * (1 + longer_min) < 1:
        return CONTAINED if new is not None and new <= CONTAINED_NEW_MAX else SHORTER
    return EDITED


class Measure(NamedTuple):
    """What the numbers of an index's decisions mean.

    by_similarity  distances are ten-thousandths of 1 - similarity (`Parameters.by_similarity`), not bits
    of_shingles    this similarity is between two sets (MinHash), so `new_shares` follows
    longer_min     `index.longer_min`

    >>> Measure().by_similarity
    False
    """

    by_similarity: bool = False
    of_shingles: bool = False
    longer_min: float = 0.1

    def lengths(self, decisions: Decisions) -> npt.NDArray[np.float64]:
        """Each document's length divided by its original's: float64 [n]; NaN: unknown, or names none."""
        return np.where(decisions.ratios > 0, decisions.ratios / RATIO_UNITS, np.nan)

    def news(self, decisions: Decisions) -> npt.NDArray[np.float64]:
        """The decisions' `new_shares`: float64 [n]; NaN: unknown, or names none."""
        known = self.of_shingles & (decisions.distances != NO_DISTANCE)
        similarities = np.where(known, minhash.similarities_of(decisions.distances), np.nan)
        return new_shares(similarities, self.lengths(decisions))

    def columns(self, decisions: Decisions) -> tuple[list[float | None], list[float | None]]:
        """`lengths` and `news` with three digits; None for NaN."""
        return _rounded(self.lengths(decisions)), _rounded(self.news(decisions))


def spread(news: npt.NDArray[np.float64]) -> dict[str, float] | None:
    """Percentiles among new shares, float64 [n], with three digits; None without any.

    >>> spread(np.array([0.0, 0.5]))
    {'p50': 0.25, 'p95': 0.475, 'p99': 0.495, 'worst': 0.5}
    """
    if not len(news):
        return None
    shares = np.percentile(news, (50, 95, 99, 100)).round(3).tolist()
    return dict(zip(("p50", "p95", "p99", "worst"), shares, strict=True))


IN_BITS = Measure()
"""Measure for an index by distance."""


def _rounded(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else round(value, 3) for value in values.tolist()]
