"""Reports: a terminal table, and HTML with histograms."""

import html
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.text import Text

from index import Parameters, minhash, second_look
from streamer.audit.interval import Interval
from streamer.evaluation.calibration import EDITS_MAX, INDEX_DOCUMENTS, Trial, best, index_bytes_per_document
from streamer.evaluation.chart import Chart
from streamer.evaluation.curves import curve, drawn
from streamer.evaluation.losses import Loss
from streamer.evaluation.scores import Scores, Truth, limit_of
from streamer.evaluation.sentences import SentencesLost
from streamer.evaluation.short_texts import Misjudged
from streamer.evaluation.short_texts import drawn as drawn_short
from streamer.evaluation.timing import Timing
from streamer.evaluation.timing import drawn as drawn_times
from streamer.explain.plain_table import PlainTable
from streamer.records.relation import spread

SIMILARITY_BARS = 50
"""Bars in a histogram of similarities from 1 to 0."""

EXAMPLES_MAX, SHOWN_MAX = 10, 3
"""Largest losses that are named, for machines and in the table."""

_FIGURES = ("duplicate if", "precision", "recall", "F1", "false per million", "CPU us")
"""Columns of `_figures`."""

_INTERVALS = _FIGURES[1:5]
"""Those that fold."""

LOST = "lost of 10,000 sentences"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One setting's result on one set.

    distances    see `SetFingerprints.distances`
    lower_bound  whether precision is only a lower bound
    extends      documents that extend their original
    losses       see `losses`
    sentences    see `lost_sentences`; None: not measured

    >>> from streamer.evaluation.scores import truth_of_labels
    >>> scores = Scores(true_duplicates=9, false_duplicates=1, missed=0, true_uniques=90)
    >>> one = Evaluation("news", "simhash", Parameters(), None, truth_of_labels(["dup"]), scores, 80.0, lower_bound=False)
    >>> one.as_json()["precision"][0], one.lost
    (0.9, None)
    """

    set_name: str
    setting: str
    parameters: Parameters
    distances: npt.NDArray[np.int64] | None
    truth: Truth
    scores: Scores
    cpu_us_per_document: float
    lower_bound: bool
    extends: int = 0
    losses: Sequence[Loss] = ()
    sentences: SentencesLost | None = None

    def as_json(self) -> dict[str, object]:
        """Everything except the distances, with the EXAMPLES_MAX largest losses."""
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
            **asdict(scores),
            "precision": astuple(scores.precision),
            "precision_is_lower_bound": self.lower_bound,
            "recall": astuple(scores.recall),
            "f1": astuple(scores.f1),
            "false_per_million": scores.false_per_million,
            "cpu_us_per_document": self.cpu_us_per_document,
            "extends": self.extends,
            "new": self.lost,
            "most_new": [loss._asdict() for loss in self.losses[:EXAMPLES_MAX]],
            "sentences": self.sentences and self.sentences.as_json(),
        }

    @property
    def lost(self) -> dict[str, float] | None:
        """Spread of the losses; None without any."""
        return spread(np.array([loss.new for loss in self.losses]))


def table(evaluations: Sequence[Evaluation]) -> RenderableType:
    """A row per setting and set, and below them the largest losses of each."""
    title = (
        "95% confidence intervals: Wilson for precision and recall, bootstrap for F1. CPU: microseconds per document."
    )
    figures_shown = (*_FIGURES, "extends", "new p50, p95, p99, worst", LOST)
    folding = {*_INTERVALS, *figures_shown[len(_FIGURES) + 1 :]}
    rows = PlainTable(
        "set", "setting", *figures_shown, ids=("set",), right=figures_shown[1:], folding=folding, title=title
    )
    most: list[str] = []
    for each in evaluations:
        figures = _figures(each.parameters, each.scores, each.cpu_us_per_document, lower_bound=each.lower_bound)
        lost = ", ".join(f"{share:.3f}" for share in (each.lost or {}).values())
        sentences = "" if each.sentences is None else f"{each.sentences.per_10_000:,.1f}"
        rows.add_row(each.set_name, each.setting, *figures, each.extends, lost, sentences)
        of_row = [f"{loss.document} of {loss.original} {loss.new:.3f}" for loss in each.losses[:SHOWN_MAX]]
        most += [f"Most new text dropped, {each.set_name}, {each.setting}: {', '.join(of_row)}"] if of_row else []
    return Group(rows, *map(Text, most))


def trial_table(tried: Sequence[Trial], chosen: Trial) -> PlainTable:
    """Each method's best threshold, and the chosen one."""
    title = "95% confidence intervals. CPU: microseconds per document. * recommended"
    names, right = ("", "fingerprints"), (*_FIGURES[1:], LOST)
    rows = PlainTable(*names, *_FIGURES, LOST, ids=names, right=right, folding=(*_INTERVALS, LOST), title=title)
    for name in dict.fromkeys(trial.name for trial in tried):
        of_name = [trial for trial in tried if trial.name == name]
        highest = max(of_name, key=lambda trial: trial.scores.f1.value)
        for trial in (each for each in of_name if each is highest or each is chosen):
            figures = _figures(trial.parameters, trial.scores, trial.cpu_us_per_document)
            rows.add_row("*" if trial is chosen else "", name, *figures, f"{trial.sentences.per_10_000:,.1f}")
    return rows


