"""JSON of whatever values crawls and tables bring. What orjson refuses or rounds goes through the slower library.

One rule for files, Kafka, the HTTP API and the library: the bytes are UTF-8. NaN, Infinity and numbers beyond a double are null.
Whole numbers keep all their digits.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Set
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import orjson

DIGITS_MAX = 4_300
"""Python reads no longer number, since that takes quadratic time; one is null."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
"""Digits that may be beyond 64 bits, which orjson rounds."""


def dumps(value: object) -> bytes:
    """JSON on one line. Raises TypeError or ValueError for a value without a JSON form, RecursionError for one without end.

    value                                    JSON
    date, time, UUID, enum                   as orjson has them: ISO 8601, text, value
    duration                                 ISO 8601, in seconds
    Decimal, path                            text
    bytes                                    UTF-8 text, else Base64
    arrays of numpy, columns, tuples, sets   array; a set's in the order of its texts
    numbers of numpy                         number
    NaN, infinity, NaT, NA                   null
    a key that is no text                    the text of its JSON

    >>> dumps("half a pair: \\ud800")
    b'"half a pair: \\\\ud800"'
    """
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        return json.dumps(_tree(value), allow_nan=False).encode()


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


def _plain(value: Any) -> object:
    """A value that orjson does not know as one that it knows. Raises TypeError."""
    plain: object
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            plain = form(value)
            return plain
    # Classes of pandas and numpy, without importing them.
    name = type(value).__name__
    if name in ("NaTType", "NAType"):
        return None
    if name in ("Timestamp", "datetime64", "Period"):
        text = str(value)
        return None if text == "NaT" else text.replace(" ", "T", 1)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    for method in ("tolist", "item"):
        if hasattr(value, method) and type(plain := getattr(value, method)()) is not type(value):
            return plain
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{name} has no JSON form")


def _duration(value: timedelta) -> str | None:
    seconds = value.total_seconds()
    return None if math.isnan(seconds) else f"{'-' * (seconds < 0)}PT{abs(seconds):.9f}".rstrip("0").rstrip(".") + "S"


def _bytes_as_text(octets: Any) -> str:
    octets = bytes(octets)
    try:
        return str(octets.decode())
    except UnicodeDecodeError:
        return base64.b64encode(octets).decode()


_FORMS: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    ((bytes, bytearray, memoryview), _bytes_as_text),
    (Decimal, lambda value: str(value) if value.is_finite() else None),
    (timedelta, _duration),
    (Set, lambda value: sorted(value, key=str)),
    (PurePath, str),
    (Mapping, dict),
)


def _tree(value: Any) -> Any:
    """The same of types that `json` knows. Raises TypeError."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): _tree(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(each) for each in value]
    try:
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS))
    except orjson.JSONEncodeError:
        return _tree(_plain(value))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    plain = _tree(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
