"""OpenAPI 3.1 description of the HTTP API: openapi.json, and what the release and its settings add."""

from importlib.metadata import version
from importlib.resources import files
from typing import Any

import orjson

from streamer.settings.ask import Ask


def description(ask: Ask) -> dict[str, Any]:
    """OpenAPI document for these settings.

    >>> description(Ask(documents_max=7))["components"]["schemas"]["Check"]["properties"]["documents"]["maxItems"]
    7
    """
    described: dict[str, Any] = orjson.loads(files("streamer.ask").joinpath("openapi.json").read_bytes())
    described["info"]["version"] = version("neardup-streamer")
    described["components"]["schemas"]["Check"]["properties"]["documents"]["maxItems"] = ask.documents_max
    described["security"] = [{"token": []}] if ask.token is not None or ask.token_file is not None else []
    return described
