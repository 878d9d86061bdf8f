"""Joins by sorted keys find what comparing all with all finds."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Parameters, minhash
from streamer.verification.near_pairs import KEYS_AT_ONCE, equality_keys, keys_of, pairs
from tests.support.examples import examples

Pairs = set[tuple[int, int]]


def joined(
    fingerprints: npt.NDArray[np.uint64],
    parameters: Parameters,
    folder: Path,
    wanted: npt.NDArray[np.uint64] | None = None,
    keys_at_once: int = 1 << 24,
    claimed: int | None = None,
) -> Pairs:
    """Near pairs that share a key, each as (lower row, higher row). claimed: rows for which the tables are chosen."""
    keys, tables = keys_of(parameters, claimed or len(fingerprints))
    rows = np.arange(len(fingerprints))
    half = len(rows) // 2
    parts = [(rows[:half], fingerprints[:half]), (rows[half:], fingerprints[half:])]
    found: Pairs = set()
    for left, right in pairs(parts, keys, tables * len(rows), folder, wanted, keys_at_once):
        near = parameters.distances(fingerprints[left], fingerprints[right]) <= parameters.distance_max
        found |= {(min(pair), max(pair)) for pair in zip(left[near].tolist(), right[near].tolist(), strict=True)}
    return found


def all_with_all(fingerprints: npt.NDArray[np.uint64], parameters: Parameters) -> Pairs:
    left, right = np.triu_indices(len(fingerprints), 1)
    near = parameters.distances(fingerprints[left], fingerprints[right]) <= parameters.distance_max
    return set(zip(left[near].tolist(), right[near].tolist(), strict=True))


def clustered(chance: np.random.Generator, words: int, flips: int, count: int = 40) -> npt.NDArray[np.uint64]:
    """Fingerprints some of which differ in a few bits."""
    bases = chance.integers(0, 2**64, (count // 8, words), np.uint64, endpoint=False)
    found = bases[chance.integers(0, len(bases), count)].copy()
    for row in range(count):
        for bit in chance.integers(0, 64 * words, chance.integers(0, flips + 1)).tolist():
            found[row, bit // 64] ^= np.uint64(1 << (bit % 64))
    return found


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("distance_max", range(8))
@pytest.mark.parametrize("claimed", [1, 10**5, 10**9])
def test_simhash_joins_find_all_near_pairs_at_every_distance(
    tmp_path: Path, bits: int, distance_max: int, claimed: int
) -> None:
    parameters = Parameters(bits=bits, distance_max=distance_max)
    fingerprints = clustered(np.random.default_rng(distance_max), bits // 64, 5)
    expected = all_with_all(fingerprints, parameters)
    assert expected
    assert joined(fingerprints, parameters, tmp_path, claimed=claimed) == expected


def minhash_parameters() -> Parameters:
    banding = minhash.banding_for(64, 4, 0.7)
    return Parameters(banding.bits, minhash.distance_of(0.7), banding=banding)


def signatures(chance: np.random.Generator, count: int = 60) -> npt.NDArray[np.uint64]:
    bases = chance.integers(0, 16, (count // 10, 64), np.uint8)
    values = bases[chance.integers(0, len(bases), count)].copy()
    changed = chance.random(values.shape) < chance.random((count, 1)) * 0.4
    values[changed] = chance.integers(0, 16, np.count_nonzero(changed), np.uint8)
    return minhash.pack_bins(values, 4)


@examples(20)
@given(seed=st.integers(0, 2**32))
def test_minhash_joins_find_the_near_pairs_that_share_a_band_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    parameters = minhash_parameters()
    assert parameters.banding is not None
    fingerprints = signatures(np.random.default_rng(seed))
    keys = minhash.band_keys(fingerprints, parameters.banding)
    expected = {pair for pair in all_with_all(fingerprints, parameters) if (keys[pair[0]] == keys[pair[1]]).any()}
    assert joined(fingerprints, parameters, tmp_path_factory.mktemp("keys")) == expected


def test_files_for_a_part_of_the_keys_at_a_time_change_nothing(tmp_path: Path) -> None:
    fingerprints = signatures(np.random.default_rng(1))
    whole = joined(fingerprints, minhash_parameters(), tmp_path)
    assert whole
    assert joined(fingerprints, minhash_parameters(), tmp_path, keys_at_once=100) == whole
    assert not list(tmp_path.iterdir())


def test_wanted_keys_leave_the_pairs_that_share_them(tmp_path: Path) -> None:
    fingerprints, parameters = signatures(np.random.default_rng(2)), minhash_parameters()
    keys, _ = keys_of(parameters, len(fingerprints))
    asked = {0, 7, 11}
    wanted = np.unique(keys(fingerprints[sorted(asked)]))
    of_asked = {pair for pair in joined(fingerprints, parameters, tmp_path) if asked & set(pair)}
    assert of_asked
    assert of_asked <= joined(fingerprints, parameters, tmp_path, wanted)
    assert joined(fingerprints, parameters, tmp_path, np.zeros(0, np.uint64)) == set()


def test_equal_fingerprints_alone_share_the_key_of_equality() -> None:
    fingerprints = np.array([[1, 2], [1, 3], [1, 2], [2, 1]], np.uint64)
    keys = equality_keys(fingerprints)[:, 0]
    assert keys[0] == keys[2]
    assert len(set(keys.tolist())) == 3


def test_no_row_is_a_pair_with_itself(tmp_path: Path) -> None:
    """Tables whose masks differ in few set bits had equal keys in one row."""
    fingerprints = np.random.default_rng(3).integers(0, 2**64, (2_000, 1), np.uint64, endpoint=False)
    parameters = Parameters(bits=64, distance_max=3)
    assert all(left != right for left, right in joined(fingerprints, parameters, tmp_path))
    keys, tables = keys_of(parameters, len(fingerprints))
    assert all(len(set(row)) == tables for row in keys(fingerprints).tolist())


def test_three_times_the_keys_that_are_sorted_at_once_need_no_more_memory_than_one_part_of_them(tmp_path: Path) -> None:
    count, at_once = 3 * KEYS_AT_ONCE, 1 << 16

    def parts() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        for begin in range(0, count, at_once):
            rows = np.arange(begin, begin + at_once)
            yield rows, (rows // 2).astype(np.uint64)[:, None]

    tracemalloc.start()
    found = sum(len(left) for left, _ in pairs(parts(), equality_keys, count, tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == count // 2
    assert peak < 250e6
