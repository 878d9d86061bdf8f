"""A line that wins every bin of a signature: what it does with the key that it was crafted for, and with another one."""

import random

import numpy as np
import pytest

from index.matching.minhash import signature_distances
from streamer.fingerprint.key import KEY_BYTES, PUBLIC, HashKey
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.minhash.shingles import shingle_characters
from streamer.settings.settings import Settings
from streamer.text.characters import fold

HAN = [chr(0x4E00 + number) for number in range(2_000)]
SIZE = Settings().minhash.shingle_characters_wide
BINS = Settings().minhash.bins
PAGES = 40


def crafted_line(key: HashKey, letters: int, chance: random.Random) -> str:
    """A line built letter by letter: each new shingle has the least hash of its bin among 2,000 choices."""
    line = "".join(chance.choices(HAN, k=SIZE - 1))
    won: set[int] = set()
    for _ in range(letters):
        tail = line[-(SIZE - 1) :]
        hashes = shingle_characters(fold([tail + letter for letter in HAN]), SIZE, SIZE, key).hashes
        bins = (hashes >> np.uint64(64 - 7)).astype(int)
        low = hashes & np.uint64(2**57 - 1)
        low[np.isin(bins, list(won))] = np.uint64(2**57)
        chosen = int(low.argmin())
        won.add(int(bins[chosen]))
        line += HAN[chosen]
        if len(won) == BINS:
            break
    return line


def articles(chance: random.Random) -> list[str]:
    return ["".join(chance.choices(HAN, k=800)) for _ in range(PAGES)]


def similar_pairs(key: HashKey, texts: list[str]) -> float:
    found = MinHasher(Settings().minhash, key=key).fingerprint(texts).fingerprints
    one, other = np.triu_indices(len(texts), 1)
    return float(np.mean(signature_distances(found[one], found[other], 8) <= 3_000))


@pytest.fixture(scope="module")
def line() -> str:
    return crafted_line(PUBLIC, 140, random.Random(1))


def test_a_line_that_is_pasted_under_different_articles_makes_none_a_duplicate(line: str) -> None:
    texts = [text + line for text in articles(random.Random(2))]
    assert similar_pairs(HashKey.of(bytes(KEY_BYTES)), texts) == 0
    # With the key that it was crafted for it makes nearly all of them duplicates: the key is what guards.
    assert similar_pairs(PUBLIC, texts) > 0.9


def test_a_line_below_a_copy_does_not_hide_the_copy(line: str) -> None:
    texts = articles(random.Random(3))
    copies = [text + line[:52] for text in texts]

    def missed(key: HashKey) -> float:
        hasher = MinHasher(Settings().minhash, key=key)
        one, other = (hasher.fingerprint(each).fingerprints for each in (texts, copies))
        return float(np.mean(signature_distances(one, other, 8) > 3_000))

    assert missed(HashKey.of(bytes(KEY_BYTES))) == 0
    assert missed(PUBLIC) > 0.5