def _figures(parameters: Parameters, scores: Scores, cpu_us: float, *, lower_bound: bool = False) -> list[str]:
    """Cells of the figures' columns."""
    return [
        rule(parameters),
        ("≥ " if lower_bound else "") + _shown(scores.precision),
        _shown(scores.recall),
        _shown(scores.f1),
        f"{scores.false_per_million:,.0f}",
        f"{cpu_us:,.0f}",
    ]


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
        f"  {trial.sentences.per_10_000:,.1f} of 10,000 sentences are in no kept document",
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
    """HTML with a histogram per setting and set."""
    text = (
        "Each bar is a share of the duplicates or of the other documents, by distance to the nearest earlier document or to "
        "the other document in the pair. The unit is bits for SimHash, and similarity for MinHash and with metadata. The "
        "nearest are on the left. The filter calls everything left of the vertical line a duplicate. The curves below show "
        "precision, recall and F1 for every position of that line. Documents that can never match have no bar; with them, the "
        "shares of a colour add up to 1."
    )
    parts: list[str] = []
    for each in evaluations:
        scores = each.scores
        parts += [
            f"<h2>{html.escape(each.set_name)}: {html.escape(each.setting)}</h2>",
            f"<p>duplicate if {rule(each.parameters)}: precision {'≥ ' if each.lower_bound else ''}"
            f"{_shown(scores.precision)}, recall {_shown(scores.recall)}, F1 {_shown(scores.f1)}</p>",
            histogram(each),
            lines(each),
        ]
    return _page("Distances of duplicates and other documents", text, parts)


def timing_page(measured: Sequence[Timing], parameters: Parameters) -> str:
    """HTML page with decision times by number of documents."""
    text = (
        f"duplicate if {rule(parameters)}. With the index: the whole decision, including the journal on disk. Without: only "
        "the comparison with all other fingerprints. Both axes are logarithmic."
    )
    return _page("Time of a decision by number of documents", text, [drawn_times(measured)])


def short_page(rates: Sequence[Misjudged], parameters: Parameters) -> str:
    """HTML page with miss rates by text length."""
    text = "Share of texts whose copy with one replaced word is not a duplicate, by the fingerprint alone."
    return _page("Short texts with one word replaced", text, [drawn_short(rates, parameters)])


def _page(title: str, text: str, parts: Sequence[str]) -> str:
    """A page with a title, a paragraph, and parts of HTML."""
    head = (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>\n"
        "<style>body{font:15px system-ui,sans-serif;max-width:760px;margin:2em auto;color:#1f2937}"
        "h2{font-size:1.05em;margin:2em 0 .2em}p{margin:.2em 0 .6em}svg{width:100%;height:auto}</style>\n"
        f"<h1>{title}</h1>\n<p>{text}</p>\n"
    )
    return head + "\n".join(parts) + "\n</html>\n"


def histogram(evaluation: Evaluation) -> str:
    """SVG histogram with shares for duplicates and different documents, the nearest on the left.

    Bars: one per bit, or SIMILARITY_BARS. Raises ValueError without distances.
    """
    scale, distances = _scale(evaluation.parameters), _distances(evaluation)
    shares = {}
    for name, rows in (("duplicates", evaluation.truth.duplicate), ("different", evaluation.truth.different)):
        counts = np.bincount(scale.bars_of(distances[rows]), minlength=scale.bars + 1)[: scale.bars]
        shares[name] = counts / max(int(rows.sum()), 1)
    highest = max(float(share.max()) for share in shares.values()) or 1.0
    chart = Chart(f"shares by {scale.title}", scale.border / scale.bars)
    for side, (name, share) in enumerate(shares.items()):
        bars = [
            ((bar + side * 0.45 + 0.05) / scale.bars, value / highest, f"{name}, {scale.label(bar)}: {value:.4f}")
            for bar, value in enumerate(share.tolist())
            if value
        ]
        chart.bars(name, 0.45 / scale.bars, bars)
    chart.marks_across((place / scale.bars, mark) for place, mark in scale.marks)
    chart.marks_up([(1.0, f"{highest:.2f}")])
    return chart.svg(scale.title)


def lines(evaluation: Evaluation) -> str:
    """SVG with precision, recall and F1 on the histogram's axis. Raises ValueError without distances."""
    scale, distances = _scale(evaluation.parameters), _distances(evaluation)
    # A row counts from its bar's end on.
    places, thresholds = scale.bars_of(distances).astype(np.float64), np.arange(scale.bars, dtype=np.float64)
    points = curve(places, evaluation.truth, thresholds)
    return drawn(points, f"threshold: {scale.title}", scale.marks, scale.border)


def _distances(evaluation: Evaluation) -> npt.NDArray[np.int64]:
    if evaluation.distances is None:
        raise ValueError("an evaluation without distances cannot be drawn")
    return evaluation.distances


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


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4f} ({interval.low:.3f}-{interval.high:.3f})"
