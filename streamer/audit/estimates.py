"""Estimates from the sample: recall, precision, lost text, and what another threshold would do; pure.

A sampled document's near-duplicate with similarity J is in the sample too with probability J, so each pair counts 1 / J
(Horvitz, Thompson 1952). A document sampled at one in n counts n times as much, since the rate may change.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.audit.interval import wilson
from streamer.audit.store import Judged

Floats = npt.NDArray[np.float64]

SEEN_MIN = 30
"""Fewest pairs for an estimate."""

GROUPS_MIN = SEEN_MIN // 3
"""Fewest texts that these pairs are of."""

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


def chance(similarity: float, one_in: int) -> float:
    """Probability that a sampled document's original is sampled: by an equal least feature, or by its own; 0: unknown rate.

    >>> chance(0.5, one_in=256)
    0.501953125
    """
    return similarity + (1 - similarity) / (one_in or math.inf)


def rate(judged: Judged) -> float:
    """How many documents a sampled one represents; 1 if its rate is unknown."""
    return float(judged.one_in or 1)


def recall(judged: Sequence[Judged], similarity_min: float) -> Estimate:
    """Of documents at least so similar to one that was kept before: share that was dropped, or names it."""
    return _share(
        [(each.group, rate(each) / each.kept, float(each.named)) for each in judged if each.kept >= similarity_min]
    )


def precision(judged: Sequence[Judged], limits: Limits) -> Estimate:
    """Of duplicates: share that is within both limits.

    Where the original alone does not confirm it, a nearer document does, which the sample may lack: such hits count more.
    """
    return _share(
        [
            (
                *(each.group, rate(each) / chance(each.original, each.one_in)),
                (not _is_wrong(each, limits)) / (1.0 if each.original >= limits.similarity_min else each.nearer_chance),
            )
            for each in judged
            if each.original is not None
        ]
    )


def _is_wrong(judged: Judged, limits: Limits) -> bool:
    """Whether a duplicate is beyond a limit; False without an original in the sample."""
    original = judged.original
    return original is not None and (original < limits.root or max(judged.near, original) < limits.similarity_min)


def lost(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Median and 95th percentile of a duplicate's share that is new, by features; None: too few seen."""
    pairs = [
        (each.new_share, rate(each) / chance(each.original, each.one_in))
        for each in judged
        if each.original is not None
    ]
    if len(pairs) < SEEN_MIN:
        return {"p50": None, "p95": None}
    shares, weights = np.array(pairs).T
    median, most = np.quantile(shares, (0.5, 0.95), weights=weights, method="inverted_cdf").tolist()
    return {"p50": median, "p95": most}


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """Shares at another threshold.

    >>> unknown = Estimate(None, None, None, 0)
    >>> AtThreshold(0.8, unknown, unknown, unknown).similarity_min
    0.8
    """

    similarity_min: float
    dropped: Estimate
    recall: Estimate
    precision: Estimate


def at_threshold(judged: Sequence[Judged], similarity_min: float, limits: Limits) -> AtThreshold:
    """What another threshold would do: share of documents dropped, and recall and precision by the limits in force."""
    due, drops = ([each for each in judged if each.kept >= least] for least in (limits.similarity_min, similarity_min))
    return AtThreshold(
        similarity_min,
        _share([(each.group, rate(each), 1 / each.kept if each.kept >= similarity_min else 0.0) for each in judged]),
        _share([(each.group, rate(each) / each.kept, float(each.kept >= similarity_min)) for each in due]),
        _share([(each.group, rate(each) / each.kept, float(each.kept >= limits.similarity_min)) for each in drops]),
    )


def wrong(judged: Sequence[Judged], limits: Limits) -> list[tuple[str, Judged]]:
    """Verdicts that exact counting does not confirm, worst first: near-duplicates that were kept, and other documents' drops."""
    missed = [(each.kept, "kept", each) for each in judged if not each.named and each.kept >= limits.similarity_min]
    lost = [(1 - (each.original or 0.0), "dropped", each) for each in judged if _is_wrong(each, limits)]
    ordered = sorted([*missed, *lost], key=lambda item: item[0], reverse=True)
    return [(what, each) for _, what, each in ordered[:WRONG_SHOWN]]


def kept_hosts_max(judged: Sequence[Judged], similarity_min: float) -> int:
    """Most hosts from which one article came and was kept, unnamed, although it was so similar to one that was kept before."""
    hosts = {(each.group, each.host) for each in judged if each.kept >= similarity_min and not each.named}
    return max(Counter(group for group, _ in hosts).values(), default=0)


def _share(pairs: Sequence[tuple[bytes, float, float]]) -> Estimate:
    """Weighted share that hits, by (group, weight, hits for each weight), with Wilson's interval for an effective number."""
    groups = sorted({group for group, _, _ in pairs})
    if len(pairs) < SEEN_MIN or len(groups) < GROUPS_MIN:
        return Estimate(None, None, None, len(pairs))
    places = np.searchsorted(np.array(groups), np.array([group for group, _, _ in pairs]))
    weights, hits = np.array([[weight, hits] for _, weight, hits in pairs]).T
    whole, hit = (np.bincount(places, column).astype(np.float64) for column in (weights, weights * hits))
    share = min(1.0, float(hit.sum() / whole.sum()))
    count = _effective(weights, whole, hit, share)
    found = wilson(share * count, count)
    return Estimate(share, found.low, found.high, len(pairs))


def _effective(weights: Floats, whole: Floats, hit: Floats, share: float) -> float:
    """Number of independent pairs with the same variance: Kish's number by weights over the design effect.

    A group enters the sample as a whole, so the effect follows from the variance between groups (Cochran, "Sampling
    Techniques", 1977, 6.3: the ratio estimator). The groups with the rarer outcome show it; while they are few, half a group
    more counts whose members are all alike.
    """
    independent = float(weights.sum() ** 2 / (weights**2).sum())
    alike = independent * float((whole**2).sum() / whole.sum() ** 2)
    variance = float(((hit - share * whole) ** 2).sum() / whole.sum() ** 2) * len(whole) / (len(whole) - 1)
    effect = max(1.0, variance * independent / (share * (1 - share))) if 0 < share < 1 else 1.0
    shown = 2 * min(int((hit < whole).sum()), int((hit > 0).sum()))
    return independent * (shown + 1) / (shown * effect + alike)
