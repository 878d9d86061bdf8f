"""Entries near a fingerprint now, and why each would make a document a duplicate, or would not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Decided, Document, EntryState, Index, Kind, Match, Parameters, Verdict, second_look
from streamer.explain.explanation import Likeness, Near, likeness_of
from streamer.explain.positions import position_text
from streamer.fingerprint.fingerprints import hexadecimal

NEAR_MAX = 5
"""Most shown entries."""

_SIMILARITY_BEYOND = 0.2
"""Entries at most this much less similar than the threshold are shown, too."""
_BITS_BEYOND = 2


@dataclass(frozen=True, slots=True)
class NearQuery:
    """A document's fingerprint, uint64 [1, words], and its look, uint8 [1, look bytes].

    original  None if there is none, or the index lacks it

    >>> from index import Position, Source
    >>> document = Document(9, 9, "a", Position(Source("stream", 0), 7), 0, Kind.NEAR, fingerprint=(5,), look=bytes([1, 2]))
    >>> query_of(None, document, original=None).look
    array([[1, 2]], dtype=uint8)
    """

    decided: Decided
    kind: Kind
    fingerprint: npt.NDArray[np.uint64]
    look: npt.NDArray[np.uint8]
    original: Document | None


def query_of(decided: Decided, document: Document, original: Document | None) -> NearQuery:
    """The query for an entered document."""
    fingerprint = np.array([document.fingerprint], np.uint64)
    return NearQuery(decided, document.kind, fingerprint, _look_of([document]), original)


def resembling(
    index: Index, parameters: Parameters, query: NearQuery
) -> tuple[Likeness | None, tuple[Near, ...], str | None]:
    """The likeness that decided, the entries near now, and the fingerprint in hexadecimal."""
    likeness = likeness_of(query.decided.distance, parameters)
    if likeness and query.original and parameters.insert != "all":
        (cosine,) = _cosines(query.look, _look_of([query.original]), parameters)
        likeness = replace(likeness, cosine=cosine)
    (fingerprint,) = hexadecimal(np.array([query.kind], np.uint8), query.fingerprint)
    return likeness, _near(index, parameters, query, index.stream_names()), fingerprint


def _near(index: Index, parameters: Parameters, query: NearQuery, names: Mapping[str, str]) -> tuple[Near, ...]:
    """Other entries near now, the nearest first, with some beyond the threshold."""
    stored = index.parameters
    beyond = round(_SIMILARITY_BEYOND * 10_000) if stored.scheme == "minhash" else _BITS_BEYOND
    radius = min(stored.distance_limit, stored.distance_max + beyond)
    matches = nearest(index, query.kind, query.fingerprint, radius, NEAR_MAX + 1)
    matches = [match for match in matches if match.document.position != query.decided.position][:NEAR_MAX]
    if not matches:
        return ()
    if query.kind is Kind.EXACT:
        likenesses, reasons = [Likeness(similarity=1.0)], [""]
    else:
        likenesses, reasons = _judged(index, parameters, query, matches)
    number = None if query.decided.document is None else query.decided.document.number
    return tuple(
        Near(
            match.document.id,
            match.document.position,
            position_text(match.document.position, names),
            match.document.time_ms,
            likeness,
            _relation(match.document, query.original and query.original.number, number),
            match.document.number >= query.decided.next_number,
            why_not,
        )
        for match, likeness, why_not in zip(matches, likenesses, reasons, strict=True)
    )


def _cosines(
    looks: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8], parameters: Parameters
) -> Sequence[float | None]:
    if not isinstance(parameters.look, second_look.CosineLook):
        return [None] * len(looks)
    cosines: list[float | None] = second_look.cosine(looks.view(np.int8), others.view(np.int8)).tolist()
    return cosines


def nearest(
    index: Index, kind: Kind, fingerprint: npt.NDArray[np.uint64] | None, distance_max: int | None, limit: int
) -> list[Match]:
    """Entries nearest to a fingerprint; the earliest equal one for EXACT, none for an undecidable one."""
    if fingerprint is None or kind not in (Kind.NEAR, Kind.EXACT):
        return []
    if kind is Kind.NEAR:
        return index.query(fingerprint, distance_max, limit)[0]
    return [match for match in index.query_exact(fingerprint) if match is not None]


def _judged(
    index: Index, parameters: Parameters, query: NearQuery, matches: Sequence[Match]
) -> tuple[list[Likeness], list[str]]:
    """Each match's likeness to a NEAR document, and why it would not count."""
    count = len(matches)
    distances = np.array([match.distance for match in matches], np.int16)
    looks = _look_of([match.document for match in matches])
    own_looks = np.repeat(query.look, count, axis=0)
    reasons = ["" if distance <= parameters.distance_max else "not near enough" for distance in distances.tolist()]
    judged_distances, cosines = distances, _cosines(own_looks, looks, parameters)
    if parameters.look is not None:
        judged = parameters.look.judge(distances, own_looks, looks)
        reasons = [
            reason or ("" if counts else "refused by the second look")
            for reason, counts in zip(reasons, judged.counts.tolist(), strict=True)
        ]
        judged_distances = judged.distances
    if parameters.root is not None:
        of_roots = _reasons_of_roots(index, parameters, query, matches)
        reasons = [reason or of_root for reason, of_root in zip(reasons, of_roots, strict=True)]
    likenesses = [
        replace(
            likeness_of(of_rule, parameters) or Likeness(),
            distance=None if parameters.scheme == "minhash" else of_fingerprints,
            cosine=cosine,
        )
        for of_rule, of_fingerprints, cosine in zip(judged_distances.tolist(), distances.tolist(), cosines, strict=True)
    ]
    return likenesses, reasons


def _reasons_of_roots(index: Index, parameters: Parameters, query: NearQuery, matches: Sequence[Match]) -> list[str]:
    """Why each match's root excludes it; empty if not.

    A dropped member counts only while its root counts. A delivered document is an original once its root is gone.
    """
    members = [match.document.number for match in matches]
    numbers = [match.document.root for match in matches]
    standing = [state is EntryState.COUNTS for state in index.standings(numbers)]
    decided = index.decided_at([match.document.position for match in matches])
    dropped = [each is not None and each.verdict is Verdict.DUPLICATE for each in decided]
    lost = [
        root != number and not counts and is_dropped
        for root, number, counts, is_dropped in zip(numbers, members, standing, dropped, strict=True)
    ]
    numbers = [root if counts else number for root, number, counts in zip(numbers, members, standing, strict=True)]
    roots = [root or match.document for root, match in zip(index.documents(numbers), matches, strict=True)]
    distances = parameters.root_distances(
        np.repeat(query.fingerprint, len(matches), axis=0),
        np.array([root.fingerprint for root in roots], np.uint64),
        np.repeat(query.look, len(matches), axis=0),
        _look_of(roots),
    )
    return [
        "its original is gone" if is_lost else ("" if distance != NO_DISTANCE else "too far from its original")
        for is_lost, distance in zip(lost, distances.tolist(), strict=True)
    ]


def _look_of(documents: Sequence[Document]) -> npt.NDArray[np.uint8]:
    """Looks, uint8 [n, look bytes]."""
    joined = b"".join(document.look for document in documents)
    return np.frombuffer(joined, np.uint8).reshape(len(documents), len(joined) // len(documents))


def _relation(document: Document, original: int | None, number: int | None) -> str:
    if original is not None and document.number == original:
        return "original"
    if original is not None and document.root == original:
        return "member"
    if number is not None and document.root == number:
        return "copy"
    return "other"
