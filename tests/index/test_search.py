"""The searched part of the index against brute force, whatever comes, leaves, moves, fails or is opened anew."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import merging, overlay, signatures
from index.bands import Banding, distance_of, pack_bins
from index.merging import Merging
from index.parameters import Parameters
from index.search import Search, wanted
from index.store import Store, Transaction
from tests.support.brute_force_signatures import BruteForceSignatures, clustered_bins
from tests.support.entries import fingerprints_of
from tests.support.filed import Filed, Words
from tests.support.fingerprints import mixed
from tests.support.packed import read
from tests.support.stores import stores

BANDING = Banding(64, 8, 8, 3)
SCHEMES = [Parameters(64), Parameters(128), Parameters(512, distance_of(0.6), banding=BANDING)]


def pool_of(parameters: Parameters, seed: int, count: int) -> np.ndarray:
    """Fingerprints that are alike in many ways, some of them equal: uint64 [n, words]."""
    generator = np.random.default_rng(seed)
    if parameters.banding is None:
        found = fingerprints_of(mixed(seed, count, parameters.bits), parameters.bits)
    else:
        found = pack_bins(clustered_bins(generator, count, parameters.banding, centres=4), parameters.banding.bin_bits)
    return np.concatenate([found, found[generator.integers(count, size=count // 4)]])[generator.permutation(count)]


class Oracle:
    """Distances by definition."""

    def __init__(self, parameters: Parameters) -> None:
        self.signatures = (
            None if parameters.banding is None else BruteForceSignatures(0, "all", banding=parameters.banding)
        )

    def distance(self, one: Words, other: Words) -> int:
        left, right = (sum(word << 64 * place for place, word in enumerate(reversed(each))) for each in (one, other))
        return (left ^ right).bit_count() if self.signatures is None else self.signatures.distance(left, right)


class Abort(Exception):
    pass


def require_answers(
    transaction: Transaction, search: Search, filed: Filed, asked: np.ndarray, distance_max: int, oracle: Oracle
) -> None:
    """All that is there is found; what is found besides has left. `nearest` is the first of what could be found."""
    look_up = wanted(asked, filed.parameters, distance_max)
    alive, ever = filed.alive(), {number: filed.words[number] for number, _ in filed.added}
    found: set[tuple[int, int, int]] = set()
    for matches, compared in search.matches(transaction, look_up):
        portion = list(zip(matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist(), strict=True))
        assert len(portion) == len(set(portion))
        assert compared.sum() >= len(portion)
        found.update(portion)
    best, _ = search.nearest(transaction, look_up)
    nearest = dict(
        zip(best.rows.tolist(), zip(best.distances.tolist(), best.numbers.tolist(), strict=True), strict=True)
    )
    assert len(nearest) == len(best)
    for row, words in enumerate(map(tuple, asked.tolist())):
        apart = {number: oracle.distance(words, other) for number, other in ever.items()}
        within = {(distance, number) for number, distance in apart.items() if distance <= distance_max}
        of_row = {(distance, number) for at, distance, number in found if at == row}
        assert {pair for pair in within if pair[1] in alive} <= of_row <= within
        assert nearest.get(row) == (min(of_row) if of_row else None)


class World:
    """An index in which entries come and go at random, and two processes that have it open by turns."""

    def __init__(self, store: Store, parameters: Parameters, seed: int, *, drops_logs: bool) -> None:
        self.store, self.drops_logs = store, drops_logs
        self.generator, self.oracle = np.random.default_rng(seed), Oracle(parameters)
        self.pool = pool_of(parameters, seed, 120)
        self.distance_limit = 7 if parameters.banding is None else 10_000
        self.filed = Filed(parameters)
        self.searches = [self.opened(), self.opened()]

    def opened(self) -> Search:
        """Each with its own idea of how large a run and a chunk are."""
        run_entries, chunk_bytes = int(self.generator.integers(1, 25)), int(self.generator.choice([64, 200, 1000]))
        return Search(self.filed.parameters, Merging(run_entries, chunk_bytes))

    def some(self, count_max: int) -> np.ndarray:
        return self.pool[self.generator.integers(len(self.pool), size=self.generator.integers(count_max + 1))]

    def turn(self) -> None:
        """A batch, which may fail, and a look at what is there."""
        which = int(self.generator.integers(2))
        if self.generator.random() < 0.15:
            self.searches[which] = self.opened()
        search, before = self.searches[which], copy.deepcopy(self.filed)
        try:
            self.store.write(lambda transaction: self.batch(transaction, search), search.committed)
        except Abort:
            self.filed = before
        self.store.read(self.look)

    def batch(self, transaction: Transaction, search: Search) -> None:
        search.follow(transaction)
        for step in self.generator.permutation([0, 0, 1, 2])[: int(self.generator.integers(1, 5))].tolist():
            alive = list(self.filed.alive())
            if step == 0:
                self.filed.enter(transaction, search, self.some(5))
            elif step == 1 and alive:
                # Often the newest, often the oldest: both sides of what is moving.
                newest = self.generator.random() < 0.4
                self.filed.remove(
                    transaction, search, alive[-4:] if newest else alive[: self.generator.integers(1, 12)]
                )
            elif step == 2 and self.drops_logs:
                self.filed.drop_logs(transaction)
        self.filed.end(transaction, search)
        if self.generator.random() < 0.2:
            raise Abort

    def look(self, transaction: Transaction) -> None:
        if not self.drops_logs:
            self.filed.require(transaction)
        # Who does not look has more to take over the next time.
        for search in [one for one in (*self.searches, self.opened()) if self.generator.random() < 0.4]:
            search.follow(transaction)
            distance_max = int(self.generator.integers(self.distance_limit + 1))
            require_answers(transaction, search, self.filed, self.some(6), distance_max, self.oracle)


def of_schemes(test: Any) -> Any:
    return pytest.mark.parametrize("parameters", SCHEMES, ids=lambda one: f"{one.scheme}-{one.bits}")(test)


@of_schemes
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), drops_logs=st.booleans())
def test_whatever_comes_and_goes_is_found_in_every_state_of_a_merge(
    parameters: Parameters, seed: int, drops_logs: bool
) -> None:
    with stores() as store:
        world = World(store, parameters, seed, drops_logs=drops_logs)
        for _ in range(30):
            world.turn()


@of_schemes
def test_hits_that_come_a_few_at_a_time_are_the_same(parameters: Parameters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "HITS_MAX", 3)
    monkeypatch.setattr(signatures, "SIGNATURES_MAX", 4)
    monkeypatch.setattr(signatures, "COMPARED_MAX", 3)
    with stores() as store:
        world = World(store, parameters, 5, drops_logs=False)
        for _ in range(30):
            world.turn()


def in_batch(store: Store, filed: Filed, search: Search, *steps: Callable[[Transaction], None]) -> None:
    def batch(transaction: Transaction) -> None:
        search.follow(transaction)
        for step in steps:
            step(transaction)
        filed.end(transaction, search)

    store.write(batch, search.committed)
    store.read(filed.require)


def test_what_is_on_its_way_out_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 0 holds it no more, the others do: as a hit it would be nearer than what counts."""
    monkeypatch.setattr(merging, "SLICES_MAX", 1)
    parameters, oracle = Parameters(64), Oracle(Parameters(64))
    near = fingerprints_of([0x1111222233334444, 0x1111222233334443], 64)
    others = np.random.default_rng(2).integers(0, 2**63, (60, 1)).astype(np.uint64)
    found = []

    def look(transaction: Transaction) -> None:
        search.follow(transaction)
        require_answers(transaction, search, filed, near, 3, oracle)
        found.append(search.nearest(transaction, wanted(near[:1], parameters, 3))[0].numbers.tolist())

    with stores() as store:
        filed, search = Filed(parameters), Search(parameters, Merging(1, 64))
        for number, entering in enumerate([near, *others[:, None]]):
            if number == 30:
                in_batch(store, filed, search, lambda transaction: filed.remove(transaction, search, [0]))
            in_batch(store, filed, search, lambda transaction, new=entering: filed.enter(transaction, search, new))
            store.read(look)
    assert found == sorted(found)
    assert [0] in found[30:]
    assert found[-1] == [1]


