import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.matching.minhash import distance_of
from index.matching.second_look import (
    CosineLook,
    MetadataLook,
    combined_similarity,
    cosine,
    look_fields,
    look_of,
    signature_similarity,
)
from tests.support.examples import examples

PUBLISHED = MetadataLook(100, 0.9, 0.25)


def int16(*values: int) -> np.ndarray:
    return np.array(values, np.int16)


def signatures(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.uint8)


def test_the_cosine_of_two_term_vectors_is_the_published_one() -> None:
    one, other = np.array([[30, 20, 20, 10, 0]]), np.array([[40, 0, 30, 20, 10]])
    assert cosine(one, other)[0] == pytest.approx(2000 / (42.43 * 54.77), abs=1e-4)
    assert round(float(cosine(one, other)[0]), 2) == 0.86


@examples(60)
@given(st.lists(st.tuples(st.integers(-127, 127), st.integers(-127, 127)), min_size=1, max_size=40))
def test_the_cosine_is_that_of_plain_arithmetic(cells: list[tuple[int, int]]) -> None:
    left, right = zip(*cells, strict=True)
    product = sum(one * other for one, other in cells)
    sizes = math.sqrt(sum(one * one for one in left) * sum(other * other for other in right))
    expected = 1.0 if left == right else product / sizes if sizes else 0.0
    found = cosine(np.array([left], np.int8), np.array([right], np.int8))
    assert found[0] == pytest.approx(expected, abs=1e-12)


def test_equal_vectors_are_alike_even_where_all_cells_are_zero_and_zeros_are_like_nothing_else() -> None:
    zeros, some = np.zeros((1, 4), np.int8), np.array([[1, 0, 0, 0]], np.int8)
    assert cosine(zeros, zeros).tolist() == [1.0]
    assert cosine(zeros, some).tolist() == cosine(some, zeros).tolist() == [0.0]


def test_a_match_counts_from_the_least_cosine_on_and_keeps_its_distance() -> None:
    one = np.array([[3, 4, 0, 0]] * 3, np.int8).view(np.uint8)
    others = np.array([[4, 3, 0, 0], [4, 2, 0, 0], [-3, -4, 0, 0]], np.int8).view(np.uint8)
    judged = CosineLook(4, 24 / 25).judge(int16(7, 0, 1), one, others)
    assert judged.counts.tolist() == [True, False, False]
    assert judged.distances.tolist() == [7, 0, 1]
    assert CosineLook(4, 24 / 25 + 1e-9).judge(int16(7), one[:1], others[:1]).counts.tolist() == [False]


def test_more_looks_than_are_compared_at_once_are_each_compared() -> None:
    generator = np.random.default_rng(1)
    left = generator.integers(0, 256, (10_000, 3), np.uint8)
    right = np.roll(left, 1, axis=0)
    right[::3] = left[::3]
    counts = CosineLook(3, 1.0).judge(np.zeros(10_000, np.int16), left, right).counts
    assert counts[::3].all()
    assert 0 < counts.sum() < 4_000


def test_the_combined_similarity_is_the_published_formula() -> None:
    told = combined_similarity(int16(0, 0, 2, 5), np.array([1.0, 0.0, 0.5, 1.0]), 0.9)
    assert told == pytest.approx([1.0, 0.9, 0.35, 0.25])


@pytest.mark.parametrize(
    ("content_weight", "similarity_min", "reach"),
    [(0.9, 0.25, 5), (0.8, 0.25, 15), (0.9, 0.3, 3), (1.0, 0.25, 3), (0.9, 0.5, 1), (0.9, 1.0, 0), (0.5, 0.5, 128)],
)
def test_the_reach_is_the_largest_distance_that_the_best_metadata_can_make_up_for(
    content_weight: float, similarity_min: float, reach: int
) -> None:
    assert MetadataLook(100, content_weight, similarity_min).reach == reach


def test_equal_metadata_carry_a_match_over_the_whole_reach_and_not_beyond() -> None:
    same = np.full((7, 100), 9, np.uint8)
    judged = PUBLISHED.judge(int16(*range(7)), same, same)
    assert judged.counts.tolist() == [True] * 6 + [False]
    assert judged.distances.tolist() == [distance_of(0.9 / (1 + distance) + 0.1) for distance in range(7)]
    assert judged.distances.tolist() == PUBLISHED.least(int16(*range(7))).tolist()


def test_at_a_distance_of_three_a_quarter_of_the_metadata_decides() -> None:
    one = np.full((3, 100), 7, np.uint8)
    others = np.full((3, 100), 8, np.uint8)
    others[0, :26], others[1, :25], others[2, :24] = 7, 7, 7
    similarities = [(agreement / 100 - 1 / 255) / (1 - 1 / 255) for agreement in (26, 25, 24)]
    assert signature_similarity(one, others) == pytest.approx(similarities)
    judged = PUBLISHED.judge(int16(3, 3, 3), one, others)
    assert judged.counts.tolist() == [True, False, False]


def test_documents_without_metadata_share_nothing_and_count_up_to_a_distance_of_two() -> None:
    empty = np.zeros((4, 100), np.uint8)
    assert signature_similarity(empty, empty).tolist() == [0.0] * 4
    assert PUBLISHED.judge(int16(0, 1, 2, 3), empty, empty).counts.tolist() == [True, True, True, False]


def test_chance_is_taken_out_of_the_agreement_of_sets_that_share_nothing() -> None:
    generator = np.random.default_rng(2)
    left, right = generator.integers(1, 256, (2, 2_000, 100), np.uint8)
    assert signature_similarity(left, right).max() < 0.1
    assert signature_similarity(left, left).tolist() == [1.0] * 2_000


@pytest.mark.parametrize("look", [CosineLook(256, 0.8), PUBLISHED])
def test_a_second_look_comes_back_from_json_as_it_was(look: CosineLook | MetadataLook) -> None:
    assert look_of(**look_fields(look)) == look


def test_a_second_look_out_of_range_is_refused() -> None:
    for broken in ((0, 0.5), (8, 1.1), (8, -0.1)):
        with pytest.raises(ValueError, match="cosine_min is 0 to 1"):
            CosineLook(*broken)
    for functions, content_weight, similarity_min in ((0, 0.9, 0.25), (8, 0.0, 0.25), (8, 1.1, 0.25), (8, 0.9, 0.0)):
        with pytest.raises(ValueError, match="are 0 to 1"):
            MetadataLook(functions, content_weight, similarity_min)
