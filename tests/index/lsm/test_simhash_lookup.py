import numpy as np
import pytest

from index.lsm import memtable
from index.lsm.shape import shape_of
from index.lsm.simhash_lookup import SimhashLookup, first_of_equals
from index.matching.distance import Matches
from index.storage.parameters import Parameters
from tests.support.entries import clustered_fingerprints, fingerprints_of

CASES = [(bits, distance_max) for bits in (64, 128) for distance_max in range(8)]


def brute_force(queries: list[int], entries: list[int], distance_max: int) -> list[tuple[int, int, int]]:
    """(row, distance, number) of all matches, in order."""
    return sorted(
        (row, (query ^ entry).bit_count(), number)
        for row, query in enumerate(queries)
        for number, entry in enumerate(entries)
        if (query ^ entry).bit_count() <= distance_max
    )


def probes(fingerprints: np.ndarray, distance_max: int) -> SimhashLookup:
    return shape_of(Parameters(fingerprints.shape[1] * 64)).lookup(fingerprints, distance_max)


def columns(matches: Matches) -> list[tuple[int, int, int]]:
    return list(zip(matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist(), strict=True))


@pytest.mark.parametrize("hits_max", [1, 7, 2**20])
@pytest.mark.parametrize(("bits", "distance_max"), CASES)
def test_pairs_within_a_batch_are_those_of_brute_force(
    bits: int, distance_max: int, hits_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(distance_max)
    batch = clustered_fingerprints(generator, 90, bits, centres=4)
    expected = [
        (row, distance, number)
        for row, distance, number in brute_force(batch, batch, distance_max)
        if number < row and batch.index(batch[number]) == number
    ]
    look_up = probes(fingerprints_of(batch, bits), distance_max)
    monkeypatch.setattr(memtable, "HITS_MAX", hits_max)
    found, compared = look_up.pairs(nearest_only=False)
    assert columns(found) == expected
    assert compared.sum() >= len(expected)
    nearest_only = look_up.pairs(nearest_only=True)[0]
    assert columns(nearest_only) == [
        next(match for match in expected if match[0] == row) for row in dict.fromkeys(m[0] for m in expected)
    ]
    assert expected


def test_a_batch_of_nothing_matches_nothing() -> None:
    nothing = np.empty((0, 1), np.uint64)
    best, compared = probes(nothing, 3).pairs(nearest_only=False)
    assert (len(best), len(compared)) == (0, 0)
    assert len(first_of_equals(nothing)) == 0


@pytest.mark.parametrize("bits", [64, 128])
def test_the_first_of_equals_is_the_earliest_row(bits: int) -> None:
    batch = [9, 2**bits - 1, 9, 1, 2**bits - 1, 9]
    assert first_of_equals(fingerprints_of(batch, bits)).tolist() == [0, 1, 0, 3, 1, 0]
