import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import minhash
from index.kernels.bands import band_hashes, bands_of
from index.matching.frame import OWN_LIMITS, frame_words, framed_distances
from index.matching.minhash import DISTANCE_UNITS, Banding, band_keys, draws, unpack_bins
from tests.support.examples import examples
from tests.support.signatures import BANDINGS, signatures_of


@examples(40)
@given(st.integers(0, 2**32), st.integers(0, 30), st.sampled_from(BANDINGS), st.sampled_from([0.0, 0.03, 0.4, 1.0]))
def test_hashes_of_bands_are_the_band_keys(seed: int, count: int, banding: Banding, filled: float) -> None:
    signatures = signatures_of(seed, count, banding, filled)
    values = unpack_bins(signatures, banding.bin_bits)
    found = band_hashes(values, draws(banding.bins), banding.bands, banding.rows)
    assert found.tolist() == (band_keys(signatures, banding) << np.uint64(24)).tolist()


def fingerprints_of(seed: int, count: int, banding: Banding, filled: float, framed: float) -> np.ndarray:
    """Fingerprints of which many values are equal, with such a share of their bins in frames."""
    generator = np.random.default_rng(seed)
    signatures = signatures_of(seed, count, banding, filled)
    words = frame_words(signatures.shape[1], banding.bin_bits)
    bits = np.packbits(generator.random((count, 64 * words)) < framed, axis=1, bitorder="little")
    return np.hstack([signatures, bits.view("<u8").astype(np.uint64)])


@examples(60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.sampled_from(BANDINGS),
    st.sampled_from([0.0, 0.03, 0.4, 1.0]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_distances_are_those_of_the_formula(
    seed: int, count: int, banding: Banding, filled: float, framed: float
) -> None:
    """Without frames, and beside them."""
    fingerprints = fingerprints_of(seed, count, banding, filled, framed)
    generator, words = np.random.default_rng(seed), banding.bits // 64
    rows, others = generator.integers(0, count, 50), generator.integers(0, count, 50)
    shape = (banding.bin_bits, DISTANCE_UNITS, OWN_LIMITS)
    plain = framed_distances(fingerprints[rows, :words], fingerprints[others, :words], banding.bin_bits)
    beside = framed_distances(fingerprints[rows], fingerprints[others], banding.bin_bits)
    least = minhash.least_distances(fingerprints, fingerprints, rows, others, *shape)
    assert least.tolist() == np.minimum(plain, beside).tolist()
    if not framed:
        assert plain.tolist() == beside.tolist()


@examples(60)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 4), st.sampled_from([1, 3, 50, 2**32]))
def test_who_shares_a_band_with_whom_is_told_once_for_each_pair(seed: int, count: int, bands: int, most: int) -> None:
    generator = np.random.default_rng(seed)
    hashes = generator.integers(0, most, (count, bands), dtype=np.uint64) << np.uint64(30)
    leading = generator.random(count) < 0.7
    rows, earlier = minhash.sharing(bands_of(hashes, np.ones(len(hashes), np.bool_)), leading)
    expected = {
        (row, other)
        for row in range(count)
        for other in range(row)
        if leading[other] and (hashes[row] == hashes[other]).any()
    }
    found = list(zip(rows.tolist(), earlier.tolist(), strict=True))
    assert len(found) == len(expected)
    assert set(found) == expected
    assert rows.tolist() == sorted(rows.tolist())


@pytest.mark.parametrize("count", [1_000, 2_048])
def test_a_batch_in_which_all_share_all_bands_is_told_of_in_bounded_memory(count: int) -> None:
    everyone = np.ones(count, np.bool_)
    rows, earlier = minhash.sharing(bands_of(np.zeros((count, 17), np.uint64), everyone), everyone)
    assert len(rows) == count * (count - 1) // 2
    assert (earlier < rows).all()
