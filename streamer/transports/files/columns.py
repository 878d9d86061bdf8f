"""Arrow columns as values for JSON. It imports pyarrow when it is first called, as `parquet` does.

    type                       value
    text                       itself; Undecoded if it is no UTF-8
    bytes                      UTF-8 text, else Base64
    date, timestamp            ISO 8601, any year. A timestamp with a zone is in UTC (`+00:00`), as the file stores it
    time                       ISO 8601; the stored number if no day has that time
    duration                   ISO 8601, in seconds: PT90.5S
    decimal, UUID              text
    dictionary, extension      as the type that is stored
    list, map                  array; of pairs for a map
    struct                     object
    any other                  text; null if it has none

Python's own dates are not used: they end at the year 9999, need a table for zones, and differ with pandas installed.
"""

import base64
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np

Reader = Callable[[Any], list[Any]]
"""From an Arrow array to its values, one for each row."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS = 86_400
_EPOCH = datetime(1970, 1, 1)
_FIRST_US, _LAST_US = ((each - _EPOCH) // timedelta(microseconds=1) for each in (datetime.min, datetime.max))
_NO_MOMENT = -(2**63)
"""NumPy and pandas write it for a moment that is missing."""


class Undecoded(bytes):
    """A text column's value that is no UTF-8."""


def reader_of(kind: Any) -> Reader:
    """The reader for an Arrow type's arrays. Raises RecursionError for a type that is nested too deep."""
    import pyarrow as arrow

    if isinstance(kind, arrow.BaseExtensionType):
        return _extension(kind)
    for is_kind, reader in _readers():
        if is_kind(kind):
            return reader(kind)
    return _others


def _readers() -> Sequence[tuple[Callable[[Any], bool], Callable[[Any], Reader]]]:
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_string_view)
    octets = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    lists = (
        *(types.is_list, types.is_large_list, types.is_fixed_size_list),
        *(types.is_list_view, types.is_large_list_view),
    )
    return (
        *((each, lambda _: _texts) for each in texts),
        *((each, lambda _: lambda array: array.to_pylist()) for each in plain),
        (types.is_timestamp, _moments),
        (types.is_date, _days),
        (types.is_time, _times),
        (types.is_duration, _durations),
        (types.is_decimal, lambda _: _others),
        *((each, lambda _: _octets) for each in octets),
        (types.is_dictionary, lambda kind: _stored(kind.value_type, lambda array: array.dictionary_decode())),
        *((each, _lists) for each in lists),
        (types.is_struct, _structs),
        (types.is_map, _maps),
    )


def free_names(names: Sequence[str]) -> list[str]:
    """Names without a repetition: later ones of a name get a number.

    >>> free_names(["text", "id", "text", "text.2"])
    ['text', 'id', 'text.3', 'text.2']
    """
    counts: Counter[str] = Counter()
    free: list[str] = []
    for name in names:
        counts[name] += 1
        while counts[name] > 1 and f"{name}.{counts[name]}" in names:
            counts[name] += 1
        free.append(name if counts[name] == 1 else f"{name}.{counts[name]}")
    return free


