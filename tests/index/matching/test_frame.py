import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.matching.frame import FrameRule, bands_of_own, frame_bins, frame_words, without_frames
from index.matching.minhash import Banding, pack_bins
from tests.support.brute_force_frames import framed_distance
from tests.support.examples import examples
from tests.support.plain_frames import framed_distances
from tests.support.signatures import BANDINGS, signatures_of

BINS = 128


def fingerprint(values: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Fingerprints of 8 bits a bin: values uint8 [n, BINS], frames bool [n, BINS] -> uint64 [n, words]."""
    bits = np.packbits(frame, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return np.hstack([pack_bins(values, 8), bits])


@examples(60)
@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.9))
def test_distances_are_those_of_plain_counting(seed: int, alike: float, filled: float, framed: float) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.integers(1, 256, (2, BINS)).astype(np.uint8)
    other = np.where(generator.random(BINS) < alike, one, other)
    values = np.where(generator.random((2, BINS)) < filled, np.array([one, other]), 0).astype(np.uint8)
    frames = generator.random((2, BINS)) < framed
    # Now and then a page brings nothing new.
    frames |= generator.random((2, 1)) < 0.2
    prints = fingerprint(values, frames)
    plain = [
        (tuple(page.tolist()), frozenset(np.flatnonzero(frame).tolist()))
        for page, frame in zip(values, frames, strict=True)
    ]
    for later, earlier in ((0, 1), (1, 0)):
        found = framed_distances(prints[later][None], prints[earlier][None], 8)
        assert found.tolist() == [framed_distance(*plain[later], *plain[earlier])]


@examples(40)
@given(st.integers(0, 2**32), st.integers(1, 20), st.sampled_from(BANDINGS))
def test_without_frames_the_distance_is_the_plain_one(seed: int, count: int, banding: Banding) -> None:
    signatures = signatures_of(seed, count, banding, 0.9)
    words = signatures.shape[1] + frame_words(signatures.shape[1], banding.bin_bits)
    fingerprints = without_frames(signatures, words)
    assert not frame_bins(fingerprints, banding.bin_bits).any()
    assert frame_bins(signatures, banding.bin_bits).shape == (count, banding.bins)
    plain = framed_distances(signatures, signatures[::-1], banding.bin_bits).tolist()
    assert framed_distances(fingerprints, fingerprints[::-1], banding.bin_bits).tolist() == plain
    assert framed_distances(signatures, signatures[::-1], banding.bin_bits).tolist() == plain


def test_one_article_in_two_frames_is_near_and_two_pages_of_one_template_are_not() -> None:
    generator = np.random.default_rng(1)
    article, frame, of_other, another = generator.integers(1, 256, (4, BINS)).astype(np.uint8)
    framed = np.arange(BINS) < BINS // 2
    pages = np.array([np.where(framed, frame, article), np.where(framed, of_other, article)])
    left, right = fingerprint(pages, np.array([framed, framed]))
    assert framed_distances(left[None], right[None], 8)[0] <= 1
    assert framed_distances(pack_bins(pages[:1], 8), pack_bins(pages[1:], 8), 8)[0] > 3_000
    template = np.arange(BINS) < BINS * 9 // 10
    pages = np.array([np.where(template, frame, article), np.where(template, frame, another)])
    left, right = fingerprint(pages, np.array([template, template]))
    assert framed_distances(left[None], right[None], 8)[0] == 10_000
    assert framed_distances(pack_bins(pages[:1], 8), pack_bins(pages[1:], 8), 8)[0] < 3_000


def test_a_page_that_brings_nothing_new_is_compared_plainly_and_its_own_copy_with_news_is_not() -> None:
    generator = np.random.default_rng(2)
    one, other = np.repeat(generator.integers(1, 256, (1, BINS)).astype(np.uint8), 2, axis=0)
    other[:10] = 7
    everything, template = np.ones(BINS, np.bool_), np.arange(BINS) >= 10
    old, new = fingerprint(np.array([one, other]), np.array([everything, template]))
    plain = framed_distances(pack_bins(one[None], 8), pack_bins(other[None], 8), 8)
    assert framed_distances(old[None], new[None], 8).tolist() == plain.tolist()
    assert framed_distances(new[None], old[None], 8).tolist() == [10_000]


def test_bands_in_the_frame_give_way_to_bands_of_own_bins() -> None:
    """Of 25 bands of five bins each, where the first so many bins are in the frame."""
    values, framed = np.ones((4, BINS), np.uint8), np.array([0, 12, 48, 124])
    bands = bands_of_own(values, np.arange(BINS) < framed[:, None], 25, 5)
    # No frame; three quarters of a large one; a large one; and one that leaves hardly anything.
    assert np.count_nonzero(bands, axis=1).tolist() == [0, 2 + 15, 25, 24]
    assert not bands[1, 2:10].any()
    assert bands[1, :2].all()


@pytest.mark.parametrize("wrong", [{"pages_min": 0}, {"sample_max": 256}, {"pages_min": 129}, {"every": 0}])
def test_a_rule_that_cannot_hold_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a frame needs"):
        FrameRule(**wrong)
