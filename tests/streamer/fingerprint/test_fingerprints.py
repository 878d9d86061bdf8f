"""What fingerprints of both schemes share: slices of a batch, and hexadecimal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from streamer.fingerprint import fingerprints
from streamer.fingerprint.fingerprints import Scheme, from_hexadecimal, hexadecimal
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.settings.settings import Fingerprint, Minhash


@given(st.lists(st.text("ab", max_size=9), max_size=12))
def test_slices_follow_one_another_and_hold_few_characters(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_SLICE_CHARACTERS", 10)
        ranges = list(fingerprints.slices(texts))
    assert [row for begin, end in ranges for row in range(begin, end)] == list(range(len(texts)))
    assert all(end - begin <= 1 or sum(map(len, texts[begin:end])) <= 10 for begin, end in ranges)


def test_hexadecimal_is_the_ordinary_number_with_leading_zeros() -> None:
    kinds = np.array([Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE, Kind.DEAD_LETTER], np.uint8)
    single = np.array([[1], [2**63], [0], [0]], np.uint64)
    assert hexadecimal(kinds, single) == ["0" * 15 + "1", "8" + "0" * 15, None, None]
    double = np.array([[1, 2**63 + 10], [0, 0], [0, 0], [0, 0]], np.uint64)
    assert hexadecimal(kinds, double) == ["800000000000000a0000000000000001", "0" * 32, None, None]
    assert hexadecimal(kinds[:0], single[:0]) == []


@given(st.sampled_from([64, 128]), st.data())
def test_reading_hexadecimal_inverts_writing_it(bits: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, 2**bits - 1))
    fingerprint = from_hexadecimal(f"{number:0{bits // 4}x}", bits)
    assert fingerprint.shape == (1, bits // 64)
    assert hexadecimal(np.array([Kind.NEAR], np.uint8), fingerprint) == [f"{number:0{bits // 4}x}"]


def test_hexadecimal_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a fingerprint of 64 bits has 16 hexadecimal digits, not 15"):
        from_hexadecimal("0" * 15, 64)


LENGTHS = ["The harbour's 9 ferries.", "", "长河落日圆，", "\u0645\u0631\u062d\u0628\u0627 ..."]


@pytest.mark.parametrize(
    "scheme",
    [
        MinHasher(Minhash()),
        MinHasher(Minhash(shingles="words")),
        Fingerprinter(Fingerprint(scheme="simhash")),
    ],
    ids=["characters", "words", "simhash"],
)
def test_every_scheme_counts_the_same_letters(scheme: Scheme) -> None:
    lengths = scheme.fingerprint(LENGTHS).lengths
    assert lengths is not None
    assert lengths.dtype == np.uint32
    assert lengths.tolist() == [19, 0, 5, 5]
