"""Which scheme, recipe and limit fit a person's own documents.

Where nobody has said what is a duplicate of what, near-duplicates are made: each document gets a copy with a few edits of
the kinds that editors and crawlers make. Whether a copy still is a duplicate, and whether two documents of the sample
that stand near each other are, is decided by the exact Jaccard similarity of their character shingles. So the figures say
how settings compare on these documents; how often real duplicates are found depends on what is really done to them.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced

import numpy as np

from index.entry import Kind
from index.storage.parameters import DISTANCE_MAX, Parameters
from index.tools.warm_up import compile_kernels
from streamer.evaluation.dice import Dice
from streamer.evaluation.scores import DUPLICATE_MIN, UNIQUE_BELOW, Scores, Truth, admit, pairs_flagged, score
from streamer.evaluation.sets import Documents, fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.reason import Reason
from streamer.settings.reference import assignment
from streamer.settings.settings import Fingerprint, Minhash, Settings, without_use
from streamer.text.normalisation import Normaliser

EDITS = ("figure", "typo", "dropped", "moved", "framed")
"""What is done to copies: a digit changed, two letters swapped, a sentence left out, moved, one of another text added."""

EDITS_MAX = 4
"""A copy gets one edit to so many, alike often."""

INDEX_DOCUMENTS = 20_000
"""The cost on disk is that of an index of so many documents."""

SIMILARITIES_TRIED = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)

SHINGLE_CHARACTERS = 5

# Whatever ends a sentence, line breaks included, belongs to it, so that sentences joined are the text.
_SENTENCE = re.compile(r"[^\n。！？!?.]*(?:[。！？!?.\n]\s*|$)")
_DIGIT = re.compile(r"[0-9]")
_TWO_LETTERS = re.compile(r"(?=([^\W\d_])(?!\1)[^\W\d_])")


@dataclass(frozen=True, slots=True)
class Sample:
    """What settings are tried on.

    documents  a stream, mark-up taken off; a document that is flagged though it resembles its original less than
               UNIQUE_BELOW is a false duplicate
    forms      their normal forms, by which they resemble one another
    pairs      two sides of pairs, mark-up taken off
    truth      of the pairs
    """

    documents: Documents
    forms: Sequence[str]
    pairs: tuple[Documents, Documents]
    truth: Truth


@dataclass(frozen=True, slots=True)
class Trial:
    """What one setting did on a sample, and the microseconds of processor time that a document takes."""

    settings: Settings
    parameters: Parameters
    scores: Scores
    cpu_us_per_document: float

    @property
    def name(self) -> str:
        """How the fingerprints are made."""
        if self.parameters.banding is not None:
            return f"minhash, {self.parameters.banding.bins} bins of {self.parameters.banding.bin_bits} bits"
        return f"simhash, {self.settings.fingerprint.recipe}, {self.parameters.bits} bits"


def make_sample(documents: Documents, normaliser: Normaliser, seed: int = 2026) -> Sample:
    """Pair every document with an edited copy of it; the same for a seed on every machine.

    One edit to EDITS_MAX of them, every number and every kind alike often. The pair is a duplicate if the similarity of
    the two is DUPLICATE_MIN or more, else it counts neither way.
    """
    dice = Dice(seed)
    documents = _plain(documents, normaliser)
    copies = []
    for number, (title, text) in enumerate(documents):
        copy = text
        for edit in range(1 + number % EDITS_MAX):
            other = documents[dice.number(0, len(documents) - 1)][1]
            copy = edited(copy, EDITS[(number // EDITS_MAX + edit) % len(EDITS)], other, dice)
        copies.append((title, copy))
    forms = _forms(documents, normaliser)
    alike = [
        similarity(one, other) >= DUPLICATE_MIN for one, other in zip(forms, _forms(copies, normaliser), strict=True)
    ]
    truth = Truth(np.array(alike, np.bool_), np.zeros(len(alike), np.bool_))
    return Sample(documents, forms, (documents, copies), truth)


def labelled_sample(
    documents: Documents, pairs: tuple[Documents, Documents], truth: Truth, normaliser: Normaliser
) -> Sample:
    """Documents in which false duplicates are looked for, and pairs of which somebody has said what they are."""
    documents = _plain(documents, normaliser)
    sides = _plain(pairs[0], normaliser), _plain(pairs[1], normaliser)
    return Sample(documents, _forms(documents, normaliser), sides, truth)


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
    """Jaccard similarity of the sets of SHINGLE_CHARACTERS consecutive characters of two normal forms; 1 of nothing."""
    left, right = _shingles(one), _shingles(other)
    return len(left & right) / len(left | right) if left or right else 1.0


def limits(settings: Settings) -> Iterator[Settings]:
    """The settings with every limit that may make a duplicate: all distances that the index knows, or SIMILARITIES_TRIED."""
    if settings.fingerprint.scheme == "simhash":
        for distance_max in range(DISTANCE_MAX + 1):
            yield settings.model_copy(
                update={"index": settings.index.model_copy(update={"distance_max": distance_max})}
            )
    else:
        for similarity_min in SIMILARITIES_TRIED:
            yield settings.model_copy(
                update={"minhash": settings.minhash.model_copy(update={"similarity_min": similarity_min})}
            )


def trials(ways: Iterable[Settings], sample: Sample) -> Iterator[Trial]:
    """Every way to make fingerprints with all of its `limits`, decided by the index with `insert = unique`.

    The mark-up is off already, and what taking it off costs is not counted.
    """
    # What a process takes to load its machine code is no trial's cost.
    compile_kernels()
    count = len(sample.documents)
    similarities: dict[tuple[int, int], float] = {}
    for way in ways:
        scheme = scheme_for(
            way.model_copy(update={"fingerprint": way.fingerprint.model_copy(update={"markup": "none"})})
        )
        fingerprint_documents(scheme, sample.documents[:1])
        begin = time.process_time()
        prints = fingerprint_documents(scheme, sample.documents)
        seconds = time.process_time() - begin
        left, right = (fingerprint_documents(scheme, side) for side in sample.pairs)
        for settings in limits(way):
            parameters = replaced(parameters_for(settings, scheme.stamp()), insert="unique")
            admitted = admit(prints, parameters)
            different = np.ones(count, np.bool_)
            for row in np.flatnonzero(admitted.originals >= 0).tolist():
                pair = row, int(admitted.originals[row])
                if pair not in similarities:
                    similarities[pair] = similarity(sample.forms[pair[0]], sample.forms[pair[1]])
                different[row] = similarities[pair] < UNIQUE_BELOW
            truth = Truth(
                np.concatenate([sample.truth.duplicate, np.zeros(count, np.bool_)]),
                np.concatenate([sample.truth.different, different]),
            )
            flagged = np.concatenate([pairs_flagged(left, right, parameters), admitted.originals >= 0])
            yield Trial(
                settings,
                parameters,
                score(flagged, truth),
                (seconds + admitted.cpu_seconds) / count * 1e6,
            )


def best(found: Sequence[Trial], false_per_million_max: float) -> Trial:
    """The highest F1 among the trials with so few false duplicates, else of those with the fewest.

    Of equal ones the shortest fingerprint, the way tried first, and of its limits the one in the middle, rather the
    stricter: the sample cannot tell them apart, and what lies between two that are as good is the safest on other
    documents.
    """
    limit = max(false_per_million_max, min(trial.scores.false_per_million for trial in found))
    allowed = [trial for trial in found if trial.scores.false_per_million <= limit]
    highest = max(trial.scores.f1.value for trial in allowed)
    equal = [trial for trial in allowed if trial.scores.f1.value == highest]
    shortest = min(equal, key=lambda trial: trial.parameters.bits)
    same_way = [trial for trial in equal if trial.name == shortest.name]
    same_way.sort(key=lambda trial: trial.parameters.distance_max)
    return same_way[(len(same_way) - 1) // 2]


def index_bytes_per_document(parameters: Parameters) -> float:
    """What a document takes on disk in an index of INDEX_DOCUMENTS random fingerprints, with ids of a few letters."""
    random = np.random.default_rng(2026)
    prints = Fingerprints(
        np.full(INDEX_DOCUMENTS, Kind.NEAR, np.uint8),
        np.full(INDEX_DOCUMENTS, Reason.ORDINARY, np.uint8),
        random.integers(0, 2**64, (INDEX_DOCUMENTS, parameters.words), np.uint64),
        np.zeros(INDEX_DOCUMENTS, np.int32),
    )
    return admit(prints, parameters).bytes_per_document


def fragment(settings: Settings) -> str:
    """What to paste into a settings file so that it makes and compares fingerprints as these settings do, as TOML.

    Scheme and limit always, of all else what is not as shipped (or as the recipe says) and has an effect.
    """
    idle = without_use(settings)
    chosen, minhash = settings.fingerprint, settings.minhash
    usual = Fingerprint(recipe=chosen.recipe, scheme=chosen.scheme)
    told: list[tuple[str, object]] = [("scheme", chosen.scheme)] + (
        [("recipe", chosen.recipe)] if chosen.recipe != "default" else []
    )
    told += [(key, value) for key, value in chosen if value != getattr(usual, key)]
    told = [(key, value) for key, value in told if f"fingerprint.{key}" not in idle]
    sections: dict[str, list[tuple[str, object]]] = {"fingerprint": told}
    if chosen.scheme == "minhash":
        others = [
            (key, value) for key, value in minhash if value != getattr(Minhash(), key) and key != "similarity_min"
        ]
        sections["minhash"] = [("similarity_min", minhash.similarity_min), *others]
    else:
        sections["index"] = [("distance_max", settings.index.distance_max)]
    parts = [
        "\n".join([f"[{name}]", *(assignment(key, value) for key, value in rows)]) for name, rows in sections.items()
    ]
    return "\n\n".join(parts) + "\n"


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _plain(documents: Documents, normaliser: Normaliser) -> Documents:
    texts = normaliser.without_markup([text for _, text in documents])
    return [(title, text) for (title, _), text in zip(documents, texts, strict=True)]


def _forms(documents: Documents, normaliser: Normaliser) -> list[str]:
    """The normal forms of documents without mark-up; in one way of writing Chinese, if the settings ask for that."""
    return [normaliser.normal_form(text) for _, text in documents]


def _shingles(form: str) -> set[str]:
    return {form[at : at + SHINGLE_CHARACTERS] for at in range(max(1, len(form) - SHINGLE_CHARACTERS + 1))} - {""}
