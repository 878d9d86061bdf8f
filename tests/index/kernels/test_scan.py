"""The compiled loops against the same things said in numpy or plain Python."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import hash_segments, memtable, scan
from index.kernels.scan import Pages
from index.lsm.memtable import Memtable
from index.lsm.shape import Shape, SimhashShape
from index.matching.distance import hamming
from index.matching.simhash import block_keys, next_bits, probe_keys
from index.storage.parameters import Parameters
from index.storage.segments.hash_codec import HashKey, pack_hash_segment, unpack_hash_segment
from tests.support.entries import clustered_fingerprints, fingerprints_of
from tests.support.examples import examples
from tests.support.packed import columns_of
from tests.support.paths import ROOT

EVERYTHING = 2**30


def some(seed: int, count: int, bits: int, centres: int = 3) -> np.ndarray:
    return fingerprints_of(clustered_fingerprints(np.random.default_rng(seed), count, bits, centres=centres), bits)


def page_keys(bits: int, fingerprints: np.ndarray) -> np.ndarray:
    return (shape_of(bits).hashes(fingerprints) >> np.uint64(32)).astype(np.uint32)


def shape_of(bits: int) -> SimhashShape:
    return SimhashShape(bits // 64, bits // 16)


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


def named_by_numpy(asked: np.ndarray, known: np.ndarray, bits: int, distance_max: int) -> list[tuple[int, int]]:
    """(row, entry) of every entry that a key of the row names, as often as keys do, and whose hash is near enough."""
    filed, wanted = block_keys(known), block_keys(asked)
    keys, allowed, shape = probe_keys(asked, distance_max), next_bits(bits // 16, distance_max), shape_of(bits)
    hashes, of_known = shape.hashes(asked), shape.hashes(known)
    found = []
    for row, of_row in enumerate(keys.tolist()):
        for key, near in zip(of_row, allowed.tolist(), strict=True):
            table, following = key >> 16, ((key >> 16) + 1) % filed.shape[1]
            off = np.bitwise_count((filed[:, following] ^ wanted[row, following]) & 0xFFFF)
            apart = np.bitwise_count(of_known[:, table] ^ hashes[row, table])
            named = (filed[:, table] == key) & (off <= near) & (apart <= distance_max)
            found += [(row, entry) for entry in np.flatnonzero(named).tolist()]
    return sorted(found)


def in_pages(asked: np.ndarray, pages: Pages, known: np.ndarray, bits: int, distance_max: int) -> list[tuple[int, int]]:
    shape, nothing, found, row = shape_of(bits), np.empty(0, np.int64), [], 0
    hashes, rests = shape.hashes(asked), (shape.hashes(known) >> np.uint64(24)).astype(np.uint8)
    while row < len(asked):
        rows, places, row = scan.page_candidates(
            hashes, shape.probes(distance_max), pages, rests, nothing, row, 50, EVERYTHING
        )
        found += zip(rows.tolist(), places.tolist(), strict=True)
    return sorted(found)


def in_segments(
    asked: np.ndarray, known: np.ndarray, bits: int, distance_max: int, parts: int
) -> list[tuple[int, int]]:
    """What the first level's segments name: for every table some, with the entries in turn."""
    shape, probes, values, edges = shape_of(bits), shape_of(bits).probes(distance_max), [], [0]
    hashes, of_known = shape.hashes(asked), shape.hashes(known)
    for table in range(shape.tables):
        order = np.lexsort((np.arange(len(known)), of_known[:, table]))
        for some in np.array_split(order, parts):
            entries = np.stack([of_known[some, table], some.astype(np.uint64)])
            values.append(pack_hash_segment(HashKey(table, 0, *entries[:, 0].tolist()), entries))
        edges += [len(values), len(values), len(values)]
    addresses = np.array([np.frombuffer(value, np.uint8).__array_interface__["data"][0] for value in values], np.uint64)
    bounds = np.array([unpack_hash_segment(value)[0, 0] for value in values], np.uint64)
    lowest = ((hashes[:, probes.tables] ^ probes.flips) & ~probes.free).repeat(2, axis=1)
    probe_of = np.arange(lowest.shape[1]) // 2
    begins, ends = np.zeros(lowest.shape, np.int64), np.zeros(lowest.shape, np.int64)
    of_tables = probes.tables.repeat(2) * 3 + np.arange(lowest.shape[1]) % 2
    order = np.concatenate([np.argsort(lowest[:, at]) * lowest.shape[1] + at for at in range(lowest.shape[1])])
    of_spans = of_tables, lowest, lowest | probes.free, order, np.array(edges), bounds, begins, ends
    hash_segments.fill_spans(*of_spans)
    order = order[(begins < ends).reshape(-1)[order]]
    found, turn, passed = [], 0, 0
    while turn < len(order):
        rows, numbers, turn, passed, unsound = hash_segments.candidates(
            hashes, probes, probe_of, lowest, begins, ends, addresses, order, turn, passed, 50, EVERYTHING
        )
        assert unsound < 0
        found += zip(rows.tolist(), numbers.tolist(), strict=True)
    return sorted(found)


@examples(20)
@given(st.integers(0, 2**32), st.sampled_from([64, 128]), st.integers(0, 7), st.integers(1, 5))
def test_pages_and_segments_name_what_numpy_does(seed: int, bits: int, distance_max: int, parts: int) -> None:
    known = np.unique(some(seed, 60, bits), axis=0)
    asked = np.concatenate([some(seed + 1, 6, bits), known[:6]])
    expected = named_by_numpy(asked, known, bits, distance_max)
    assert in_pages(asked, pages_of(page_keys(bits, known)), known, bits, distance_max) == expected
    assert in_segments(asked, known, bits, distance_max, parts) == expected
    near = np.argwhere(hamming(asked[:, None], known[None]) <= distance_max)
    assert set(map(tuple, near.tolist())) <= set(expected)
    assert len(near) >= 6


