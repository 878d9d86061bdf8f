"""Curves over the threshold: the counts of the definition, the best threshold, and the lines drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.evaluation.curves import curve
from streamer.evaluation.scores import Truth, score

ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["duplicate", "different", "grey"])), max_size=20)


@given(ROWS)
def test_a_curve_has_the_scores_of_each_threshold(rows: list[tuple[int, str]]) -> None:
    distances = np.array([distance for distance, _ in rows], np.float64)
    truth = Truth(*(np.array([kind == name for _, kind in rows], np.bool_) for name in ("duplicate", "different")))
    found = curve(distances, truth, np.arange(5.0))
    for place in range(5):
        scores = score(distances <= place, truth)
        assert found.precision[place] == pytest.approx(scores.precision.value)
        assert found.recall[place] == pytest.approx(scores.recall.value)
        assert found.f1[place] == pytest.approx(scores.f1.value)


def test_the_best_threshold_is_the_middle_one_of_equally_good_ones() -> None:
    truth = Truth(np.array([1, 1, 0], np.bool_), np.array([0, 0, 1], np.bool_))
    found = curve(np.array([0.0, 1.0, 4.0]), truth, np.arange(6.0))
    assert found.f1.tolist() == pytest.approx([2 / 3, 1, 1, 1, 0.8, 0.8])
    assert found.best == 2
