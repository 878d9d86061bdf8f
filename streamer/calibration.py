"""Which recipe and distance fit a person's own documents, of which nobody has said what is a duplicate of what.

Near-duplicates are made: each document gets a copy with one edit of the kinds that editors and crawlers make. Whether a
copy still is a duplicate, and whether two documents of the sample that stand near each other are, is decided by the
exact Jaccard similarity of their character shingles. So the figures say how settings compare on these documents; how
often real duplicates are found depends on what is really done to them.
"""

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index.admission import Index
from index.entry import Entries, Source
from index.parameters import DISTANCE_MAX, Parameters
from streamer.config import Settings
from streamer.demo_documents import Dice
from streamer.evaluation import (
    DUPLICATE_MIN,
    UNIQUE_BELOW,
    Scores,
    Truth,
    nearest_earlier,
    pair_distances,
    score,
)
from streamer.fingerprint import Fingerprinter, Fingerprints
from streamer.text import normalise

EDITS = ("figure", "typo", "dropped", "moved", "framed")
"""What is done to copies: a digit changed, two letters swapped, a sentence left out, moved, one of another text added."""

SHINGLE_CHARACTERS = 5

# Whatever ends a sentence, line breaks included, belongs to it, so that sentences joined are the text.
_SENTENCE = re.compile(r"[^\n。！？!?.]*(?:[。！？!?.\n]\s*|$)")
_DIGIT = re.compile(r"[0-9]")
_TWO_LETTERS = re.compile(r"(?=([^\W\d_])(?!\1)[^\W\d_])")


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents (title, text), and for every one a copy of its text and whether that is a duplicate of it still."""

    documents: Sequence[tuple[str, str]]
    copies: Sequence[str]
    copy_is_duplicate: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trial:
    """What one recipe, one length and one distance did on a sample."""

    recipe: str
    bits: int
    distance_max: int
    scores: Scores
    microseconds_per_document: float


def make_sample(documents: Sequence[tuple[str, str]], seed: int = 2026) -> Sample:
    """Copy every document with one edit, every edit alike often; the same for a seed on every machine."""
    dice = Dice(seed)
    copies = []
    for number, (_, text) in enumerate(documents):
        other = documents[dice.number(0, len(documents) - 1)][1]
        copies.append(edited(text, EDITS[number % len(EDITS)], other, dice))
    alike = [similarity(text, copy) >= DUPLICATE_MIN for (_, text), copy in zip(documents, copies, strict=True)]
    return Sample(documents, copies, np.array(alike, np.bool_))


def edited(text: str, edit: str, other: str, dice: Dice) -> str:
    """The text with one edit; as it is where it has nothing to be edited (no digit, one sentence)."""
    if edit in ("figure", "typo"):
        places = [match.start() for match in (_DIGIT if edit == "figure" else _TWO_LETTERS).finditer(text)]
        if not places:
            return text
        at = dice.one(places)
        if edit == "figure":
            return f"{text[:at]}{(int(text[at]) + dice.number(1, 9)) % 10}{text[at + 1 :]}"
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if edit == "framed":
        return text + "\n" + dice.one(_sentences(other) or [""])
    sentences = _sentences(text)
    if len(sentences) < 2:
        return text
    taken = sentences.pop(dice.number(0, len(sentences) - 1))
    return "".join(sentences) + (taken if edit == "moved" else "")


def similarity(one: str, other: str) -> float:
    """Jaccard similarity of the sets of SHINGLE_CHARACTERS consecutive characters of the normal forms; 1 of nothing."""
    left, right = _shingles(one), _shingles(other)
    return len(left & right) / len(left | right) if left or right else 1.0


def trials(settings: Sequence[Settings], sample: Sample) -> Iterator[Trial]:
    """Every setting with every distance from 0 to the largest that the index knows."""
    titles, texts = [title for title, _ in sample.documents], [text for _, text in sample.documents]
    similarities: dict[tuple[int, int], float] = {}
    for each in settings:
        fingerprinter = Fingerprinter(each.fingerprint)
        fingerprinter.fingerprint(texts[:1], titles[:1])
        begin = time.perf_counter()
        prints = fingerprinter.fingerprint(texts, titles)
        seconds = time.perf_counter() - begin
        nearest, rows = nearest_earlier(prints)
        different = np.ones(len(texts), np.bool_)
        for row in np.flatnonzero(nearest <= DISTANCE_MAX).tolist():
            pair = row, int(rows[row])
            if pair not in similarities:
                similarities[pair] = similarity(texts[pair[0]], texts[pair[1]])
            different[row] = similarities[pair] < UNIQUE_BELOW
        distances = np.concatenate([pair_distances(prints, fingerprinter.fingerprint(sample.copies, titles)), nearest])
        nothing = np.zeros(len(texts), np.bool_)
        truth = Truth(np.concatenate([sample.copy_is_duplicate, nothing]), np.concatenate([nothing, different]))
        for distance_max in range(DISTANCE_MAX + 1):
            yield Trial(
                each.fingerprint.recipe,
                each.fingerprint.bits,
                distance_max,
                score(distances, truth, distance_max),
                seconds / len(texts) * 1e6,
            )


def best(found: Sequence[Trial], false_per_million_max: float) -> Trial:
    """The highest F1 among the trials with so few false duplicates, else of those with the fewest.

    Of equal ones the smaller distance, the shorter fingerprint, the one tried first: each costs less.
    """
    limit = max(false_per_million_max, min(trial.scores.false_per_million for trial in found))
    allowed = [trial for trial in found if trial.scores.false_per_million <= limit]
    return min(allowed, key=lambda trial: (-trial.scores.f1.value, trial.distance_max, trial.bits))


def index_bytes_per_document(prints: Fingerprints, bits: int, distance_max: int) -> float:
    """What an index of these documents takes on disk, divided by their number; a large index takes less for each."""
    source, count = Source("calibration", 0), len(prints)
    with (
        tempfile.TemporaryDirectory(prefix="calibration-") as folder,
        Index.open(Path(folder), Parameters(bits, distance_max, "all", {}), map_bytes_max=2**36) as index,
    ):
        index.admit(
            Entries(
                sources=(source,),
                source_numbers=np.zeros(count, np.uint32),
                offsets=np.arange(count, dtype=np.uint64),
                kinds=prints.kinds,
                reasons=prints.reasons,
                fingerprints=prints.fingerprints,
                times_ms=np.zeros(count, np.int64),
                ids=[str(row) for row in range(count)],
            ),
            {source: count},
        )
        return index.statistics().used_bytes / count


def fragment(chosen: Trial) -> str:
    """The settings of a trial as TOML, ready to paste."""
    return f'[fingerprint]\nrecipe = "{chosen.recipe}"\nbits = {chosen.bits}\n\n[index]\ndistance_max = {chosen.distance_max}\n'


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _shingles(text: str) -> set[str]:
    normal = normalise(text)
    return {normal[at : at + SHINGLE_CHARACTERS] for at in range(max(1, len(normal) - SHINGLE_CHARACTERS + 1))} - {""}
