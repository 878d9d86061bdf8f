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
