"""How much text drops lose: each duplicate's share that its original lacks, exact from both texts; and all lost sentences."""

from typing import NamedTuple

import numpy as np

from streamer.evaluation.calibration import shingles
from streamer.evaluation.scores import Decided
from streamer.evaluation.sentences import SentencesLost, sentences_lost
from streamer.evaluation.sets import EvaluationSet
from streamer.text.normalisation import Normaliser


class Loss(NamedTuple):
    """A dropped document and its original, by id or row, and the shingles' share that the original lacks.

    >>> Loss("copy", "original", 0.25).new
    0.25
    """

    document: str
    original: str
    new: float


def losses(documents: EvaluationSet, decided: Decided, normaliser: Normaliser) -> list[Loss]:
    """All duplicates' losses, the largest first, by `calibration.shingles` from the normalised texts."""
    lost, sides = [], (documents.documents, documents.others or documents.documents)
    for row in np.flatnonzero(decided.originals >= 0).tolist():
        places = int(decided.originals[row]), row
        of_pair = [side[place] for side, place in zip(sides, places, strict=True)]
        texts = map(normaliser.normal_form, normaliser.without_markup([each.text for each in of_pair]))
        kept, dropped = map(shingles, texts)
        original, name = (each.id or str(place) for each, place in zip(of_pair, places, strict=True))
        lost.append(Loss(name, original, len(dropped - kept) / max(len(dropped), 1)))
    return sorted(lost, key=lambda loss: -loss.new)


def lost_sentences(documents: EvaluationSet, decided: Decided, normaliser: Normaliser) -> SentencesLost:
    """Sentences that no kept document holds; in a pair the left side is kept."""
    lefts, rights = documents.documents if documents.others else (), documents.others or documents.documents
    kept = np.concatenate([np.ones(len(lefts), np.bool_), decided.originals < 0])
    return sentences_lost([each.text for each in (*lefts, *rights)], kept, normaliser)
