"""An index in which entries come, leave and move at random, and what brute force says must be found in it."""

import copy
from typing import Any

import numpy as np
import pytest

from index.lsm.compaction import TreeSizes
from index.lsm.lookup import lookup_of
from index.lsm.tree import Tree
from index.matching.minhash import Banding, distance_of, pack_bins
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from tests.support.brute_force_signatures import BruteForceSignatures, clustered_bins
from tests.support.entries import fingerprints_of
from tests.support.filed import Filed, Words
from tests.support.fingerprints import mixed

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
        self.signatures = None if parameters.banding is None else BruteForceSignatures(0, banding=parameters.banding)

    def distance(self, one: Words, other: Words) -> int:
        left, right = (sum(word << 64 * place for place, word in enumerate(reversed(each))) for each in (one, other))
        return (left ^ right).bit_count() if self.signatures is None else self.signatures.distance(left, right)


class Abort(Exception):
    pass


def require_answers(
    transaction: Transaction, tree: Tree, filed: Filed, asked: np.ndarray, distance_max: int, oracle: Oracle
) -> None:
    """All that is there is found; what is found besides has left."""
    lookup = lookup_of(asked, filed.parameters, distance_max)
    alive, ever = filed.alive(), {number: filed.words[number] for number in filed.added}
    found: set[tuple[int, int, int]] = set()
    for matches, compared in tree.matches(transaction, lookup):
        portion = list(zip(matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist(), strict=True))
        assert len(portion) == len(set(portion))
        assert compared.sum() >= len(portion)
        found.update(portion)
    for row, words in enumerate(map(tuple, asked.tolist())):
        apart = {number: oracle.distance(words, other) for number, other in ever.items()}
        within = {(distance, number) for number, distance in apart.items() if distance <= distance_max}
        of_row = {(distance, number) for at, distance, number in found if at == row}
        assert {pair for pair in within if pair[1] in alive} <= of_row <= within


class World:
    """An index in which entries come and go at random, and two processes that have it open by turns."""

    def __init__(self, store: Store, parameters: Parameters, seed: int, *, drops_logs: bool) -> None:
        self.store, self.drops_logs = store, drops_logs
        self.generator, self.oracle = np.random.default_rng(seed), Oracle(parameters)
        self.pool = pool_of(parameters, seed, 120)
        self.distance_limit = 7 if parameters.banding is None else 10_000
        self.filed = Filed(parameters)
        self.trees = [self.opened(), self.opened()]

    def opened(self) -> Tree:
        """Each with its own idea of how large a memtable and a segment are."""
        memtable_entries, segment_bytes = (
            int(self.generator.integers(1, 25)),
            int(self.generator.choice([64, 200, 1000])),
        )
        return Tree(self.filed.parameters, TreeSizes(memtable_entries, segment_bytes))

    def some(self, count_max: int) -> np.ndarray:
        return self.pool[self.generator.integers(len(self.pool), size=self.generator.integers(count_max + 1))]

    def turn(self) -> None:
        """A batch, which may fail, and a look at what is there."""
        which = int(self.generator.integers(2))
        if self.generator.random() < 0.15:
            self.trees[which] = self.opened()
        tree, before = self.trees[which], copy.deepcopy(self.filed)
        try:
            self.store.write(lambda transaction: self.batch(transaction, tree), tree.committed)
        except Abort:
            self.filed = before
        self.store.read(self.look)

    def batch(self, transaction: Transaction, tree: Tree) -> None:
        tree.follow(transaction)
        for step in self.generator.permutation([0, 0, 1, 2])[: int(self.generator.integers(1, 5))].tolist():
            alive = list(self.filed.alive())
            if step == 0:
                self.filed.enter(transaction, tree, self.some(5))
            elif step == 1 and alive:
                # Often the newest, often the oldest: both sides of what is moving.
                newest = self.generator.random() < 0.4
                self.filed.remove(transaction, tree, alive[-4:] if newest else alive[: self.generator.integers(1, 12)])
            elif step == 2 and self.drops_logs:
                self.filed.drop_logs(transaction)
        self.filed.end(transaction, tree)
        if self.generator.random() < 0.2:
            raise Abort

    def look(self, transaction: Transaction) -> None:
        if not self.drops_logs:
            self.filed.require(transaction)
        # Who does not look has more to take over the next time.
        for tree in [one for one in (*self.trees, self.opened()) if self.generator.random() < 0.4]:
            tree.follow(transaction)
            distance_max = int(self.generator.integers(self.distance_limit + 1))
            require_answers(transaction, tree, self.filed, self.some(6), distance_max, self.oracle)


def of_schemes(test: Any) -> Any:
    return pytest.mark.parametrize("parameters", SCHEMES, ids=lambda one: f"{one.scheme}-{one.bits}")(test)
