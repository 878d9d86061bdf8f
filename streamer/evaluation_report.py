"""Evaluations as people read them: a table for the terminal, and a page with a picture of the distances."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from streamer.calibration import Trial
from streamer.evaluation import Interval, Scores, Truth

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 260, 46, 34, 14
_COLOURS = {"duplicates": "#c2410c", "different": "#1d4ed8"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one setting did on one set. Distances as of `EvaluationSet.distances`."""

    set_name: str
    setting: str
    bits: int
    distance_max: int
    distances: npt.NDArray[np.int64]
    truth: Truth
    scores: Scores
    documents_per_second: float
    lower_bound: bool

    def as_json(self) -> dict[str, object]:
        """The figures, without the distances."""
        scores = self.scores
        return {
            "set": self.set_name,
            "setting": self.setting,
            "distance_max": self.distance_max,
            "true_duplicates": scores.true_duplicates,
            "false_duplicates": scores.false_duplicates,
            "missed": scores.missed,
            "true_uniques": scores.true_uniques,
            "precision": _as_list(scores.precision),
            "precision_is_lower_bound": self.lower_bound,
            "recall": _as_list(scores.recall),
            "f1": _as_list(scores.f1),
            "false_per_million": scores.false_per_million,
            "documents_per_second": self.documents_per_second,
        }


def table(evaluations: Sequence[Evaluation]) -> Table:
    """A row for each setting on each set."""
    found = Table(title="95 of 100 confidence: Wilson for precision and recall, bootstrap for F1", title_justify="left")
    found.add_column("set", no_wrap=True)
    found.add_column("setting")
    for column in ("within", "precision", "recall", "F1", "false/million", "documents/s"):
        found.add_column(column, justify="right", no_wrap=True)
    for each in evaluations:
        found.add_row(
            each.set_name,
            each.setting,
            str(each.distance_max),
            ("≥ " if each.lower_bound else "") + _shown(each.scores.precision),
            _shown(each.scores.recall),
            _shown(each.scores.f1),
            f"{each.scores.false_per_million:,.0f}",
            f"{each.documents_per_second:,.0f}",
        )
    return found


def trial_table(tried: Sequence[Trial], chosen: Trial) -> Table:
    """For each recipe and length the distance with the highest F1, and the chosen one where it is another."""
    found = Table(title="Documents of the sample and their edited copies; * is recommended", title_justify="left")
    for column in ("", "recipe", "bits", "within", "precision", "recall", "F1", "microseconds a document"):
        found.add_column(column, justify="left" if column in ("", "recipe") else "right", no_wrap=True)
    for recipe, bits in dict.fromkeys((trial.recipe, trial.bits) for trial in tried):
        of_both = [trial for trial in tried if (trial.recipe, trial.bits) == (recipe, bits)]
        highest = max(of_both, key=lambda trial: trial.scores.f1.value)
        for trial in dict.fromkeys([highest, *(trial for trial in of_both if trial is chosen)]):
            found.add_row(
                "*" if trial is chosen else "",
                trial.recipe,
                str(trial.bits),
                str(trial.distance_max),
                _shown(trial.scores.precision),
                _shown(trial.scores.recall),
                _shown(trial.scores.f1),
                f"{trial.microseconds_per_document:,.0f}",
            )
    return found


def page(evaluations: Sequence[Evaluation]) -> str:
    """An HTML page of its own: for each setting and set how far duplicates stand apart, and how far others do."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Distances</title>",
        "<style>body{font:15px system-ui,sans-serif;max-width:760px;margin:2em auto;color:#1f2937}"
        "h2{font-size:1.05em;margin:2em 0 .2em}p{margin:.2em 0 .6em}svg{width:100%;height:auto}</style>",
        "<h1>How far apart duplicates and other documents stand</h1>",
        "<p>Bars: share of the duplicates (orange) and of the others (blue) at each distance in bits, each kind adding "
        "up to 1 with those that can never match left out. Left of the line is what the filter calls a duplicate.</p>",
    ]
    for each in evaluations:
        scores = each.scores
        parts += [
            f"<h2>{html.escape(each.set_name)}: {html.escape(each.setting)}</h2>",
            f"<p>precision {'≥ ' if each.lower_bound else ''}{_shown(scores.precision)}, recall "
            f"{_shown(scores.recall)}, F1 {_shown(scores.f1)}</p>",
            histogram(each),
        ]
    return "\n".join(parts) + "\n</html>\n"


def histogram(evaluation: Evaluation) -> str:
    """An SVG of the shares of duplicates and of different documents at each distance from 0 to the bits."""
    bits = evaluation.bits
    shares = {}
    for name, rows in (("duplicates", evaluation.truth.duplicate), ("different", evaluation.truth.different)):
        counts = np.bincount(evaluation.distances[rows], minlength=bits + 2)[: bits + 1]
        shares[name] = counts / max(int(rows.sum()), 1)
    highest = max(float(share.max()) for share in shares.values()) or 1.0
    step, room = (_WIDTH - _LEFT) / (bits + 1), _HEIGHT - _BOTTOM - _TOP
    base = _HEIGHT - _BOTTOM
    parts = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='shares by distance'>"]
    for side, (name, share) in enumerate(shares.items()):
        parts += [
            f"<rect x='{_LEFT + (distance + side * 0.45 + 0.05) * step:.1f}' y='{base - value / highest * room:.1f}' "
            f"width='{0.45 * step:.1f}' height='{value / highest * room:.1f}' fill='{_COLOURS[name]}'>"
            f"<title>{name}, {distance} bits: {value:.4f}</title></rect>"
            for distance, value in enumerate(share.tolist())
            if value
        ]
    border = _LEFT + (evaluation.distance_max + 1) * step
    parts.append(f"<path d='M{_LEFT} {base}H{_WIDTH}M{border:.1f} {_TOP}V{base}' stroke='#6b7280' fill='none'/>")
    parts += [
        f"<text x='{_LEFT + (distance + 0.5) * step:.1f}' y='{base + 16}' font-size='11' text-anchor='middle'>"
        f"{distance}</text>"
        for distance in range(0, bits + 1, bits // 16)
    ]
    parts.append(f"<text x='{_LEFT - 6}' y='{_TOP + 10}' font-size='11' text-anchor='end'>{highest:.2f}</text>")
    parts.append(f"<text x='{_WIDTH}' y='{_HEIGHT - 4}' font-size='11' text-anchor='end'>distance, bits</text></svg>")
    return "".join(parts)


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4f} ({interval.low:.3f}-{interval.high:.3f})"


def _as_list(interval: Interval) -> list[float]:
    return [interval.value, interval.low, interval.high]
