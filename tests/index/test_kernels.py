"""The compiled loops against the same things said in numpy or plain Python."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import kernels
from index.blocks import block_keys, probe_keys
from index.distance import hamming
from index.layout import pack_chunk
from index.overlay import Overlay
from tests.support.entries import clustered_fingerprints, fingerprints_of

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = 2**30


def some(seed: int, count: int, bits: int, centres: int = 3) -> np.ndarray:
    return fingerprints_of(clustered_fingerprints(np.random.default_rng(seed), count, bits, centres=centres), bits)


class Pages(NamedTuple):
    """What `kernels.file_entries` makes, with room for the fingerprints given."""

    fingerprints: np.ndarray
    heads: np.ndarray
    links: np.ndarray
    following: np.ndarray
    places: np.ndarray
    count: int


def pages_of(fingerprints: np.ndarray) -> Pages:
    blocks, room = fingerprints.shape[1] * 4, len(fingerprints) * fingerprints.shape[1] * 4
    heads = np.full((blocks, 65_536), -1, np.int32)
    links = np.full((room, 2), -9, np.int32)
    following = np.zeros((room, kernels.PAGE_ENTRIES), np.uint16)
    places = np.full((room, kernels.PAGE_ENTRIES), -9, np.int32)
    count = kernels.file_entries(fingerprints, 0, heads, links, following, places, 0)
    return Pages(fingerprints, heads, links, following, places, count)


def compared_by_numpy(
    asked: np.ndarray, keys: np.ndarray, known: np.ndarray, ringed: np.ndarray
) -> list[tuple[int, int, int]]:
    """(row, entry, distance) of every entry that a key of the row names, as often as keys do."""
    filed, wanted = block_keys(known), block_keys(asked)
    found = []
    for row, of_row in enumerate(keys.tolist()):
        for key in of_row:
            table, following = key >> 16, ((key >> 16) + 1) % filed.shape[1]
            off = np.bitwise_count((filed[:, following] ^ wanted[row, following]) & 0xFFFF)
            named = (filed[:, table] == key) & (~ringed[table] | (off <= 1))
            distances = hamming(known, asked[row][None])
            found += [(row, entry, int(distances[entry])) for entry in np.flatnonzero(named).tolist()]
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([64, 128]), st.integers(0, 7), st.booleans())
def test_pages_and_chunks_are_scanned_as_numpy_does_it(seed: int, bits: int, distance_max: int, ring: bool) -> None:
    known = np.unique(some(seed, 60, bits), axis=0)
    asked = np.concatenate([some(seed + 1, 6, bits), known[:6]])
    keys = probe_keys(asked, distance_max)
    ringed = np.arange(bits // 16) % 2 < ring
    expected = compared_by_numpy(asked, keys, known, ringed)
    hits = sorted((row, distance, entry) for row, entry, distance in expected if distance <= distance_max)
    for nearest_only in (False, True):
        best, compared = np.full(len(asked), distance_max, np.int16), np.zeros(len(asked), np.int64)
        pages, everything = pages_of(known), np.full(len(asked), len(known))
        rows, distances, places, row = kernels.scan_pages(
            asked, keys, *pages[:5], everything, ringed, nearest_only, best, compared, 0, EVERYTHING
        )
        assert row == len(asked)
        assert compared.tolist() == np.bincount([row for row, _, _ in expected], minlength=len(asked)).tolist()
        require_hits(rows, distances, places[:, 0].tolist(), hits, best, nearest_only)

        order = [np.lexsort(np.roll(block_keys(known) & 0xFFFF, -table, axis=1).T[::-1]) for table in range(bits // 16)]
        values = [
            np.frombuffer(pack_chunk(rotated(known[places], table), np.empty(0, np.uint64)), np.uint8)
            for table, places in enumerate(order)
        ]
        addresses = np.array([value.__array_interface__["data"][0] for value in values], np.uint64)
        tables = (keys >> 16).astype(np.int64)
        best, compared = np.full(len(asked), distance_max, np.int16), np.zeros(len(asked), np.int64)
        order = np.random.default_rng(seed).permutation(keys.size)
        rows, distances, found, turn = kernels.scan_chunks(
            asked, keys, order, tables, tables + 1, addresses, ringed, nearest_only, best, compared, 0, EVERYTHING
        )
        assert turn == keys.size
        assert compared.tolist() == np.bincount([row for row, _, _ in expected], minlength=len(asked)).tolist()
        entry_of = {tuple(one): entry for entry, one in enumerate(known.tolist())}
        require_hits(rows, distances, [entry_of[tuple(one)] for one in found.tolist()], hits, best, nearest_only)


def rotated(fingerprints: np.ndarray, table: int) -> np.ndarray:
    return np.roll((block_keys(fingerprints) & 0xFFFF).astype(np.uint16), -table, axis=1).T


def require_hits(
    rows: np.ndarray,
    distances: np.ndarray,
    entries: list[int],
    expected: list[tuple[int, int, int]],
    best: np.ndarray,
    nearest_only: bool,
) -> None:
    found = sorted(zip(rows.tolist(), distances.tolist(), entries, strict=True))
    if not nearest_only:
        assert found == expected
        return
    least = {row: min(distance for other, distance, _ in expected if other == row) for row, _, _ in expected}
    assert {row: int(best[row]) for row in least} == least
    nearest = {(row, distance, entry) for row, distance, entry in expected if distance == least[row]}
    assert {hit for hit in found if hit[1] == least[hit[0]]} == nearest
    assert set(found) <= set(expected)


@pytest.mark.parametrize("hits_max", [1, 3, 50])
def test_a_scan_that_stops_goes_on_at_the_row_it_gives(hits_max: int) -> None:
    known, asked = some(1, 80, 64), some(1, 20, 64)
    pages, keys, ringed = pages_of(known), probe_keys(asked, 4), np.zeros(4, np.bool_)
    everything = np.full(20, 80)

    def scanned(at_most: int) -> tuple[list[tuple[int, int]], list[int], int]:
        best, compared = np.full(20, 4, np.int16), np.zeros(20, np.int64)
        found, row, calls = [], 0, 0
        while row < 20:
            rows, _, places, row = kernels.scan_pages(
                asked, keys, *pages[:5], everything, ringed, False, best, compared, row, at_most
            )
            found += list(zip(rows.tolist(), places[:, 0].tolist(), strict=True))
            calls += 1
        return found, compared.tolist(), calls

    found, compared, calls = scanned(hits_max)
    assert (found, compared, 1) == scanned(EVERYTHING)
    assert calls > 1
    assert len(found) > 50


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("kept", [0, 1, 40, 99, 100])
def test_what_is_taken_back_leaves_the_pages_as_they_were(bits: int, kept: int) -> None:
    both = some(kept, 100, bits, centres=1)
    pages, expected = pages_of(both), pages_of(both[:kept])
    count = kernels.take_back(both, kept, pages.heads, pages.links, pages.count)
    assert count == expected.count
    assert pages.heads.tolist() == expected.heads.tolist()
    assert pages.links[:count].tolist() == expected.links[:count].tolist()
    again = kernels.file_entries(both, kept, pages.heads, pages.links, pages.following, pages.places, count)
    assert again == pages.count
    assert pages.heads.tolist() == pages_of(both).heads.tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(0, 65_535), st.integers(0, 65_536), st.integers(1, 120))
def test_gathering_takes_whole_buckets_in_order_until_there_are_enough(
    seed: int, begin: int, end: int, count_max: int
) -> None:
    fingerprints = some(seed, 100, 64)
    pages = pages_of(fingerprints)
    values = block_keys(fingerprints)[:, 2] & 0xFFFF
    found, stopped = kernels.gathered(pages.heads[2], pages.links, pages.places, begin, max(begin, end), count_max)
    assert sorted(found.tolist()) == np.flatnonzero((values >= begin) & (values < stopped)).tolist()
    assert begin <= stopped <= max(begin, end)
    if stopped < end:
        assert len(found) >= count_max
        assert np.count_nonzero((values >= begin) & (values < np.unique(values[values < stopped])[-1])) < count_max


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(0, 40), st.integers(0, 40), st.sampled_from([64, 128]))
def test_merging_is_sorting_what_is_in_both(seed: int, old_count: int, new_count: int, bits: int) -> None:
    both = np.unique(some(seed, old_count + new_count, bits), axis=0)
    both = both[np.random.default_rng(seed).permutation(len(both))]
    order = np.lexsort(rotated(both, 0)[::-1])
    numbers = np.arange(len(both), dtype=np.uint64)

    def part(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ascontiguousarray(rotated(both[places], 0)), numbers[places]

    old, new = order[order < old_count], order[order >= old_count]
    columns, found = kernels.merged(*part(old), *part(new))
    assert columns.tolist() == rotated(both[order], 0).tolist()
    assert found.tolist() == order.tolist()
    none = np.empty(0, np.uint64)
    columns, found = kernels.merged(part(old)[0], none, part(new)[0], none)
    assert columns.tolist() == rotated(both[order], 0).tolist()
    assert found.tolist() == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 65_535), st.sampled_from([0, 7, 65_535])), max_size=400),
    st.integers(1, 9),
    st.integers(0, 65_535),
)
def test_the_first_place_is_found_however_the_values_are_spread(values: list[int], repeats: int, value: int) -> None:
    column = np.sort(np.repeat(np.array(values, np.uint16), repeats))
    for asked in (value, *values[:3]):
        assert kernels._first_place(column, asked) == np.searchsorted(column, asked)


@pytest.mark.parametrize("bits", [64, 128])
def test_places_in_chunks_are_those_of_the_equal_entries(bits: int) -> None:
    known = np.unique(some(4, 90, bits, centres=1), axis=0)
    known = known[np.lexsort(rotated(known, 0)[::-1])]
    values = [
        np.frombuffer(pack_chunk(rotated(part, 0), np.arange(len(part), dtype=np.uint64)), np.uint8)
        for part in (known[:30], known[30:])
    ]
    addresses = np.array([value.__array_interface__["data"][0] for value in values], np.uint64)
    asked = np.concatenate([known, known[:5] ^ np.uint64(1 << 40)])
    zeros = np.zeros(len(asked), np.int64)
    chunks, places = kernels.places_in_chunks(asked, zeros, zeros + 2, addresses)
    present = {tuple(one): place for place, one in enumerate(known.tolist())}
    expected = [present.get(tuple(one), -1) for one in asked.tolist()]
    assert np.where(chunks < 0, -1, places + 30 * chunks).tolist() == expected
    assert -1 in expected


def test_an_overlay_that_grows_keeps_what_it_had() -> None:
    known = some(3, 5_000, 64, centres=400)
    overlay = Overlay(1)
    for begin in range(0, 5_000, 700):
        overlay.add(known[begin : begin + 700], np.arange(begin, min(begin + 700, 5_000), dtype=np.uint64))
    assert len(overlay) == 5_000
    fingerprints, numbers, stopped = overlay.of_block(3, 0, 65_536, 2**30)
    assert stopped == 65_536
    assert sorted(numbers.tolist()) == list(range(5_000))
    assert fingerprints.tolist() == known[numbers.astype(np.int64)].tolist()


def test_compiling_ahead_leaves_no_kernel_out() -> None:
    program = (
        "from index import kernels\n"
        "from index.compilation import compile_kernels\n"
        "compile_kernels()\n"
        "kernels = [one for one in vars(kernels).values() if hasattr(one, 'signatures')]\n"
        "assert len(kernels) >= 7\n"
        "print([one.__name__ for one in kernels if not one.signatures and not one.__name__.startswith('_')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
