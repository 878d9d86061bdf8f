"""The table of keys against a dict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer import key_table
from streamer.key_table import ABSENT, KeyTable

KEYS = st.integers(1, 40) | st.integers(1, 2**64 - 1)


def column(keys: list[int]) -> key_table.Keys:
    return np.array(keys, np.uint64)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.dictionaries(KEYS, st.integers(0, 2**62), max_size=40), st.lists(KEYS, max_size=20))))
def test_a_table_answers_as_a_dict_does(steps: list[tuple[dict[int, int], list[int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_table, "_CAPACITY_FIRST", 2)
        table, known = KeyTable(), dict[int, int]()
    for entered, others in steps:
        new = {key: number for key, number in entered.items() if key not in known}
        table.add(column(list(new)), np.array(list(new.values()), np.int64))
        known |= new
        asked = [*known, *others, *known]
        assert table.find(column(asked)).tolist() == [known.get(key, ABSENT) for key in asked]


def test_keys_that_all_meet_in_one_slot_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_table.secrets, "randbits", lambda _: 1)
    table = KeyTable()
    keys = np.arange(1, 201, dtype=np.uint64)  # with a multiplier of 1 the high bits of all these are 0
    table.add(keys, keys.astype(np.int64) * 3)
    assert table.find(keys).tolist() == [3 * key for key in range(1, 201)]
    assert table.find(column([201, 2**64 - 1])).tolist() == [ABSENT, ABSENT]


def test_a_table_grows_with_what_is_entered_and_stays_at_most_half_full() -> None:
    table = KeyTable()
    keys = np.random.default_rng(1).choice(2**40, 50_000, replace=False).astype(np.uint64) + np.uint64(1)
    for piece in np.array_split(keys, 7):
        table.add(piece, piece.astype(np.int64))
    assert table.find(keys).tolist() == keys.tolist()
    assert len(keys) * 2 <= len(table._keys) <= len(keys) * 8


def test_an_empty_table_knows_no_key() -> None:
    assert KeyTable().find(column([1, 2**64 - 1])).tolist() == [ABSENT, ABSENT]
    assert KeyTable().find(column([])).tolist() == []
