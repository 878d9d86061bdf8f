import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.matching.template import (
    OWN_BINS_MIN,
    OWN_SHARE_MIN,
    are_one_page,
    first_vote,
    own_bins,
    own_bins_needed,
    with_vote,
)

BINS = 128


def elected(head: np.ndarray, voters: np.ndarray) -> np.ndarray:
    votes = first_vote(head)
    for voter in voters:
        votes = with_vote(votes, voter)
    assert votes.voters == len(voters)
    return votes.values


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(2, 4))
def test_a_value_that_more_than_half_have_is_always_found(seed: int, count: int, values: int) -> None:
    pages = np.random.default_rng(seed).integers(0, values, (count + 1, BINS)).astype(np.uint8)
    found = elected(pages[0], pages[1:])
    for column, value in zip(pages.T, found.tolist(), strict=True):
        counts = np.bincount(column, minlength=values)
        if counts.max() * 2 > len(column):
            assert value == counts.argmax()


def test_the_vote_of_a_worked_example() -> None:
    pages = np.array([[7, 1, 3], [7, 2, 3], [9, 2, 4], [7, 2, 4], [7, 1, 4]], np.uint8)
    assert elected(pages[0], pages[1:]).tolist() == [7, 2, 4]


def test_pages_of_a_template_are_told_apart_and_a_copy_of_one_is_not() -> None:
    generator = np.random.default_rng(3)
    template = generator.integers(1, 256, BINS).astype(np.uint8)
    one, other = template.copy(), template.copy()
    one[:23] = generator.integers(1, 256, 23)
    other[20:43] = generator.integers(1, 256, 23)
    copy = one.copy()
    copy[5:9] = generator.integers(1, 256, 4)
    pages, others = np.array([one, one, one]), np.array([other, copy, one])
    assert own_bins(np.array([one]), np.array([template])).sum() in (22, 23)
    assert are_one_page(pages, others, np.array([template] * 3)).tolist() == [False, True, True]


def test_too_few_own_bins_tell_nothing() -> None:
    template = np.full(BINS, 9, np.uint8)
    one, other = template.copy(), template.copy()
    one[:2], other[2:4] = 1, 2
    assert are_one_page(np.array([one]), np.array([other]), np.array([template])).tolist() == [True]
    other[4:9] = 2
    assert are_one_page(np.array([one]), np.array([other]), np.array([template])).tolist() == [False]


@pytest.mark.parametrize(("filled", "needed"), [(0, OWN_BINS_MIN), (8, 31), (64, 23), (100, 16), (120, 11), (128, 5)])
def test_short_pages_need_more_own_bins(filled: int, needed: int) -> None:
    page = np.zeros((1, BINS), np.uint8)
    page[0, :filled] = 7
    assert own_bins_needed(page).tolist() == [needed]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_are_judged_as_a_loop_over_bins_judges_them(seed: int) -> None:
    generator = np.random.default_rng(seed)
    template = generator.integers(0, 4, BINS).astype(np.uint8)
    pages = np.array(
        [np.where(generator.random(BINS) < 0.3, generator.integers(0, 4, BINS), template) for _ in range(2)]
    )
    one, other = pages.astype(np.uint8)
    differing = [
        (p, o)
        for p, o, t in zip(one.tolist(), other.tolist(), template.tolist(), strict=True)
        if (p != t or o != t) and (p or o)
    ]
    equal = sum(p == o for p, o in differing)
    needed = int(own_bins_needed(one[None])[0])
    expected = len(differing) < needed or equal >= OWN_SHARE_MIN * len(differing)
    assert are_one_page(one[None], other[None], template[None]).tolist() == [expected]
