"""OpenAPI 3.1 description of the HTTP API."""

from importlib.metadata import version
from typing import Any

from streamer.settings.ask import Ask

_TEXT, _NUMBER, _INTEGER, _BOOLEAN = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _array(items: str, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{items}"}, **bounds}


_MEASURES = {
    "similarity": _or_null({**_NUMBER, "description": "To the original, 0 to 1, if the index measures similarity."}),
    "distance": _or_null({**_INTEGER, "description": "To the original, in bits, if the index measures distance."}),
}
_ORIGINAL = {
    "original_id": _or_null({**_TEXT, "description": "Id of the original."}),
    "original_position": _or_null({**_TEXT, "description": "Position of the original: name/partition/offset."}),
}
_PLACE = {
    "id": _TEXT,
    "position": {**_TEXT, "description": "name/partition/offset"},
    "stream": {**_TEXT, "description": "Id of the topic or file."},
    "time": _or_null({**_TEXT, "description": "Time of the record, ISO 8601."}),
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
            "description": "Fields that the decode settings name, by default id, title, text, time and url. If decode.format is "
            "text: the text.",
            "additionalProperties": True,
        },
        "Answers": _object(answers=_array("Answer")),
        "Answer": _object(
            id=_or_null(_TEXT),
            **_VERDICT,
            kept={**_BOOLEAN, "description": "Whether the unique output gets such a document."},
            **_MEASURES,
            **_ORIGINAL,
            detail=_or_null({**_TEXT, "description": "What is wrong with a dead letter."}),
        ),
        "Why": {
            **_object(asked=_TEXT, decisions=_array("Decision"), left_out=_INTEGER, problem=_TEXT),
            "description": "May gain fields.",
            "additionalProperties": True,
        },
        "Decision": {
            **_object(
                **_PLACE,
                **_VERDICT,
                sentence={**_TEXT, "description": "The decision and its cause, in words."},
                original=_or_null({"type": "object", "description": "The original."}),
                chain={"type": "array", "description": "The original, its original, and so on.", "items": {}},
                near={"type": ["array", "null"], "description": "Near documents now; null: unknown.", "items": {}},
                rules={"type": "array", "description": "The settings that decided.", "items": {}},
                notes={"type": "array", "items": _TEXT},
            ),
            "description": "May gain fields.",
            "additionalProperties": True,
        },
        "Pairs": _object(pairs=_array("Pair")),
        "Pair": _object(**_PLACE, **_VERDICT, **_MEASURES, **_ORIGINAL),
        "Status": {"type": "object", "description": "Data of the page at /; may gain fields."},
        "Error": _object(
            error=_object(field={**_TEXT, "description": "The invalid part; empty: the whole request."}, message=_TEXT)
        ),
    }


def _answer(description: str, schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _operation(summary: str, schema: str, errors: dict[str, str], **more: Any) -> dict[str, Any]:
    """Any operation may answer 401 or 403."""
    common = {"401": "The token is missing or wrong.", "403": "The Host header does not name this machine."}
    refused = {status: _answer(meaning, "Error") for status, meaning in {**common, **errors}.items()}
    return {"summary": summary, "responses": {"200": _answer("The answer.", schema), **refused}, **more}


def description(ask: Ask) -> dict[str, Any]:
    """OpenAPI document for these settings."""
    often = {
        "429": "More requests than ask.requests_per_second.",
        "503": "The answering process is starting, the index is being restored, or the queue is full: try again.",
    }
    identity = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": _TEXT,
        "description": "Id, or position name/partition/offset; percent-encoded.",
    }
    body = {"required": True, "content": _answer("", "Check")["content"]}
    refused = {
        "400": "The body does not match this description.",
        "408": "The body arrived too slowly.",
        "413": "More documents than ask.documents_max, or more bytes than ask.body_bytes_max.",
        "415": "The Content-Type is not application/json.",
    }
    has_token = ask.token is not None or ask.token_file is not None
    return {
        "openapi": "3.1.0",
        "info": {"title": "Streaming near-duplicate filter", "version": version("neardup-streamer")},
        "paths": {
            "/v1/check": {
                "post": _operation(
                    "Check documents without changing the index.",
                    "Answers",
                    {**refused, **often},
                    requestBody=body,
                )
            },
            "/v1/documents/{id}": {
                "get": _operation(
                    "Explain all decisions on an id, newest first.",
                    "Why",
                    {"404": "The index has no such document.", **often},
                    parameters=[identity],
                )
            },
            "/v1/pairs": {"get": _operation("List the newest near (not exact) duplicates.", "Pairs", often)},
            "/v1/status": {"get": _operation("Return the state of the service.", "Status", {})},
        },
        "components": {
            "schemas": _schemas(ask),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if has_token else [],
    }
