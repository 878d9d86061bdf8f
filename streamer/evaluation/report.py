"""Evaluation reports: a terminal table, and an HTML page with histograms."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

from index import Parameters, minhash, second_look
from streamer.evaluation.calibration import EDITS_MAX, INDEX_DOCUMENTS, Trial, best, index_bytes_per_document
from streamer.evaluation.curves import curve, drawn
from streamer.evaluation.scores import Interval, Scores, Truth, limit_of
from streamer.evaluation.short_texts import Misjudged
from streamer.evaluation.short_texts import drawn as drawn_short
from streamer.evaluation.timing import Timing
from streamer.evaluation.timing import drawn as drawn_times

SIMILARITY_BARS = 50
"""Bars in a histogram of similarities from 1 to 0."""

_FIGURES = ("precision", "recall", "F1", "false/million", "CPU us")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 720, 260, 46, 12, 34, 14
_COLOURS = {"duplicates": "#c2410c", "different": "#1d4ed8"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One setting's result on one set.

    distances    see `SetFingerprints.distances`
    lower_bound  whether precision is only a lower bound
    """

    set_name: str
    setting: str
    parameters: Parameters
    distances: npt.NDArray[np.int64] | None
    truth: Truth
    scores: Scores
    cpu_us_per_document: float
    lower_bound: bool

    def as_json(self) -> dict[str, object]:
        """Everything except the distances."""
        scores = self.scores
        return {
            "set": self.set_name,
            "setting": self.setting,
            "scheme": self.parameters.scheme,
            "distance_max": None if self.parameters.by_similarity else self.parameters.distance_max,
            "similarity_min": minhash.similarity_of(limit_of(self.parameters))
            if self.parameters.by_similarity
            else None,
            "second_look": None if self.parameters.look is None else self.parameters.look.kind,
            "true_duplicates": scores.true_duplicates,
            "false_duplicates": scores.false_duplicates,
            "missed": scores.missed,
            "true_uniques": scores.true_uniques,
            "precision": _as_list(scores.precision),
            "precision_is_lower_bound": self.lower_bound,
            "recall": _as_list(scores.recall),
            "f1": _as_list(scores.f1),
            "false_per_million": scores.false_per_million,
            "cpu_us_per_document": self.cpu_us_per_document,
        }


def table(evaluations: Sequence[Evaluation]) -> Table:
    """A row per setting and set."""
    rows = Table(
        title="95% confidence intervals: Wilson for precision and recall, bootstrap for F1. CPU: microseconds per document.",
        title_justify="left",
    )
    rows.add_column("set", no_wrap=True)
    rows.add_column("setting", min_width=24)
    rows.add_column("duplicate if", no_wrap=True)
    for column in _FIGURES:
        rows.add_column(column, justify="right", no_wrap=True)
    for each in evaluations:
        rows.add_row(
            each.set_name,
            each.setting,
            rule(each.parameters),
            ("≥ " if each.lower_bound else "") + _shown(each.scores.precision),
            _shown(each.scores.recall),
            _shown(each.scores.f1),
            f"{each.scores.false_per_million:,.0f}",
            f"{each.cpu_us_per_document:,.0f}",
        )
    return rows


def trial_table(tried: Sequence[Trial], chosen: Trial) -> Table:
    """Each method's best threshold, and the chosen one."""
    rows = Table(
        title="95% confidence intervals. CPU: microseconds per document. * recommended",
        title_justify="left",
    )
    rows.add_column("", no_wrap=True)
    rows.add_column("fingerprints", no_wrap=True)
    rows.add_column("duplicate if", no_wrap=True)
    for column in _FIGURES:
        rows.add_column(column, justify="right", no_wrap=True)
    for name in dict.fromkeys(trial.name for trial in tried):
        of_name = [trial for trial in tried if trial.name == name]
        highest = max(of_name, key=lambda trial: trial.scores.f1.value)
        for trial in (each for each in of_name if each is highest or each is chosen):
            rows.add_row(
                "*" if trial is chosen else "",
                name,
                rule(trial.parameters),
                _shown(trial.scores.precision),
                _shown(trial.scores.recall),
                _shown(trial.scores.f1),
                f"{trial.scores.false_per_million:,.0f}",
                f"{trial.cpu_us_per_document:,.0f}",
            )
    return rows


