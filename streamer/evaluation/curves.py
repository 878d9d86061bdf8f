"""Precision, recall and F1 by threshold, as numbers and as SVG."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.evaluation.scores import Truth

_COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490", "#be185d", "#4b5563")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 720, 200, 46, 12, 34, 14


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
    """SVG with the three lines; see `lines_drawn`.

    border  current threshold, in steps
    """
    lines = {"precision": points.precision, "recall": points.recall, "F1": points.f1}
    return lines_drawn(lines, f"{title}; highest F1 {points.f1[points.best]:.4f}", marks, border)


def lines_drawn(
    lines: Mapping[str, npt.NDArray[np.float64]], title: str, marks: list[tuple[float, str]], border: float
) -> str:
    """SVG with up to eight lines, at equal steps.

    lines   values from 0 to 1 by name, float64 [steps] each
    marks   labels by their steps on the axis
    border  vertical line, in steps
    """
    count = len(next(iter(lines.values())))
    step, room, base = (_WIDTH - _LEFT) / count, _HEIGHT - _BOTTOM - _TOP, _HEIGHT - _BOTTOM
    parts = [f"<svg viewBox='0 0 {_WIDTH + _RIGHT} {_HEIGHT}' role='img' aria-label='{title}'>"]
    at = _LEFT + border * step
    parts.append(f"<path d='M{_LEFT} {base}H{_WIDTH}M{at:.1f} {_TOP}V{base}' stroke='#6b7280' fill='none'/>")
    for values, colour in zip(lines.values(), _COLOURS, strict=False):
        line = " ".join(
            f"{'ML'[place > 0]}{_LEFT + (place + 1) * step:.1f} {base - value * room:.1f}"
            for place, value in enumerate(values.tolist())
        )
        parts.append(f"<path d='{line}' stroke='{colour}' stroke-width='1.5' fill='none'/>")
    apart = _WIDTH // (len(_COLOURS) + 1)
    parts += [
        f"<text x='{_LEFT + (number + 1) * apart}' y='{_TOP - 3}' font-size='11' fill='{colour}'>{name}</text>"
        for number, (name, colour) in enumerate(zip(lines, _COLOURS, strict=False))
    ]
    parts += [
        f"<text x='{_LEFT + place * step:.1f}' y='{base + 16}' font-size='11' text-anchor='middle'>{mark}</text>"
        for place, mark in marks
    ]
    parts += [
        f"<text x='{_LEFT - 6}' y='{base - value * room + 4:.1f}' font-size='11' text-anchor='end'>{value:g}</text>"
        for value in (0, 0.5, 1)
    ]
    parts.append(f"<text x='{_WIDTH}' y='{_HEIGHT - 4}' font-size='11' text-anchor='end'>{title}</text></svg>")
    return "".join(parts)
