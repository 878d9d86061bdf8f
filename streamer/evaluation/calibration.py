"""Selects the method and threshold for a user's documents.

Without labelled pairs, each document gets a copy with a few edits. The truth is the exact Jaccard similarity by
character shingles. So the figures compare settings; recall on real duplicates depends on their real differences.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced

import numpy as np
import numpy.typing as npt

from index import DISTANCE_MAX, Kind, Parameters
from index.tools import compile_kernels
from streamer.evaluation.dice import Dice
from streamer.evaluation.scores import DUPLICATE_MIN, UNIQUE_BELOW, Scores, Truth, admit, pairs_flagged, score
from streamer.evaluation.sentences import NO_SENTENCES, Hashes, Sentences, SentencesLost, sentences_of
from streamer.evaluation.sets import Documents, EvaluationSet
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.reason import Reason
from streamer.settings.settings import Fingerprint, Minhash, SecondLook, Settings, without_use
from streamer.settings.toml import sections_as_toml
from streamer.text.normalisation import Normaliser

EDITS = ("figure", "typo", "dropped", "moved", "framed")
"""Edits for copies: a digit changed; two letters swapped; a sentence dropped, moved, or added from another text."""

EDITS_MAX = 4
"""Most edits per copy; all numbers from 1 on are equally frequent."""

INDEX_DOCUMENTS = 20_000
"""Documents in the index that measures bytes per document."""

SIMILARITIES_TRIED = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)

SHINGLE_CHARACTERS = 5

F1_WORTH_LOSING = 0.01
"""F1 that settings may lack if they lose fewer sentences: on made-up copies a smaller difference means nothing."""

# A sentence includes its final punctuation and line breaks, so joined sentences equal the text.
_SENTENCE = re.compile(r"[^\n。！？!?.]*(?:[。！？!?.\n]\s*|$)")
_DIGIT = re.compile(r"[0-9]")
_TWO_LETTERS = re.compile(r"(?=([^\W\d_])(?!\1)[^\W\d_])")


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents and pairs for trials, without mark-up.

    documents     a stream; a match less similar than UNIQUE_BELOW is a false duplicate
    normal_forms  normalised documents, for `similarity`

    >>> from streamer.records.decode import Document
    >>> texts = [f"The ferry leaves the old harbour at {hour}. It returns at noon." for hour in range(9)]
    >>> sample = make_sample([Document(str(number), text) for number, text in enumerate(texts)], Normaliser(Fingerprint()))
    >>> [one.text == copy.text for one, copy in zip(*sample.pairs)].count(True)
    0
    """

    documents: Documents
    normal_forms: Sequence[str]
    pairs: tuple[Documents, Documents]
    truth: Truth


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting's result on a sample: scores, processor time per document, and lost sentences.

    >>> scores = Scores(true_duplicates=9, false_duplicates=1, missed=0, true_uniques=90)
    >>> Trial("simhash", Settings(), Parameters(bits=128), scores, cpu_us_per_document=80.0).name
    'simhash, 128 bits'
    """

    method: str
    settings: Settings
    parameters: Parameters
    scores: Scores
    cpu_us_per_document: float
    sentences: SentencesLost = NO_SENTENCES

    @property
    def name(self) -> str:
        """Method and fingerprint size."""
        if self.parameters.banding is not None:
            return f"{self.method}, {self.parameters.banding.bins} bins of {self.parameters.banding.bin_bits} bits"
        return f"{self.method}, {self.parameters.bits} bits"


def make_sample(documents: Documents, normaliser: Normaliser, seed: int = 2026) -> Sample:
    """Pair every document with an edited copy. Equal seeds give equal samples on every machine.

    All numbers of edits up to EDITS_MAX, and all kinds, are equally frequent.
    """
    dice = Dice(seed)
    documents = _plain(documents, normaliser)
    copies = []
    for number, document in enumerate(documents):
        copy = document.text
        for edit in range(1 + number % EDITS_MAX):
            other = documents[dice.number(0, len(documents) - 1)].text
            copy = edited(copy, EDITS[(number // EDITS_MAX + edit) % len(EDITS)], other, dice)
        copies.append(replaced(document, text=copy))
    normal_forms, copied_forms = _normal_forms(documents, normaliser), _normal_forms(copies, normaliser)
    alike = [similarity(one, other) >= DUPLICATE_MIN for one, other in zip(normal_forms, copied_forms, strict=True)]
    truth = Truth(np.array(alike, np.bool_), np.zeros(len(alike), np.bool_))
    return Sample(documents, normal_forms, (documents, copies), truth)


def labelled_sample(documents: Documents, pairs: EvaluationSet, normaliser: Normaliser) -> Sample:
    """Sample with documents, for false duplicates, and labelled pairs."""
    documents = _plain(documents, normaliser)
    sides = _plain(pairs.documents, normaliser), _plain(pairs.others or (), normaliser)
    return Sample(documents, _normal_forms(documents, normaliser), sides, pairs.truth)


def edited(text: str, edit: str, other: str, dice: Dice) -> str:
    """Apply an edit from EDITS, if possible.

    other  source of the sentence that `framed` adds
    """
    if edit in ("figure", "typo"):
        places = [match.start() for match in (_DIGIT if edit == "figure" else _TWO_LETTERS).finditer(text)]
        if not places:
            return text
        at = dice.one(places)
        if edit == "figure":
            return f"{text[:at]}{(int(text[at]) + dice.number(1, 9)) % 10}{text[at + 1 :]}"
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if edit == "framed":
        return text + "\n" + dice.one(sentences(other) or [""])
    kept = sentences(text)
    if len(kept) < 2:
        return text
    taken = kept.pop(dice.number(0, len(kept) - 1))
    return "".join(kept) + (taken if edit == "moved" else "")


def similarity(one: str, other: str) -> float:
    """Jaccard similarity by runs of SHINGLE_CHARACTERS characters; 1 for two empty texts.

    >>> similarity("abcdef", "abcdeg")
    0.3333333333333333
    """
    left, right = shingles(one), shingles(other)
    return len(left & right) / len(left | right) if left or right else 1.0


def at_every_threshold(settings: Settings) -> Iterator[Settings]:
    """Vary `distance_max` over all values, or `similarity_min` over SIMILARITIES_TRIED.

    With metadata, `similarity_min` takes the value that each distance reaches.
    """
    if settings.fingerprint.scheme == "minhash":
        for similarity_min in SIMILARITIES_TRIED:
            yield settings.replaced(minhash={"similarity_min": similarity_min})
        return
    for distance_max in range(DISTANCE_MAX + 1):
        at = settings.replaced(index={"distance_max": distance_max})
        if settings.fingerprint.second_look == "metadata":
            mu = settings.second_look.content_weight
            at = at.replaced(second_look={"similarity_min": round(mu / (1 + distance_max) + 1 - mu, 4)})
        yield at


def trials(configurations: Iterable[tuple[str, Settings]], sample: Sample) -> Iterator[Trial]:
    """Try every (method name, settings) at every threshold, with `insert = unique` and without `index.longer`.

    The sample has no mark-up, so times exclude its removal.
    """
    # Load the kernels before the first trial's clock starts.
    compile_kernels()
    count = len(sample.documents)
    sentences = sentences_of([each.text for each in sample.documents], Normaliser(Fingerprint()))
    similarities: dict[tuple[int, int], float] = {}
    for method, configuration in configurations:
        # Scopes part a stream and change no threshold: copies of the sample are compared whatever their scope.
        scheme = scheme_for(configuration.replaced(fingerprint={"markup": "none"}, decode={"scope": None}))
        fingerprint_documents(scheme, sample.documents[:1])
        begin = time.process_time()
        fingerprints = fingerprint_documents(scheme, sample.documents)
        seconds = time.process_time() - begin
        left, right = (fingerprint_documents(scheme, side) for side in sample.pairs)
        for settings in at_every_threshold(configuration):
            parameters = replaced(parameters_for(settings, scheme.stamp()), insert="unique", root=None, frames=None)
            admitted = admit(fingerprints, parameters)
            different = np.ones(count, np.bool_)
            for row in np.flatnonzero(admitted.originals >= 0).tolist():
                pair = row, int(admitted.originals[row])
                if pair not in similarities:
                    similarities[pair] = similarity(sample.normal_forms[pair[0]], sample.normal_forms[pair[1]])
                different[row] = similarities[pair] < UNIQUE_BELOW
            truth = Truth(
                np.concatenate([sample.truth.duplicate, np.zeros(count, np.bool_)]),
                np.concatenate([sample.truth.different, different]),
            )
            flagged = np.concatenate([pairs_flagged(left, right, parameters), admitted.originals >= 0])
            cpu_us = (seconds + admitted.cpu_seconds) / count * 1e6
            lost = _lost(sentences, admitted.originals < 0)
            yield Trial(method, settings, parameters, score(flagged, truth), cpu_us, lost)


def _lost(sentences: tuple[Hashes, npt.NDArray[np.int64]], kept: npt.NDArray[np.bool_]) -> SentencesLost:
    hashes, bounds = sentences
    seen = Sentences()
    seen.add(hashes, np.repeat(kept, np.diff(bounds)))
    return seen.lost()


def best(tried: Sequence[Trial], false_per_million_max: float) -> Trial:
    """The fewest lost sentences among trials with an F1 of at least the highest less F1_WORTH_LOSING.

    Only trials within `false_per_million_max` count, else those with the fewest false duplicates. Ties go to the highest F1,
    the shortest fingerprint, the earliest configuration, and the (stricter) middle threshold: it is safest
    on other documents.
    """
    limit = max(false_per_million_max, min(trial.scores.false_per_million for trial in tried))
    allowed = [trial for trial in tried if trial.scores.false_per_million <= limit]
    highest = max(trial.scores.f1.value for trial in allowed)
    good = [trial for trial in allowed if trial.scores.f1.value >= highest - F1_WORTH_LOSING]
    rank = min((trial.sentences.per_10_000, -trial.scores.f1.value) for trial in good)
    equal = [trial for trial in good if (trial.sentences.per_10_000, -trial.scores.f1.value) == rank]
    shortest = min(equal, key=lambda trial: trial.parameters.bits)
    same_way = [trial for trial in equal if trial.name == shortest.name]
    same_way.sort(key=lambda trial: trial.parameters.distance_max)
    return same_way[(len(same_way) - 1) // 2]


def index_bytes_per_document(parameters: Parameters) -> float:
    """Bytes per document in an index with INDEX_DOCUMENTS random fingerprints and short ids."""
    random = np.random.default_rng(2026)
    fingerprints = Fingerprints(
        np.full(INDEX_DOCUMENTS, Kind.NEAR, np.uint8),
        np.full(INDEX_DOCUMENTS, Reason.ORDINARY, np.uint8),
        random.integers(0, 2**64, (INDEX_DOCUMENTS, parameters.words), np.uint64),
        np.zeros(INDEX_DOCUMENTS, np.int32),
        random.integers(0, 256, (INDEX_DOCUMENTS, parameters.look_bytes), np.uint8) if parameters.look_bytes else None,
    )
    return admit(fingerprints, parameters).bytes_per_document


def fragment(settings: Settings) -> str:
    """TOML settings with the same scheme, second look and threshold, and every effective key without its default."""
    idle = without_use(settings)
    chosen, minhash = settings.fingerprint, settings.minhash
    defaults = Fingerprint(scheme=chosen.scheme)
    assignments: list[tuple[str, object]] = [("scheme", chosen.scheme)]
    assignments += [(key, value) for key, value in chosen if value != getattr(defaults, key) and key != "second_look"]
    assignments = [(key, value) for key, value in assignments if f"fingerprint.{key}" not in idle]
    sections: dict[str, list[tuple[str, object]]] = {"fingerprint": assignments}
    if chosen.scheme == "minhash":
        others = [
            (key, value) for key, value in minhash if value != getattr(Minhash(), key) and key != "similarity_min"
        ]
        sections["minhash"] = [("similarity_min", minhash.similarity_min), *others]
    else:
        assignments.append(("second_look", chosen.second_look))
        sections["index"] = [("distance_max", settings.index.distance_max)]
        look = [(key, value) for key, value in settings.second_look if value != getattr(SecondLook(), key)]
        if look:
            sections["second_look"] = look
        if chosen.second_look == "metadata":
            sections["decode"] = [("metadata", settings.decode.metadata)]
    return sections_as_toml(sections)


def sentences(text: str) -> list[str]:
    """Split a text into sentences, with their punctuation and line breaks.

    >>> sentences("One. Two!")
    ['One. ', 'Two!']
    """
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _plain(documents: Documents, normaliser: Normaliser) -> Documents:
    texts = normaliser.without_markup([each.text for each in documents])
    return [replaced(each, text=text) for each, text in zip(documents, texts, strict=True)]


def _normal_forms(documents: Documents, normaliser: Normaliser) -> list[str]:
    return [normaliser.normal_form(each.text) for each in documents]


def shingles(form: str) -> set[str]:
    """All runs with SHINGLE_CHARACTERS characters; a shorter text is one."""
    return {form[at : at + SHINGLE_CHARACTERS] for at in range(max(1, len(form) - SHINGLE_CHARACTERS + 1))} - {""}
