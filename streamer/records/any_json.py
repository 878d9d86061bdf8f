"""JSON of whatever texts crawls bring. What orjson refuses or rounds goes through the slower library.

One rule for files, Kafka, the HTTP API and the library: the bytes are UTF-8. NaN, Infinity and numbers beyond a double are null.
Whole numbers keep all their digits.
"""

import json
import math
import re
from typing import Any

import orjson

DIGITS_MAX = 4_300
"""Python reads no longer number, since that takes quadratic time; one is null."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
"""Digits that may be beyond 64 bits, which orjson rounds."""


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
    """The value. Raises ValueError or RecursionError for other bytes.

    >>> loads(b'{"score": NaN, "id": 340282366920938463463374607431768211455}')
    {'score': None, 'id': 340282366920938463463374607431768211455}
    """
    if _LONG_NUMBER.search(octets):
        return exact(octets)
    try:
        return orjson.loads(octets)
    except orjson.JSONDecodeError:
        return exact(octets)


def exact(octets: bytes) -> Any:
    """`loads` without the quicker library."""
    return _DECODER.decode(octets.removeprefix(b"\xef\xbb\xbf").decode())


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS_MAX else None


def _fraction(digits: str) -> float | None:
    return number if math.isfinite(number := float(digits)) else None


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_fraction, parse_constant=lambda _: None)
