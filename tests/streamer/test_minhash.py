"""MinHash: the published example, signatures against their definition, and what they estimate."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.bands import pack_bins, signature_distances, unpack_bins
from index.entry import Kind
from streamer import config, fingerprint
from streamer.fingerprint import hash_text
from streamer.minhash import NOTHING, MinHasher, bin_values, smallest
from streamer.reason import Reason
from streamer.shingles import Shingles, shingle_characters
from streamer.text import fold, normalise
from tests.support.pinned_signatures import PINNED, TEXTS

ALPHABET = "清晨的雾气还没有散去渔民们已经驾着小船出海捕鱼了abcdefghijklmnop"


def hasher(**changes: Any) -> MinHasher:
    return MinHasher(config.Minhash(**changes))


def by_definition(text: str, chosen: config.Minhash) -> list[int]:
    """The bins of one text, shingle by shingle."""
    found = shingle_characters(fold([text]), chosen.shingle_characters_wide, chosen.shingle_characters_narrow)
    smallest_of: dict[int, int] = {}
    for value in found.hashes.tolist():
        place = value * chosen.bins >> 64
        smallest_of[place] = min(value, smallest_of.get(place, value))
    count = 2**chosen.bin_bits - 1
    return [
        1 + ((smallest_of[place] & 0xFFFF_FFFF) * count >> 32) if place in smallest_of else 0
        for place in range(chosen.bins)
    ]


def estimates(found: np.ndarray, others: np.ndarray, bin_bits: int = 8) -> np.ndarray:
    similarities: np.ndarray = 1 - signature_distances(found, others, bin_bits) / 10_000
    return similarities


def test_the_example_of_the_literature() -> None:
    """Rows a to e, four sets, h1(x) = (x + 1) mod 5 and h2(x) = (2 x + 1) mod 5: one cell per set and function."""
    sets = ["ab", "bcd", "ade", "de"]
    functions = [lambda x: (x + 1) % 5, lambda x: (2 * x + 1) % 5]
    members = [
        (number * 2 + which, function("abcde".index(row)))
        for number, rows in enumerate(sets)
        for row in rows
        for which, function in enumerate(functions)
    ]
    cells, hashes = np.array(members).T
    matrix = smallest(cells.astype(np.int64), hashes.astype(np.uint64), 8).reshape(4, 2).T
    assert matrix.tolist() == [[1, 2, 0, 0], [1, 0, 1, 2]]
    assert smallest(cells[:0], hashes[:0].astype(np.uint64), 1).tolist() == [NOTHING]


@pytest.mark.parametrize("bins", [64, 128, 256])
@pytest.mark.parametrize("bin_bits", [4, 8])
@settings(max_examples=8, deadline=None)
@given(texts=st.lists(st.text(ALPHABET + " ，.", min_size=0, max_size=400), max_size=5))
def test_signatures_are_those_of_the_definition(bins: Any, bin_bits: Any, texts: list[str]) -> None:
    chosen = config.Minhash(bins=bins, bin_bits=bin_bits, features_min=1)
    found = MinHasher(chosen).fingerprint(texts)
    assert found.fingerprints.shape == (len(texts), bins * bin_bits // 64)
    expected = [by_definition(text, chosen) for text in texts]
    assert unpack_bins(found.fingerprints, bin_bits).tolist() == expected
    assert found.feature_counts.tolist() == [bins - values.count(0) for values in expected]


@pytest.mark.parametrize(
    ("name", "changes"),
    [("shipped", {}), ("narrow shingles of 8", {"shingle_characters_narrow": 8})],
)
def test_signatures_stay_what_they_are(name: str, changes: dict[str, Any]) -> None:
    """Changed on purpose only, with FORMAT_VERSION: an index on disk holds signatures of the old kind."""
    found = hasher(features_min=1, **changes).fingerprint(TEXTS)
    assert [row.tobytes().hex() for row in found.fingerprints.astype("<u8")] == PINNED[name]


def test_the_batch_that_a_text_comes_in_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "", "短", *(text[:90] for text in TEXTS)]
    together = hasher().fingerprint(texts)
    monkeypatch.setattr(fingerprint, "_SLICE_CHARACTERS", 100)
    sliced = hasher().fingerprint(texts)
    alone = [hasher().fingerprint([text]) for text in texts]
    for name in ("kinds", "reasons", "fingerprints", "feature_counts"):
        assert (getattr(together, name) == getattr(sliced, name)).all()
        assert (getattr(together, name) == np.concatenate([getattr(one, name) for one in alone])).all()
    assert len(hasher().fingerprint([])) == 0


def test_texts_with_few_shingles_match_only_equal_ones_and_texts_with_none_nothing() -> None:
    short = "长河落日圆大漠孤烟"
    found = hasher(features_min=8).fingerprint(["", "…！", short, f" {short}！", "长河落日圆大漠孤烟直单车欲问边"])
    assert found.kinds.tolist() == [Kind.UNDECIDABLE, Kind.UNDECIDABLE, Kind.EXACT, Kind.EXACT, Kind.NEAR]
    assert found.reasons.tolist() == [Reason.NO_FEATURES] * 2 + [Reason.SHORT_TEXT] * 2 + [Reason.ORDINARY]
    assert (found.fingerprints[:2] == 0).all()
    assert found.fingerprints[2].tolist() == [*hash_text(normalise(short), 2), *[0] * 14]
    assert (found.fingerprints[2] != found.fingerprints[3]).any()


def shingle_sets(generator: np.random.Generator, count: int, size: int, similarity: float) -> tuple[Shingles, Shingles]:
    """Pairs of sets of random hashes that have this Jaccard similarity, `size` members in either."""
    shared = round(2 * size * similarity / (1 + similarity))
    members = generator.integers(0, 2**63, (count, 2 * size - shared)).astype(np.uint64) * np.uint64(2)
    bounds = np.arange(count + 1) * size
    left, right = members[:, :size], np.concatenate([members[:, :shared], members[:, size:]], axis=1)
    return Shingles(left.reshape(-1), bounds), Shingles(right.reshape(-1), bounds)


@pytest.mark.parametrize("bin_bits", [4, 8])
@pytest.mark.parametrize(("size", "similarity"), [(1_000, 0.5), (1_000, 0.8), (60, 0.5), (60, 0.8), (20, 0.8)])
def test_the_estimate_is_the_jaccard_similarity_on_average(size: int, similarity: float, bin_bits: int) -> None:
    left, right = shingle_sets(np.random.default_rng(size), 2_000, size, similarity)
    shared = round(2 * size * similarity / (1 + similarity))
    exact = shared / (2 * size - shared)
    packed = [pack_bins(bin_values(one, 128, bin_bits), bin_bits) for one in (left, right)]
    found = estimates(*packed, bin_bits)
    assert abs(found.mean() - exact) < 0.01
    # Independent draws of 128 would spread by sqrt(J (1 - J) / 128); a small text is compared nearly member by member.
    spread = np.sqrt(exact * (1 - exact) / 128)
    assert found.std() < (1.4 if bin_bits == 4 else 1.15) * spread
    if size == 20:
        assert found.std() < 0.8 * spread


def test_near_texts_are_similar_and_others_are_not() -> None:
    generator = np.random.default_rng(6)
    texts = ["".join(generator.choice(list(ALPHABET), 300)) for _ in range(200)]
    near = [text[:150] + "改" + text[151:] for text in texts]
    ours, theirs = hasher().fingerprint(texts).fingerprints, hasher().fingerprint(near).fingerprints
    assert estimates(ours, theirs).min() > 0.85
    assert estimates(ours, np.roll(ours, 1, axis=0)).max() < 0.1


def test_every_setting_that_changes_a_signature_changes_the_stamp() -> None:
    others: dict[str, Any] = {
        "shingle_characters_wide": 4,
        "shingle_characters_narrow": 7,
        "bins": 64,
        "bin_bits": 4,
        "features_min": 2,
    }
    # The threshold changes no signature; the index stamps it as its own distance_max and bands.
    assert set(others) | {"similarity_min"} == set(config.Minhash.model_fields)
    stamp = hasher().stamp()
    assert stamp == hasher(similarity_min=0.9).stamp()
    for name, value in others.items():
        changed = hasher(**{name: value}).stamp()
        assert changed != stamp, name
        assert changed.keys() == stamp.keys()
