"""MinHash: the published example, signatures against their definition, and their estimates."""

from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from index.matching.frame import framed_distances
from index.matching.minhash import pack_bins, unpack_bins
from streamer.fingerprint import fingerprints
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.minhash.minhash import MinHasher, bin_values
from streamer.fingerprint.minhash.shingles import Shingles, shingle_characters
from streamer.records.reason import Reason
from streamer.settings.settings import Minhash
from streamer.text.characters import fold, normalise
from streamer.text.compared import compared
from streamer.text.words import words as words_of
from tests.support.examples import examples
from tests.support.pinned_signatures import PINNED, TEXTS
from tests.support.plain_simhash import chained

ALPHABET = "清晨的雾气还没有散去渔民们已经驾着小船出海捕鱼了abcdefghijklmnop"


def hasher(**changes: Any) -> MinHasher:
    return MinHasher(Minhash(**changes))


def word_shingles_by_definition(text: str, size: int) -> list[int]:
    """The hashes of the runs of words of one text."""
    words = words_of([compared(fold([text])).text(0)], "compiled", 1)[0]
    hashes = [xxhash.xxh3_64_intdigest(word.encode()) for word in words]
    return [chained(hashes[at : at + size]) for at in range(max(len(words) - size + 1, min(len(words), 1)))]


def by_definition(text: str, chosen: Minhash) -> list[int]:
    """The bins of one text, shingle by shingle."""
    if chosen.shingles == "words":
        hashes = word_shingles_by_definition(text, chosen.shingle_words)
    else:
        found = shingle_characters(
            compared(fold([text])), chosen.shingle_characters_wide, chosen.shingle_characters_narrow
        )
        hashes = found.hashes.tolist()
    smallest_of: dict[int, int] = {}
    for value in hashes:
        place = value * chosen.bins >> 64
        smallest_of[place] = min(value, smallest_of.get(place, value))
    count = 2**chosen.bin_bits - 1
    return [
        1 + ((smallest_of[place] & 0xFFFF_FFFF) * count >> 32) if place in smallest_of else 0
        for place in range(chosen.bins)
    ]


def estimates(found: np.ndarray, others: np.ndarray, bin_bits: int = 8) -> np.ndarray:
    similarities: np.ndarray = 1 - framed_distances(found, others, bin_bits) / 10_000
    return similarities


@pytest.mark.parametrize("bins", [64, 128, 256])
@pytest.mark.parametrize("bin_bits", [4, 8])
@examples(8)
@given(texts=st.lists(st.text(ALPHABET + " ，.", min_size=0, max_size=400), max_size=5))
def test_signatures_are_those_of_the_definition(bins: Any, bin_bits: Any, texts: list[str]) -> None:
    chosen = Minhash(bins=bins, bin_bits=bin_bits, features_min=1)
    found = MinHasher(chosen).fingerprint(texts)
    assert found.fingerprints.shape == (len(texts), bins * bin_bits // 64)
    expected = [by_definition(text, chosen) for text in texts]
    assert unpack_bins(found.fingerprints, bin_bits).tolist() == expected
    assert found.feature_counts.tolist() == [bins - values.count(0) for values in expected]


@examples(30)
@given(
    texts=st.lists(st.text(ALPHABET + " ，.'ไทยกำひらカ한국어é", max_size=200), max_size=5),
    size=st.sampled_from([1, 2, 3, 7]),
)
def test_signatures_of_words_are_those_of_the_definition(texts: list[str], size: int) -> None:
    chosen = Minhash(shingles="words", shingle_words=size, features_min=1)
    found = MinHasher(chosen).fingerprint(texts)
    assert unpack_bins(found.fingerprints, 8).tolist() == [by_definition(text, chosen) for text in texts]


def test_spacing_and_writing_change_no_word() -> None:
    forms = ["Rain over the HARBOUR city，渔民们出海捕鱼", "rain, over\nthe harbour ｃｉｔｙ! 渔民们 出海捕鱼"]
    one, other = hasher(shingles="words", features_min=1).fingerprint(forms).fingerprints
    assert (one == other).all()
    glued = ["rainoverthe harbour city 渔民们出海捕鱼", forms[0]]
    words = hasher(shingles="words", features_min=1).fingerprint(glued).fingerprints
    assert (words[0] != words[1]).any()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("shipped", {}),
        ("narrow shingles of 8", {"shingle_characters_narrow": 8}),
        ("words", {"shingles": "words"}),
    ],
)
def test_signatures_are_what_they_were_when_pinned(name: str, changes: dict[str, Any]) -> None:
    """A failure means that every index in use must be rebuilt: raise FORMAT_VERSION, and say so."""
    found = hasher(features_min=1, **changes).fingerprint(TEXTS)
    assert [row.tobytes().hex() for row in found.fingerprints.astype("<u8")] == PINNED[name]


def test_a_signature_does_not_depend_on_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "", "短", *(text[:90] for text in TEXTS)]
    together = hasher().fingerprint(texts)
    monkeypatch.setattr(fingerprints, "_SLICE_CHARACTERS", 100)
    sliced = hasher().fingerprint(texts)
    alone = [hasher().fingerprint([text]) for text in texts]
    for name in ("kinds", "reasons", "fingerprints", "feature_counts"):
        assert (getattr(together, name) == getattr(sliced, name)).all()
        assert (getattr(together, name) == np.concatenate([getattr(one, name) for one in alone])).all()
    assert len(hasher().fingerprint([])) == 0


def test_texts_with_few_shingles_match_equal_texts_only_and_texts_with_none_match_nothing() -> None:
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
    letters = np.diff(bounds).astype(np.uint32)
    return Shingles(left.reshape(-1), bounds, letters), Shingles(right.reshape(-1), bounds, letters)


@pytest.mark.parametrize("bin_bits", [4, 8])
@pytest.mark.parametrize(("size", "similarity"), [(1_000, 0.5), (1_000, 0.8), (60, 0.5), (60, 0.8), (20, 0.8)])
def test_the_estimate_is_the_jaccard_similarity_on_average(size: int, similarity: float, bin_bits: int) -> None:
    left, right = shingle_sets(np.random.default_rng(size), 2_000, size, similarity)
    shared = round(2 * size * similarity / (1 + similarity))
    exact = shared / (2 * size - shared)
    packed = [pack_bins(bin_values(one, 128, bin_bits)[0], bin_bits) for one in (left, right)]
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
    always: dict[str, Any] = {"bins": 64, "bin_bits": 4, "features_min": 2}
    of_kind: dict[str, dict[str, Any]] = {
        "characters": {"shingle_characters_wide": 4, "shingle_characters_narrow": 7},
        "words": {"shingle_words": 2},
    }
    # The threshold changes no signature; the index stamps it as its own distance_max and bands.
    known = {"similarity_min", "shingles", *always, *of_kind["characters"], *of_kind["words"]}
    assert known == set(Minhash.model_fields)
    assert hasher(shingles="characters").stamp() != hasher(shingles="words").stamp()
    for kind, other in (("characters", "words"), ("words", "characters")):
        stamp = hasher(shingles=kind).stamp()
        # Nor do the settings of the other kind.
        assert stamp == hasher(shingles=kind, similarity_min=0.9, **of_kind[other]).stamp()
        for name, value in (always | of_kind[kind]).items():
            changed = hasher(shingles=kind, **{name: value}).stamp()
            assert changed != stamp, name
            assert changed.keys() == stamp.keys()
