"""BulkLoader beside restoring, row by row; alone, interleaved with a service's own batches, and killed in the midst of it."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from index.entry import Entries, Kind, Verdict
from index.index import Index
from index.kernels import sort
from index.lsm import shape
from index.lsm.compaction import TreeSizes
from index.lsm.hash_table import TreeStats
from index.lsm.tree import Tree
from index.matching.minhash import Banding, distance_of, pack_bins
from index.storage.counters import counters_of
from index.storage.layout import IDS_KEY
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools import bulk_load
from index.tools.bulk_load import BulkLoader, SortedPair
from tests.support.brute_force_signatures import clustered_bins
from tests.support.entries import ONE, Row, entries_of, fingerprints_of
from tests.support.examples import examples
from tests.support.fingerprints import mixed
from tests.support.indexes import inspected, wrong
from tests.support.loading_process import PARAMETERS, SIZES, loaded_batches, loaded_entries, verdicts_of
from tests.support.packed import compaction_state, packed
from tests.support.paths import ROOT
from tests.support.roots import with_insert
from tests.support.stores import stores
from tests.support.tiers import first_of
from tests.support.tree_world import World, of_schemes

BANDING = Banding(64, 8, 8, 3)


def opened(directory: Path, parameters: Parameters, **options: Any) -> Index:
    return Index.open(directory, parameters, map_bytes_max=2**30, **options)


class LoadedWorld(World):
    """In which some processes keep what is new sorted."""

    def opened(self) -> Tree:
        tree = super().opened()
        if self.generator.random() < 0.7:
            return Tree(self.filed.parameters, tree.sizes, SortedPair)
        return tree


@of_schemes
@examples(5)
@given(seed=st.integers(0, 2**32), drops_logs=st.booleans(), stripe_entries=st.sampled_from([1, 4, 1000]))
def test_sorted_runs_hold_and_move_what_those_in_pages_do(
    parameters: Parameters, seed: int, drops_logs: bool, stripe_entries: int
) -> None:
    with stores() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_load, "STRIPE_ENTRIES", stripe_entries)
        patch.setattr(shape, "_ROWS_AT_ONCE", 7)
        world = LoadedWorld(store, parameters, seed, drops_logs=drops_logs)
        for _ in range(30):
            world.turn()


@examples(60)
@given(st.integers(0, 2**32), st.integers(0, 3_000), st.integers(0, 40))
def test_entries_are_sorted_by_hash_and_place(seed: int, count: int, bits: int) -> None:
    generator = np.random.default_rng(seed)
    hashes = generator.integers(0, 2**bits, count, dtype=np.uint64) << np.uint64(24)
    places = np.flatnonzero(generator.random(count) < 0.9).astype(np.uint32)
    in_order, of_places = sort.by_high_bits(hashes, places)
    order = places[np.argsort(hashes[places], kind="stable")]
    assert np.array_equal(of_places, order)
    assert np.array_equal(in_order, hashes[order])


@examples(30)
@given(st.integers(0, 2**32), st.integers(0, 200), st.integers(0, 9))
def test_stripes_hold_the_places_of_their_keys_in_the_order_given(seed: int, count: int, bits: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)
    keys[::3] = keys[:1]
    places, begins = sort.by_top_bits(keys, bits)
    stripes = [int(key) >> 64 - bits for key in keys.tolist()]
    assert places.tolist() == sorted(range(count), key=stripes.__getitem__)
    assert begins.tolist() == [sum(each < stripe for each in stripes) for stripe in range(2**bits + 1)]


def fingerprints_for(parameters: Parameters, seed: int, count: int) -> np.ndarray:
    """Some far apart, many alike, many equal: uint64 [count, words]."""
    generator = np.random.default_rng(seed)
    if parameters.banding is None:
        found = fingerprints_of(mixed(seed, count, parameters.bits), parameters.bits)
    else:
        found = pack_bins(clustered_bins(generator, count, parameters.banding, centres=9), parameters.banding.bin_bits)
    return found[generator.integers(0, count, count)]


def batches_of(fingerprints: np.ndarray, seed: int) -> Iterator[Entries]:
    """The rows in batches of any size, a few of them EXACT or undecidable."""
    generator, begin = np.random.default_rng(seed), 0
    while begin < len(fingerprints):
        end = min(len(fingerprints), begin + int(generator.integers(1, 40)))
        kinds = generator.choice([Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE], end - begin, p=[0.9, 0.06, 0.04])
        rows = [Row(begin + row, 0, kind=Kind(int(kind)), id=f"id {begin + row}") for row, kind in enumerate(kinds)]
        entries = entries_of(rows)
        yield Entries(
            entries.sources, entries.source_numbers, entries.offsets, entries.kinds, entries.reasons,
            fingerprints[begin:end], entries.times_ms, entries.ids,
        )  # fmt: skip
        begin = end


def everything(index: Index, asked: np.ndarray) -> tuple[object, ...]:
    statistics = index.statistics()
    distance_max = 7 if index.parameters.banding is None else distance_of(0.4)
    return (
        statistics[:5],
        index.documents(range(statistics.journal_rows)),
        index.applied(),
        index.query(asked, distance_max, limit=20),
        index.decided([f"id {number}" for number in range(statistics.journal_rows)]),
    )


@of_schemes
@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(2)
@given(seed=st.integers(0, 2**32))
@example(seed=24311)
def test_a_loaded_index_answers_as_a_restored_one_does(parameters: Parameters, insert: Any, seed: int) -> None:
    """With a service that decides, restores and forgets in between, and memtables that freeze on either side."""
    parameters = with_insert(parameters, insert)
    fingerprints = fingerprints_for(parameters, seed, 200)
    sizes = TreeSizes(memtable_entries=30, segment_bytes=300)
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as patch,
        opened(Path(directory) / "one", parameters, sizes=sizes) as one,
        opened(Path(directory) / "other", parameters, sizes=sizes) as other,
    ):
        patch.setattr(bulk_load, "MOVING_SECONDS", 0.0)
        patch.setattr(bulk_load, "STRIPE_ENTRIES", 16)
        generator, load = np.random.default_rng(seed), BulkLoader(one, 70)
        for entries in batches_of(fingerprints, seed):
            ends = {ONE: int(entries.offsets[-1]) + 1}
            verdicts, choice = np.full(len(entries), Verdict.UNIQUE, np.uint8), generator.random()
            if choice < 0.2:
                decisions = [index.admit(entries, ends) for index in (one, other)]
                assert np.array_equal(decisions[0].verdicts, decisions[1].verdicts)
                assert np.array_equal(decisions[0].originals, decisions[1].originals)
                continue
            nothing = [None] * len(entries)
            assert load.restore(entries, verdicts, nothing, ends) == other.restore(entries, verdicts, nothing, ends)
            if choice < 0.4:
                ids = {f"id {number}" for number in generator.integers(0, 200, 10)}
                assert one.forget(ids) == other.forget(ids)
            if choice > 0.9:
                load = BulkLoader(one, int(generator.integers(1, 100)))
        load.finish()
        assert not inspected(one, compaction_state).is_moving
        assert inspected(one, lambda transaction: standing(transaction, parameters))[:4] == (0, 0, 0, 1.0)
        ids, counters = inspected(one, partial(compaction_state, key=IDS_KEY)), inspected(one, counters_of)
        assert (ids.merged_to, ids.merged_rows) == (counters.next_number, counters.journal_rows)
        assert (ids.first_entries + ids.last_entries, ids.is_moving) == (counters.journal_rows, False)
        assert everything(one, fingerprints[::7]) == everything(other, fingerprints[::7])
        one.close()
        assert wrong(Path(directory) / "one") == {}


def standing(transaction: Transaction, parameters: Parameters) -> TreeStats:
    """What a process finds that opens the index now."""
    tree = Tree(parameters, TreeSizes())
    tree.follow(transaction)
    return tree.stats()


def test_what_was_loaded_stands_in_segments_and_nowhere_else(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, sizes=SIZES) as index:
        load = BulkLoader(index, 150)
        for entries in loaded_batches():
            load.restore(entries, *verdicts_of(entries), {ONE: int(entries.offsets[-1]) + 1})
        load.finish()
        whole = loaded_entries()
        distinct = {words for (words,) in whole.fingerprints.tolist()}
        assert sorted(packed(index).tables[0]) == packed(index).tables[0]
        assert len(packed(index).tables[0]) == len(whole) > len(distinct)
        assert packed(index).compaction.merged_to == len(whole)
    assert wrong(tmp_path) == {}


def test_a_portion_moves_on_when_it_is_full(tmp_path: Path) -> None:
    compacted = []
    with opened(tmp_path, PARAMETERS, sizes=SIZES) as index:
        load = BulkLoader(index, 100)
        for entries in loaded_batches():
            load.restore(entries, *verdicts_of(entries))
            compacted.append(inspected(index, compaction_state).merged_to)
    # Of 40 rows in a batch 32 are new, or a few more: of those that equal others some come first.
    assert compacted[:4] == [0, 0, 120, 120]
    assert len(set(compacted)) >= 4


def started(directory: Path, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.loading_process", str(directory), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", first_of(12, 3, 40))
def test_a_load_that_was_killed_is_begun_again(moment: str, commit: int, tmp_path: Path) -> None:
    process = started(tmp_path, moment, commit)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert wrong(tmp_path) == {}
    with opened(tmp_path, PARAMETERS, sizes=SIZES) as index:
        known = index.statistics().journal_rows
        load, left_alone = BulkLoader(index, 150), 0
        for entries in loaded_batches():
            left_alone += load.restore(
                entries, *verdicts_of(entries), {ONE: int(entries.offsets[-1]) + 1}
            ).already_known
        assert left_alone == known
        load.finish()
        found = everything(index, loaded_entries().fingerprints[::9])
    assert wrong(tmp_path) == {}
    with tempfile.TemporaryDirectory() as whole, opened(Path(whole), PARAMETERS, sizes=SIZES) as index:
        entries = loaded_entries()
        index.restore(entries, *verdicts_of(entries), {ONE: len(entries)})
        assert everything(index, entries.fingerprints[::9]) == found
