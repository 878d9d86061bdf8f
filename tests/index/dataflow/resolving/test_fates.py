import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow.resolving import fates
from index.dataflow.resolving.fates import Fates, FateStore
from index.dataflow.rows import FOLLOWER, Layout
from index.matching.root import RootRule
from index.storage.parameters import Parameters
from tests.support.dataflow import KeyState
from tests.support.examples import examples

PARAMETERS = Parameters(insert="root", root=RootRule(5))
LAYOUT, WITH_UPDATES = (Layout.of(PARAMETERS, None, leaves=leaves) for leaves in (False, True))

KEYS = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))
"""Batches by two numbers, and a row."""


class CountingState(KeyState):
    """Counts the reads."""

    reads = 0

    def get(self, name: bytes) -> bytes | None:
        self.reads += 1
        return super().get(name)


def keys_of(places: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([high << 2 | begin for high, begin, _ in places], np.uint64),
        np.array([row for _, _, row in places], np.uint16),
    )


def followers_of(*pairs: tuple[tuple[int, int, int], int]) -> np.ndarray:
    """Followers of documents, with a number each."""
    followers = np.zeros(len(pairs), FOLLOWER)
    followers["high"], followers["low"] = keys_of([place for place, _ in pairs])
    followers["later_high"] = [number for _, number in pairs]
    return followers


def members_of(places: list[tuple[int, int, int]], layout: Layout = LAYOUT) -> np.ndarray:
    """Members whose roots and fingerprints are numbers of their own."""
    members = np.zeros(len(places), layout.settled)
    members["high"], members["low"] = keys_of(places)
    members["earlier_high"] = members["earlier_whole"]["fingerprint"][:, 0] = [
        7 * hash(place) % 2**60 for place in places
    ]
    return members


def read(store: FateStore, task: KeyState, places: list[tuple[int, int, int]]) -> Fates:
    return store.read(task, *keys_of(places))


def gone(store: FateStore, task: KeyState, *places: tuple[int, int, int]) -> None:
    store.write(task, followers_of(*((place, 0) for place in places)), members_of([]), followers_of())


@examples(60)
@given(st.dictionaries(KEYS, st.sampled_from(["gone", "member"])), st.sets(KEYS), st.booleans(), st.booleans())
def test_a_batch_gives_back_the_fates_of_the_documents_that_are_asked_for(
    fates_of: dict[tuple[int, int, int], str], asked: set[tuple[int, int, int]], reopened: bool, updates: bool
) -> None:
    layout = WITH_UPDATES if updates else LAYOUT
    task, store = KeyState({}), FateStore(layout)
    leaving, members = (sorted(place for place in fates_of if fates_of[place] == fate) for fate in ("gone", "member"))
    # The first half of a batch may be decided before the second.
    for half in (slice(None, len(members) // 2), slice(len(members) // 2, None)):
        rows = followers_of(*((place, 0) for place in leaving[half]))
        store.write(task, rows, members_of(members[half], layout), followers_of())
    gone(store, task, *leaving[len(members) // 2 :])
    places = sorted(asked)
    answer = read(FateStore(layout) if reopened else store, task, places)
    assert answer.gone.tolist() == [fates_of.get(place) == "gone" for place in places]
    assert [places[place] for place in answer.places.tolist()] == [place for place in members if place in asked]
    np.testing.assert_array_equal(answer.members, members_of([place for place in members if place in asked], layout))
    assert not len(answer.followers)


def test_an_entry_may_leave_later_and_its_followers_are_put_as_a_whole() -> None:
    task, store, nobody = KeyState({}), FateStore(WITH_UPDATES), members_of([], WITH_UPDATES)
    one, other = (1, 0, 1), (1, 0, 2)
    store.write(task, followers_of((one, 0)), members_of([(1, 0, 3)], WITH_UPDATES), followers_of((one, 5), (one, 6)))
    store.write(task, followers_of((other, 0)), nobody, followers_of((one, 6), (one, 7), (other, 8)))
    answer = read(FateStore(WITH_UPDATES), task, [one, other, (1, 0, 3)])
    assert answer.gone.tolist() == [True, True, False]
    assert answer.places.tolist() == [2]
    assert sorted(answer.followers["later_high"].tolist()) == [6, 7, 8]
    assert read(store, task, [other]).followers["later_high"].tolist() == [8]


def test_a_batch_in_memory_is_not_read_again_and_the_oldest_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fates, "BATCHES_KEPT", 2)
    task, store = CountingState({}), FateStore(LAYOUT)
    for batch in range(4):
        gone(store, task, (batch, 0, 1))
    # Another part of a batch may have been put before.
    assert task.reads == 4
    assert read(store, task, [(2, 0, 1), (3, 0, 1), (3, 0, 2)]).gone.tolist() == [True, True, False]
    assert task.reads == 4
    assert read(store, task, [(0, 0, 1), (1, 0, 1)]).gone.tolist() == [True, True]
    assert task.reads == 6
    # Batches 0 and 1 were used last.
    gone(store, task)
    read(store, task, [(0, 0, 1), (1, 0, 1)])
    assert task.reads == 6
    read(store, task, [(2, 0, 1)])
    assert task.reads == 7


def test_a_state_that_went_back_is_read_by_a_store_of_its_own() -> None:
    task, store = KeyState({}), FateStore(LAYOUT)
    gone(store, task, (1, 0, 1))
    earlier = KeyState({})
    assert read(FateStore(LAYOUT), earlier, [(1, 0, 1)]).gone.tolist() == [False]
    # A negative control: what one store remembers is no longer true of an earlier state.
    assert read(store, earlier, [(1, 0, 1)]).gone.tolist() == [True]