def bytes_as_text(octets: bytes) -> str:
    """UTF-8 text, or Base64 for other bytes.

    >>> bytes_as_text("渡".encode()), bytes_as_text(b"\\xff")
    ('渡', '/w==')
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return base64.b64encode(octets).decode()


def duration_text(count: int, unit: str) -> str:
    """ISO 8601 for a duration, in NumPy's units.

    >>> duration_text(-90_500, "ms"), duration_text(60, "s")
    ('-PT90.5S', 'PT60S')
    """
    per_second = _PER_SECOND[unit]
    seconds, rest = divmod(abs(count), per_second)
    digits = f"{rest + per_second}"[1:].rstrip("0")
    return f"{'-' if count < 0 else ''}PT{seconds}{'.' if digits else ''}{digits}S"


def _texts(array: Any) -> list[Any]:
    import pyarrow as arrow

    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        values = [_text(each) for each in array.cast(arrow.large_binary()).to_pylist()]
    return values


def _text(octets: bytes | None) -> str | Undecoded | None:
    if octets is None:
        return None
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return Undecoded(octets)


def _octets(array: Any) -> list[Any]:
    return [None if each is None else bytes_as_text(each) for each in array.to_pylist()]


def _counts(kind: Any) -> Callable[[Any], list[int | None]]:
    """Reads the numbers that a column of dates or times is stored as."""
    import pyarrow as arrow

    stored = arrow.int32() if kind.bit_width == 32 else arrow.int64()
    return lambda array: [None if each == _NO_MOMENT else each for each in array.view(stored).to_pylist()]


def iso_text(count: int, unit: str) -> str:
    """ISO 8601 for a moment since 1970, in NumPy's units; a second has 0, 6 or 9 digits.

    >>> iso_text(-1, "s"), iso_text(1_500, "ms"), iso_text(10**9 + 1, "ns"), iso_text(5_000_000, "D")
    ('1969-12-31T23:59:59', '1970-01-01T00:00:01.500000', '1970-01-01T00:00:01.000000001', '15659-07-15')
    """
    if unit in _PER_SECOND:
        microseconds, rest = divmod(count * 10**6, _PER_SECOND[unit])
        if not rest and _FIRST_US <= microseconds <= _LAST_US:
            # NumPy takes three times as long.
            return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    moment = np.array(count, np.int64).astype(f"datetime64[{unit}]")
    whole, _, digits = str(np.datetime_as_string(moment)).partition(".")
    digits = digits.ljust(6, "0")
    return f"{whole}.{digits}" if digits.strip("0") else whole


def _moments(kind: Any) -> Reader:
    unit, zone, counts = kind.unit, "" if kind.tz is None else "+00:00", _counts(kind)
    return lambda array: [None if each is None else iso_text(each, unit) + zone for each in counts(array)]


def _days(kind: Any) -> Reader:
    unit, counts = "D" if kind.bit_width == 32 else "ms", _counts(kind)
    return lambda array: [None if each is None else iso_text(each, unit).partition("T")[0] for each in counts(array)]


def _times(kind: Any) -> Reader:
    unit, counts, day = kind.unit, _counts(kind), range(_DAY_SECONDS * _PER_SECOND[kind.unit])
    return lambda array: [
        iso_text(each, unit).partition("T")[2] if each is not None and each in day else each for each in counts(array)
    ]


def _durations(kind: Any) -> Reader:
    unit, counts = kind.unit, _counts(kind)
    return lambda array: [None if each is None else duration_text(each, unit) for each in counts(array)]


def _stored(kind: Any, unpack: Callable[[Any], Any]) -> Reader:
    inner = reader_of(kind)
    return lambda array: inner(unpack(array))


def _extension(kind: Any) -> Reader:
    stored = _stored(kind.storage_type, lambda array: array.storage)
    if kind.extension_name == "arrow.uuid":
        return lambda array: [
            None if each is None else str(uuid.UUID(bytes=each)) for each in array.storage.to_pylist()
        ]
    if kind.extension_name == "arrow.bool8":
        return lambda array: [None if each is None else bool(each) for each in stored(array)]
    return stored


def _lists(kind: Any) -> Reader:
    from pyarrow import compute

    inner = reader_of(kind.value_type)

    def read(array: Any) -> list[Any]:
        items = iter(inner(array.flatten()))
        counts = compute.list_value_length(array).to_pylist()
        return [None if count is None else list(islice(items, count)) for count in counts]

    return read


def _structs(kind: Any) -> Reader:
    names = free_names([kind.field(at).name for at in range(kind.num_fields)])
    readers = [reader_of(kind.field(at).type) for at in range(kind.num_fields)]

    def read(array: Any) -> list[Any]:
        fields = [reader(field) for reader, field in zip(readers, array.flatten(), strict=True)]
        rows = zip(*fields, strict=True) if fields else [()] * len(array)
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        if not array.null_count:
            return objects
        return [
            each if is_valid else None for each, is_valid in zip(objects, array.is_valid().to_pylist(), strict=True)
        ]

    return read


def _maps(kind: Any) -> Reader:
    keys, items = reader_of(kind.key_type), reader_of(kind.item_type)

    def read(array: Any) -> list[Any]:
        offsets = array.offsets.to_pylist()
        begin, count = offsets[0], offsets[-1] - offsets[0]
        pairs = list(zip(keys(array.keys.slice(begin, count)), items(array.items.slice(begin, count)), strict=True))
        return [
            pairs[first - begin : last - begin] if is_valid else None
            for is_valid, first, last in zip(array.is_valid().to_pylist(), offsets, offsets[1:], strict=False)
        ]

    return read


def _others(array: Any) -> list[Any]:
    return [_other(scalar) for scalar in array]


def _other(scalar: Any) -> str | None:
    try:
        value = scalar.as_py()
    except (ValueError, ArithmeticError, TypeError, NotImplementedError):
        return None
    return None if value is None else str(value)
