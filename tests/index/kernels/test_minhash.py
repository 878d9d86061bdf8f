import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.families.table import NO_OWN_KEY
from index.kernels import minhash
from index.matching.minhash import (
    DISTANCE_UNITS,
    Banding,
    band_keys,
    draws,
    signature_distances,
    unpack_bins,
)
from index.matching.template import OWN_SHARE_MIN, are_one_page, key_order, own_bins_needed, own_keys
from tests.support.signatures import BANDINGS, signatures_of

SHAPE = minhash.Shape(8, DISTANCE_UNITS, OWN_SHARE_MIN)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 30), st.sampled_from(BANDINGS), st.sampled_from([0.0, 0.03, 0.4, 1.0]))
def test_hashes_of_bands_are_the_band_keys(seed: int, count: int, banding: Banding, filled: float) -> None:
    signatures = signatures_of(seed, count, banding, filled)
    values = unpack_bins(signatures, banding.bin_bits)
    found = minhash.band_hashes(values, draws(banding.bins), banding.bands, banding.rows)
    assert found.tolist() == (band_keys(signatures, banding) << np.uint64(24)).tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from(BANDINGS), st.sampled_from([0.0, 0.03, 0.4, 1.0]))
def test_distances_are_those_of_the_formula(seed: int, count: int, banding: Banding, filled: float) -> None:
    signatures = signatures_of(seed, count, banding, filled)
    generator = np.random.default_rng(seed)
    rows, others = generator.integers(0, count, 50), generator.integers(0, count, 50)
    found = minhash.distances(signatures, signatures, rows, others, banding.bin_bits, DISTANCE_UNITS)
    assert found.tolist() == signature_distances(signatures[rows], signatures[others], banding.bin_bits).tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 4), st.sampled_from([1, 3, 50, 2**32]))
def test_who_shares_a_band_with_whom_is_told_once_for_each_pair(seed: int, count: int, bands: int, most: int) -> None:
    generator = np.random.default_rng(seed)
    hashes = generator.integers(0, most, (count, bands), dtype=np.uint64) << np.uint64(30)
    leading = generator.random(count) < 0.7
    rows, earlier = minhash.sharing(hashes, leading)
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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 4), st.sampled_from([1, 3, 50, 2**32]))
def test_whether_a_row_shares_a_band_is_told_as_with_whom(seed: int, count: int, bands: int, most: int) -> None:
    hashes = np.random.default_rng(seed).integers(0, most, (count, bands), dtype=np.uint64) << np.uint64(30)
    rows, _ = minhash.sharing(hashes, np.ones(count, np.bool_))
    assert np.flatnonzero(minhash.shared(hashes)).tolist() == np.unique(rows).tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([1, 3, 50]), st.sampled_from([0, 4_000, 10_000]))
def test_earlier_rows_are_found_in_bands_as_they_are_filed(seed: int, count: int, most: int, reach: int) -> None:
    generator = np.random.default_rng(seed)
    signatures, hashes = (
        signatures_of(seed, count, BANDINGS[1], 0.9),
        generator.integers(0, most, (count, 3), np.uint64) << np.uint64(30),
    )
    standing = generator.random(count) < 0.6
    table = np.full((3, 64), -1, np.int32), np.empty((count, 3), np.int32), np.full(count, -1, np.int64)
    rows, begin = minhash.RowsInBands(hashes, *table), 0
    for row in range(count):
        if generator.random() < 0.5:
            found, apart, compared = minhash.sharing_bands(row, begin, standing, rows, signatures, reach, SHAPE)
            begin = row
            sharing = [other for other in range(row) if standing[other] and (hashes[other] == hashes[row]).any()]
            distances = signature_distances(signatures[[row] * len(sharing)], signatures[sharing], 8).tolist()
            near = [(other, at) for other, at in zip(sharing, distances, strict=True) if at <= reach]
            assert sorted(zip(found.tolist(), apart.tolist(), strict=True)) == near
            assert compared == len(sharing)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 20), st.sampled_from(BANDINGS), st.sampled_from([0.0, 0.03, 0.4, 1.0]))
def test_keys_of_own_text_are_those_of_the_definition(seed: int, count: int, banding: Banding, filled: float) -> None:
    signatures = signatures_of(seed, 2 * count, banding, filled)
    pages, templates = (unpack_bins(signatures[begin::2], banding.bin_bits) for begin in (1, 0))
    needed = own_bins_needed(pages)
    keys, ends = minhash.own_keys(
        signatures[1::2].copy(), signatures[::2].copy(), needed, *key_order(), NO_OWN_KEY, banding.bin_bits
    )
    found = [part.tolist() for part in np.split(keys, ends[:-1])] if count else []
    expected = [own_keys(page, template).tolist() for page, template in zip(pages, templates, strict=True)]
    for own, least in zip(expected, needed.tolist(), strict=True):
        if len(own) < least:
            own.append(NO_OWN_KEY)
    assert found == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 20), st.sampled_from(BANDINGS), st.booleans())
def test_the_match_of_a_page_is_the_nearest_that_is_one_page_with_it(
    seed: int, count: int, banding: Banding, known: bool
) -> None:
    generator = np.random.default_rng(seed)
    signatures = signatures_of(seed, count + 2, banding, 0.9)
    order, roots = generator.permutation(count + 2).astype(np.uint64), np.arange(count + 2)
    roots[1:count] = generator.integers(1, count + 1, count - 1)
    columns = minhash.Documents(
        signatures, order, roots, *(np.zeros(count + 2, dtype) for dtype in (np.int64, np.bool_, np.int64))
    )
    places = np.arange(1, count + 1)
    apart = signature_distances(signatures[[0] * count], signatures[places], banding.bin_bits)
    pages, limits = unpack_bins(signatures, banding.bin_bits), (7_000, 8_000)
    needed = int(own_bins_needed(pages[:1])[0])
    shape = SHAPE._replace(bin_bits=banding.bin_bits)
    found = minhash.judged(
        0, places, apart, columns, signatures[[count + 1]], np.array([known]), needed, *limits, shape
    )
    to_roots = signature_distances(signatures[[0] * count], signatures[roots[places]], banding.bin_bits)
    near = (apart <= limits[0]) & ((roots[places] == places) | (to_roots <= limits[1]))
    templates = np.repeat(pages[[count + 1]], count, axis=0)
    one = are_one_page(np.repeat(pages[:1], count, axis=0), pages[places], templates) | (apart == 0) | (not known)
    nearest = np.lexsort((order[places], apart))
    matches, failed = nearest[(near & one)[nearest]], nearest[(near & ~one)[nearest]]
    assert found[0] == (matches[0] if len(matches) else minhash.NONE)
    assert len(matches) or found[1] == (failed[0] if len(failed) else minhash.NONE)


@pytest.mark.parametrize("count", [1_000, 2_048])
def test_a_batch_in_which_all_share_all_bands_is_told_of_in_bounded_memory(count: int) -> None:
    rows, earlier = minhash.sharing(np.zeros((count, 17), np.uint64), np.ones(count, np.bool_))
    assert len(rows) == count * (count - 1) // 2
    assert (earlier < rows).all()
