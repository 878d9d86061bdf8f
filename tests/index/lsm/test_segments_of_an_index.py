"""Places of segments, as one process keeps them from one transaction to the next, against the file."""

import ctypes
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from index.index import Index
from index.lsm.compaction import TreeSizes
from index.lsm.segments import Segments
from index.matching.minhash import Banding
from index.session import Retention
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from tests.support.entries import Row, entries_of
from tests.support.fingerprints import random_ones
from tests.support.indexes import changed, inspected
from tests.support.packed import compaction_state

SIMHASH, MINHASH = Parameters(64, 3), Parameters(512, 3_000, banding=Banding(64, 8, 3, 4))


def opened(path: Path, parameters: Parameters) -> Index:
    keep = Retention(entries_max=250)
    return Index.open(path, parameters, map_bytes_max=2**30, sizes=TreeSizes(60, 100), retention=keep)


def require_kept(transaction: Transaction, kept: Segments, parameters: Parameters) -> int:
    """Keys, bounds and addresses are those of the file. Returns how many segments are known to be sound without a check."""
    kept.follow(transaction, compaction_state(transaction))
    fresh = Segments(Table.SEGMENTS, parameters.blocks)
    fresh.follow(transaction, compaction_state(transaction))
    addresses, others = kept.take_over(transaction), fresh.take_over(transaction)
    values = {key: bytes(value) for key, value in transaction.walk(Table.SEGMENTS)}
    assert [kept._places.keys[place].tobytes() for place in range(len(kept))] == list(values)
    assert addresses.tolist() == others.tolist()
    assert (kept.edges.tolist(), kept.bounds.tolist()) == (fresh.edges.tolist(), fresh.bounds.tolist())
    for address, value in zip(addresses.tolist(), values.values(), strict=True):
        assert ctypes.string_at(address, len(value)) == value
    known = int(np.count_nonzero(kept._known))
    everywhere = np.zeros((1, 1), np.int64), np.full((1, 1), len(kept))
    for places in (kept, fresh):
        places.require_sound(transaction, *everywhere, addresses)
    assert kept._known.tolist() == fresh._known.tolist()
    return known


@pytest.mark.parametrize("parameters", [SIMHASH, MINHASH], ids=["simhash", "minhash"])
def test_places_that_a_process_keeps_are_those_of_the_file(parameters: Parameters, tmp_path: Path) -> None:
    """However rarely it follows, in transactions that write and that do not, while segments are rewritten."""
    generator, known = np.random.default_rng(1), 0
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(generator, 400, parameters.bits))]
    kept = Segments(Table.SEGMENTS, parameters.blocks)
    with opened(tmp_path, parameters) as index:
        for begin in range(0, len(rows), 5):
            index.admit(entries_of(rows[begin : begin + 5], parameters.bits), {})
            if generator.random() < 0.5:
                continue
            within = inspected if generator.random() < 0.3 else changed
            known += within(index, partial(require_kept, kept=kept, parameters=parameters))
        assert len(kept) > 10
    assert known > 0
