import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.matching.distance import Matches, hamming, joined, nearest, no_matches
from tests.support.entries import fingerprints_of


@given(st.sampled_from([64, 128]).flatmap(lambda bits: st.tuples(st.just(bits), *[st.integers(0, 2**bits - 1)] * 2)))
def test_the_distance_is_the_number_of_differing_bits(case: tuple[int, int, int]) -> None:
    bits, left, right = case
    distances = hamming(fingerprints_of([left, right], bits), fingerprints_of([right, right], bits))
    assert distances.tolist() == [(left ^ right).bit_count(), 0]
    assert distances.dtype == np.int16


def test_the_worked_example_of_a_distance() -> None:
    assert hamming(fingerprints_of([0b10101], 64), fingerprints_of([0b00110], 64)).tolist() == [3]


def test_complements_are_as_far_apart_as_they_are_long() -> None:
    for bits in (64, 128):
        ones = fingerprints_of([2**bits - 1], bits)
        assert hamming(ones, ~ones).tolist() == [bits]


found = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 9)), max_size=40)


@given(found, st.one_of(st.none(), st.integers(1, 4)))
def test_the_nearest_are_the_least_by_distance_then_number_each_entry_once(
    rows: list[tuple[int, int, int]], limit: int | None
) -> None:
    # An entry has one distance from a row, however often it is found.
    rows = [(row, (row + number + distance // 4) % 4, number) for row, distance, number in rows]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    matches = Matches(columns[:, 0], columns[:, 1].astype(np.int16), columns[:, 2].astype(np.uint64))
    best = nearest(matches, limit)
    expected = []
    for row in range(5):
        expected += sorted({match for match in rows if match[0] == row})[:limit]
    assert list(zip(best.rows.tolist(), best.distances.tolist(), best.numbers.tolist(), strict=True)) == expected


def test_joining_nothing_changes_nothing() -> None:
    one = Matches(np.array([1]), np.array([2], np.int16), np.array([3], np.uint64))
    both = joined([no_matches(), one])
    assert (both.rows.tolist(), both.distances.tolist(), both.numbers.tolist()) == ([1], [2], [3])
