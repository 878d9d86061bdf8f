"""Precision, recall and F1 over the threshold: as numbers, and as lines."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.evaluation.scores import Truth

_COLOURS = {"precision": "#1d4ed8", "recall": "#c2410c", "F1": "#15803d"}
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 720, 200, 46, 12, 34, 14


@dataclass(frozen=True, slots=True)
class Curve:
    """What becomes of the decisions where everything up to a threshold is called a duplicate; float64 [thresholds] each.

    thresholds  ascending distances
    """

    thresholds: npt.NDArray[np.float64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]

    @property
    def best(self) -> int:
        """The place of the highest F1; of equal ones the middle, the stricter of two."""
        equal = np.flatnonzero(self.f1 == self.f1.max())
        return int(equal[(len(equal) - 1) // 2])


def curve(distances: npt.NDArray[np.float64], truth: Truth, thresholds: npt.NDArray[np.float64]) -> Curve:
    """The curve of rows at these distances, float64 [n]; the grey zone counts nowhere.

    Precision is 1 where nothing is called a duplicate, recall 1 where nothing is one.
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


def drawn(found: Curve, title: str, marks: list[tuple[float, str]], border: float) -> str:
    """The three lines as SVG, thresholds from left to right at equal steps.

    marks   places on the axis, in thresholds, and their texts
    border  where the threshold in force stands
    """
    count = len(found.thresholds)
    step, room, base = (_WIDTH - _LEFT) / count, _HEIGHT - _BOTTOM - _TOP, _HEIGHT - _BOTTOM
    parts = [f"<svg viewBox='0 0 {_WIDTH + _RIGHT} {_HEIGHT}' role='img' aria-label='scores by {title}'>"]
    at = _LEFT + border * step
    parts.append(f"<path d='M{_LEFT} {base}H{_WIDTH}M{at:.1f} {_TOP}V{base}' stroke='#6b7280' fill='none'/>")
    for name, values in (("precision", found.precision), ("recall", found.recall), ("F1", found.f1)):
        line = " ".join(
            f"{'ML'[place > 0]}{_LEFT + (place + 1) * step:.1f} {base - value * room:.1f}"
            for place, value in enumerate(values.tolist())
        )
        parts.append(f"<path d='{line}' stroke='{_COLOURS[name]}' stroke-width='1.5' fill='none'/>")
    parts += [
        f"<text x='{_LEFT + (number + 1) * 90}' y='{_TOP - 3}' font-size='11' fill='{colour}'>{name}</text>"
        for number, (name, colour) in enumerate(_COLOURS.items())
    ]
    parts += [
        f"<text x='{_LEFT + place * step:.1f}' y='{base + 16}' font-size='11' text-anchor='middle'>{mark}</text>"
        for place, mark in marks
    ]
    parts += [
        f"<text x='{_LEFT - 6}' y='{base - value * room + 4:.1f}' font-size='11' text-anchor='end'>{value:g}</text>"
        for value in (0, 0.5, 1)
    ]
    best = found.best
    parts.append(
        f"<text x='{_WIDTH}' y='{_HEIGHT - 4}' font-size='11' text-anchor='end'>{title}; highest F1 {found.f1[best]:.4f}"
        "</text></svg>"
    )
    return "".join(parts)
