"""Description of the questions in OpenAPI 3.1."""

from importlib.metadata import version
from typing import Any

from streamer.settings.ask import Ask

_TEXT, _NUMBER, _INTEGER, _BOOLEAN = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object that has all of these properties and no other."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _array(items: str, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{items}"}, **bounds}


_MEASURES = {
    "similarity": _or_null({**_NUMBER, "description": "To the original, 0 to 1, where the index measures similarity."}),
    "distance": _or_null({**_INTEGER, "description": "To the original, in bits, where the index measures distance."}),
}
_ORIGINAL = {
    "original_id": _or_null({**_TEXT, "description": "The document that it resembles."}),
    "original_position": _or_null({**_TEXT, "description": "Where that one stood: name/partition/offset."}),
}
_PLACE = {
    "id": _TEXT,
    "position": {**_TEXT, "description": "name/partition/offset"},
    "stream": {**_TEXT, "description": "The topic's own id, or the file's."},
    "time": _or_null({**_TEXT, "description": "The record's own time, ISO 8601."}),
}
_VERDICT = {
    "verdict": {
        **_TEXT,
        "description": "unique, duplicate, update, suspect, undecidable, dead-letter, or a later one.",
    },
    "reason": {**_TEXT, "description": "One of a fixed list, see docs/headers.md."},
}


def _schemas(ask: Ask) -> dict[str, Any]:
    return {
        "Check": _object(documents=_array("Document", minItems=1, maxItems=ask.documents_max)),
        "Document": {
            "type": ["object", "string"],
            "description": "Fields as the section decode of the settings names them, by default id, title, text, time and url; "
            "where decode.format is text, the text.",
            "additionalProperties": True,
        },
        "Answers": _object(answers=_array("Answer")),
        "Answer": _object(
            id=_or_null(_TEXT),
            **_VERDICT,
            kept={**_BOOLEAN, "description": "Whether such a document goes to the unique output."},
            **_MEASURES,
            **_ORIGINAL,
            detail=_or_null({**_TEXT, "description": "Of a dead letter: what is wrong."}),
        ),
        "Why": {
            **_object(asked=_TEXT, decisions=_array("Decision"), left_out=_INTEGER, problem=_TEXT),
            "description": "May have and gain further fields.",
            "additionalProperties": True,
        },
        "Decision": {
            **_object(
                **_PLACE,
                **_VERDICT,
                sentence={**_TEXT, "description": "What became of the record, and why."},
                original=_or_null({"type": "object", "description": "The document that it resembles."}),
                chain={
                    "type": "array",
                    "description": "The original, and what that one resembled itself.",
                    "items": {},
                },
                near={"type": ["array", "null"], "description": "What is near now; null: not known.", "items": {}},
                rules={"type": "array", "description": "The settings that spoke.", "items": {}},
                notes={"type": "array", "items": _TEXT},
            ),
            "description": "May have and gain further fields.",
            "additionalProperties": True,
        },
        "Pairs": _object(pairs=_array("Pair")),
        "Pair": _object(**_PLACE, **_VERDICT, **_MEASURES, **_ORIGINAL),
        "Status": {"type": "object", "description": "What the page at / shows; may gain fields."},
        "Error": _object(
            error=_object(
                field={**_TEXT, "description": "What is wrong; empty: the request as a whole."}, message=_TEXT
            )
        ),
    }


def _answer(words: str, schema: str) -> dict[str, Any]:
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _operation(summary: str, schema: str, errors: dict[str, str], **more: Any) -> dict[str, Any]:
    """Status 401, 403 and 503 may come of every question."""
    common = {"401": "The token is missing or wrong.", "403": "Asked by another name than this machine's own."}
    refused = {status: _answer(words, "Error") for status, words in {**common, **errors}.items()}
    return {"summary": summary, "responses": {"200": _answer("The answer.", schema), **refused}, **more}


def description(ask: Ask) -> dict[str, Any]:
    """The description, for these limits."""
    often = {
        "429": "More requests than ask.requests_per_second.",
        "503": "The process that answers is starting, the index is being restored, or too many wait: ask again.",
    }
    identity = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": _TEXT,
        "description": "Or a position, name/partition/offset; percent-encoded.",
    }
    body = {"required": True, "content": _answer("", "Check")["content"]}
    refused = {
        "400": "Not what is described here.",
        "408": "The body came too slowly.",
        "413": "More documents than ask.documents_max, or more bytes than ask.body_bytes_max.",
        "415": "The body is not sent as application/json.",
    }
    has_token = ask.token is not None or ask.token_file is not None
    return {
        "openapi": "3.1.0",
        "info": {"title": "Streaming near-duplicate filter", "version": version("neardup-streamer")},
        "paths": {
            "/v1/check": {
                "post": _operation(
                    "What the filter would say of documents; changes nothing.",
                    "Answers",
                    {**refused, **often},
                    requestBody=body,
                )
            },
            "/v1/documents/{id}": {
                "get": _operation(
                    "Why a document was decided as it was; all decisions on its id, the newest first.",
                    "Why",
                    {"404": "Nothing is known of it.", **often},
                    parameters=[identity],
                )
            },
            "/v1/pairs": {"get": _operation("The newest near but unequal duplicates.", "Pairs", often)},
            "/v1/status": {"get": _operation("What the page shows of the service.", "Status", {})},
        },
        "components": {
            "schemas": _schemas(ask),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if has_token else [],
    }
