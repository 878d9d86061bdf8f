"""The audit's sample: near-duplicates enter it together, with the probability that is their similarity."""

from dataclasses import replace

import numpy as np
import pytest

from streamer.fingerprint.hashing import present
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.sample import samples
from streamer.fingerprint.scheme import scheme_for
from streamer.settings.settings import load


def features_of(*texts: set[int]) -> tuple[np.ndarray, np.ndarray]:
    hashes = np.concatenate([np.array(sorted(text), np.uint64) for text in texts])
    return hashes, np.concatenate([[0], np.cumsum([len(text) for text in texts])])


def drawn(seed: int, count: int) -> set[int]:
    return set(np.random.default_rng(seed).integers(0, 2**63, count).tolist())


@pytest.mark.parametrize("common", [0, 100, 200, 350])
def test_two_texts_share_their_least_feature_with_the_probability_of_their_similarity(common: int) -> None:
    both, one, other = drawn(1, common), drawn(2, 400 - common), drawn(3, 400 - common)
    hashes, bounds = features_of(both | one, both | other)
    expected, seeds = common / (800 - common), 2_000
    equal = 0
    for seed in range(seeds):
        first, second = samples(hashes, bounds, 1, replace(PUBLIC, seed=seed))
        equal += first.least == second.least
    assert present(first.features, second.features).sum() == common
    # Four deviations of a binomial share.
    assert equal / seeds == pytest.approx(expected, abs=4 * (expected * (1 - expected) / seeds) ** 0.5)


def test_one_text_in_so_many_is_sampled_by_its_least_feature_alone() -> None:
    hashes, bounds = features_of(*(drawn(seed, 5) for seed in range(4_000)))
    found = samples(hashes, bounds, 16, PUBLIC)
    chosen = [number for number, sample in enumerate(found) if sample is not None]
    assert len(chosen) == pytest.approx(250, abs=4 * (250 * 15 / 16) ** 0.5)
    again = samples(np.repeat(hashes, 2), 2 * bounds, 16, PUBLIC)
    assert [number for number, sample in enumerate(again) if sample is not None] == chosen
    number = chosen[0]
    assert found[number].features.tolist() == sorted(
        hash_ % 2**32 for hash_ in hashes[bounds[number] : bounds[number + 1]].tolist()
    )


def test_another_key_draws_another_sample() -> None:
    hashes, bounds = features_of(*(drawn(seed, 50) for seed in range(2_000)))
    one, other = (
        {number for number, sample in enumerate(samples(hashes, bounds, 8, replace(PUBLIC, seed=seed))) if sample}
        for seed in (1, 2)
    )
    assert len(one & other) < len(one) / 4


def test_texts_without_features_are_never_sampled() -> None:
    found = samples(np.zeros(0, np.uint64), np.zeros(4, np.int64), 1, PUBLIC)
    assert found.tolist() == [None] * 3


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_both_schemes_sample_long_texts_and_neither_short_ones_nor_any_without_an_audit(scheme: str) -> None:
    texts = ["短", " ".join(f"word{number} harbour{number}" for number in range(200)), ""]
    chosen = scheme_for(load(overrides=[f"fingerprint.scheme={scheme}"]))
    assert chosen.fingerprint(texts).samples is None
    chosen.sampled_one_in = 1
    found = chosen.fingerprint(texts).samples
    assert found is not None
    assert [sample is not None for sample in found] == [False, True, False]
