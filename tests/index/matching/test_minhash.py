"""Signatures: their bits, the similarity that they estimate, and the bands, each against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.matching.frame import framed_distances
from index.matching.minhash import (
    Banding,
    band_keys,
    banding_for,
    densify,
    distance_of,
    pack_bins,
    shared_probability,
    similarity_of,
    unpack_bins,
)
from tests.support.brute_force_signatures import clustered_bins, distance_by_definition
from tests.support.examples import examples

PINNED_KEYS = [[487357717460, 2185447124386, 2871975885129], [1020999235195, 1356911312813, 2827350284174]]
PINNED_FILLED = [181, 129, 191, 131, 159, 133, 181, 135, 129, 137, 169, 139, 4, 141, 201, 143]
SHAPES = [(bins, bin_bits) for bins in (64, 128, 256) for bin_bits in (4, 8)]


@pytest.mark.parametrize(("bins", "bin_bits"), SHAPES)
def test_bins_come_back_as_they_were_packed(bins: int, bin_bits: int) -> None:
    values = np.random.default_rng(bins).integers(0, 2**bin_bits, (20, bins)).astype(np.uint8)
    packed = pack_bins(values, bin_bits)
    assert packed.shape == (20, bins * bin_bits // 64)
    assert packed.dtype == np.uint64
    assert (unpack_bins(packed, bin_bits) == values).all()
    first = np.zeros((1, bins), np.uint8)
    first[0, :3] = 1, 2, 3
    assert pack_bins(first, bin_bits)[0, 0] == 1 | 2 << bin_bits | 3 << 2 * bin_bits


@pytest.mark.parametrize(("bins", "bin_bits"), SHAPES)
@examples(10)
@given(st.integers(0, 2**32))
def test_distances_are_those_of_the_definition(bins: int, bin_bits: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = clustered_bins(generator, 40, Banding(bins, bin_bits, 1, 1), centres=2)
    values[0], values[1] = 0, 0
    left, right = values[::2], values[1::2]
    found = framed_distances(pack_bins(left, bin_bits), pack_bins(right, bin_bits), bin_bits)
    assert found.dtype == np.int16
    assert found.tolist() == [
        distance_by_definition(one.tolist(), other.tolist(), bin_bits) for one, other in zip(left, right, strict=True)
    ]


@pytest.mark.parametrize("bin_bits", [4, 8])
def test_full_signatures_are_corrected_for_chance_by_the_published_formula(bin_bits: int) -> None:
    """With no empty bin: (agreement - 1 / V) / (1 - 1 / V), V the number of values."""
    chance = 1 / (2**bin_bits - 1)
    left = np.ones((129, 128), np.uint8)
    right = left.copy()
    for row in range(129):
        right[row, :row] = 2
    agreement = 1 - np.arange(129) / 128
    expected = np.clip((agreement - chance) / (1 - chance), 0, 1)
    found = framed_distances(pack_bins(left, bin_bits), pack_bins(right, bin_bits), bin_bits)
    assert np.abs(1 - found / 10_000 - expected).max() <= 0.5e-4 + 1e-12


def test_bins_that_both_leave_empty_tell_nothing() -> None:
    left, right = np.zeros((1, 128), np.uint8), np.zeros((1, 128), np.uint8)
    left[0, :4], right[0, :4] = (9, 9, 9, 0), (9, 9, 0, 9)
    # Of four bins two agree; nothing is taken out for the two that only one fills.
    expected = round((1 - (2 - 2 / 255) / (1 - 1 / 255) / 4) * 10_000)
    assert framed_distances(pack_bins(left, 8), pack_bins(right, 8), 8).tolist() == [expected]


@pytest.mark.parametrize("bins", [64, 128, 256])
def test_empty_bins_are_filled_from_filled_ones_in_each_bins_own_order(bins: int) -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(1, 256, (200, bins)).astype(np.uint8)
    for row, filled in enumerate(generator.integers(1, bins + 1, 200)):
        values[row, generator.permutation(bins)[filled:]] = 0
    full = densify(values)
    assert (full[values > 0] == values[values > 0]).all()
    assert (full > 0).all()
    for one, row in zip(values, full, strict=True):
        assert set(row.tolist()) <= set(one[one > 0].tolist())
    assert (densify(np.zeros((2, bins), np.uint8)) == 0).all()
    assert densify(values[:0]).shape == (0, bins)


def test_every_filled_bin_is_drawn_equally_often() -> None:
    """Optimal densification: the draws of different bins are independent, so no filled bin is favoured."""
    generator = np.random.default_rng(2)
    drawn = np.zeros(256, np.int64)
    for _ in range(400):
        values = np.zeros((1, 128), np.uint8)
        places = generator.permutation(128)[:8]
        values[0, places] = np.arange(1, 9)
        drawn += np.bincount(densify(values)[0], minlength=256)
    share = drawn[1:9] / drawn.sum()
    assert np.abs(share - 1 / 8).max() < 0.02


@examples(20)
@given(st.integers(0, 2**32), st.sampled_from([Banding(64, 4, 9, 7), Banding(128, 8, 25, 5), Banding(256, 8, 1, 256)]))
def test_two_signatures_share_a_key_where_all_rows_of_a_band_agree(seed: int, banding: Banding) -> None:
    values = clustered_bins(np.random.default_rng(seed), 30, banding, centres=2)
    keys = band_keys(pack_bins(values, banding.bin_bits), banding)
    full = densify(values)
    for one in range(30):
        for other in range(one):
            for band in range(banding.bands):
                here = slice(band * banding.rows, (band + 1) * banding.rows)
                agree = (full[one, here] == full[other, here]).all()
                assert (keys[one, band] == keys[other, band]) == agree
    assert ((keys >> np.uint64(40)) == np.arange(banding.bands)).all()


def test_keys_and_draws_stay_what_they_are() -> None:
    """They stand on disk: a change of them is a new format version."""
    values = (np.arange(256, dtype=np.int64).reshape(2, 128) % 251).astype(np.uint8)
    values[1, ::2] = 0
    keys = band_keys(pack_bins(values, 8), Banding(128, 8, 3, 40))
    assert keys.tolist() == PINNED_KEYS
    assert densify(values)[1, :16].tolist() == PINNED_FILLED


def test_hashes_of_bands_spread_over_all_values() -> None:
    values = np.random.default_rng(3).integers(1, 256, (20_000, 64)).astype(np.uint8)
    keys = band_keys(pack_bins(values, 8), Banding(64, 8, 12, 5))
    hashes = (keys & np.uint64(2**40 - 1)).reshape(-1)
    # 240,000 random values of 40 bits: 0.03 pairs of equal ones are expected.
    assert len(np.unique(hashes)) > len(hashes) - 5
    for shift in range(0, 40, 8):
        counts = np.bincount((hashes >> np.uint64(shift) & np.uint64(255)).astype(np.int64), minlength=256)
        assert np.abs(counts / counts.mean() - 1).max() < 0.2


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.7, 0.8, 0.9])
def test_documents_share_a_band_as_often_as_the_formula_says(similarity: float) -> None:
    generator, banding, count = np.random.default_rng(4), Banding(128, 8, 25, 5), 4_000
    left = generator.integers(1, 256, (count, 128)).astype(np.uint8)
    right = np.where(generator.random((count, 128)) < similarity, left, 0).astype(np.uint8)
    # A value that was not kept is another one, so that chance adds nothing.
    right = np.where(right == 0, left % 255 + 1, right).astype(np.uint8)
    shared = (band_keys(pack_bins(left, 8), banding) == band_keys(pack_bins(right, 8), banding)).any(axis=1).mean()
    assert abs(shared - shared_probability(similarity, 25, 5)) < 0.03


@pytest.mark.parametrize(
    ("bins", "similarity_min", "bands", "rows"),
    [(128, 0.7, 17, 5), (128, 0.65, 25, 5), (128, 0.8, 13, 7), (256, 0.7, 35, 7), (64, 0.7, 11, 4), (128, 1.0, 1, 128)],
)
def test_bands_follow_from_the_threshold(bins: int, similarity_min: float, bands: int, rows: int) -> None:
    assert banding_for(bins, 8, similarity_min) == Banding(bins, 8, bands, rows)
    assert shared_probability(similarity_min, bands, rows) >= 0.95 > shared_probability(similarity_min, bands - 1, rows)
    assert all(
        shared_probability(similarity_min, bins // more_rows, more_rows) < 0.95
        for more_rows in range(rows + 1, bins + 1)
    )


def test_where_no_bands_do_all_of_one_row_are_taken() -> None:
    assert shared_probability(0.04, 64, 1) < 0.95
    assert banding_for(64, 8, 0.04) == Banding(64, 8, 64, 1)


def test_a_similarity_survives_the_way_through_a_distance() -> None:
    for similarity in (0.0, 0.3, 0.65, 0.7, 0.9999, 1.0):
        assert similarity_of(distance_of(similarity)) == similarity


@pytest.mark.parametrize("shape", [(100, 8, 1, 1), (128, 6, 1, 1), (128, 8, 26, 5), (128, 8, 0, 5), (128, 8, 5, 0)])
def test_a_shape_that_cannot_be_is_refused(shape: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"must be one of|do not fit"):
        Banding(*shape)
