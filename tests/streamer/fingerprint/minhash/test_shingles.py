"""Character shingles of whole batches against the definition, one character at a time."""

import unicodedata

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.minhash.shingles import shingle_characters
from streamer.text.characters import fold, normalise
from tests.support.examples import examples
from tests.support.plain_simhash import mix

MASK = 2**64 - 1
MIXED = st.lists(
    st.one_of(
        st.sampled_from("长河落日圆清晨的雾气还没有散去"),
        st.sampled_from("abcdeZ ÉßﬁΩжא٣ ,.!-'\u2019\n"),
        st.sampled_from("ひらカタ한국어กำไทยखति々〇𠀀１２"),
        st.sampled_from(["e\u0301", "\u200b", "😀", "\ud800", "が", "ﷺ"]),
    ),
    max_size=60,
).map("".join)


def by_definition(text: str, wide_size: int, narrow_size: int) -> list[int]:
    letters = [character for character in normalise(text) if regex.fullmatch(r"[\p{L}\p{M}\p{N}]", character)]

    def size(character: str) -> int:
        is_wide = unicodedata.east_asian_width(character) == "W" or regex.fullmatch(r"\p{Thai}", character)
        return wide_size if is_wide else narrow_size

    runs = [letters[at : at + size(one)] for at, one in enumerate(letters) if at + size(one) <= len(letters)]
    if letters and len(letters) < size(letters[0]):
        runs = [letters]
    hashes = []
    for run in runs:
        total = 0
        for character in run:
            total = (total * PUBLIC.multiplier + ord(character)) & MASK
        hashes.append(mix(total))
    return hashes


@examples(60)
@given(st.lists(MIXED, max_size=6), st.integers(1, 9), st.integers(1, 13))
def test_shingles_are_those_of_the_definition(texts: list[str], wide_size: int, narrow_size: int) -> None:
    found = shingle_characters(fold(texts), wide_size, narrow_size)
    assert found.bounds[0] == 0
    assert found.bounds[-1] == len(found.hashes)
    for number, text in enumerate(texts):
        begin, end = found.bounds[number : number + 2]
        assert found.hashes[begin:end].tolist() == by_definition(text, wide_size, narrow_size)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 10, 31, 32])
def test_every_size_gives_the_shingles_of_the_definition(size: int) -> None:
    text = "清晨的雾气还没有散去 The harbour council voted to widen the northern quay 渔民们已经驾着小船出海捕鱼了"
    found = shingle_characters(fold([text, text]), size, 33 - size)
    assert found.hashes.tolist() == by_definition(text, size, 33 - size) * 2


def test_white_space_punctuation_width_and_case_change_no_shingle() -> None:
    forms = ["Rain, over the HARBOUR city!", "rain over\n\nthe harbour-city", "ｒａｉｎ　over the\u200b harbour “city”"]
    found = shingle_characters(fold(forms), 5, 8)
    one, two, three = (found.hashes[found.bounds[at] : found.bounds[at + 1]].tolist() for at in range(3))
    assert one == two == three
    assert len(one) == len("rainovertheharbourcity") - 7


def test_the_first_character_sets_the_length_of_a_shingle() -> None:
    assert len(by_definition("内核ABCDEF", 3, 6)) == 3
    found = shingle_characters(
        fold(["内核abcdef", "abcdef内核", "ひらがな", "한국어는", "กำไทย", "ກຂຄງ", "កខគឃ", "कखगघ"]), 3, 6
    )
    assert np.diff(found.bounds).tolist() == [3, 3, 2, 2, 4, 2, 2, 1]


def test_a_text_without_letters_has_no_shingle_and_a_short_text_is_one_shingle() -> None:
    found = shingle_characters(fold(["", "?! …", "ab", "ab?", "长河"]), 5, 8)
    assert np.diff(found.bounds).tolist() == [0, 0, 1, 1, 1]
    assert found.hashes[0] == found.hashes[1] != found.hashes[2]
    assert shingle_characters(fold([]), 5, 8).bounds.tolist() == [0]


def test_shingles_never_cross_from_one_text_into_the_next() -> None:
    apart = shingle_characters(fold(["abcdefgh", "ijklmnop"]), 5, 8)
    assert np.diff(apart.bounds).tolist() == [1, 1]
    assert len(shingle_characters(fold(["abcdefghijklmnop"]), 5, 8).hashes) == 9
