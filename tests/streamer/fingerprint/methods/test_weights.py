"""The formulas: their worked examples, their borders, and whole batches against the definition."""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.methods.weights import (
    FACTOR_UNIT,
    feature_weights,
    fixed,
    in_title,
    marked,
    sentences,
    shingle_weights,
    topic_length_factor,
    word_length_factors,
)

COUNTS = st.lists(st.integers(0, 6), max_size=6)


def bounds_of(lists: Sequence[Sequence[object]]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)])


# --- topic length ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("characters", "density"), [(1, 0.2823), (2, 0.5238), (3, 0.7913), (4, 0.9736), (5, 0.9757), (7, 0.5292)]
)
def test_the_density_of_topic_lengths_is_highest_at_four_and_five_characters(characters: int, density: float) -> None:
    """exp(-(x - 4.51)**2 / (2 * 2.207**2)), to four digits."""
    assert topic_length_factor(characters) / FACTOR_UNIT == pytest.approx(1 + density, abs=5e-5)


def test_no_topic_length_factor_is_close_to_a_rounding_border() -> None:
    """So another machine's exponential gives the same whole numbers."""
    with localcontext(prec=50):
        for characters in range(1, 60):
            away = (Decimal(characters) - Decimal("4.51")) / Decimal("2.207")
            exact = (1 + (-away * away / 2).exp()) * FACTOR_UNIT
            assert abs(exact % 1 - Decimal("0.5")) > Decimal("1e-8")
            assert topic_length_factor(characters) == int(exact.to_integral_value())


# --- word length -----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 30), max_size=6), max_size=5))
def test_word_lengths_are_compared_within_their_own_text(texts: list[list[int]]) -> None:
    flat = np.array([length for text in texts for length in text], np.int64)
    expected = [
        FACTOR_UNIT + (length - min(text)) * FACTOR_UNIT // max(max(text) - min(text), 1)
        for text in texts
        for length in text
    ]
    assert word_length_factors(flat, bounds_of(texts)).tolist() == expected


# --- sentences and markers -------------------------------------------------------------------------------------------


def numbers_of(text: str, words: Sequence[str]) -> list[int]:
    """The sentence of each word, counted from 0; the words stand in the text in this order."""
    starts, place = [], 0
    for word in words:
        place = text.index(word, place)
        starts.append(place)
        place += len(word)
    codepoints = np.array(list(map(ord, text)), np.uint32)
    numbers = sentences(codepoints, np.array([0, len(text)]), np.array(starts, np.int64))
    return (numbers - numbers[0]).tolist()


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("春天来了。总之很好", ["春天", "来", "总之", "好"], [0, 0, 1, 1]),
        ("a b! c? d; e\nf", list("abcdef"), [0, 0, 1, 2, 3, 4]),
        ("pi is 3.14 here. next", ["pi", "3", "14", "here", "next"], [0, 0, 0, 0, 1]),
        ("a, b: c", list("abc"), [0, 0, 0]),
    ],
)
def test_where_sentences_end(text: str, words: Sequence[str], expected: Sequence[int]) -> None:
    assert numbers_of(text, words) == expected


def test_a_sentence_ends_with_its_text() -> None:
    codepoints = np.array(list(map(ord, "ab.")), np.uint32)
    assert sentences(codepoints, np.array([0, 1, 1, 3]), np.array([0, 1])).tolist() == [1, 2]


def test_all_words_of_a_sentence_with_a_marker_are_marked_and_no_others() -> None:
    opens = np.array([False, False, True, False, False])
    assert marked(np.array([1, 1, 2, 2, 4]), opens).tolist() == [False, False, True, True, False]
    assert marked(np.zeros(0, np.int64), np.zeros(0, np.bool_)).tolist() == []


# --- titles ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=4)), max_size=5)
)
def test_a_feature_is_compared_with_the_title_of_its_own_text_only(
    documents: list[tuple[list[int], list[int]]],
) -> None:
    texts, titles = [document[0] for document in documents], [document[1] for document in documents]

    def column(lists: list[list[int]]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        numbers = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
        return np.array([key for one in lists for key in one], np.uint64) << np.uint64(61), numbers

    expected = [key in title for text, title in documents for key in text]
    assert in_title(*column(texts), *column(titles)).tolist() == expected


# --- sums ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 2**40), max_size=6), max_size=5), st.integers(2, 4))
def test_a_shingle_weighs_the_sum_of_its_words(texts: list[list[int]], size: int) -> None:
    flat = np.array([weight for text in texts for weight in text], np.int64)
    expected = [
        sum(text[at : at + size]) for text in texts for at in range(max(len(text) - size + 1, min(len(text), 1)))
    ]
    assert shingle_weights(flat, bounds_of(texts), size).tolist() == expected


def test_the_weight_of_a_feature_is_its_total_or_its_mean_times_one_and_the_logarithm() -> None:
    """Occurrences of weight 1, 1 and 4: their total is 6, their mean 2, and 2 * (1 + ln 3) = 4.1972."""
    totals, counts = np.array([6 * FACTOR_UNIT]), np.array([3])
    assert feature_weights(totals, counts, None).tolist() == [6 * FACTOR_UNIT]
    logarithms = np.array([fixed(1 + math.log(3))])
    assert feature_weights(totals, counts, logarithms)[0] / FACTOR_UNIT == pytest.approx(4.1972, abs=1e-4)
