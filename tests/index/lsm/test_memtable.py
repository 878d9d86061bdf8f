import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.lsm.compaction import MEMTABLE_BYTES, MemtablePair
from index.lsm.memtable import Memtable
from index.lsm.shape import shape_of
from index.matching.minhash import Banding, distance_of, pack_bins
from index.storage.parameters import Parameters
from tests.support.brute_force_signatures import clustered_bins
from tests.support.entries import clustered_fingerprints, fingerprints_of
from tests.support.examples import examples
from tests.support.packed import columns_of

SCHEMES = [Parameters(64), Parameters(128), Parameters(512, distance_of(0.6), banding=Banding(64, 8, 6, 2))]


def fingerprints_for(parameters: Parameters, seed: int, count: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if parameters.banding is None:
        return fingerprints_of(clustered_fingerprints(generator, count, parameters.bits, centres=3), parameters.bits)
    return pack_bins(clustered_bins(generator, count, parameters.banding, centres=3), parameters.banding.bin_bits)


@pytest.mark.parametrize("parameters", SCHEMES, ids=lambda one: f"{one.scheme}-{one.bits}")
@examples(15)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=5))
def test_what_is_added_stands_in_every_table_until_it_is_taken_back(
    parameters: Parameters, seed: int, steps: list[tuple[int, int]]
) -> None:
    known = fingerprints_for(parameters, seed, 200)
    # Large numbers, as MinHash has them in its columns.
    numbers = np.random.default_rng(seed).choice(2**40, 200, replace=False).astype(np.uint64)
    memtable, kept = Memtable(shape_of(parameters)), 0
    for added, back in steps:
        memtable.add(known[kept : kept + added], numbers[kept : kept + added])
        # Whoever looks makes it be filed.
        memtable.entries_of_table(0, 0, 1, 1)
        kept = max(0, kept + added - back)
        memtable.cut(kept)
        memtable.cut(kept + 5)
        assert len(memtable) == kept
        assert memtable.numbers.tolist() == numbers[:kept].tolist()
        assert memtable.fingerprints.tolist() == known[:kept].tolist()
        for table in range(parameters.blocks):
            entries, stopped = memtable.entries_of_table(table, 0, 65_536, 2**30)
            assert stopped == 65_536
            expected = {
                number: columns_of(parameters, table, number, words)
                for number, words in zip(numbers[:kept].tolist(), known[:kept].tolist(), strict=True)
            }
            assert dict(zip(entries[1].tolist(), map(tuple, entries.T.tolist()), strict=True)) == expected


@examples(200)
@given(
    seed=st.integers(0, 2**32),
    # Few entries: what is taken back is often as many as come next.
    steps=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 3), st.booleans()), max_size=8),
)
def test_hashes_that_are_known_file_entries_as_hashes_that_are_not(
    seed: int, steps: list[tuple[int, bool, int, bool]]
) -> None:
    """Whether each batch comes with its hashes, how much of it is taken back, and whether it is filed before the next."""
    parameters = SCHEMES[2]
    known, shape, kept, at = fingerprints_for(parameters, seed, 24), shape_of(parameters), 0, 0
    told, untold = Memtable(shape), Memtable(shape)
    for added, with_hashes, back, filed in steps:
        # What comes behind what was taken back is other rows.
        rows, numbers = known[at : at + added], np.arange(kept, kept + added, dtype=np.uint64)
        at += added
        told.add(rows, numbers, shape.hashes(rows) if with_hashes else None)
        untold.add(rows, numbers)
        kept = max(0, kept + added - back)
        for memtable in (told, untold):
            memtable.cut(kept)
            if filed:
                memtable.file()
    for table in range(parameters.blocks):
        for one, other in zip(
            told.entries_of_table(table, 0, 65_536, 2**30),
            untold.entries_of_table(table, 0, 65_536, 2**30),
            strict=True,
        ):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("parameters", SCHEMES, ids=lambda one: f"{one.scheme}-{one.bits}")
def test_a_part_of_a_table_is_what_begins_with_its_values(parameters: Parameters) -> None:
    known = fingerprints_for(parameters, 4, 120)
    numbers = np.arange(120, dtype=np.uint64)
    memtable = Memtable(shape_of(parameters))
    memtable.add(known, numbers)
    first = [columns_of(parameters, 1, number, words)[0] >> 48 for number, words in enumerate(known.tolist())]
    at, seen = 0, 0
    while at < 65_536:
        (_, found), stopped = memtable.entries_of_table(1, at, 65_536, 7)
        assert sorted(found.tolist()) == [number for number, value in enumerate(first) if at <= value < stopped]
        assert len(found) >= 7 or stopped == 65_536
        at, seen = stopped, seen + 1
    assert seen > 1


@pytest.mark.parametrize(
    "parameters", [Parameters(64), Parameters(128), Parameters(1024, 3_000, banding=Banding(128, 8, 25, 5))]
)
def test_a_full_memtable_takes_about_the_memory_that_its_shape_says(parameters: Parameters) -> None:
    """What of its pages is in use; the arrays are up to twice as long."""
    shape, generator = shape_of(parameters), np.random.default_rng(1)
    memtable, count = Memtable(shape), MEMTABLE_BYTES // shape.memtable_bytes
    memtable.add(
        generator.integers(0, 2**63, (count, shape.words)).astype(np.uint64), np.arange(count, dtype=np.uint64)
    )
    memtable.entries_of_table(0, 0, 1, 1)
    page_bytes = int(memtable.pages.used[0]) * (12 + 6 * shape.page_entries)
    used = memtable.pages.heads.nbytes + page_bytes + memtable.fingerprints.nbytes + memtable.numbers.nbytes
    assert 0.8 < used / MEMTABLE_BYTES < 1.2


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 5), st.data())
def test_entries_of_bands_leave_memory_in_order_however_many_share_a_bucket(
    seed: int, count: int, kinds: int, data: st.DataObject
) -> None:
    """Numbers come in any order, as raised entries do; cancelled entries stay out."""
    parameters, generator = SCHEMES[2], np.random.default_rng(seed)
    pair, shape = MemtablePair(shape_of(parameters)), shape_of(parameters)
    known = fingerprints_for(parameters, seed, kinds)[generator.integers(0, kinds, count)]
    numbers = generator.choice(2**40, count, replace=False).astype(np.uint64)
    pair.added.add(known, numbers)
    gone = generator.random(count) < 0.1
    pair.removed.add(known[gone], numbers[gone])
    hashes = shape.hashes(known)[:, 1]
    entries = sorted(zip(hashes[~gone].tolist(), numbers[~gone].tolist(), strict=True))
    bounds = st.sampled_from([(0, 0), (2**63, 5), *entries])
    begin, end = sorted((data.draw(bounds), data.draw(bounds)))
    added, removed, stopped = pair.entries_of_table(1, *(struct.pack(">QQ", *each) for each in (begin, end)), 2**30)
    assert stopped == struct.pack(">QQ", *end)
    assert list(map(tuple, added.T.tolist())) == [entry for entry in entries if begin <= entry < end]
    assert removed.shape[1] == 0
