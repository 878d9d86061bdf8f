"""Seeded choices: the same in every release, and spread over all that may be chosen."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamer.evaluation.dice import Dice


def test_choices_are_the_same_in_every_release() -> None:
    dice = Dice(2026)
    assert [dice.number(1, 6) for _ in range(8)] == [1, 4, 4, 6, 1, 2, 4, 4]
    assert dice.shuffled("abcdef") == list("ecdfba")


@given(st.integers(0, 2**32), st.integers(-9, 9), st.integers(0, 9))
def test_a_number_lies_within_its_bounds(seed: int, low: int, spread: int) -> None:
    assert low <= Dice(seed).number(low, low + spread) <= low + spread


def test_every_number_falls_about_equally_often() -> None:
    dice = Dice(1)
    counts = Counter(dice.number(1, 6) for _ in range(6_000))
    assert set(counts) == set(range(1, 7))
    assert all(850 < count < 1_150 for count in counts.values())


@given(st.integers(0, 2**32), st.lists(st.integers(), unique=True, max_size=12), st.data())
def test_some_items_are_different_ones(seed: int, items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    some = Dice(seed).some(items, count)
    assert len(some) == len(set(some)) == count
    assert set(some) <= set(items)
    assert sorted(Dice(seed).shuffled(items)) == sorted(items)


def test_a_chance_is_a_probability() -> None:
    dice = Dice(2)
    assert not any(dice.falls(0.0) for _ in range(100))
    assert all(dice.falls(1.0) for _ in range(100))
    assert 2_700 < sum(dice.falls(0.3) for _ in range(10_000)) < 3_300
