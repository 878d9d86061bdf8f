import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.frames.hosts import counting_by
from index.kernels.frames import set_frames
from index.matching.frame import (
    NEW_BINS_MIN,
    OFTEN_PAGES_MIN,
    OFTEN_SHARE_MIN,
    WAITING_MAX,
    FrameRule,
    frame_bins,
    frame_words,
    without_frames,
)
from index.matching.minhash import Banding, pack_bins, unpack_bins
from tests.support.examples import examples
from tests.support.signatures import BANDINGS, signatures_of


@examples(40)
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
    samples, begins = np.zeros((32, words), np.uint64), np.zeros(1, np.int64)
    samples[:sampled] = pages
    fingerprints = without_frames(signatures, words + frame_words(words, banding.bin_bits))
    counting = counting_by(FrameRule(6, 32, 8), banding.bin_bits)
    rows, hosts = np.arange(count), np.zeros(count, np.int64)
    waiting, waits = np.zeros((1, 4, words), np.uint64), np.zeros(1, np.int64)
    taken = np.array([sampled])
    changed = set_frames(fingerprints, rows, hosts, samples, begins, taken, waiting, waits, False, counting)
    values, others = unpack_bins(signatures, banding.bin_bits), unpack_bins(pages, banding.bin_bits)
    equal = (values[:, None, :] == others[None]).sum(axis=1)
    often = (values != 0) & (equal >= max(OFTEN_PAGES_MIN, np.ceil(OFTEN_SHARE_MIN * sampled)))
    is_old = ((values != 0) & (equal == 0)).sum(axis=1) < NEW_BINS_MIN
    often |= is_old[:, None]
    assert frame_bins(fingerprints, banding.bin_bits).tolist() == (often & (sampled >= 6)).tolist()
    assert not changed.any()


def sampled_of(signatures: np.ndarray, rule: FrameRule, **numbers: float) -> tuple[np.ndarray, int]:
    """Let a host show pages of 64 bins of 8 bits; gives its sample and how many pages were taken into it."""
    words = signatures.shape[1]
    fingerprints = without_frames(signatures, words + frame_words(words, 8))
    samples, taken = np.zeros((rule.sample_max, words), np.uint64), np.zeros(1, np.int64)
    rows, hosts, begins = np.arange(len(signatures)), np.zeros(len(signatures), np.int64), np.zeros(1, np.int64)
    counting = counting_by(rule, 8)._replace(**numbers)
    waiting, waits = np.zeros((1, WAITING_MAX, words), np.uint64), np.zeros(1, np.int64)
    assert set_frames(fingerprints, rows, hosts, samples, begins, taken, waiting, waits, True, counting).all()
    return samples, int(taken[0])


@pytest.mark.parametrize("every", [1, 4])
def test_a_full_sample_takes_a_page_now_and_then_in_place_of_the_oldest(every: int) -> None:
    signatures = signatures_of(1, 800, BANDINGS[1], 1.0)[::2]
    samples, taken = sampled_of(signatures, FrameRule(8, 8, every))
    assert 0.5 * 400 / every < taken - 8 <= 400 / every * 1.6
    latest = [row for row in range(400) if (signatures[row] == samples[(taken - 1) % 8]).all()]
    assert latest[-1] > 300


def test_versions_of_a_page_are_sampled_once() -> None:
    """Else three versions of an article make the article itself the frame."""
    versions = unpack_bins(signatures_of(1, 2, BANDINGS[1], 1.0)[:1].repeat(60, axis=0), 8)
    for number in range(60):
        versions[number, number % 20 : number % 20 + 2] = 1 + number
    others = unpack_bins(signatures_of(2, 20, BANDINGS[1], 1.0)[::2], 8)
    signatures = pack_bins(np.concatenate([others, versions]), 8)
    assert sampled_of(signatures, FrameRule(5, 128, 1))[1] == 10 + 1
    assert sampled_of(signatures, FrameRule(5, 128, 1), same_share=2.0, version_share=2.0)[1] > 10 + 20


def test_a_page_of_known_values_is_not_sampled() -> None:
    """Pages of one text that each choose three of twenty boxes."""
    generator = np.random.default_rng(3)
    boxes = generator.integers(1, 256, (20, 12)).astype(np.uint8)
    pages = np.repeat(generator.integers(1, 256, (1, 64)).astype(np.uint8), 200, axis=0)
    for page in pages:
        for place, box in enumerate(generator.choice(20, 3, replace=False).tolist()):
            page[place * 12 : place * 12 + 12] = boxes[box]
    signatures = pack_bins(pages, 8)
    some, all_ = (sampled_of(signatures, FrameRule(5, 128, 1), new_min=least)[1] for least in (NEW_BINS_MIN, 0))
    assert some <= 45 < 60 < all_