def recommendation(
    tried: Sequence[Trial], chosen: Trial, documents: int, pairs_file: Path | None, false_per_million_max: float
) -> list[str]:
    """Lines on the sample, the chosen settings and their cost, and the other scheme's best."""
    if pairs_file is None:
        lines = [
            f"{documents} documents, each with a near-duplicate generated by one to {EDITS_MAX} edits, without labels.",
            "Use the figures to compare settings; real documents may differ more.",
        ]
    else:
        lines = [f"{documents} documents, and the labelled pairs of {pairs_file}."]
    lines += _described("Recommended", chosen)
    if chosen.scores.false_per_million > false_per_million_max:
        lines.append(
            f"No settings stay within {false_per_million_max:g} false duplicates per million; this has "
            f"{chosen.scores.false_per_million:,.0f}, the fewest."
        )
    others = [trial for trial in tried if trial.parameters.scheme != chosen.parameters.scheme]
    if others:
        lines += _described("The best of the other scheme", best(others, false_per_million_max))
    return lines


def _described(role: str, trial: Trial) -> list[str]:
    scores = trial.scores
    return [
        f"{role}: {trial.name}, {rule(trial.parameters)}.",
        f"  precision {_shown(scores.precision)}, recall {_shown(scores.recall)}, F1 {_shown(scores.f1)}",
        f"  {index_bytes_per_document(trial.parameters):,.0f} bytes per document in an index of {INDEX_DOCUMENTS:,}, "
        f"{trial.cpu_us_per_document:,.0f} microseconds of processor time on this machine",
    ]


def rule(parameters: Parameters) -> str:
    """Condition for a duplicate, in a few words."""
    if parameters.by_similarity:
        return f"similarity ≥ {minhash.similarity_of(limit_of(parameters)):g}"
    cosine = f", cosine ≥ {parameters.look.cosine_min:g}" if isinstance(parameters.look, second_look.CosineLook) else ""
    return f"distance ≤ {parameters.distance_max} of {parameters.bits}{cosine}"


def page(evaluations: Sequence[Evaluation]) -> str:
    """HTML page with a histogram per setting and set."""
    parts = [
        *_head("Distances and similarities"),
        "<h1>Distances of duplicates and other documents</h1>",
        f"<p>Each bar is a share of the duplicates ({_swatch('duplicates')}) or of the other documents "
        f"({_swatch('different')}), by distance to the nearest earlier document or to the other document in the pair. The "
        "unit is bits for SimHash, and similarity for MinHash and with metadata. The nearest are on the left. The filter "
        "calls everything left of the vertical line a duplicate. The curves below show precision, recall and F1 for every "
        "position of that line. Documents that can never match have no bar; with them, the shares of a colour add up to 1.</p>",
    ]
    for each in evaluations:
        scores = each.scores
        parts += [
            f"<h2>{html.escape(each.set_name)}: {html.escape(each.setting)}</h2>",
            f"<p>duplicate if {rule(each.parameters)}: precision {'≥ ' if each.lower_bound else ''}"
            f"{_shown(scores.precision)}, recall {_shown(scores.recall)}, F1 {_shown(scores.f1)}</p>",
            histogram(each),
            lines(each),
        ]
    return "\n".join(parts) + "\n</html>\n"


def timing_page(measured: Sequence[Timing], parameters: Parameters) -> str:
    """HTML page with decision times by number of documents."""
    parts = [
        *_head("Time of a decision"),
        "<h1>Time of a decision by number of documents</h1>",
        f"<p>duplicate if {rule(parameters)}. With the index: the whole decision, including the journal on disk. Without: "
        "only the comparison with all other fingerprints. Both axes are logarithmic.</p>",
        drawn_times(measured),
    ]
    return "\n".join(parts) + "\n</html>\n"


def short_page(rates: Sequence[Misjudged], parameters: Parameters) -> str:
    """HTML page with miss rates by text length."""
    parts = [
        *_head("Short texts"),
        "<h1>Short texts with one word replaced</h1>",
        "<p>Share of texts whose copy with one replaced word is not a duplicate, by the fingerprint alone.</p>",
        drawn_short(rates, parameters),
    ]
    return "\n".join(parts) + "\n</html>\n"


def _head(title: str) -> list[str]:
    return [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>",
        "<style>body{font:15px system-ui,sans-serif;max-width:760px;margin:2em auto;color:#1f2937}"
        "h2{font-size:1.05em;margin:2em 0 .2em}p{margin:.2em 0 .6em}svg{width:100%;height:auto}</style>",
    ]


