import numpy as np
import pytest

from index.matching.distance import hamming
from index.matching.frame import framed_distances
from index.matching.minhash import Banding
from index.matching.scheme import Minhash, Scheme, Simhash, scheme_of

BANDING = Banding(64, 8, 11, 4)
SIMHASH, MINHASH = Simhash(64), Minhash(BANDING)


def test_a_banding_makes_the_scheme_minhash_and_none_simhash() -> None:
    assert scheme_of(64, None) == SIMHASH
    assert scheme_of(512, BANDING) == MINHASH


@pytest.mark.parametrize(
    ("scheme", "keys", "farthest", "words", "threshold"),
    [(SIMHASH, 4, 64, 0, {"distance_max": "3"}), (MINHASH, 11, 10_000, 1, {"similarity_min": "0.9997"})],
)
def test_a_scheme_names_its_keys_its_largest_distance_and_its_threshold(
    scheme: Scheme, keys: int, farthest: int, words: int, threshold: dict[str, str]
) -> None:
    assert (scheme.keys, scheme.farthest, scheme.frame_words()) == (keys, farthest, words)
    assert scheme.threshold(3) == threshold


def test_distances_are_those_of_the_scheme() -> None:
    left, right = np.random.default_rng(1).integers(1, 2**64, (2, 9, 8), dtype=np.uint64)
    assert SIMHASH.distances(left, right).tolist() == hamming(left, right).tolist()
    assert MINHASH.distances(left, right).tolist() == framed_distances(left, right, 8).tolist()
