import numpy as np

from index.dataflow.resolving.given_back import GIVEN_BACK, GivenBack
from index.dataflow.rows import PARTITION_BITS, Retained, name_digests
from index.session import Retention
from tests.support.dataflow import KeyState


def rows_of(*keys: tuple[str, int]) -> np.ndarray:
    """Documents with an id and the time."""
    return np.array([(time_ms << PARTITION_BITS, 0, name_digests(id_)) for id_, time_ms in keys], GIVEN_BACK)


def times(store: GivenBack, task: KeyState, *ids: str) -> list[int]:
    asked = np.array([name_digests(id_)[0] for id_ in ids], np.uint64)
    return (store.with_ids(task, asked)["high"] >> np.uint64(PARTITION_BITS)).tolist()


def test_documents_are_known_by_their_ids_also_after_a_crash() -> None:
    task, store = KeyState({}), GivenBack()
    assert times(store, task, "a") == []
    store.add(task, rows_of(("a", 1), ("b", 2)))
    store.add(task, rows_of(("a", 3)))
    for each in (store, GivenBack()):
        assert times(each, task, "a", "c") == [1, 3]
        assert times(each, task, "c") == []


def test_documents_of_past_epochs_leave_the_state() -> None:
    task, store, retained = KeyState({}), GivenBack(), Retained(Retention(5), 10)
    store.add(task, rows_of(("a", 11), ("b", 19), ("a", 25)))
    store.remove(task, 2, retained)
    assert sum(map(len, task.content.values())) == GIVEN_BACK.itemsize
    assert times(store, task, "a", "b") == times(GivenBack(), task, "a", "b") == [25]
