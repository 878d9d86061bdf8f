"""The same pairs scored by several judges: the cosine of their words, SimHash of 64 and of 128 bits, and MinHash."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from index import minhash as signatures
from streamer.evaluation.curves import curve
from streamer.evaluation.scores import Truth, pair_distances, unreachable
from streamer.evaluation.sets import Documents, EvaluationSet, fingerprint_documents
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one judge says of the pairs of a set. Scores are 1 for equal documents; a duplicate scores `threshold` or more."""

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

    def as_json(self) -> dict[str, object]:
        """All fields."""
        return asdict(self)


def judged(pairs: EvaluationSet, simhash: Settings, minhash: Settings) -> Iterator[Judgement]:
    """The judgements on labelled pairs: cosine over the features of `simhash`, then the fingerprints.

    The score of SimHash is the cosine that its distance stands for, cos(pi * distance / bits), that of MinHash the
    estimated similarity. Pairs that a scheme cannot compare score 0, below all others.
    """
    assert pairs.others is not None
    yield _judgement(pairs, "cosine", cosines(pairs.documents, pairs.others, simhash))
    for bits in (64, 128):
        own = simhash.model_copy(update={"fingerprint": simhash.fingerprint.model_copy(update={"bits": bits})})
        apart = _distances(pairs, own)
        angles = np.where(apart > bits, np.pi / 2, np.pi * apart / bits)
        yield _judgement(pairs, f"SimHash, {bits} bits", np.cos(angles))
    apart = _distances(pairs, minhash)
    yield _judgement(pairs, "MinHash", np.maximum(0.0, 1 - apart / signatures.DISTANCE_UNITS))


def cosines(left: Documents, right: Documents, settings: Settings) -> npt.NDArray[np.float64]:
    """The cosine of the weights of the features of each pair, exact: float64 [n]; 0 where one has no features.

    cos(A, B) = A.B / (|A| |B|)
    """
    fingerprinter = Fingerprinter(settings.fingerprint)
    one, other = (
        fingerprinter.weighted_features([each.text for each in side], [each.title for each in side])
        for side in (left, right)
    )
    found = np.zeros(len(left))
    for row in range(len(left)):
        (ours, weights), (theirs, others) = one[row], other[row]
        _, mine, yours = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        norms = np.sqrt((weights**2).sum() * (others**2).sum())
        found[row] = (weights[mine] * others[yours]).sum() / norms if norms else 0.0
    return found


def _distances(pairs: EvaluationSet, settings: Settings) -> npt.NDArray[np.int64]:
    assert pairs.others is not None
    scheme = scheme_for(settings)
    parameters = parameters_for(settings, scheme.stamp())
    left, right = (fingerprint_documents(scheme, side) for side in (pairs.documents, pairs.others))
    apart = pair_distances(left, right, parameters)
    assert apart.max(initial=0) <= unreachable(parameters)
    return apart


def _judgement(pairs: EvaluationSet, judge: str, scores: npt.NDArray[np.float64]) -> Judgement:
    truth: Truth = pairs.truth
    counted = truth.duplicate | truth.different
    found = curve(-scores, truth, np.unique(-scores[counted]))
    best = found.best
    return Judgement(
        pairs.name,
        judge,
        int(truth.duplicate.sum()),
        int(truth.different.sum()),
        float(scores[truth.duplicate].mean()) if truth.duplicate.any() else 0.0,
        float(scores[truth.different].mean()) if truth.different.any() else 0.0,
        float(-found.thresholds[best]),
        float(found.precision[best]),
        float(found.recall[best]),
        float(found.f1[best]),
    )
