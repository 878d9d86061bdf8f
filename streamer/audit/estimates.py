"""Estimates from the sample: recall, precision, lost text, and what another threshold would do; pure.

A sampled document's near-duplicate with similarity J is in the sample too with probability J, so each pair counts 1 / J
(Horvitz, Thompson 1952).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.audit.interval import wilson
from streamer.audit.store import Judged

SEEN_MIN = 30
"""Fewest pairs, in at least a third as many groups, for an estimate."""

THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
WRONG_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share, with its 95 % interval; all None if too little was seen.

    >>> Estimate(None, None, None, 3).in_words()
    'not enough seen yet'
    """

    estimate: float | None
    low: float | None
    high: float | None
    seen: int

    def in_words(self) -> str:
        """The share and its interval."""
        if self.estimate is None:
            return "not enough seen yet"
        return f"{self.estimate:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in force: of similarity to any document, and to what was kept.

    >>> Limits(0.7, 0.5).root
    0.5
    """

    similarity_min: float
    root: float


def recall(judged: Sequence[Judged], similarity_min: float) -> Estimate:
    """Of documents at least so similar to one that was kept before: share that was dropped, or names it."""
    return _share([(each.group, each.kept, each.named) for each in judged if each.kept >= similarity_min])


def precision(judged: Sequence[Judged], limits: Limits) -> Estimate:
    """Of duplicates: share that is within both limits."""
    return _share(
        [
            (each.group, each.original, each.original >= limits.root and each.near >= limits.similarity_min)
            for each in judged
            if each.original
        ]
    )


def lost(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Median and 95th percentile of a duplicate's share that is new, by features; None: too few seen."""
    pairs = [(each.new_share, 1 / each.original) for each in judged if each.original and each.new_share is not None]
    if len(pairs) < SEEN_MIN:
        return {"p50": None, "p95": None}
    shares, weights = np.array(pairs).T
    median, most = np.quantile(shares, (0.5, 0.95), weights=weights, method="inverted_cdf").tolist()
    return {"p50": median, "p95": most}


def at_threshold(judged: Sequence[Judged], similarity_min: float, limits: Limits) -> dict[str, float | None]:
    """What another threshold would do: share of documents dropped, and recall and precision by the limits in force."""

    def weight(chosen: Callable[[Judged], bool]) -> float:
        return sum(1 / each.kept for each in judged if each.kept and chosen(each))

    due = weight(lambda each: each.kept >= limits.similarity_min)
    drops = weight(lambda each: each.kept >= similarity_min)
    both = weight(lambda each: each.kept >= max(similarity_min, limits.similarity_min))
    return {
        "similarity_min": similarity_min,
        "dropped": drops / len(judged) if judged else None,
        "recall": both / due if due else None,
        "precision": both / drops if drops else None,
    }


def wrong(judged: Sequence[Judged], limits: Limits) -> list[tuple[str, Judged]]:
    """Verdicts that exact counting does not confirm, worst first: near-duplicates that were kept, and other documents' drops."""
    missed = [(each.kept, "kept", each) for each in judged if not each.named and each.kept >= limits.similarity_min]
    lost = [
        (1 - each.original, "dropped", each)
        for each in judged
        if each.original is not None and (each.original < limits.root or each.near < limits.similarity_min)
    ]
    ordered = sorted([*missed, *lost], key=lambda item: item[0], reverse=True)
    return [(what, each) for _, what, each in ordered[:WRONG_SHOWN]]


def kept_hosts_max(judged: Sequence[Judged], similarity_min: float) -> int:
    """Most hosts from which one article came and was kept, unnamed, although it was so similar to one that was kept before."""
    hosts = {(each.group, each.host) for each in judged if each.kept >= similarity_min and not each.named}
    return max(Counter(group for group, _ in hosts).values(), default=0)


def _share(pairs: Sequence[tuple[bytes, float, bool]]) -> Estimate:
    """Weighted share that hits, with Wilson's interval for an effective number of pairs.

    A group enters the sample as a whole, so the effective number follows from the variance between groups (Cochran,
    "Sampling Techniques", 1977, 6.3: the ratio estimator).
    """
    groups = sorted({group for group, _, _ in pairs})
    if len(pairs) < SEEN_MIN or len(groups) < SEEN_MIN // 3:
        return Estimate(None, None, None, len(pairs))
    places = np.searchsorted(np.array(groups), np.array([group for group, _, _ in pairs]))
    weights = np.array([1 / similarity for _, similarity, _ in pairs])
    hits = weights * np.array([hit for _, _, hit in pairs])
    whole, hit = (np.bincount(places, column).astype(np.float64) for column in (weights, hits))
    share = float(hit.sum() / whole.sum())
    count = _effective(whole, hit, share)
    found = wilson(share * count, count)
    return Estimate(share, found.low, found.high, len(pairs))


def _effective(whole: npt.NDArray[np.float64], hit: npt.NDArray[np.float64], share: float) -> float:
    """Number of independent pairs with the same variance; Kish's for equal outcomes."""
    kish = float(whole.sum() ** 2 / (whole**2).sum())
    count = len(whole)
    variance = float(((hit - share * whole) ** 2).sum() / whole.sum() ** 2) * count / max(1, count - 1)
    return min(kish, share * (1 - share) / variance) if variance else kish
