"""Lines that win bins of a signature: what they do with the key that they were crafted for, and with another one."""

import random

import numpy as np
import pytest

from deploy.crafted_line import ALPHABETS, crafted_line
from index import Kind
from index.matching.frame import framed_distances
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.key import KEY_BYTES, PUBLIC, HashKey
from streamer.fingerprint.minhash import minhash
from streamer.fingerprint.minhash.minhash import MinHasher, bin_values, low_minima_max
from streamer.fingerprint.minhash.shingles import Shingles
from streamer.records.reason import Reason
from streamer.settings.settings import Settings

HAN = ALPHABETS["zh"]
BINS = Settings().minhash.bins
PAGES = 40
SECRET = HashKey.of(bytes(KEY_BYTES))
LINE, HIDING, SHORTEST = (crafted_line("zh", letters)[0] for letters in (132, 48, 24))
LATIN = crafted_line("en", 141)[0]


def articles(seed: int, letters: int = 800) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices(HAN, k=letters)) for _ in range(PAGES)]


def prints(texts: list[str], key: HashKey = PUBLIC) -> Fingerprints:
    return MinHasher(Settings().minhash, key=key).fingerprint(texts)


def similar_pairs(texts: list[str], key: HashKey = PUBLIC) -> float:
    """Share of all pairs that are duplicates."""
    signatures = prints(texts, key).fingerprints
    one, other = np.triu_indices(len(texts), 1)
    return float(np.mean(framed_distances(signatures[one], signatures[other], 8) <= 3_000))


def missed(texts: list[str], copies: list[str], key: HashKey = PUBLIC) -> float:
    """Share of the copies that are no duplicates of their texts."""
    one, other = (prints(each, key).fingerprints for each in (texts, copies))
    return float(np.mean(framed_distances(one, other, 8) > 3_000))


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of low minima is too large."""
    monkeypatch.setattr(minhash, "low_minima_max", lambda *_: np.full(minhash.LEVELS, BINS))


@pytest.mark.parametrize("key", [PUBLIC, SECRET])
def test_a_line_that_is_pasted_under_different_articles_makes_none_a_duplicate(key: HashKey) -> None:
    assert similar_pairs([text + LINE for text in articles(2)], key) == 0


@pytest.mark.parametrize("key", [PUBLIC, SECRET])
@pytest.mark.parametrize("line", [HIDING, LATIN])
def test_a_line_below_a_copy_does_not_hide_the_copy(key: HashKey, line: str) -> None:
    texts = articles(3)
    assert missed(texts, [text + line for text in texts], key) == 0


@pytest.mark.usefixtures("unguarded")
def test_unguarded_the_same_lines_do_both() -> None:
    assert similar_pairs([text + LINE for text in articles(2)]) > 0.9
    texts = articles(3)
    assert missed(texts, [text + HIDING for text in texts]) > 0.5


@pytest.mark.parametrize("letters", [100, 800, 5_000])
def test_articles_with_24_crafted_bins_are_recognised_at_every_length_and_others_are_not(letters: int) -> None:
    texts = articles(4, letters)
    assert set(prints(texts).reasons) == {Reason.ORDINARY}
    pasted = prints([text + SHORTEST for text in texts])
    assert set(pasted.reasons) == {Reason.CRAFTED}
    assert set(pasted.kinds) == {Kind.NEAR}


def test_a_line_within_an_article_and_padding_after_it_change_nothing() -> None:
    texts = articles(5)
    padded = [text[:400] + HIDING + text[400:] + text[:50] * 100 for text in texts]
    assert set(prints(padded).reasons) == {Reason.CRAFTED}
    assert missed(texts, padded) == 0


def test_repeated_text_is_not_crafted() -> None:
    texts = [text[:60] * 50 for text in articles(6)] + ["abcdefghijklmno" * 200, "哈" * 2_000, "=" * 500 + "哈哈哈"]
    assert Reason.CRAFTED not in set(prints(texts).reasons)


def test_what_is_nothing_but_crafted_is_undecidable_and_so_is_every_crafted_text_by_policy() -> None:
    only = prints([LINE])
    assert (only.kinds.tolist(), only.reasons.tolist()) == ([Kind.UNDECIDABLE], [Reason.CRAFTED])
    assert not only.fingerprints.any()
    strict = MinHasher(Settings().minhash, crafted="undecidable").fingerprint([articles(7)[0] + HIDING, articles(7)[1]])
    assert strict.kinds.tolist() == [Kind.UNDECIDABLE, Kind.NEAR]
    assert strict.reasons.tolist() == [Reason.CRAFTED, Reason.ORDINARY]
    assert not strict.fingerprints[0].any()


@pytest.mark.parametrize("bins", [64, 128, 256])
@pytest.mark.parametrize("shingles", [30, 300, 10_000])
def test_random_shingles_exceed_a_limit_no_more_often_than_it_says(bins: int, shingles: int) -> None:
    rng = np.random.default_rng(shingles)
    texts = 2_000
    hashes = rng.integers(2**64, size=(texts, shingles), dtype=np.uint64)
    heights = np.full((texts, bins), np.inf)
    cells = (hashes >> np.uint64(65 - bins.bit_length())).astype(np.int64)
    low = (hashes & np.uint64(2 ** (65 - bins.bit_length()) - 1)) / 2.0 ** (65 - bins.bit_length())
    np.minimum.at(heights, (np.arange(texts)[:, None], cells), low * shingles / bins)
    for level, limit in enumerate(low_minima_max(bins, 0.01).tolist(), start=1):
        exceeding = np.count_nonzero((heights < 0.5**level).sum(axis=1) > limit)
        assert exceeding <= 2 * 0.01 * texts
    bounds = np.arange(texts + 1) * shingles
    assert not bin_values(Shingles(hashes.ravel(), bounds, np.diff(bounds).astype(np.uint32)), bins, 8)[1].any()
