"""The first look into segments, against plain sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import held
from index.storage.segments.hash_codec import HashKey, pack_hash_segment
from tests.support.examples import examples


def looked_up(values: list[bytes], asked: np.ndarray, segments: np.ndarray) -> set[int]:
    """Places of the asked hashes, uint64 [n], that may be in the segments at these places, int64 [n]."""
    columns = [np.frombuffer(value, np.uint64) for value in values]
    addresses = np.array([column.ctypes.data for column in columns], np.uint64)
    begins, order = segments[:, None], np.arange(len(asked))
    return set(held.those_held(asked[:, None], begins, begins + 1, addresses, order).tolist())


@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 1_500), st.sampled_from([1, 3, 8, 16, 21, 32, 33, 40]), st.booleans())
def test_every_hash_that_a_segment_holds_passes(seed: int, count: int, hash_bits: int, crowded: bool) -> None:
    generator, values, stored = np.random.default_rng(seed), [], []
    for band in range(3):
        hashes = generator.integers(0, 2**hash_bits, count, dtype=np.uint64)
        if crowded:
            # Most are near to the lowest one.
            hashes >>= generator.integers(0, hash_bits, count, dtype=np.uint64)
        hashes = np.sort(hashes << np.uint64(24))
        values.append(pack_hash_segment(HashKey(band, 1), np.stack([hashes, np.arange(count, dtype=np.uint64)])))
        stored.append(hashes)
    segments = generator.integers(0, 3, 3 * count)
    asked = np.concatenate(stored)[generator.permutation(3 * count)]
    there = {place for place, segment in enumerate(segments.tolist()) if asked[place] in stored[segment]}
    assert there <= looked_up(values, asked, segments)


def test_of_hashes_that_no_segment_holds_only_those_at_its_edges_pass() -> None:
    generator = np.random.default_rng(1)
    hashes = np.sort(generator.integers(2**30, 2**40, 5_000, dtype=np.uint64) << np.uint64(24))
    value = pack_hash_segment(HashKey(0, 1), np.stack([hashes, np.arange(5_000, dtype=np.uint64)]))
    asked = generator.integers(0, 2**40, 20_000, dtype=np.uint64) << np.uint64(24)
    asked = asked[~np.isin(asked, hashes) & (asked > hashes[0]) & (asked < hashes[-1])]
    assert looked_up([value], asked, np.zeros(len(asked), np.int64)) == set()


def test_a_hash_far_from_its_likely_place_is_left_to_the_search() -> None:
    """However many hashes crowd a part, a look costs no more than so many steps."""
    crowd = np.arange(held.STEPS_MAX * 4, dtype=np.uint64)
    hashes = np.append(crowd * np.uint64(2), np.uint64(2**39)) << np.uint64(24)
    value = pack_hash_segment(HashKey(0, 1), np.stack([hashes, np.arange(len(hashes), dtype=np.uint64)]))
    asked = (crowd * np.uint64(2) + np.uint64(1)) << np.uint64(24)
    passed = looked_up([value], asked, np.zeros(len(asked), np.int64))
    assert 0 < len(passed) < len(asked)
    assert min(passed) >= held.STEPS_MAX - 1


@pytest.mark.parametrize("ends", [1, 2])
def test_a_look_up_in_more_than_one_segment_passes(ends: int) -> None:
    value = pack_hash_segment(HashKey(0, 1), np.array([[5 << 24, 9 << 24], [1, 2]], np.uint64))
    column = np.frombuffer(value, np.uint64)
    addresses, zero = np.full(2, column.ctypes.data, np.uint64), np.zeros((1, 1), np.int64)
    asked = np.full((1, 1), 7 << 24, np.uint64)
    found = held.those_held(asked, zero, zero + ends, addresses, np.zeros(1, np.int64))
    assert found.tolist() == [0] * (ends - 1)
