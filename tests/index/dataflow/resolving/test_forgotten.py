from collections.abc import Sequence

import numpy as np
import pytest

from index.dataflow.resolving import kept_rows
from index.dataflow.resolving.forgotten import FORGOTTEN, ForgottenNames
from index.dataflow.rows import PARTITION_BITS, Layout, Retained, name_digests
from index.session import Retention
from index.storage.parameters import Parameters
from tests.support.dataflow import KeyState

LAYOUT = Layout.of(Parameters(), None, leaves=True)


def documents(*keys: tuple[str, int, int]) -> np.ndarray:
    """Documents with an id, the time and the low key."""
    rows = np.zeros(len(keys), LAYOUT.signature)
    for row, (id_, time_ms, low) in zip(rows, keys, strict=True):
        row["high"], row["low"] = time_ms << PARTITION_BITS, low
        row["tag"]["names"] = name_digests(id_)
    return rows


def names(*keys: tuple[str, int, int]) -> np.ndarray:
    return np.array([(name_digests(id_)[0], time << PARTITION_BITS, low) for id_, time, low in keys], FORGOTTEN)


def are(store: ForgottenNames, task: KeyState, *keys: tuple[str, int, int]) -> Sequence[bool]:
    rows = documents(*keys)
    found: Sequence[bool] = store.are(task, rows, rows["tag"]["names"][:, 0]).tolist()
    return found


def test_a_document_is_forgotten_if_it_came_before_the_last_time_that_its_id_was() -> None:
    task, store = KeyState({}), ForgottenNames()
    asked = [("a", 1, 0), ("a", 2, 7), ("a", 2, 8), ("a", 3, 0), ("b", 1, 0)]
    assert are(store, task, *asked) == [False] * 5
    store.add(task, names(("a", 2, 8)))
    assert are(store, task, *asked) == [True, True, False, False, False]
    store.add(task, names(("c", 3, 0), ("a", 3, 1)))
    assert are(store, task, *asked) == are(ForgottenNames(), task, *asked) == [True, True, True, True, False]


@pytest.mark.parametrize("size", [1, 3, 4096])
def test_names_of_past_epochs_leave_the_state_and_the_others_stay(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "CHUNK_ROWS", size)
    task, store, retained = KeyState({}), ForgottenNames(), Retained(Retention(5), 10)
    for time_ms in range(20, 60, 5):
        store.add(task, names((f"at {time_ms}", time_ms, 0)))
    for floor, left in ((2, 8), (4, 4), (6, 0)):
        store.remove(task, floor, retained)
        assert sum(map(len, task.content.values())) == left * FORGOTTEN.itemsize
        asked = [(f"at {time_ms}", 0, 0) for time_ms in range(20, 60, 5)]
        assert sum(are(store, task, *asked)) == sum(are(ForgottenNames(), task, *asked)) == left
    store.add(task, names(("new", 70, 0)))
    assert are(ForgottenNames(), task, ("new", 1, 0)) == [True]
