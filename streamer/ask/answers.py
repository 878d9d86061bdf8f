"""Answers to questions in JSON: what was asked goes in as bytes, and comes out as a status and bytes. No HTTP here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from index import Decided, minhash
from streamer.ask.answer import Answer
from streamer.ask.filter import Filter, Value
from streamer.explain.positions import position_text, time_text
from streamer.explain.texts import with_texts
from streamer.explain.why import explain
from streamer.observe.application import error_body
from streamer.records.reason import Reason, label
from streamer.settings.settings import Settings
from streamer.transports.output_log import RecordsAt

PAIRS_MAX = 50
"""Near-duplicate pairs that are told at most."""


class Told(NamedTuple):
    """An answer: status of HTTP, and JSON."""

    status: HTTPStatus
    body: bytes


class Refused(Exception):
    """A question that cannot be answered. `field` names what is wrong, "" the body as a whole."""

    def __init__(self, status: HTTPStatus, field: str, message: str) -> None:
        super().__init__(message)
        self.told = told_error(status, field, message)


def told_error(status: HTTPStatus, field: str, message: str) -> Told:
    """An error, in the one form that all errors have."""
    return Told(status, error_body(field, message))


class Answers:
    """Answers to the questions of the port, from one open filter."""

    def __init__(self, opened: Filter, settings: Settings, records_at: RecordsAt | None = None) -> None:
        """`records_at`: reads the texts that explain a decision; None: they are not shown."""
        self._records_at = records_at
        self._filter = opened
        self._settings = settings
        self._documents_max = settings.ask.documents_max
        self._questions: Mapping[str, Callable[[bytes], Any]] = {
            "check": self._check,
            "document": self._document,
            "pairs": self._pairs,
        }

    def warm_up(self) -> None:
        """Load tables and machine code, which the first question would wait for."""
        self._filter.check([{"text": "杭研大厦 in spring, with more than a few words. " * count} for count in (1, 20)])

    def tell(self, question: str, asked: bytes) -> Told:
        """Answer a question: `check` with the body of a request, `document` with an id or a position, `pairs` with nothing."""
        try:
            return Told(HTTPStatus.OK, orjson.dumps(self._questions[question](asked)))
        except Refused as refused:
            return refused.told

    def _check(self, asked: bytes) -> dict[str, object]:
        answers = self._filter.check(asked_documents(asked, self._documents_max))
        return {"answers": [_checked(answer) for answer in answers]}

    def _document(self, asked: bytes) -> dict[str, object]:
        found = explain(self._filter.index, self._settings, asked.decode(errors="replace"))
        if not found.explanations:
            raise Refused(HTTPStatus.NOT_FOUND, "id", found.problem)
        if self._records_at is not None:
            found = with_texts(found, self._filter.index, self._settings, self._records_at)
        return found.as_json()

    def _pairs(self, _: bytes) -> dict[str, object]:
        index = self._filter.index
        names, by_similarity = index.stream_names(), index.parameters.by_similarity
        return {"pairs": [_pair(each, names, by_similarity=by_similarity) for each in index.newest_near(PAIRS_MAX)]}


def asked_documents(asked: bytes, documents_max: int) -> list[Value]:
    """Documents of a request's body: {"documents": [...]}. Raises Refused, which names what is wrong."""
    try:
        body = _parsed(asked)
    except (ValueError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "", f"the body is not JSON: {error}") from error
    if type(body) is not dict or "documents" not in body:
        raise Refused(HTTPStatus.BAD_REQUEST, "documents", 'the body must be an object: {"documents": [...]}')
    unknown = sorted(body.keys() - {"documents"})
    if unknown:
        raise Refused(HTTPStatus.BAD_REQUEST, unknown[0], "there is no such field; documents is the only one")
    documents = body["documents"]
    if type(documents) is not list or not documents:
        raise Refused(HTTPStatus.BAD_REQUEST, "documents", "must be an array of at least one document")
    if len(documents) > documents_max:
        message = f"has {len(documents)} documents, ask.documents_max is {documents_max}"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "documents", message)
    for place, document in enumerate(documents):
        if type(document) not in (dict, str):
            message = "must be an object, or a string where decode.format is text"
            raise Refused(HTTPStatus.BAD_REQUEST, f"documents[{place}]", message)
    return [document.encode() if type(document) is str else document for document in documents]


def _parsed(asked: bytes) -> object:
    try:
        return orjson.loads(asked)
    except orjson.JSONDecodeError:
        # It refuses half a surrogate pair, which crawled texts have and the decoder mends.
        return json.loads(asked)


def _checked(answer: Answer) -> dict[str, object]:
    told = asdict(answer)
    # A check reads no positions.
    del told["replayed"]
    return told


def _pair(decided: Decided, names: Mapping[str, str], *, by_similarity: bool) -> dict[str, object]:
    distance, at = decided.distance, decided.original_position
    return {
        "id": decided.id,
        "position": position_text(decided.position, names),
        "stream": decided.position.source.stream,
        "time": time_text(decided.time_ms),
        "verdict": decided.verdict.label,
        "reason": label(decided.verdict, Reason(decided.reason)),
        "similarity": minhash.similarity_of(distance) if by_similarity and distance is not None else None,
        "distance": None if by_similarity else distance,
        "original_id": decided.original_id,
        "original_position": None if at is None else position_text(at, names),
    }
