"""Judges of the same pairs: the cosine of the definition, and scores that mean the same for all of them."""

import math
from collections import Counter

import numpy as np
import pytest

from streamer.evaluation.judges import cosines, judged
from streamer.evaluation.scores import Truth
from streamer.evaluation.sets import EvaluationSet
from streamer.records.decode import Document
from streamer.settings.settings import Settings, load

WORDS = load(None, ["fingerprint.stop_words=", "fingerprint.second_look=none"], {}, preset="simhash-classic")
LONG = " ".join(f"word{number}" for number in range(80))
OTHER = " ".join(f"matter{number}" for number in range(80))


def text_of(counts: dict[str, int]) -> Document:
    return Document("", " ".join(word for word, count in counts.items() for _ in range(count)))


def test_the_cosine_is_that_of_the_vector_space_model() -> None:
    """(30, 20, 20, 10, 0) and (40, 0, 30, 20, 10): 2000 / (42.43 * 54.77) = 0.86."""
    names = ["north", "south", "east", "west", "centre"]
    one, other = (dict(zip(names, counts, strict=True)) for counts in ((30, 20, 20, 10, 0), (40, 0, 30, 20, 10)))
    (found,) = cosines([text_of(one)], [text_of(other)], WORDS)
    assert found == pytest.approx(2000 / math.sqrt(1800 * 3000))
    assert round(found, 2) == 0.86


def test_texts_without_features_have_the_cosine_0() -> None:
    assert cosines([Document("", ""), Document("", "a")], [Document("", "a"), Document("", "b")], WORDS).tolist() == [
        0,
        0,
    ]


def test_every_judge_scores_the_same_pairs_and_names_its_best_threshold() -> None:
    documents = [Document("", LONG), Document("", LONG), Document("", LONG)]
    others = [Document("", LONG + " more"), Document("", OTHER), Document("", OTHER[:200])]
    truth = Truth(np.array([True, False, False]), np.array([False, True, True]))
    found = list(judged(EvaluationSet("pairs", documents, others, truth), WORDS, Settings()))
    assert [each.judge for each in found] == ["cosine", "SimHash, 64 bits", "SimHash, 128 bits", "MinHash"]
    counts = Counter(LONG.split())
    assert found[0].mean_duplicates == pytest.approx(len(counts) / math.sqrt(len(counts) * (len(counts) + 1)))
    for each in found:
        assert (each.duplicates, each.different) == (1, 2)
        assert (each.precision, each.recall, each.f1) == (1, 1, 1)
        assert each.mean_duplicates == pytest.approx(each.threshold)
        assert each.mean_duplicates > 0.9
        assert abs(each.mean_different) < 0.5