def histogram(evaluation: Evaluation) -> str:
    """SVG histogram with shares for duplicates and different documents, the nearest on the left.

    Bars: one per bit, or SIMILARITY_BARS. Raises ValueError without distances.
    """
    if evaluation.distances is None:
        raise ValueError("an evaluation without distances cannot be drawn")
    scale = _scale(evaluation.parameters)
    shares = {}
    for name, rows in (("duplicates", evaluation.truth.duplicate), ("different", evaluation.truth.different)):
        counts = np.bincount(scale.bars_of(evaluation.distances[rows]), minlength=scale.bars + 1)[: scale.bars]
        shares[name] = counts / max(int(rows.sum()), 1)
    highest = max(float(share.max()) for share in shares.values()) or 1.0
    step, room = (_WIDTH - _LEFT) / scale.bars, _HEIGHT - _BOTTOM - _TOP
    base = _HEIGHT - _BOTTOM
    parts = [f"<svg viewBox='0 0 {_WIDTH + _RIGHT} {_HEIGHT}' role='img' aria-label='shares by {scale.title}'>"]
    for side, (name, share) in enumerate(shares.items()):
        parts += [
            f"<rect x='{_LEFT + (bar + side * 0.45 + 0.05) * step:.1f}' y='{base - value / highest * room:.1f}' "
            f"width='{0.45 * step:.1f}' height='{value / highest * room:.1f}' fill='{_COLOURS[name]}'>"
            f"<title>{name}, {scale.label(bar)}: {value:.4f}</title></rect>"
            for bar, value in enumerate(share.tolist())
            if value
        ]
    border = _LEFT + scale.border * step
    parts.append(f"<path d='M{_LEFT} {base}H{_WIDTH}M{border:.1f} {_TOP}V{base}' stroke='#6b7280' fill='none'/>")
    parts += [
        f"<text x='{_LEFT + place * step:.1f}' y='{base + 16}' font-size='11' text-anchor='middle'>{mark}</text>"
        for place, mark in scale.marks
    ]
    parts.append(f"<text x='{_LEFT - 6}' y='{_TOP + 10}' font-size='11' text-anchor='end'>{highest:.2f}</text>")
    parts.append(f"<text x='{_WIDTH}' y='{_HEIGHT - 4}' font-size='11' text-anchor='end'>{scale.title}</text></svg>")
    return "".join(parts)


def lines(evaluation: Evaluation) -> str:
    """SVG with precision, recall and F1 on the histogram's axis. Raises ValueError without distances."""
    if evaluation.distances is None:
        raise ValueError("an evaluation without distances cannot be drawn")
    scale = _scale(evaluation.parameters)
    # A row counts from its bar's end on.
    points = curve(
        scale.bars_of(evaluation.distances).astype(np.float64),
        evaluation.truth,
        np.arange(scale.bars, dtype=np.float64),
    )
    return drawn(points, f"threshold: {scale.title}", scale.marks, scale.border)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Histogram axis.

    border   right end for duplicates, in bars
    bars_of  each distance's bar, `bars` for an unreachable one: int64 [n] -> int64 [n]
    marks    labels by their position in bars
    """

    title: str
    bars: int
    border: float
    bars_of: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]
    label: Callable[[int], str]
    marks: list[tuple[float, str]]


def _scale(parameters: Parameters) -> _Scale:
    if not parameters.by_similarity:
        bits = parameters.bits
        return _Scale(
            title="distance, bits",
            bars=bits + 1,
            border=parameters.distance_max + 1,
            bars_of=lambda distances: np.minimum(distances, bits + 1),
            label=lambda bar: f"{bar} bits",
            marks=[(bit + 0.5, str(bit)) for bit in range(0, bits + 1, bits // 16)],
        )
    units = minhash.DISTANCE_UNITS // SIMILARITY_BARS
    return _Scale(
        title="similarity",
        bars=SIMILARITY_BARS,
        border=limit_of(parameters) / units,
        # Every bar but the first includes its lower bound only, so a similarity equal to the threshold is left of the border.
        bars_of=lambda distances: np.maximum(distances - 1, 0) // units,
        label=lambda bar: f"similarity {1 - bar / SIMILARITY_BARS:.2f} to {1 - (bar + 1) / SIMILARITY_BARS:.2f}",
        marks=[(SIMILARITY_BARS * tenth / 10, f"{1 - tenth / 10:.1f}") for tenth in range(11)],
    )


def _swatch(name: str) -> str:
    return f"<b style='color:{_COLOURS[name]}'>{'orange' if name == 'duplicates' else 'blue'}</b>"


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4f} ({interval.low:.3f}-{interval.high:.3f})"


def _as_list(interval: Interval) -> list[float]:
    return [interval.value, interval.low, interval.high]
