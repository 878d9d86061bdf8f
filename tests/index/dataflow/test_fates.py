import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import fates
from index.dataflow.fates import Fates, FateStore
from index.dataflow.rows import Layout
from index.matching.root import RootRule
from index.storage.parameters import Parameters
from tests.support.dataflow import KeyState
from tests.support.examples import examples

MEMBER = Layout.of(Parameters(insert="root", root=RootRule(5)), None).settled
NOTHING = np.empty(0, np.uint64)

KEYS = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))
"""Batches by high key and first offset, and a row."""


class CountingState(KeyState):
    """Counts the reads."""

    reads = 0

    def get(self, name: bytes) -> bytes | None:
        self.reads += 1
        return super().get(name)


def keys_of(places: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([high for high, _, _ in places], np.uint64),
        np.array([begin << 16 | row for _, begin, row in places], np.uint64),
    )


def members_of(places: list[tuple[int, int, int]]) -> np.ndarray:
    """Members whose roots and fingerprints are numbers of their own."""
    members = np.zeros(len(places), MEMBER)
    members["high"], members["low"] = keys_of(places)
    members["earlier_high"] = members["earlier_whole"]["fingerprint"][:, 0] = [
        7 * hash(place) % 2**60 for place in places
    ]
    return members


def read(store: FateStore, task: KeyState, places: list[tuple[int, int, int]]) -> Fates:
    return store.read(task, *keys_of(places))


@examples(60)
@given(st.dictionaries(KEYS, st.sampled_from(["dropped", "member"])), st.sets(KEYS), st.booleans())
def test_a_batch_gives_back_the_fates_of_the_documents_that_are_asked_for(
    fates_of: dict[tuple[int, int, int], str], asked: set[tuple[int, int, int]], reopened: bool
) -> None:
    task, store = KeyState({}), FateStore(MEMBER)
    dropped, members = (
        sorted(place for place in fates_of if fates_of[place] == fate) for fate in ("dropped", "member")
    )
    store.write(task, *keys_of(dropped), members_of(members))
    places = sorted(asked)
    answer = read(FateStore(MEMBER) if reopened else store, task, places)
    assert answer.dropped.tolist() == [fates_of.get(place) == "dropped" for place in places]
    assert [places[place] for place in answer.places.tolist()] == [place for place in members if place in asked]
    np.testing.assert_array_equal(answer.members, members_of([place for place in members if place in asked]))


def test_a_batch_in_memory_is_not_read_again_and_the_oldest_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fates, "BATCHES_KEPT", 2)
    task, store = CountingState({}), FateStore(MEMBER)
    for batch in range(4):
        store.write(task, *keys_of([(batch, 0, 1)]), members_of([]))
    assert read(store, task, [(2, 0, 1), (3, 0, 1), (3, 0, 2)]).dropped.tolist() == [True, True, False]
    assert task.reads == 0
    assert read(store, task, [(0, 0, 1), (1, 0, 1)]).dropped.tolist() == [True, True]
    assert task.reads == 2
    # Batches 0 and 1 were used last.
    store.write(task, NOTHING, NOTHING, members_of([]))
    read(store, task, [(0, 0, 1), (1, 0, 1)])
    assert task.reads == 2
    read(store, task, [(2, 0, 1)])
    assert task.reads == 3


def test_a_state_that_went_back_is_read_by_a_store_of_its_own() -> None:
    task, store = KeyState({}), FateStore(MEMBER)
    store.write(task, *keys_of([(1, 0, 1)]), members_of([]))
    earlier = KeyState({})
    assert read(FateStore(MEMBER), earlier, [(1, 0, 1)]).dropped.tolist() == [False]
    # A negative control: what one store remembers is no longer true of an earlier state.
    assert read(store, earlier, [(1, 0, 1)]).dropped.tolist() == [True]
