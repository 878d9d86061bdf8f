"""Numbers of strings, by a dict and by their bytes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.vocabulary import Numbered, ShortStrings, windows


@given(st.lists(st.lists(st.text("ab", max_size=2), max_size=6), max_size=6))
def test_strings_are_numbered_in_the_order_in_which_they_are_met(batches: list[list[str]]) -> None:
    vocabulary, known = Numbered(), list[str]()
    for strings in batches:
        known += [string for string in dict.fromkeys(strings) if string not in known]
        assert vocabulary.numbers_of(strings).tolist() == [known.index(string) for string in strings]
        assert vocabulary.strings == known


@given(st.lists(st.binary(max_size=8), max_size=6), st.binary(max_size=8))
def test_a_window_is_its_bytes_as_a_number(pieces: list[bytes], rest: bytes) -> None:
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    found = windows(np.frombuffer(b"".join([*pieces, rest]), np.uint8), np.cumsum(lengths) - lengths, lengths)
    assert found.tolist() == [int.from_bytes(piece, "little") for piece in pieces]


@pytest.mark.parametrize(("width", "last"), [(np.uint8, 0xFF), (np.uint16, 0xFFFF)])
def test_short_strings_have_the_numbers_of_the_vocabulary(width: type[np.uint8] | type[np.uint16], last: int) -> None:
    vocabulary = Numbered()
    vocabulary.numbers_of(["known", "ab"])
    short = ShortStrings(vocabulary, width)
    letters = list(map(chr, (1, 0x61, 0x62, 0xE9, last)))
    for size in (1, 2, short.length_max):
        strings = ["".join(chosen) for chosen in product(letters, repeat=min(size, 3))] + ["ab", "a" * size]
        characters = np.frombuffer("".join(strings).encode("utf-32-le"), "<u4").astype(width)
        lengths = np.array(list(map(len, strings)), np.int64)
        found = short.numbers_of(characters, np.cumsum(lengths) - lengths, lengths)
        assert [vocabulary.strings[number] for number in found.tolist()] == strings
        assert found.tolist() == vocabulary.numbers_of(strings).tolist()
