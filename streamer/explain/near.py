"""Entries near a document now, and why each would make it a duplicate, or would not: the index's own judgement in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index import (
    Decided,
    Document,
    Entries,
    Index,
    Judged,
    Kind,
    Match,
    Parameters,
    Position,
    Reason,
    second_look,
)
from streamer.explain.explanation import Likeness, Near, likeness_of
from streamer.explain.positions import position_text
from streamer.fingerprint.fingerprints import hexadecimal

WHY_NOT: Mapping[Reason, str] = {
    Reason.COUNTS: "",
    Reason.TOO_FAR: "not near enough",
    Reason.REFUSED: "refused by the second look",
    Reason.TEMPLATE_ONLY: "near by what their hosts' pages share",
    Reason.ROOT_GONE: "its original is gone",
    Reason.ROOT_TOO_FAR: "too far from its original",
    Reason.TOO_SHORT: "much shorter",
    Reason.OTHER_ID: "no version of this document, which was given back",
    Reason.LOST: "replaced by an update",
    Reason.OTHER_KIND: "a short text among long ones",
    Reason.NEW_TEXT: "lacks too much of the text",
}
"""Why an entry does not make a document a duplicate."""

NEAR_MAX = 5
"""Most shown entries."""

_SIMILARITY_BEYOND = 0.2
"""Entries at most this much less similar than the threshold are shown, too."""
_BITS_BEYOND = 2


@dataclass(frozen=True, slots=True)
class NearQuery:
    """A document to judge, as one row of `Entries`, and the decision on it.

    original  None if there is none, or the index lacks it

    >>> from index import Source
    >>> position = Position(Source("stream", 0), 7)
    >>> document = Document(9, 9, "a", position, 0, Kind.NEAR, fingerprint=(5,), look=bytes([1, 2]))
    >>> query_of(None, document, original=None).entry.looks
    array([[1, 2]], dtype=uint8)
    """

    decided: Decided
    entry: Entries
    original: Document | None


def query_of(decided: Decided, document: Document, original: Document | None) -> NearQuery:
    """The query for an entered document."""
    fingerprint = np.array([(*document.fingerprint, *document.frame)], np.uint64)
    entry = entry_of(document.position, document.kind, document.id, fingerprint, _look_of([document]), document.length)
    return NearQuery(decided, entry, original)


def entry_without_frame(document: Document) -> Entries:
    """An entered document as its text made it, without what its host's pages share."""
    fingerprint = np.array([document.fingerprint], np.uint64)
    return entry_of(document.position, document.kind, document.id, fingerprint, _look_of([document]), document.length)


def entry_of(
    position: Position,
    kind: Kind,
    id_: str,
    fingerprint: npt.NDArray[np.uint64],
    look: npt.NDArray[np.uint8],
    length: int,
    host: str | None = None,
) -> Entries:
    """One document as `Entries`; fingerprint uint64 [1, words], look uint8 [1, look bytes]."""
    number = np.zeros(1, np.uint32)
    return Entries(
        (position.source,),
        number,
        np.array([position.offset], np.uint64),
        np.array([kind], np.uint8),
        np.zeros(1, np.uint8),
        fingerprint,
        np.zeros(1, np.int64),
        [id_],
        looks=look,
        hosts=[host],
        lengths=np.array([length], np.uint32),
    )


def resembling(
    index: Index, parameters: Parameters, query: NearQuery
) -> tuple[Likeness | None, tuple[Near, ...], str | None]:
    """The likeness that decided, the entries near now, and the fingerprint in hexadecimal."""
    likeness = likeness_of(query.decided.distance, parameters)
    looks = query.entry.look_rows
    if likeness and query.original:
        (cosine,) = _cosines(looks, _look_of([query.original]), parameters)
        likeness = replace(likeness, cosine=cosine)
    (fingerprint,) = hexadecimal(query.entry.kinds, query.entry.fingerprints[:, : parameters.words])
    return likeness, _near(index, parameters, query, index.stream_names()), fingerprint


def _near(index: Index, parameters: Parameters, query: NearQuery, names: Mapping[str, str]) -> tuple[Near, ...]:
    """Other entries near now, the nearest first, with some beyond the threshold."""
    stored = index.parameters
    if int(query.entry.kinds[0]) > Kind.EXACT:
        return ()
    beyond = round(_SIMILARITY_BEYOND * 10_000) if stored.scheme == "minhash" else _BITS_BEYOND
    radius = min(stored.distance_limit, stored.distance_max + beyond)
    (found,) = index.judged(query.entry, radius, NEAR_MAX + 1)
    found = [each for each in found if each.document.position != query.decided.position][:NEAR_MAX]
    if not found:
        return ()
    number = None if query.decided.document is None else query.decided.document.number
    return tuple(
        Near(
            each.document.id,
            each.document.position,
            position_text(each.document.position, names),
            each.document.time_ms,
            likeness,
            _relation(each.document, query.original and query.original.number, number),
            each.document.number >= query.decided.next_number,
            WHY_NOT[each.reason],
        )
        for each, likeness in zip(found, _likenesses(parameters, query, found), strict=True)
    )


def nearest(
    index: Index, kind: Kind, fingerprint: npt.NDArray[np.uint64] | None, distance_max: int | None, limit: int
) -> list[Match]:
    """Entries nearest to a fingerprint; the earliest equal one for EXACT, none for an undecidable one."""
    if fingerprint is None or kind not in (Kind.NEAR, Kind.EXACT):
        return []
    if kind is Kind.NEAR:
        return index.query(fingerprint, distance_max, limit)[0]
    return [match for match in index.query_exact(fingerprint) if match is not None]


def _cosines(
    looks: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8], parameters: Parameters
) -> Sequence[float | None]:
    if not isinstance(parameters.look, second_look.CosineLook):
        return [None] * len(looks)
    cosines: list[float | None] = second_look.cosine(looks.view(np.int8), others.view(np.int8)).tolist()
    return cosines


def _likenesses(parameters: Parameters, query: NearQuery, found: Sequence[Judged]) -> list[Likeness]:
    """Each entry's likeness to the document."""
    if query.entry.kinds[0] == Kind.EXACT:
        return [Likeness(similarity=1.0)] * len(found)
    prints = np.array([each.document.fingerprint for each in found], np.uint64)
    looks = _look_of([each.document for each in found])
    cosines = _cosines(np.repeat(query.entry.look_rows, len(found), axis=0), looks, parameters)
    # MinHash has the similarity by which the judge decided. SimHash has bits, and what the second look makes of them.
    bits = parameters.distances(np.repeat(query.entry.fingerprints[:, : parameters.words], len(found), axis=0), prints)
    return [
        replace(
            likeness_of(each.distance, parameters) or Likeness(),
            distance=None if parameters.scheme == "minhash" else of_prints,
            cosine=cosine,
        )
        for each, of_prints, cosine in zip(found, bits.tolist(), cosines, strict=True)
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