def test_a_process_that_missed_a_run_of_removals_begins_anew() -> None:
    """What was raised in it stands in chunks by then: to add it once more would make it stand there twice."""
    parameters = Parameters(64)
    fingerprints = np.random.default_rng(3).integers(0, 2**63, (12, 1)).astype(np.uint64)
    fingerprints[11] = fingerprints[0]
    with stores() as store:
        filed = Filed(parameters)
        writing, late = Search(parameters, Merging(2, 1000)), Search(parameters, Merging(1, 1000))

        def remove(number: int) -> tuple[int, int, bool]:
            in_batch(store, filed, writing, lambda transaction: filed.remove(transaction, writing, [number]))
            merge = store.read(merging.state)
            return merge.merged_to, merge.frozen_amendments, merge.is_moving

        in_batch(store, filed, writing, lambda transaction: filed.enter(transaction, writing, fingerprints))
        assert [remove(number) for number in (1, 2, 3)] == [(0, 0, True), (12, 0, False), (12, 3, True)]
        remove(0)
        store.read(late.follow)
        assert late.standing()[:2] == (1, 0)
        assert [remove(number) for number in (4, 5)] == [(12, 3, False), (12, 6, True)]
        assert [remove(number) for number in (6, 7, 8)] == [(12, 6, True), (12, 6, False), (12, 9, True)]
        store.read(late.follow)
        assert late.standing()[:3] == (0, 0, 3)
        for number in (9, 10):
            in_batch(store, filed, late, lambda transaction, gone=number: filed.remove(transaction, late, [gone]))
        assert not store.read(merging.state).is_moving
        assert sorted(store.read(lambda transaction: read(transaction, parameters)).numbers) == [9, 10, 11]


def test_a_candidate_whose_signature_is_gone_is_none() -> None:
    parameters = SCHEMES[2]
    assert parameters.banding is not None
    bins = clustered_bins(np.random.default_rng(1), 12, parameters.banding, centres=1)
    bins[:, :9] = bins[0, :9]
    known = pack_bins(bins, parameters.banding.bin_bits)
    found = []

    def look(transaction: Transaction) -> None:
        search.follow(transaction)
        look_up = wanted(known[:1], parameters, 10_000)
        found.append({number for each, _ in search.matches(transaction, look_up) for number in each.numbers.tolist()})

    with stores() as store:
        filed, search = Filed(parameters), Search(parameters, Merging(1, 1000))
        for part in (known[:1], known[1:6], known[6:9], known[9:]):
            in_batch(store, filed, search, lambda transaction, new=part: filed.enter(transaction, search, new))
        store.read(look)
        remove = partial(filed.remove, search=search, numbers=[0])
        in_batch(store, filed, search, remove, filed.drop_logs)
        store.read(look)
        in_chunks = store.read(lambda transaction: read(transaction, parameters)).tables[0]
    assert 0 in {entry[-1] for entry in in_chunks}
    assert found == [set(range(12)), set(range(1, 12))]
