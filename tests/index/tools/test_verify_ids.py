"""Each way in which the table of ids can be damaged is found."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index.index import internals_of
from index.lsm.compaction import TreeSizes
from index.storage.layout import IDS_KEY, Table
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, pack_compaction
from index.storage.segments.hash_codec import HashKey, pack_hash_segment, unpack_hash_segment
from index.storage.store import Transaction
from tests.support.indexes import filled, inspected, mixed_rows, opened, wrong
from tests.support.packed import compaction_state

SIZES = TreeSizes(50, 64)
ROWS = mixed_rows(3, 500)


def state(transaction: Transaction) -> CompactionState:
    return compaction_state(transaction, IDS_KEY)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    filled(tmp_path, ROWS, sizes=SIZES)
    with opened(tmp_path, sizes=SIZES) as index:
        now = inspected(index, state)
        assert min(now.first_entries, now.last_entries) > 50
    assert wrong(tmp_path) == {}
    return tmp_path


def segment(transaction: Transaction) -> tuple[HashKey, np.ndarray, np.ndarray]:
    """The first segment with three rows."""
    for key, value in transaction.walk(Table.IDS):
        hashes, rows = unpack_hash_segment(value)
        if len(rows) > 2:
            return HashKey(*HASH_KEY.unpack(key)), hashes, rows
    raise AssertionError


def put(transaction: Transaction, key: HashKey, hashes: np.ndarray, rows: np.ndarray) -> None:
    transaction.put(Table.IDS, key.packed(), pack_hash_segment(key, np.stack([hashes, rows])))


def lose_a_segment(transaction: Transaction) -> None:
    transaction.delete(Table.IDS, segment(transaction)[0].packed())


def lose_a_row(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, hashes[1:], rows[1:])


def lead_to_another_row(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, hashes, np.append(rows[:-1], 0 if rows[-1] else 1).astype(np.uint64))


def write_another_hash(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, np.append(hashes[:-1], hashes[-1] + np.uint64(1 << 24)), rows)


def turn_rows_round(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    hashes[:] = hashes[0]
    put(transaction, key, hashes, np.sort(rows)[::-1].copy())


def raise_a_bound(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    transaction.delete(Table.IDS, key.packed())
    put(transaction, key._replace(hashed=int(hashes[0]), number=int(rows[0]) + 1), hashes, rows)


def write_no_segment(transaction: Transaction) -> None:
    transaction.put(Table.IDS, segment(transaction)[0].packed(), bytes(100))


def write_another_key(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key._replace(level=9), hashes, rows)


def count_wrongly(transaction: Transaction) -> None:
    now = state(transaction)
    transaction.put(Table.META, IDS_KEY, pack_compaction(now._replace(last_entries=now.last_entries + 1)))


def say_that_more_has_moved(transaction: Transaction) -> None:
    moved = state(transaction)._replace(merged_rows=2**63, frozen_rows=2**63, bound=b"")
    transaction.put(Table.META, IDS_KEY, pack_compaction(moved))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_a_segment, "does not match its id"),
        (lose_a_row, "does not match its id"),
        (lead_to_another_row, "does not match its id"),
        (write_another_hash, "an id that is not its own, or twice, leads to row"),
        (turn_rows_round, "is not in order"),
        (raise_a_bound, "begins before its bound"),
        (write_no_segment, "cannot be read"),
        (write_another_key, "is of no table"),
        (count_wrongly, "rows are counted"),
        (say_that_more_has_moved, "does not match its id"),
    ],
)
def test_damage_is_found(directory: Path, damage: Callable[[Transaction], None], told: str) -> None:
    with opened(directory, sizes=SIZES) as index:
        internals_of(index).store.write(damage)
    found = wrong(directory)
    assert list(found) == ["ids"]
    assert any(told in example for example in found["ids"]), found
