"""The compiled loops against the same things said in numpy or plain Python."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.kernels import memtable, scan
from index.kernels.scan import Pages
from index.lsm.memtable import Memtable
from index.lsm.simhash_shape import SimhashShape
from index.matching.distance import hamming
from index.matching.simhash import block_keys, next_bits, probe_keys
from index.storage.codec import pack_segment
from index.storage.parameters import Parameters
from tests.support.entries import clustered_fingerprints, fingerprints_of
from tests.support.packed import columns_of
from tests.support.paths import ROOT
from tests.support.segments import segment_of, spans_of

EVERYTHING = 2**30
NO_NUMBERS = np.empty(0, np.uint64)


def some(seed: int, count: int, bits: int, centres: int = 3) -> np.ndarray:
    return fingerprints_of(clustered_fingerprints(np.random.default_rng(seed), count, bits, centres=centres), bits)


def page_keys(bits: int, fingerprints: np.ndarray) -> np.ndarray:
    return (shape_of(bits).hashes(fingerprints) >> np.uint64(32)).astype(np.uint32)


def shape_of(bits: int) -> SimhashShape:
    return SimhashShape(bits // 64)


HOT = 10
"""Entries at which buckets are divided here."""


def pages_of(keys: np.ndarray, page_entries: int = 4, hot_entries: int = HOT) -> Pages:
    """What `file_entries` makes of page keys."""
    pages = Pages(
        heads=np.full((keys.shape[1], 65_536), -1, np.int32),
        links=np.full((keys.size, 3), -9, np.int32),
        following=np.zeros((keys.size, page_entries), np.uint16),
        places=np.full((keys.size, page_entries), -9, np.int32),
        parts=np.full((keys.size // hot_entries, scan.PARTS), -9, np.int32),
        firsts=np.full(keys.size // hot_entries, -9, np.int32),
        used=np.zeros(2, np.int64),
    )
    memtable.file_entries(keys, 0, pages, hot_entries)
    return pages


def compared_by_numpy(
    asked: np.ndarray, keys: np.ndarray, known: np.ndarray, allowed: np.ndarray
) -> list[tuple[int, int, int]]:
    """(row, entry, distance) of every entry that a key of the row names, as often as keys do."""
    filed, wanted = block_keys(known), block_keys(asked)
    found = []
    for row, of_row in enumerate(keys.tolist()):
        for key, bits in zip(of_row, allowed.tolist(), strict=True):
            table, following = key >> 16, ((key >> 16) + 1) % filed.shape[1]
            off = np.bitwise_count((filed[:, following] ^ wanted[row, following]) & 0xFFFF)
            named = (filed[:, table] == key) & (off <= bits)
            distances = hamming(known, asked[row][None])
            found += [(row, entry, int(distances[entry])) for entry in np.flatnonzero(named).tolist()]
    return found


def segments_of(known: np.ndarray) -> list[bytes]:
    """A segment for every table."""
    tables = range(known.shape[1] * 4)
    parameters = Parameters(known.shape[1] * 64)
    return [segment_of([columns_of(parameters, table, 0, words) for words in known.tolist()]) for table in tables]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([64, 128]), st.integers(0, 7), st.booleans())
def test_pages_and_segments_are_scanned_as_numpy_does_it(seed: int, bits: int, distance_max: int, loose: bool) -> None:
    known = np.unique(some(seed, 60, bits), axis=0)
    asked = np.concatenate([some(seed + 1, 6, bits), known[:6]])
    keys = probe_keys(asked, distance_max)
    allowed = np.full(keys.shape[1], 16, np.int8) if loose else next_bits(bits // 16, distance_max)
    expected = compared_by_numpy(asked, keys, known, allowed)
    compared_by_row = np.bincount([row for row, _, _ in expected], minlength=len(asked)).tolist()
    hits = sorted((row, distance, entry) for row, entry, distance in expected if distance <= distance_max)
    pages, segments = pages_of(page_keys(bits, known)), segments_of(known)
    tables = (keys >> 16).astype(np.int64)
    spans = spans_of([[segment] for segment in segments], tables, keys.astype(np.int64) << 16, 2**16)
    order = np.random.default_rng(seed).permutation(keys.size)
    entry_of = {tuple(one): entry for entry, one in enumerate(known.tolist())}
    for nearest_only in (False, True):
        best, compared = np.full(len(asked), distance_max, np.int16), np.zeros(len(asked), np.int64)
        everything = np.full(len(asked), len(known))
        rows, distances, places, row = scan.scan_pages(
            asked, keys, allowed, pages, known, everything, nearest_only, best, compared, 0, EVERYTHING
        )
        assert (row, compared.tolist()) == (len(asked), compared_by_row)
        require_hits(rows, distances, places[:, 0].tolist(), hits, best, nearest_only)

        best, compared = np.full(len(asked), distance_max, np.int16), np.zeros(len(asked), np.int64)
        rows, distances, found, turn = scan.scan_segments(
            asked, keys, allowed, spans, order, nearest_only, best, compared, 0, EVERYTHING
        )
        assert (turn, compared.tolist()) == (keys.size, compared_by_row)
        require_hits(rows, distances, [entry_of[tuple(one)] for one in found.tolist()], hits, best, nearest_only)


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
    pages, keys, allowed = pages_of(page_keys(64, known)), probe_keys(asked, 4), next_bits(4, 4)

    def scanned(at_most: int) -> tuple[list[tuple[int, int]], list[int], int]:
        best, compared = np.full(20, 4, np.int16), np.zeros(20, np.int64)
        found, row, calls = [], 0, 0
        while row < 20:
            rows, _, places, row = scan.scan_pages(
                asked, keys, allowed, pages, known, np.full(20, 80), False, best, compared, row, at_most
            )
            found += list(zip(rows.tolist(), places[:, 0].tolist(), strict=True))
            calls += 1
        return found, compared.tolist(), calls

    found, compared, calls = scanned(hits_max)
    assert (found, compared, 1) == scanned(EVERYTHING)
    assert calls > 1
    assert len(found) > 50


@pytest.mark.parametrize("distance_max", [0, 3, 4, 7])
@pytest.mark.parametrize("hot_block", [0, 2])
def test_in_a_hot_bucket_nothing_is_missed_and_nothing_more_compared(distance_max: int, hot_block: int) -> None:
    generator = np.random.default_rng(distance_max)
    shift = np.uint64(48 - 16 * hot_block)
    known = generator.integers(0, 2**63, (100_000, 1)).astype(np.uint64) & ~(np.uint64(0xFFFF) << shift)
    asked = known[:40].copy()
    for row in range(40):
        for bit in generator.choice(64, generator.integers(distance_max + 1), replace=False).tolist():
            asked[row] ^= np.uint64(1 << bit)
    known = np.unique(known, axis=0)
    blocks = (block_keys(known) & 0xFFFF).astype(np.uint16)
    order = [np.lexsort(np.roll(blocks, -table, axis=1).T[::-1]) for table in range(4)]
    segments = [
        pack_segment(np.roll(blocks[places], -table, axis=1).T, NO_NUMBERS) for table, places in enumerate(order)
    ]
    keys, allowed = probe_keys(asked, distance_max), next_bits(4, distance_max)
    tables = (keys >> 16).astype(np.int64)
    spans, turns = (
        spans_of([[segment] for segment in segments], tables, keys.astype(np.int64) << 16, 2**16),
        np.arange(keys.size),
    )
    best, compared = np.full(40, distance_max, np.int16), np.zeros(40, np.int64)
    rows, distances, found, _ = scan.scan_segments(
        asked, keys, allowed, spans, turns, False, best, compared, 0, EVERYTHING
    )
    expected = compared_by_numpy(asked, keys, known, allowed)
    hits = sorted(
        (row, distance, *known[entry].tolist()) for row, entry, distance in expected if distance <= distance_max
    )
    assert sorted(zip(rows.tolist(), distances.tolist(), found[:, 0].tolist(), strict=True)) == hits
    compared_by_row = np.bincount([row for row, _, _ in expected], minlength=40).tolist()
    assert compared.tolist() == compared_by_row
    best, compared = np.full(40, distance_max, np.int16), np.zeros(40, np.int64)
    pages = pages_of(page_keys(64, known), 16, 1024)
    assert pages.used[1] == 1
    rows, distances, places, _ = scan.scan_pages(
        asked, keys, allowed, pages, known, np.full(40, len(known)), False, best, compared, 0, EVERYTHING
    )
    in_pages = zip(rows.tolist(), distances.tolist(), known[places[:, 0].astype(np.int64), 0].tolist(), strict=True)
    assert sorted(in_pages) == hits
    assert compared.tolist() == compared_by_row
    apart = [(row, int(one)) for row in range(40) for one in np.flatnonzero(hamming(known, asked[row]) <= distance_max)]
    assert {(row, tuple(known[entry].tolist())) for row, entry in apart} == {(row, (one,)) for row, _, one in hits}
    assert len(apart) >= 40


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("kept", [0, 1, 40, 99, 100])
def test_what_is_taken_back_leaves_the_pages_as_they_were(bits: int, kept: int) -> None:
    keys = page_keys(bits, some(kept, 100, bits, centres=1))
    pages, expected, full = pages_of(keys), pages_of(keys[:kept]), pages_of(keys)
    assert full.used[1] > 1
    memtable.take_back(keys[kept:], pages)
    require_equal_pages(pages, expected)
    memtable.file_entries(keys[kept:], kept, pages, HOT)
    require_equal_pages(pages, full)


def require_equal_pages(one: Pages, other: Pages) -> None:
    """Equal in all that is in use."""
    assert one.used.tolist() == other.used.tolist()
    assert one.heads.tolist() == other.heads.tolist()
    pages, divisions = one.used.tolist()
    assert one.links[:pages].tolist() == other.links[:pages].tolist()
    for name in ("parts", "firsts"):
        assert getattr(one, name)[:divisions].tolist() == getattr(other, name)[:divisions].tolist()
    for page in range(pages):
        count = one.links[page, 1]
        for name in ("following", "places"):
            assert getattr(one, name)[page, :count].tolist() == getattr(other, name)[page, :count].tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(0, 65_535), st.integers(0, 65_536), st.integers(1, 120))
def test_gathering_takes_whole_buckets_in_order_until_there_are_enough(
    seed: int, begin: int, end: int, count_max: int
) -> None:
    keys = page_keys(64, some(seed, 100, 64))
    pages, values, end = pages_of(keys), keys[:, 2] >> 16, max(begin, end)
    places, found, stopped = memtable.gathered(pages, 2, begin, end, count_max)
    assert sorted(places.tolist()) == np.flatnonzero((values >= begin) & (values < stopped)).tolist()
    assert found.tolist() == keys[places, 2].tolist()
    assert begin <= stopped <= end
    if stopped < end:
        assert len(places) >= count_max
        assert np.count_nonzero((values >= begin) & (values < stopped - 1)) < count_max


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.sampled_from([1, 4, 5]))
def test_merging_is_sorting_what_is_left_of_both(
    seed: int, old: int, new: int, removed: int, column_count: int
) -> None:
    generator = np.random.default_rng(seed)
    both = sorted({tuple(row) for row in generator.integers(0, 5, (old + new, column_count)).tolist()})
    is_old = generator.random(len(both)) < 0.5
    olds, news = np.flatnonzero(is_old), np.flatnonzero(~is_old)
    # Entries that are there, entries that are not, and new ones, which stay.
    gone = sorted({tuple(row) for row in generator.integers(0, 5, (removed, column_count)).tolist()})
    entries, numbers = np.array(both, np.uint16).reshape(-1, column_count), np.arange(len(both), dtype=np.uint64)
    left = [place for place in range(len(both)) if not (is_old[place] and both[place] in gone)]

    def columns(rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows.reshape(-1, column_count).T.astype(np.uint16))

    parts = columns(entries[olds]), numbers[olds], columns(entries[news]), numbers[news]
    found, found_numbers = memtable.merged(*parts, columns(np.array(gone, np.uint16)))
    assert found.T.tolist() == entries[left].tolist()
    assert found_numbers.tolist() == left
    found, found_numbers = memtable.merged(
        parts[0], NO_NUMBERS, parts[2], NO_NUMBERS, columns(np.array(gone, np.uint16))
    )
    assert found.T.tolist() == entries[left].tolist()
    assert found_numbers.tolist() == []


def band_hashes(seed: int, count: int) -> np.ndarray:
    """Few values in every part, so that parts agree without the whole: uint64 [count, 6], 40 bits at the top."""
    parts = np.random.default_rng(seed).choice([0, 1, 0xFFFF], (3, count, 6)).astype(np.uint64)
    parts <<= np.array([48, 32, 24], np.uint64)[:, None, None]
    return (parts[0] | parts[1] | parts[2]) & np.uint64(2**64 - 2**24)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([1, 3, EVERYTHING]))
def test_candidates_of_pages_are_all_that_share_a_key_each_once(seed: int, count: int, hits_max: int) -> None:
    known, asked = band_hashes(seed, count), band_hashes(seed + 1, 7)
    pages, met, row = pages_of((known >> np.uint64(32)).astype(np.uint32)), np.full(count, -1, np.int64), 0
    rests = (known >> np.uint64(24)).astype(np.uint8)
    found: list[tuple[int, int]] = []
    while row < 7:
        rows, places, row = scan.page_candidates(asked, pages, rests, met, row, hits_max, 2**62)
        found += zip(rows.tolist(), places.tolist(), strict=True)
    shared = (asked[:, None] == known[None]).any(axis=2)
    assert sorted(found) == list(zip(*(axis.tolist() for axis in np.nonzero(shared)), strict=True))


def test_a_memtable_that_grows_keeps_what_it_had() -> None:
    known = some(3, 5_000, 64, centres=400)
    memtable = Memtable(shape_of(64))
    for begin in range(0, 5_000, 700):
        memtable.add(known[begin : begin + 700], np.arange(begin, min(begin + 700, 5_000), dtype=np.uint64))
    assert len(memtable) == 5_000
    entries, numbers, stopped = memtable.of_table(3, 0, 65_536, 2**30)
    assert stopped == 65_536
    assert sorted(numbers.tolist()) == list(range(5_000))
    words = known[numbers.astype(np.int64)].tolist()
    assert [tuple(entry) for entry in entries.tolist()] == [columns_of(Parameters(64), 3, 0, one) for one in words]


def test_compiling_ahead_leaves_no_kernel_out() -> None:
    program = (
        "from index.kernels import bisect, checksums, hash_segments, leaves, memtable, minhash, scan, sort\n"
        "from index.tools.warm_up import compile_kernels\n"
        "compile_kernels()\n"
        "modules = (checksums, hash_segments, bisect, leaves, memtable, minhash, scan, sort)\n"
        "found = [one for module in modules for one in vars(module).values()]\n"
        "found = [one for one in found if hasattr(one, 'signatures') and not one.__name__.startswith(('_', 'xxh64'))]\n"
        "found = [one for one in found if one.__module__ != 'index.kernels.columns']\n"
        "assert len(found) >= 23\n"
        "print([one.__name__ for one in found if not one.signatures])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
