import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.kernels.frames import Counting, set_frames
from index.matching.frame import OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, frame_bins, frame_words, without_frames
from index.matching.minhash import Banding, unpack_bins
from tests.support.signatures import BANDINGS, signatures_of


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 30), st.sampled_from(BANDINGS), st.floats(0.3, 1))
def test_a_frame_has_the_values_that_enough_sampled_pages_have(
    seed: int, sampled: int, count: int, banding: Banding, filled: float
) -> None:
    generator = np.random.default_rng(seed)
    pages, signatures = signatures_of(seed, sampled, banding, filled), signatures_of(seed + 1, count, banding, filled)
    words = signatures.shape[1]
    some = generator.integers(0, max(1, sampled), count)
    if sampled:
        signatures = np.where(generator.random((count, words)) < 0.5, pages[some], signatures)
    samples = np.zeros((1, 32, words), np.uint64)
    samples[0, :sampled] = pages
    fingerprints = without_frames(signatures, words + frame_words(words, banding.bin_bits))
    counting = Counting(6, 8, OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, banding.bin_bits)
    rows, hosts = np.arange(count), np.zeros(count, np.int64)
    changed = set_frames(fingerprints, rows, hosts, samples, np.array([sampled]), False, counting)
    values, others = unpack_bins(signatures, banding.bin_bits), unpack_bins(pages, banding.bin_bits)
    equal = (values[:, None, :] == others[None]).sum(axis=1)
    often = (values != 0) & (equal >= max(OFTEN_PAGES_MIN, np.ceil(OFTEN_SHARE_MIN * sampled)))
    assert frame_bins(fingerprints, banding.bin_bits).tolist() == (often & (sampled >= 6)).tolist()
    assert not changed.any()


@pytest.mark.parametrize("every", [1, 4])
def test_a_full_sample_takes_a_page_now_and_then_in_place_of_the_oldest(every: int) -> None:
    signatures = signatures_of(1, 400, BANDINGS[1], 1.0)
    words = signatures.shape[1]
    fingerprints = without_frames(signatures, words + frame_words(words, BANDINGS[1].bin_bits))
    samples, taken = np.zeros((1, 8, words), np.uint64), np.zeros(1, np.int64)
    counting = Counting(8, every, OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, BANDINGS[1].bin_bits)
    rows, hosts = np.arange(400), np.zeros(400, np.int64)
    assert set_frames(fingerprints, rows, hosts, samples, taken, True, counting).all()
    distinct = len(np.unique(signatures, axis=0))
    assert 0.5 * distinct / every < taken[0] - 8 <= distinct / every * 1.6
    place = int(taken[0] - 1) % 8
    latest = [row for row in range(400) if (signatures[row] == samples[0, place]).all()]
    assert latest[-1] > 300
