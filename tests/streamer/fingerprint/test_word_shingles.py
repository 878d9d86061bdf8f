"""Shingles of words against the plain definition, and the mixer that chains them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.shingle_kernels import GOLDEN_RATIO, mix, mix_column
from streamer.fingerprint.word_shingles import shingle
from tests.support import plain_simhash
from tests.support.plain_simhash import HASHES, bounds_of, chained, column


def test_the_mixer_is_that_of_splitmix64() -> None:
    """By the first outputs that its authors publish for the seed 1234567; the plain oracle and both forms agree."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    states = [(1234567 + step * GOLDEN_RATIO) % 2**64 for step in range(3)]
    assert list(map(plain_simhash.mix, states)) == published
    assert mix_column(np.array(states, np.uint64)).tolist() == published
    assert [int(mix(np.uint64(state))) for state in states] == published


def test_mixing_a_column_leaves_the_column_as_it_was() -> None:
    numbers = np.array([0, 1, 2**64 - 1], np.uint64)
    mix_column(numbers)
    assert numbers.tolist() == [0, 1, 2**64 - 1]


@given(HASHES, st.integers(2, 4))
def test_shingles_chain_the_words_in_their_order(texts: list[list[int]], size: int) -> None:
    found, bounds = shingle(column([value for text in texts for value in text]), bounds_of(texts), size)
    for row, text in enumerate(texts):
        expected = [chained(text[at : at + size]) for at in range(max(len(text) - size + 1, min(len(text), 1)))]
        assert found[bounds[row] : bounds[row + 1], 0].tolist() == expected


def test_a_shingle_depends_on_the_order_of_its_words() -> None:
    found, _ = shingle(column([5, 9, 9, 5]), np.array([0, 2, 4]), 2)
    assert found[0, 0] != found[1, 0]
