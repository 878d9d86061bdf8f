import collections
import datetime
import decimal
import enum
import math
import types
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.records.any_json import dumps, loads

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_values_come_back_with_surrogates_and_long_numbers(value: Any) -> None:
    assert loads(dumps({"value": value, "half": "\ud800", "long": 2**70})) == {
        "value": value,
        "half": "\ud800",
        "long": 2**70,
    }


def test_numbers_of_numpy_are_written() -> None:
    assert dumps({"column": np.array([1, 2])}) == b'{"column":[1,2]}'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        loads(b"{")
    with pytest.raises(TypeError):
        dumps({"value": object()})


MOMENT = datetime.datetime(2026, 11, 22, 10, 0, 0, 250_000)


class Colour(enum.Enum):
    RED = "red"


PLAIN: list[tuple[Any, Any]] = [
    (datetime.date(2026, 11, 22), "2026-11-22"),
    (MOMENT, "2026-11-22T10:00:00.250000"),
    (MOMENT.replace(tzinfo=datetime.UTC), "2026-11-22T10:00:00.250000+00:00"),
    (datetime.time(10), "10:00:00"),
    (datetime.timedelta(minutes=1, milliseconds=-500), "PT59.5S"),
    (datetime.timedelta(days=-1), "-PT86400S"),
    (decimal.Decimal("1.50"), "1.50"),
    (decimal.Decimal("NaN"), None),
    (uuid.UUID(int=1), str(uuid.UUID(int=1))),
    ("渡".encode(), "渡"),
    (b"\xff", "/w=="),
    (bytearray(b"a"), "a"),
    (Colour.RED, "red"),
    (Path("a/b"), "a/b"),
    ({"b", "a"}, ["a", "b"]),
    (("a", 1), ["a", 1]),
    (math.nan, None),
    (-math.inf, None),
    *((kind(1), 1) for kind in (np.int8, np.uint64, np.float16, np.float32, np.float64, np.longdouble)),
    (np.bool_(True), True),
    (np.float64("nan"), None),
    (np.str_("a"), "a"),
    (np.bytes_(b"a"), "a"),
    (np.datetime64("2026-11-22T10:00:00"), "2026-11-22T10:00:00"),
    (np.datetime64("NaT"), None),
    (np.array(["a", "b"]), ["a", "b"]),
    (np.array([1, None], object), [1, None]),
    (np.arange(6).reshape(2, 3)[:, ::2], [[0, 2], [3, 5]]),
    ({1: "a", None: "b", MOMENT: "d"}, {"1": "a", "null": "b", "2026-11-22T10:00:00.250000": "d"}),
    ({np.int64(3): 1}, {"3": 1}),
    (collections.OrderedDict(a=1), {"a": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("beside", ["text", "half \ud800", 2**70])
def test_values_of_tables_have_one_form_whatever_stands_beside_them(value: Any, plain: Any, beside: Any) -> None:
    assert loads(dumps({"value": value, "beside": beside})) == {"value": plain, "beside": beside}
    assert loads(dumps([[value], beside])) == [[plain], beside]


def test_rows_of_pandas_are_written() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "text": ["one", None],
            "time": pandas.to_datetime(["2026-11-22 10:00", None]),
            "zone": pandas.to_datetime(["2026-11-22 10:00", None], utc=True),
            "span": pandas.to_timedelta(["1s", None]),
            "count": pandas.array([1, None], "Int64"),
            "kind": pandas.Categorical(["a", None]),
            "month": pandas.PeriodIndex(["2026-11", None], freq="M"),
            "day": [datetime.date(2026, 11, 22), pandas.NaT],
            "list": [np.array([1]), pandas.Series([2])],
        }
    )
    first, second = (loads(dumps(row)) for row in frame.to_dict("records"))
    assert first == {
        "text": "one",
        "time": "2026-11-22T10:00:00",
        "zone": "2026-11-22T10:00:00+00:00",
        "span": "PT1S",
        "count": 1,
        "kind": "a",
        "month": "2026-11",
        "day": "2026-11-22",
        "list": [1],
    }
    assert second == dict.fromkeys(first) | {"list": [2]}


def test_a_value_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        dumps(endless)
