"""Feature vectors and set signatures for the second look, against what they estimate."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.matching.second_look import cosine, signature_similarity
from streamer.fingerprint.methods.second_look import feature_vectors, set_signatures
from tests.support.examples import examples
from tests.support.plain_simhash import mix

CELLS = 256
WEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=120)


def hashes_of(generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.integers(0, 2**64, count, dtype=np.uint64)


def vector_of(hashes: np.ndarray, weights: np.ndarray, cells: int = CELLS) -> np.ndarray:
    return feature_vectors(hashes, weights, np.array([0, len(hashes)]), cells)


def test_a_vector_holds_the_signed_sums_of_its_features_scaled_to_its_peak() -> None:
    generator = np.random.default_rng(1)
    hashes, weights = hashes_of(generator, 40), generator.integers(0, 9, 40)
    sums: Counter[int] = Counter()
    for hash_, weight in zip(map(mix, hashes.tolist()), weights.tolist(), strict=True):
        sums[(hash_ >> 32) * 16 >> 32] += weight if hash_ & 1 else -weight
    peak = max(map(abs, sums.values()))
    assert vector_of(hashes, weights, 16)[0].tolist() == [round(sums[cell] * 127 / peak) for cell in range(16)]


@examples(40)
@given(st.integers(0, 2**32), st.lists(WEIGHTS, max_size=6), st.sampled_from([16, 100, 1_024]))
def test_a_vector_depends_neither_on_other_texts_nor_on_the_order_of_features(
    seed: int, texts: list[list[int]], cells: int
) -> None:
    generator = np.random.default_rng(seed)
    weights = [np.array(text, np.int64) for text in texts]
    hashes = [hashes_of(generator, len(text)) for text in texts]
    bounds = np.cumsum([0, *map(len, texts)])
    together = feature_vectors(
        np.concatenate([hashes_of(generator, 0), *hashes]),
        np.concatenate([np.empty(0, np.int64), *weights]),
        bounds,
        cells,
    )
    assert together.shape == (len(texts), cells)
    for row, (mine, of_mine) in enumerate(zip(hashes, weights, strict=True)):
        order = generator.permutation(len(mine))
        # A feature counted twice is one of twice the weight.
        twice, double = np.concatenate([mine, mine[order]]), np.concatenate([of_mine, of_mine[order]])
        assert together[row].tolist() == vector_of(mine, of_mine, cells)[0].tolist()
        assert together[row].tolist() == vector_of(twice, double, cells)[0].tolist()


def test_the_vector_of_a_text_without_features_or_without_weight_is_all_zeros() -> None:
    hashes = hashes_of(np.random.default_rng(2), 3)
    vectors = feature_vectors(hashes, np.array([0, 0, 5]), np.array([0, 0, 2, 3]), 8)
    assert not vectors[:2].any()
    assert np.abs(vectors[2]).max() == 127


@examples(60)
@given(st.integers(0, 2**32), st.floats(0, 1), st.sampled_from(["equal", "counted", "one heavy"]))
def test_the_cosine_of_vectors_is_that_of_the_features_up_to_the_noise_of_the_cells(
    seed: int, shared: float, kind: str
) -> None:
    """Within six deviations of (1 - c^2) / sqrt(cells), plus .02 for rounding to 8 bits."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(30, 1_000))
    both, own = round(count * shared), count - round(count * shared)
    weights = generator.zipf(2.0, count + own).clip(max=50) if kind == "counted" else np.ones(count + own, np.int64)
    hashes = hashes_of(generator, count + own)
    if kind == "one heavy" and both:
        weights[0] = 40
    left, right = np.arange(count), np.r_[:both, count : count + own]
    product = float((weights[:both].astype(np.float64) ** 2).sum())
    exact = product / math.sqrt((weights[left] ** 2).sum() * float((weights[right] ** 2).sum()))
    found = cosine(vector_of(hashes[left], weights[left]), vector_of(hashes[right], weights[right]))[0]
    assert abs(found - exact) <= 6 * (1 - exact**2) / math.sqrt(CELLS) + 0.02


def test_the_noise_of_the_cells_has_no_bias_and_the_documented_deviation() -> None:
    generator = np.random.default_rng(5)
    for shared in (100, 250, 450):
        exact, errors = shared / 500, []
        for _ in range(300):
            hashes = hashes_of(generator, 1_000 - shared)
            ones = np.ones(500, np.int64)
            found = cosine(vector_of(hashes[:500], ones), vector_of(hashes[500 - shared :], ones))[0]
            errors.append(found - exact)
        deviation = (1 - exact**2) / math.sqrt(CELLS)
        assert abs(np.mean(errors)) < 4 * deviation / math.sqrt(300)
        assert np.std(errors) == pytest.approx(deviation, rel=0.2)


def test_bits_of_the_fingerprint_play_no_part_in_the_cells() -> None:
    """Hashes that agree in 56 of 64 bits still spread over all cells and both signs."""
    hashes = np.arange(256, dtype=np.uint64)
    cells = np.array([np.flatnonzero(vector_of(hashes[[each]], np.array([1]))[0])[0] for each in range(256)])
    signs = [vector_of(hashes[[each]], np.array([1]))[0].sum() for each in range(256)]
    assert len(set(cells.tolist())) > 130
    assert 90 < sum(sign > 0 for sign in signs) < 166


def test_a_signature_holds_the_smallest_hash_of_the_set_for_every_function() -> None:
    members = hashes_of(np.random.default_rng(3), 5)
    expected = []
    for function in range(1, 9):
        key = 0x9E3779B97F4A7C15 * function
        smallest = min(mix((member + key) % 2**64) for member in members.tolist())
        expected.append(1 + ((smallest & 0xFFFFFFFF) * 255 >> 32))
    assert set_signatures(members, np.array([0, 5]), 8).tolist() == [expected]


def test_only_the_empty_set_has_zeros_and_neither_order_nor_repetition_changes_a_signature() -> None:
    generator = np.random.default_rng(4)
    members = hashes_of(generator, 600)
    found = set_signatures(members, np.r_[0, 0:601:2], 100)
    assert not found[0].any()
    assert found[1:].all()
    same = set_signatures(np.concatenate([members[:20], members[19::-1]]), np.array([0, 20, 40]), 100)
    assert (same[0] == same[1]).all()
    assert set_signatures(members[:0], np.array([0]), 10).shape == (0, 10)


def test_signatures_estimate_the_jaccard_similarity() -> None:
    generator = np.random.default_rng(6)
    for both, own in ((10, 0), (6, 2), (2, 4), (0, 5)):
        exact, errors = both / (both + 2 * own), []
        for _ in range(100):
            members = hashes_of(generator, both + 2 * own)
            sets = np.concatenate([members[: both + own], members[:both], members[both + own :]])
            signatures = set_signatures(sets, np.array([0, both + own, 2 * (both + own)]), 100)
            errors.append(signature_similarity(signatures[:1], signatures[1:])[0] - exact)
        assert abs(np.mean(errors)) < 0.02
        assert np.abs(errors).max() < 0.22
