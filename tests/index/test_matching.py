import numpy as np
import pytest

from index import matching
from index.blocks import buckets_of
from index.matching import first_of_equals, nearest_in, pairs_within, probes_of
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


def columns(matches: matching.Matches) -> list[tuple[int, int, int]]:
    return list(zip(matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist(), strict=True))


@pytest.mark.parametrize("slice_size", [1, 7, 2**20])
@pytest.mark.parametrize(("bits", "distance_max"), CASES)
def test_the_buckets_give_exactly_the_matches_of_brute_force(
    bits: int, distance_max: int, slice_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "CANDIDATES_MAX", slice_size)
    generator = np.random.default_rng(bits + distance_max)
    size = 12 if slice_size < 100 else 120
    known = clustered_fingerprints(generator, size, bits, centres=3)
    queries = clustered_fingerprints(generator, size, bits, centres=2) + [one ^ 5 for one in known[: size // 2]]
    probes = probes_of(fingerprints_of(queries, bits), distance_max)
    buckets = buckets_of(fingerprints_of(known, bits), np.arange(len(known), dtype=np.uint64))
    expected = brute_force(queries, known, distance_max)
    best, compared = nearest_in(probes, buckets, distance_max, limit=len(known))
    assert columns(best) == expected
    assert compared.sum() >= len(expected)
    first, _ = nearest_in(probes, buckets, distance_max, limit=1)
    assert columns(first) == [
        match for place, match in enumerate(expected) if not place or expected[place - 1][0] != match[0]
    ]


@pytest.mark.parametrize(("bits", "distance_max"), CASES)
def test_pairs_within_a_batch_are_those_of_brute_force(bits: int, distance_max: int) -> None:
    generator = np.random.default_rng(distance_max)
    batch = clustered_fingerprints(generator, 90, bits, centres=4)
    expected = [
        (row, distance, number)
        for row, distance, number in brute_force(batch, batch, distance_max)
        if number < row and batch.index(batch[number]) == number
    ]
    probes = probes_of(fingerprints_of(batch, bits), distance_max)
    assert columns(pairs_within(probes, distance_max, nearest_only=False)[0]) == expected
    nearest_only = pairs_within(probes, distance_max, nearest_only=True)[0]
    assert columns(nearest_only) == [
        next(match for match in expected if match[0] == row) for row in dict.fromkeys(m[0] for m in expected)
    ]
    assert expected


def test_a_part_of_the_probes_keeps_the_rows_they_stand_for() -> None:
    batch = fingerprints_of(clustered_fingerprints(np.random.default_rng(1), 30, 64, centres=2), 64)
    probes = probes_of(batch, 4)
    wanted = [(int(probes.keys[place]), int(row)) for place, row in zip(probes.places, probes.rows, strict=True)]
    in_parts = []
    for start in range(0, len(probes.keys), 11):
        part = probes.part(start, start + 11)
        in_parts += [(int(part.keys[place]), int(row)) for place, row in zip(part.places, part.rows, strict=True)]
    assert in_parts == wanted
    assert len(wanted) == 30 * 20


def test_probes_of_nothing_find_nothing() -> None:
    nothing = np.empty((0, 1), np.uint64)
    best, compared = nearest_in(probes_of(nothing, 3), buckets_of(nothing, np.empty(0, np.uint64)), 3, 1)
    assert (len(best), len(compared)) == (0, 0)
    assert len(first_of_equals(nothing)) == 0


@pytest.mark.parametrize("bits", [64, 128])
def test_the_first_of_equals_is_the_earliest_row(bits: int) -> None:
    batch = [9, 2**bits - 1, 9, 1, 2**bits - 1, 9]
    assert first_of_equals(fingerprints_of(batch, bits)).tolist() == [0, 1, 0, 3, 1, 0]
