"""The same pairs scored by several judges: cosine, SimHash with 64 and 128 bits, MinHash."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import minhash as signatures
from streamer.evaluation.curves import curve
from streamer.evaluation.scores import Truth, pair_distances, unreachable
from streamer.evaluation.sets import Documents, EvaluationSet
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import scheme_with_parameters
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judge's scores on a set's pairs: 1 for equal documents, at least `threshold` for duplicates.

    >>> one = Judgement("news", "minhash", 40, 60, 0.9, 0.1, threshold=0.7, precision=0.95, recall=0.9, f1=0.92)
    >>> round(2 * one.precision * one.recall / (one.precision + one.recall), 2)
    0.92
    """

    set_name: str
    judge: str
    duplicates: int
    different: int
    mean_duplicates: float
    mean_different: float
    threshold: float
    precision: float
    recall: float
    f1: float


def judged(pairs: EvaluationSet, simhash: Settings, minhash: Settings) -> Iterator[Judgement]:
    """Judge labelled pairs by the cosine over `simhash`'s features, then by fingerprints; incomparable pairs score 0.

    SimHash scores cos(pi * distance / bits), its estimate of the cosine.
    """
    assert pairs.others is not None
    yield _judgement(pairs, "cosine", cosines(pairs.documents, pairs.others, simhash))
    for bits in (64, 128):
        apart = _distances(pairs, simhash.replaced(fingerprint={"bits": bits}))
        angles = np.where(apart > bits, np.pi / 2, np.pi * apart / bits)
        yield _judgement(pairs, f"SimHash, {bits} bits", np.cos(angles))
    apart = _distances(pairs, minhash)
    yield _judgement(pairs, "MinHash", np.maximum(0.0, 1 - apart / signatures.DISTANCE_UNITS))


def cosines(left: Documents, right: Documents, settings: Settings) -> npt.NDArray[np.float64]:
    """Exact cosine A.B / (|A| |B|) between feature weights, float64 [n]; 0 without features."""
    fingerprinter = Fingerprinter(settings.fingerprint)
    one, other = (
        fingerprinter.weighted_features([each.text for each in side], [each.title for each in side])
        for side in (left, right)
    )
    values = np.zeros(len(left))
    for row in range(len(left)):
        (left_features, left_weights), (right_features, right_weights) = one[row], other[row]
        _, in_left, in_right = np.intersect1d(left_features, right_features, assume_unique=True, return_indices=True)
        norms = np.sqrt((left_weights**2).sum() * (right_weights**2).sum())
        values[row] = (left_weights[in_left] * right_weights[in_right]).sum() / norms if norms else 0.0
    return values


def _distances(pairs: EvaluationSet, settings: Settings) -> npt.NDArray[np.int64]:
    assert pairs.others is not None
    scheme, parameters = scheme_with_parameters(settings)
    left, right = (fingerprint_documents(scheme, side) for side in (pairs.documents, pairs.others))
    apart = pair_distances(left, right, parameters)
    assert apart.max(initial=0) <= unreachable(parameters)
    return apart


def _judgement(pairs: EvaluationSet, judge: str, scores: npt.NDArray[np.float64]) -> Judgement:
    truth: Truth = pairs.truth
    points = curve(-scores, truth, np.unique(-scores[truth.duplicate | truth.different]))
    best = points.best
    return Judgement(
        pairs.name,
        judge,
        int(truth.duplicate.sum()),
        int(truth.different.sum()),
        float(scores[truth.duplicate].mean()) if truth.duplicate.any() else 0.0,
        float(scores[truth.different].mean()) if truth.different.any() else 0.0,
        float(-points.thresholds[best]),
        float(points.precision[best]),
        float(points.recall[best]),
        float(points.f1[best]),
    )
