"""Error rates on short texts by length and threshold, for one replaced word and for different texts.

In a short text, one word changes much of the fingerprint.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import DISTANCE_MAX, Parameters, minhash
from streamer.evaluation.calibration import sentences
from streamer.evaluation.chart import Chart, at_equal_steps
from streamer.evaluation.dice import Dice
from streamer.evaluation.scores import pair_distances
from streamer.fingerprint.scheme import Scheme
from streamer.text.characters import decode, fold
from streamer.text.segmentation import segmenter
from streamer.text.words import Words, split

LENGTHS = ((8, 12), (13, 20), (21, 30), (31, 45), (80, 120), (300, 500))
"""Least and most characters per row: the published range in four parts, and two for comparison."""

TEXTS_MAX = 2_000
"""Most texts per row."""

OTHERS = 10
"""Comparisons with other texts, per text."""

_SHINGLE_CHARACTERS = 2
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Misjudged:
    """Error rates for texts with similar lengths, by threshold.

    least, most  characters
    missed       float64 [thresholds], share of copies with one replaced word that are no duplicates
    false        float64 [thresholds], share of different pairs called duplicates

    >>> rates = Misjudged(20, 40, texts=100, missed=np.array([0.5, 0.1]), false=np.array([0.0, 0.2]))
    >>> [0.9, 0.7][(rates.missed + rates.false).argmin()]
    0.7
    """

    least: int
    most: int
    texts: int
    missed: npt.NDArray[np.float64]
    false: npt.NDArray[np.float64]

    def as_json(self, thresholds: Iterable[float]) -> dict[str, object]:
        """All fields, and the thresholds."""
        return {
            "characters": [self.least, self.most],
            "texts": self.texts,
            "thresholds": list(thresholds),
            "missed": self.missed.tolist(),
            "false": self.false.tolist(),
        }


def thresholds_of(parameters: Parameters) -> dict[float, int]:
    """Largest accepted distance by threshold (bits or similarities)."""
    if parameters.by_similarity:
        return {similarity: minhash.distance_of(similarity) for similarity in _SIMILARITIES}
    return {distance: distance for distance in range(DISTANCE_MAX + 1)}


def misjudged(texts: Sequence[str], scheme: Scheme, parameters: Parameters, seed: int = 2026) -> Iterator[Misjudged]:
    """One row for each of LENGTHS with at least two passages. Equal seeds give equal rows.

    texts  without mark-up; a passage is a run of whole sentences
    """
    dice, limits = Dice(seed), list(thresholds_of(parameters).values())
    for least, most in LENGTHS:
        passages = list(dict.fromkeys(passage for text in texts for passage in _passages(text, least, most)))
        folded = (fold([passage]) for passage in dice.shuffled(passages)[:TEXTS_MAX])
        chosen = [split(each, segmenter("compiled"), _SHINGLE_CHARACTERS) for each in folded]
        chosen = [each for each in chosen if len(each.starts)]
        count = len(chosen)
        vocabulary = sorted({word for each in chosen for word in each.strings()[0]})
        if count < 2 or len(vocabulary) < 2:
            continue
        copies = [_with_another_word(each, vocabulary, dice) for each in chosen]
        left, right = map(scheme.fingerprint, ([decode(each.codepoints) for each in chosen], copies))
        missed = pair_distances(left, right, parameters)[:, None] > limits
        shifts = dice.some(range(1, count), min(OTHERS, count - 1))
        others = [left.rows(np.roll(np.arange(count), shift)) for shift in shifts]
        false = np.stack([pair_distances(left, other, parameters)[:, None] <= limits for other in others])
        yield Misjudged(least, most, count, missed.mean(axis=0), false.mean(axis=(0, 1)))


def drawn(rates: Sequence[Misjudged], parameters: Parameters) -> str:
    """SVG with miss rates by length, a line per threshold."""
    title = (
        f"share missed by characters; a line for each threshold, {'similarity' if parameters.by_similarity else 'bits'}"
    )
    chart = Chart(title)
    for place, threshold in enumerate(thresholds_of(parameters)):
        chart.line(f"{threshold:g}", at_equal_steps([float(each.missed[place]) for each in rates]))
    chart.marks_across(((place + 1) / len(rates), f"{each.least}-{each.most}") for place, each in enumerate(rates))
    chart.marks_up((value, f"{value:g}") for value in (0, 0.5, 1))
    return chart.svg(title)


def _passages(text: str, least: int, most: int) -> Iterator[str]:
    passage = ""
    for sentence in sentences(text):
        passage = (passage + sentence).lstrip()
        length = len(passage.rstrip())
        if length >= least:
            if length <= most:
                yield passage.rstrip()
            passage = ""


def _with_another_word(passage: Words, vocabulary: Sequence[str], dice: Dice) -> str:
    place = dice.number(0, len(passage.starts) - 1)
    begin, word = int(passage.starts[place]), passage.strings()[0][place]
    other = dice.one(vocabulary)
    while other == word:
        other = dice.one(vocabulary)
    end = begin + int(passage.lengths[place])
    return decode(passage.codepoints[:begin]) + other + decode(passage.codepoints[end:])
