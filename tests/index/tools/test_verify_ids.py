"""Each way in which the table of ids can be damaged is found."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index.index import internals_of
from index.lsm import id_segments
from index.lsm.compaction import TreeSizes
from index.storage.codec import pack_id_segment, unpack_id_segment
from index.storage.layout import IDS_KEY, Table, id_key, pack_ids_state, unpack_id_key
from index.storage.store import Transaction
from tests.support.indexes import filled, inspected, mixed_rows, opened, wrong

SIZES = TreeSizes(50, 64)
ROWS = mixed_rows(3, 500)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    filled(tmp_path, ROWS, sizes=SIZES)
    with opened(tmp_path, sizes=SIZES) as index:
        assert inspected(index, id_segments.state).rows > 100
    assert wrong(tmp_path) == {}
    return tmp_path


def segment(transaction: Transaction) -> tuple[bytes, np.ndarray, np.ndarray]:
    """The first segment with two rows."""
    for key, value in transaction.walk(Table.IDS):
        hashes, rows = unpack_id_segment(unpack_id_key(key)[0], value)
        if len(rows) > 1:
            return key, hashes, rows
    raise AssertionError


def put(transaction: Transaction, key: bytes, hashes: np.ndarray, rows: np.ndarray) -> None:
    transaction.put(Table.IDS, key, pack_id_segment(unpack_id_key(key)[0], hashes, rows))


def lose_a_segment(transaction: Transaction) -> None:
    transaction.delete(Table.IDS, segment(transaction)[0])


def lose_a_row(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, hashes[1:], rows[1:])


def lead_to_another_row(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, hashes, np.append(rows[:-1], 0 if rows[-1] else 1).astype(np.uint64))


def write_another_hash(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, np.append(hashes[:-1], hashes[-1] + np.uint64(1)), rows)


def turn_rows_round(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, np.append(hashes[1::-1], hashes[2:]), np.append(rows[1::-1], rows[2:]))


def raise_a_bound(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    transaction.delete(Table.IDS, key)
    bound = int(hashes[0]) + 1
    transaction.put(Table.IDS, id_key(bound, 0), pack_id_segment(bound, hashes[1:], rows[1:]))
    put(transaction, id_key(int(hashes[0]), int(rows[0]) + 1), hashes[:1], rows[:1])


def empty_a_segment(transaction: Transaction) -> None:
    key, hashes, rows = segment(transaction)
    put(transaction, key, hashes[:0], rows[:0])


def count_wrongly(transaction: Transaction) -> None:
    now = id_segments.state(transaction)
    transaction.put(Table.META, IDS_KEY, pack_ids_state(now._replace(rows=now.rows + 1)))


def say_that_more_has_moved(transaction: Transaction) -> None:
    now = id_segments.state(transaction)
    end = (2**63).to_bytes(8, "big") * 2
    transaction.put(Table.META, IDS_KEY, pack_ids_state(now._replace(merged_to=end, frozen_to=end, cursor=None)))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_a_segment, "is not found through its id"),
        (lose_a_row, "is not found through its id"),
        (lead_to_another_row, "is not found through its id"),
        (write_another_hash, "under hashes that are not theirs"),
        (turn_rows_round, "is not in order"),
        (raise_a_bound, "begins before its bound"),
        (empty_a_segment, "is empty"),
        (count_wrongly, "rows are counted"),
        (say_that_more_has_moved, "is not found through its id"),
    ],
)
def test_damage_is_found(directory: Path, damage: Callable[[Transaction], None], told: str) -> None:
    with opened(directory, sizes=SIZES) as index:
        internals_of(index).store.write(damage)
    found = wrong(directory)
    assert list(found) == ["ids"]
    assert any(told in example for example in found["ids"]), found
