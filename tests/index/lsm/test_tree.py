"""The tree against brute force, whatever comes, leaves, moves, fails or is opened anew."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.lsm import compaction, lookup, memtable
from index.lsm.compaction import TreeSizes
from index.lsm.lookup import lookup_of
from index.lsm.tree import Tree
from index.matching.distance import joined
from index.matching.minhash import pack_bins
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from tests.support.brute_force_signatures import clustered_bins
from tests.support.entries import fingerprints_of
from tests.support.examples import examples
from tests.support.filed import Filed
from tests.support.packed import compaction_state, read
from tests.support.stores import stores
from tests.support.tree_world import SCHEMES, Oracle, World, of_schemes, require_answers


@of_schemes
@examples(8)
@given(seed=st.integers(0, 2**32), drops_logs=st.booleans())
def test_whatever_comes_and_goes_is_found_in_every_state_of_a_compaction(
    parameters: Parameters, seed: int, drops_logs: bool
) -> None:
    with stores() as store:
        world = World(store, parameters, seed, drops_logs=drops_logs)
        for _ in range(30):
            world.turn()


@of_schemes
def test_hits_that_come_a_few_at_a_time_are_the_same(parameters: Parameters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtable, "HITS_MAX", 3)
    monkeypatch.setattr(lookup, "FINGERPRINTS_MAX", 4)
    with stores() as store:
        world = World(store, parameters, 5, drops_logs=False)
        for _ in range(30):
            world.turn()


def in_batch(store: Store, filed: Filed, tree: Tree, *steps: Callable[[Transaction], None]) -> None:
    def batch(transaction: Transaction) -> None:
        tree.follow(transaction)
        for step in steps:
            step(transaction)
        filed.end(transaction, tree)

    store.write(batch, tree.committed)
    store.read(filed.require)


def test_what_is_on_its_way_out_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays in the last level until its range is rewritten, and is nearer than what counts."""
    monkeypatch.setattr(compaction, "SLICES_MAX", 1)
    parameters, oracle = Parameters(64), Oracle(Parameters(64))
    near = fingerprints_of([0x1111222233334444, 0x1111222233334443], 64)
    others = np.random.default_rng(2).integers(0, 2**63, (60, 1)).astype(np.uint64)
    found = []

    def look(transaction: Transaction) -> None:
        tree.follow(transaction)
        require_answers(transaction, tree, filed, near, 3, oracle)
        matches = [each for each, _ in tree.matches(transaction, lookup_of(near[:1], parameters, 3))]
        found.append(set(joined(matches).numbers.tolist()))

    with stores() as store:
        filed, tree = Filed(parameters), Tree(parameters, TreeSizes(1, 64))
        for number, entering in enumerate([near, *others[:, None]]):
            if number == 30:
                in_batch(store, filed, tree, lambda transaction: filed.remove(transaction, tree, [0]))
            in_batch(store, filed, tree, lambda transaction, new=entering: filed.enter(transaction, tree, new))
            store.read(look)
    assert all({1} <= numbers <= {0, 1} for numbers in found), found
    assert {0, 1} in found[31:]


def test_a_process_that_missed_a_run_of_removals_begins_anew() -> None:
    """What left in it has left the segments by then."""
    parameters = Parameters(64)
    fingerprints = np.random.default_rng(3).integers(0, 2**63, (12, 1)).astype(np.uint64)
    fingerprints[11] = fingerprints[0]
    with stores() as store:
        filed = Filed(parameters)
        writing, late = Tree(parameters, TreeSizes(2, 1000)), Tree(parameters, TreeSizes(1, 1000))

        def remove(number: int) -> tuple[int, int, bool]:
            in_batch(store, filed, writing, lambda transaction: filed.remove(transaction, writing, [number]))
            now = store.read(compaction_state)
            return now.merged_to, now.frozen_tombstones, now.is_moving

        in_batch(store, filed, writing, lambda transaction: filed.enter(transaction, writing, fingerprints))
        assert [remove(number) for number in (1, 2, 3)] == [(0, 0, True), (12, 0, False), (12, 3, True)]
        remove(0)
        store.read(late.follow)
        assert late.stats()[:3] == (0, 0, 4)
        assert [remove(number) for number in (4, 5)] == [(12, 3, False), (12, 6, True)]
        assert [remove(number) for number in (6, 7, 8)] == [(12, 6, True), (12, 6, False), (12, 9, True)]
        store.read(late.follow)
        assert late.stats()[:3] == (0, 0, 3)
        in_batch(store, filed, late, lambda transaction: filed.remove(transaction, late, [9]))
        assert not store.read(compaction_state).is_moving
        [*tables] = store.read(lambda transaction: read(transaction, parameters)).tables
    assert [sorted(number for _, number in entries) for entries in tables] == [[9, 10, 11]] * 4


def test_a_candidate_whose_signature_is_gone_is_none() -> None:
    parameters = SCHEMES[2]
    assert parameters.banding is not None
    bins = clustered_bins(np.random.default_rng(1), 12, parameters.banding, centres=1)
    bins[:, :9] = bins[0, :9]
    known = pack_bins(bins, parameters.banding.bin_bits)
    found = []

    def look(transaction: Transaction) -> None:
        tree.follow(transaction)
        lookup = lookup_of(known[:1], parameters, 10_000)
        found.append({number for each, _ in tree.matches(transaction, lookup) for number in each.numbers.tolist()})

    with stores() as store:
        filed, tree = Filed(parameters), Tree(parameters, TreeSizes(1, 1000))
        for part in (known[:1], known[1:6], known[6:9], known[9:]):
            in_batch(store, filed, tree, lambda transaction, new=part: filed.enter(transaction, tree, new))
        store.read(look)
        remove = partial(filed.remove, tree=tree, numbers=[0])
        in_batch(store, filed, tree, remove, filed.drop_logs)
        store.read(look)
        in_segments = store.read(lambda transaction: read(transaction, parameters)).tables[0]
    assert 0 in {entry[-1] for entry in in_segments}
    assert found == [set(range(12)), set(range(1, 12))]
