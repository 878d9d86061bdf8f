"""JSON of whatever texts crawls bring: lone surrogates and long numbers, which orjson refuses, go through the slower library."""

import json
from typing import Any

import orjson


def dumps(value: object) -> bytes:
    """JSON on one line; arrays of numpy are lists. Raises TypeError or ValueError for a value without a JSON form.

    >>> dumps("half a pair: \\ud800")
    b'"half a pair: \\\\ud800"'
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        return json.dumps(value).encode()


def loads(octets: bytes) -> Any:
    """The value. Raises ValueError or RecursionError for other bytes."""
    try:
        return orjson.loads(octets)
    except orjson.JSONDecodeError:
        return json.loads(octets)
