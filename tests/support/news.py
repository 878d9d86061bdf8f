"""The demo's documents, read back."""

import orjson

from streamer.demo.documents import documents, label_of

UNTOUCHED = ("same", "noise", "headline")
"""Edits that do not change the normalised text: every copy with only one of them must be found."""


def parsed(lines: list[bytes]) -> dict[str, dict[str, str]]:
    """The documents of these lines by id, without broken lines."""
    found = {}
    for line in lines:
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        found[document["id"]] = document
    return found


LINES = list(documents())
DOCUMENTS = parsed(LINES)
ARTICLES = {key: value["text"] for key, value in DOCUMENTS.items() if (label := label_of(key)) and label.edit is None}
COPIES = {key: value for key, value in DOCUMENTS.items() if (label := label_of(key)) and label.edit}
