"""Precision, recall and F1 by threshold, as numbers and as SVG."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.evaluation.chart import Chart, at_equal_steps
from streamer.evaluation.scores import Truth


@dataclass(frozen=True, slots=True)
class Curve:
    """Precision, recall and F1 by threshold, float64 [thresholds] each.

    thresholds  ascending distances; rows up to the threshold are duplicates

    >>> truth = Truth(duplicate=np.array([True, False]), different=np.array([False, True]))
    >>> curve(np.array([3.0, 30.0]), truth, thresholds=np.array([0.0, 8.0, 40.0])).recall.tolist()
    [0.0, 1.0, 1.0]
    """

    thresholds: npt.NDArray[np.float64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]

    @property
    def best(self) -> int:
        """Position of the highest F1; among equal ones the middle, or the stricter middle."""
        equal = np.flatnonzero(self.f1 == self.f1.max())
        return int(equal[(len(equal) - 1) // 2])


def curve(distances: npt.NDArray[np.float64], truth: Truth, thresholds: npt.NDArray[np.float64]) -> Curve:
    """Curve for distances, float64 [n], without the grey zone.

    Precision is 1 without calls, recall 1 without duplicates.
    """
    hits, false = (
        np.searchsorted(np.sort(distances[rows]), thresholds, side="right")
        for rows in (truth.duplicate, truth.different)
    )
    duplicates = int(truth.duplicate.sum())
    called = hits + false
    whole = called + duplicates
    return Curve(
        thresholds,
        np.where(called > 0, hits / np.maximum(called, 1), 1.0),
        hits / duplicates if duplicates else np.ones(len(thresholds)),
        np.where(whole > 0, 2 * hits / np.maximum(whole, 1), 1.0),
    )


def drawn(points: Curve, title: str, marks: list[tuple[float, str]], border: float) -> str:
    """SVG with the three lines, a step for each threshold.

    marks   labels by their steps on the axis
    border  current threshold, in steps
    """
    count = len(points.thresholds)
    chart = Chart(title, border / count)
    for name, values in (("precision", points.precision), ("recall", points.recall), ("F1", points.f1)):
        chart.line(name, at_equal_steps(values.tolist()))
    chart.marks_across((place / count, mark) for place, mark in marks)
    chart.marks_up((value, f"{value:g}") for value in (0, 0.5, 1))
    return chart.svg(f"{title}; highest F1 {points.f1[points.best]:.4f}")
