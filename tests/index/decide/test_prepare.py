from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from index.decide.prepare import prepared, require_sound
from index.entry import Kind
from index.storage.parameters import Parameters
from tests.support.entries import ONE, Row, entries_of

PARAMETERS = Parameters()
ENTRIES = entries_of(
    [Row(0, 5), Row(1, 4), Row(2, 5, kind=Kind.EXACT), Row(3, 0xFFFF << 40), Row(4, 5, kind=Kind.EXACT)]
)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"ids": ["a"]}, "differ in length"),
        ({"fingerprints": np.zeros((5, 2), np.uint64)}, r"must be uint64 \[5, 1\]"),
        ({"source_numbers": np.full(5, 7, np.uint32)}, "does not list"),
        ({"sources": (ONE, ONE)}, "lists a source twice"),
        ({"looks": np.zeros((5, 3), np.uint8)}, r"looks must be uint8 \[5, 0\]"),
        ({"offsets": np.zeros(5, np.uint64)}, "strictly increase"),
    ],
)
def test_a_broken_batch_is_refused_and_says_why(broken: dict[str, Any], told: str) -> None:
    require_sound(ENTRIES, PARAMETERS)
    with pytest.raises(ValueError, match=told):
        require_sound(replace(ENTRIES, **broken), PARAMETERS)


def test_rows_are_prepared_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = prepared(replace(ENTRIES, hosts=["a.example"] * 5), np.arange(5), PARAMETERS)
    assert (whole.near.tolist(), whole.exact.tolist()) == ([0, 1, 3], [2, 4])
    assert whole.firsts[whole.exact].tolist() == [2, 2]
    monkeypatch.setattr("index.decide.prepare.ROWS_AT_ONCE", 2)
    parts = prepared(ENTRIES, np.array([0, 2, 4]), PARAMETERS)
    assert [part.rows.tolist() for part in parts] == [[0, 2], [4]]
    assert [part.entries.offsets.tolist() for part in parts] == [[0, 2], [4]]
