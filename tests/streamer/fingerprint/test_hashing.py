"""The compiled hashes of words against the library's."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.hashing import hash_strings, hash_text, hash_words, present
from streamer.text.words import Words
from tests.support.examples import examples

KINDS = [(0x21, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]


def words_of(strings: list[str]) -> Words:
    """These words as those of one text."""
    lengths = np.array(list(map(len, strings)), np.int64)
    codepoints = np.array(list(map(ord, "".join(strings))), np.uint32)
    return Words(codepoints, np.cumsum(lengths) - lengths, lengths, np.array([0, len(strings)]))


def by_the_library(strings: list[str], lanes: int) -> list[list[int]]:
    return [list(hash_text(string, lanes)) for string in strings]


@pytest.mark.parametrize("lanes", [1, 2])
def test_words_of_every_length_in_bytes_have_the_hashes_of_the_library(lanes: int) -> None:
    drawn = random.Random(lanes)
    strings = ["x" * size for size in range(1, 300)]
    for size in range(1, 140):
        for kind in (*KINDS, None):
            chosen = [drawn.choice(KINDS) if kind is None else kind for _ in range(size)]
            strings.append("".join(chr(drawn.randint(*each)) for each in chosen))
    assert set(range(1, 240)) <= {len(string.encode()) for string in strings}
    assert hash_words(words_of(strings), lanes).tolist() == by_the_library(strings, lanes)


@examples(200)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=45)), st.sampled_from([1, 2]))
def test_any_words_have_the_hashes_of_the_library(strings: list[str], lanes: int) -> None:
    # A blank parts words where strings are made of them.
    strings = [string.replace(" ", "") or "a" for string in strings]
    assert hash_words(words_of(strings), lanes).tolist() == by_the_library(strings, lanes)
    assert words_of(strings).strings() == [strings]


@pytest.mark.parametrize("lanes", [1, 2])
def test_strings_have_the_same_hashes_and_none_has_none(lanes: int) -> None:
    found = ["北京", "a", "don't", "𠀀𠀁", "a", "y" * 500]
    assert hash_strings(found, lanes).tolist() == by_the_library(found, lanes)
    assert hash_words(words_of(found), lanes).tolist() == by_the_library(found, lanes)
    for none in (hash_strings([], lanes), hash_words(words_of([]), lanes)):
        assert none.shape == (0, lanes)
        assert none.dtype == np.uint64


def test_present_says_which_keys_stand_in_a_sorted_column() -> None:
    among = np.array([3, 2**63, 2**64 - 1], np.uint64)
    keys = np.array([0, 3, 4, 2**63, 2**64 - 1], np.uint64)
    assert present(keys, among).tolist() == [False, True, False, True, True]
    assert present(keys, among[:0]).tolist() == [False] * 5