@pytest.mark.parametrize("distance_max", [0, 3, 4, 7])
@pytest.mark.parametrize("hot_block", [0, 2])
def test_in_a_hot_bucket_nothing_is_missed_and_nothing_more_named(distance_max: int, hot_block: int) -> None:
    generator = np.random.default_rng(distance_max)
    shift = np.uint64(48 - 16 * hot_block)
    known = generator.integers(0, 2**63, (100_000, 1)).astype(np.uint64) & ~(np.uint64(0xFFFF) << shift)
    asked = known[:40].copy()
    for row in range(40):
        for bit in generator.choice(64, generator.integers(distance_max + 1), replace=False).tolist():
            asked[row] ^= np.uint64(1 << bit)
    known = np.unique(known, axis=0)
    expected = named_by_numpy(asked, known, 64, distance_max)
    for parts in (1, 3, 9):
        assert in_segments(asked, known, 64, distance_max, parts) == expected
    pages = pages_of(page_keys(64, known), 16, 1024)
    assert pages.used[1] == 1
    assert in_pages(asked, pages, known, 64, distance_max) == expected
    near = np.concatenate([np.flatnonzero(hamming(known, asked[row]) <= distance_max) for row in range(40)])
    assert len(near) >= 40


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


@examples(20)
@given(st.integers(0, 99), st.integers(0, 65_535), st.integers(0, 65_536), st.integers(1, 120))
def test_gathering_takes_whole_buckets_in_order_until_there_are_enough(
    seed: int, begin: int, end: int, count_max: int
) -> None:
    keys = page_keys(64, some(seed, 100, 64))
    pages, values, end = pages_of(keys), keys[:, 2] >> 16, max(begin, end)
    rests, numbers = np.random.default_rng(seed).integers(0, 256, keys.shape).astype(np.uint8), np.arange(100, 200)
    (hashes, found), stopped = memtable.gathered(pages, rests, numbers.astype(np.uint64), 2, begin, end, count_max)
    places = found.astype(np.int64) - 100
    assert sorted(places.tolist()) == np.flatnonzero((values >= begin) & (values < stopped)).tolist()
    assert (
        hashes.tolist() == (keys[places, 2].astype(np.uint64) << 32 | rests[places, 2].astype(np.uint64) << 24).tolist()
    )
    assert begin <= stopped <= end
    if stopped < end:
        assert len(places) >= count_max
        assert np.count_nonzero((values >= begin) & (values < stopped - 1)) < count_max


def band_hashes(seed: int, count: int) -> np.ndarray:
    """Few values in every part, so that parts agree without the whole: uint64 [count, 6], 40 bits at the top."""
    parts = np.random.default_rng(seed).choice([0, 1, 0xFFFF], (3, count, 6)).astype(np.uint64)
    parts <<= np.array([48, 32, 24], np.uint64)[:, None, None]
    return (parts[0] | parts[1] | parts[2]) & np.uint64(2**64 - 2**24)


@examples(20)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([1, 3, EVERYTHING]))
def test_candidates_of_pages_are_all_that_share_a_key_each_once(seed: int, count: int, hits_max: int) -> None:
    known, asked = band_hashes(seed, count), band_hashes(seed + 1, 7)
    pages, met, row = pages_of((known >> np.uint64(32)).astype(np.uint32)), np.full(count, -1, np.int64), 0
    rests = (known >> np.uint64(24)).astype(np.uint8)
    found: list[tuple[int, int]] = []
    shape = SimhashShape(1, 6)
    while row < 7:
        rows, places, row = scan.page_candidates(asked, Shape.probes(shape, 0), pages, rests, met, row, hits_max, 2**62)
        found += zip(rows.tolist(), places.tolist(), strict=True)
    shared = (asked[:, None] == known[None]).any(axis=2)
    assert sorted(found) == list(zip(*(axis.tolist() for axis in np.nonzero(shared)), strict=True))


def test_a_memtable_that_grows_keeps_what_it_had() -> None:
    known = some(3, 5_000, 64, centres=400)
    memtable = Memtable(shape_of(64))
    for begin in range(0, 5_000, 700):
        memtable.add(known[begin : begin + 700], np.arange(begin, min(begin + 700, 5_000), dtype=np.uint64))
    assert len(memtable) == 5_000
    entries, stopped = memtable.entries_of_table(3, 0, 65_536, 2**30)
    assert stopped == 65_536
    expected = [columns_of(Parameters(64), 3, number, words) for number, words in enumerate(known.tolist())]
    assert sorted(map(tuple, entries.T.tolist())) == sorted(expected)


def test_compiling_ahead_leaves_no_kernel_out() -> None:
    program = (
        "from index.kernels import bins, checksums, hash_segments, judge, leaves, meet, memtable, scan, sort, versions, walk\n"
        "from index.tools.warm_up import compile_kernels\n"
        "compile_kernels()\n"
        "modules = (bins, checksums, hash_segments, judge, leaves, meet, memtable, scan, sort, versions, walk)\n"
        "found = [one for module in modules for one in vars(module).values() if hasattr(one, 'signatures')]\n"
        # The code of those that kernels call is in their callers.
        "called = {name for one in found for name in one.py_func.__code__.co_names}\n"
        "found = [one for one in found if one.__name__ not in called and not one.__name__.startswith('_')]\n"
        "found = [one for one in found if one.__module__ != 'index.kernels.columns']\n"
        "assert len(found) >= 16\n"
        "print([one.__name__ for one in found if not one.signatures])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
