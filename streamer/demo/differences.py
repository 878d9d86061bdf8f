"""Documents with different verdicts by the two schemes, and the truth."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Any

from index import minhash as signatures
from streamer.demo.documents import label_of
from streamer.evaluation.scores import pair_distances, unreachable
from streamer.evaluation.sets import Documents
from streamer.explain.words import words
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Document
from streamer.settings.settings import Settings

COPY, OTHER = "a copy", "another text"


@dataclass(frozen=True, slots=True)
class Difference:
    """A document that only one scheme calls a near-duplicate.

    original    by that scheme
    similarity  MinHash's estimate; None for texts too short to compare
    distance    SimHash's distance in bits; None likewise
    truth       COPY or OTHER

    >>> Difference("en-0001-copy-1-typo", "en-0001", True, False, 0.9, 8, COPY).in_words()
    ('duplicate, 0.90', 'unique, 8 bits', 'a copy')
    """

    id: str
    original: str
    minhash: bool
    simhash: bool
    similarity: float | None
    distance: int | None
    truth: str

    def in_words(self, language: str = "en") -> tuple[str, str, str]:
        """Both schemes' verdicts on the pair, and the truth, in words."""
        said = words("demo", language)
        bits = said["bit"] if self.distance == 1 else said["bits"].format(count=self.distance)
        apart = said["too-short"] if self.distance is None else bits
        alike = said["too-short"] if self.similarity is None else f"{self.similarity:.2f}"
        truth = words("truths", language)["copy" if self.truth == COPY else "other"]
        return f"{_VERDICTS[self.minhash]}, {alike}", f"{_VERDICTS[self.simhash]}, {apart}", truth


_VERDICTS = {True: "duplicate", False: "unique"}


def differences(
    minhash: Sequence[Mapping[str, Any]],
    simhash: Sequence[Mapping[str, Any]],
    by_id: Mapping[str, tuple[str, str]],
    settings: Mapping[str, Settings],
) -> list[Difference]:
    """Documents that are a `duplicate` by only one scheme, in order.

    minhash, simhash  verdict lines on the same documents
    by_id             title and text
    """
    differing = [
        (one["verdict"] == "duplicate", one if one["verdict"] == "duplicate" else other)
        for one, other in zip(minhash, simhash, strict=True)
        if (one["verdict"] == "duplicate") != (other["verdict"] == "duplicate")
    ]
    pairs = [(verdict["id"], verdict["original"]) for _, verdict in differing]
    documents = {id_: Document(id_, text, title) for id_, (title, text) in by_id.items()}
    left, right = ([documents[pair[side]] for pair in pairs] for side in (0, 1))
    units, bits = (_distances(left, right, settings[scheme]) for scheme in ("minhash", "simhash"))
    return [
        Difference(
            *pair,
            minhash=by_minhash,
            simhash=not by_minhash,
            similarity=None if of_units is None else signatures.similarity_of(of_units),
            distance=apart,
            truth=_truth(*pair),
        )
        for pair, (by_minhash, _), of_units, apart in zip(pairs, differing, units, bits, strict=True)
    ]


def shown_first(differing: Sequence[Difference], count: int) -> list[Difference]:
    """The first `count` differences: wrong matches before missed copies, alternating kinds (edit, language, scheme).

    Matches with the article precede matches with a copy.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    ranks = []
    for place, each in sorted(
        enumerate(differing), key=lambda item: label_of(item[1].original) != (item[1].original, None)
    ):
        label = label_of(each.id)
        kind = (each.truth, each.minhash, label and label.edit, each.id[:2])
        seen[kind] += 1
        ranks.append((each.truth == COPY, seen[kind], place))
    return [differing[place] for *_, place in sorted(ranks)[:count]]


def _distances(left: Documents, right: Documents, settings: Settings) -> list[int | None]:
    scheme = scheme_for(settings)
    parameters = replaced(parameters_for(settings, scheme.stamp()), look=None)
    apart = pair_distances(fingerprint_documents(scheme, left), fingerprint_documents(scheme, right), parameters)
    return [None if distance == unreachable(parameters) else distance for distance in apart.tolist()]


def _truth(identity: str, original: str) -> str:
    one, other = label_of(identity), label_of(original)
    return COPY if one is not None and other is not None and one.article == other.article else OTHER
