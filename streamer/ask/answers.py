"""Answers of the HTTP API: a question and its payload in, a status and JSON out. No HTTP here."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

import orjson

from index import Decided, minhash
from streamer.ask.answer import Answer
from streamer.ask.filter import Filter, Value
from streamer.ask.reply import AskReply, error_reply
from streamer.audit.report import report as audit
from streamer.errors import SettingsError
from streamer.explain.positions import place_as_json, position_text
from streamer.explain.story import stories_as_json
from streamer.explain.why import explain
from streamer.records.any_json import loads
from streamer.records.hosts import host_named
from streamer.records.reason import Reason, label
from streamer.settings.settings import Settings
from streamer.transports.output_log import RecordsAt

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")

PAIRS_MAX = 50
"""Maximum near-duplicate pairs in an answer."""


STORIES_MAX = 50
"""Maximum stories in an answer."""


class Refused(Exception):
    """A question without an answer. `field` names the invalid part; "" is the whole body.

    >>> Refused(HTTPStatus.BAD_REQUEST, "documents", "it is empty").reply.body
    b'{"error":{"field":"documents","message":"it is empty"}}'
    """

    def __init__(self, status: HTTPStatus, field: str, message: str) -> None:
        super().__init__(message)
        self.reply = error_reply(status, field, message)


class Answers:
    """Answers the HTTP API's questions from one open filter.

    >>> from streamer.settings.settings import Settings
    >>> with Filter(folder) as opened:
    ...     reply = Answers(opened, Settings()).answer("check", b'{"documents": [{"text": "one text"}]}')
    >>> orjson.loads(reply.body)["answers"][0]["verdict"]
    'unique'
    """

    def __init__(self, opened: Filter, settings: Settings, records_at: RecordsAt | None = None) -> None:
        """`records_at` reads the texts that explain a decision; with None, answers have none."""
        self._records_at = records_at
        self._filter = opened
        self._settings = settings
        self._documents_max = settings.ask.documents_max
        self._questions: Mapping[str, Callable[[bytes], Any]] = {
            "check": self._check,
            "document": self._document,
            "pairs": self._pairs,
            "texts": lambda payload: self._document(payload, full=True),
            "stories": self._stories,
            "audit": lambda _: audit(self._settings),
        }

    def warm_up(self) -> None:
        """Load tables and machine code before the first question."""
        self._filter.check([{"text": "杭研大厦 in spring, with more than a few words. " * count} for count in (1, 20)])

    def answer(self, question: str, payload: bytes) -> AskReply:
        """Answer a question.

        Payloads: request body for `check`, id or position for `document` and `texts`, host or nothing for `pairs`. For
        `stories` a JSON object, the host as "path" and perhaps "scope".
        """
        try:
            return AskReply(HTTPStatus.OK, orjson.dumps(self._questions[question](payload)))
        except Refused as refused:
            return refused.reply

    def _check(self, payload: bytes) -> dict[str, object]:
        answers = self._filter.check(parse_documents(payload, self._documents_max))
        return {"answers": [_checked(answer) for answer in answers]}

    def _document(self, payload: bytes, *, full: bool = False) -> dict[str, object]:
        asked = payload.decode(errors="replace")
        sets = self._filter.protected
        why = explain(self._filter.index, self._settings, asked, records_at=self._records_at, full=full, protected=sets)
        if not why.explanations:
            raise Refused(HTTPStatus.NOT_FOUND, "id", why.problem)
        return why.as_json()

    def _stories(self, payload: bytes) -> dict[str, object]:
        asked = orjson.loads(payload)
        index, decode = self._filter.index, self._settings.decode
        try:
            stories = stories_as_json(index, decode, STORIES_MAX, host=asked["path"], scope=asked.get("scope"))
        except SettingsError as problem:
            raise Refused(HTTPStatus.BAD_REQUEST, "scope", str(problem)) from problem
        return {"stories": stories}

    def _pairs(self, payload: bytes) -> dict[str, object]:
        index = self._filter.index
        newest = index.newest_near(PAIRS_MAX, self._host(payload))
        names, by_similarity = index.stream_names(), index.parameters.by_similarity
        return {"pairs": [_pair(each, names, by_similarity=by_similarity) for each in newest]}

    def _host(self, payload: bytes) -> str:
        return host_named(payload.decode(errors="replace"), self._settings.decode)


def parse_documents(payload: bytes, documents_max: int) -> list[Value]:
    """Parse the request body {"documents": [...]}. Raises Refused with the invalid field."""
    try:
        body = loads(payload)
    except (ValueError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "", f"the body is not JSON: {error}") from error
    if type(body) is not dict or "documents" not in body:
        raise Refused(HTTPStatus.BAD_REQUEST, "documents", 'the body must be an object: {"documents": [...]}')
    unknown = sorted(body.keys() - {"documents"})
    if unknown:
        raise Refused(HTTPStatus.BAD_REQUEST, unknown[0], "unknown field; the only field is documents")
    documents = body["documents"]
    if type(documents) is not list or not documents:
        raise Refused(HTTPStatus.BAD_REQUEST, "documents", "must be an array of at least one document")
    if len(documents) > documents_max:
        message = f"has {len(documents)} documents, ask.documents_max is {documents_max}"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "documents", message)
    for place, document in enumerate(documents):
        if type(document) not in (dict, str):
            message = "must be an object, or a string if decode.format is text"
            raise Refused(HTTPStatus.BAD_REQUEST, f"documents[{place}]", message)
    return [
        _HALF_A_PAIR.sub("\ufffd", document).encode() if type(document) is str else document for document in documents
    ]


def _checked(answer: Answer) -> dict[str, object]:
    fields = asdict(answer)
    # A check has no positions, so it never replays.
    del fields["replayed"]
    return fields | {"protected": [match.as_json() for match in answer.protected]}


def _pair(decided: Decided, names: Mapping[str, str], *, by_similarity: bool) -> dict[str, object]:
    distance, at = decided.distance, decided.original_position
    return {
        **place_as_json(decided.id, decided.position, position_text(decided.position, names), decided.time_ms),
        "verdict": decided.verdict.label,
        "reason": label(decided.verdict, Reason(decided.reason)),
        "similarity": minhash.similarity_of(distance) if by_similarity and distance is not None else None,
        "distance": None if by_similarity else distance,
        "original_id": decided.original_id,
        "original_position": None if at is None else position_text(at, names),
    }
