import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.kernels.bands import band_hashes
from index.kernels.bins import distances
from index.matching.frame import OWN_LIMITS, frame_words
from index.matching.minhash import DISTANCE_UNITS, Banding, band_keys, draws, unpack_bins
from tests.support.examples import examples
from tests.support.plain_frames import framed_distances
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
    found = distances(fingerprints, fingerprints, rows, others, *shape)
    assert found.tolist() == [plain.tolist(), beside.tolist()]
    if not framed:
        assert plain.tolist() == beside.tolist()
