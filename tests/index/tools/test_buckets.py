import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from index.index import Index, internals_of
from index.lsm.hash_table import TreeStats
from index.lsm.shape import shape_of
from index.lsm.tree import Tree
from index.matching.minhash import banding_for
from index.session import Retention
from index.storage.layout import Filing
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools import buckets
from index.tools.buckets import BucketSizes
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.indexes import SMALL, inspected, mixed_rows, opened
from tests.support.packed import compaction_state, stored_documents
from tests.support.roots import with_insert


def looked(index: Index) -> tuple[TreeStats, BucketSizes]:
    entries = index.statistics().entries
    return internals_of(index).read(lambda session: buckets.bucket_sizes(session, entries))


def page_keys(index: Index) -> np.ndarray:
    """Of all entries that are filed by blocks, uint32 [n, tables]."""

    def operation(transaction: Transaction) -> np.ndarray:
        stored = stored_documents(transaction, index.parameters.words)
        filed = (stored.rows["kind"] == Kind.NEAR) & (stored.rows["filing"] == Filing.BLOCKS)
        return shape_of(index.parameters).hashes(stored.fingerprints[filed]) >> np.uint64(32)

    return inspected(index, operation)


@examples(12)
@given(st.integers(0, 2**32), st.integers(20, 150), st.sampled_from([64, 128]))
def test_every_bucket_is_counted_wherever_its_entries_stand(seed: int, count: int, bits: int) -> None:
    rows = mixed_rows(seed, count, bits)
    with tempfile.TemporaryDirectory() as name, opened(Path(name), Parameters(bits), sizes=SMALL) as index:
        for begin in range(0, count, 7):
            index.admit(entries_of(rows[begin : begin + 7], bits), {})
            _, found = looked(index)
            high = page_keys(index) >> 16
            expected = [np.bincount(of_table, minlength=2**16) for of_table in high.T]
            assert found.sizes.tolist() == np.concatenate(expected).tolist()
            assert (found.buckets, found.largest) == (len(found.sizes), max(map(int, map(np.max, expected))))


def test_of_signatures_the_buckets_that_there_are_are_counted(tmp_path: Path) -> None:
    parameters = Parameters(512, 3, banding=banding_for(64, 8, 0.7))
    rows = mixed_rows(1, 90, 512)
    with opened(tmp_path, parameters, sizes=SMALL) as index:
        for begin in range(0, len(rows), 7):
            index.admit(entries_of(rows[begin : begin + 7], 512), {})
            _, found = looked(index)
            expected = [np.unique(of_table, return_counts=True)[1] for of_table in page_keys(index).T]
            assert sorted(found.sizes.tolist()) == sorted(np.concatenate(expected).tolist())
            assert found.buckets is None


def test_of_a_large_index_an_even_part_is_looked_at_and_the_hottest_bucket_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(1)
    # Block 1 is 5 in half of them, and 5 is in no part that is looked at.
    numbers = [int(number) for number in generator.integers(0, 2**63, 150)]
    rows = [Row(at, number & ~(0xFFFF << 32) | (5 << 32)) for at, number in enumerate(numbers)]
    rows += [Row(150 + at, number) for at, number in enumerate(generator.integers(0, 2**63, 150).tolist())]
    with opened(tmp_path, sizes=SMALL) as index:
        for begin in range(0, len(rows), 20):
            index.admit(entries_of(rows[begin : begin + 20]), {})
        whole = looked(index)[1]
        monkeypatch.setattr(buckets, "ENTRIES_MAX", 4)
        standing, part = looked(index)
        high = page_keys(index)[:, 1] >> 16
    assert standing.segments > 20
    assert part.sizes.tolist() == whole.sizes.reshape(4, 64, 1024)[:, :, : 4 * 1024 // (4 * 300)].reshape(-1).tolist()
    assert part.sizes.max() < part.largest == whole.largest == np.count_nonzero(high == 5)


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_where_entries_stand_is_what_the_tree_says(insert: Any, tmp_path: Path) -> None:
    rows = mixed_rows(3, 300, repeated=0.3)
    seen = set()
    with opened(tmp_path, with_insert(Parameters(), insert), sizes=SMALL, retention=Retention(60)) as index:
        for begin in range(0, len(rows), 6):
            index.admit(entries_of(rows[begin : begin + 6]), {})
            standing, _ = looked(index)

            def told(transaction: Transaction) -> TreeStats:
                # A tree of its own, as a process has that comes now.
                tree = Tree(index.parameters, SMALL)
                tree.follow(transaction)
                return tree.stats()

            assert standing == inspected(index, told)
            seen.add((inspected(index, compaction_state).is_moving, standing.frozen_entries > 0, standing.removals > 0))
    assert {(False, False, False), (True, True, True)} <= seen
