import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index import journal
from index.layout import JOURNAL_KEY, JOURNAL_ROW, Table
from index.store import CommitHooks, Store, Transaction

SOURCES = [(0, 0), (0, 1), (1, 0), (2**32 - 1, 2**32 - 1)]
offsets_of = st.sets(st.one_of(st.integers(0, 40), st.integers(2**64 - 5, 2**64 - 1)), min_size=1, max_size=25)


def opened(directory: str) -> Store:
    store = Store(Path(directory), map_bytes_initial=2**24, map_bytes_max=2**24, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    return store


def array(offsets: set[int]) -> np.ndarray:
    return np.array(sorted(offsets), np.uint64)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SOURCES), offsets_of), max_size=12))
def test_whatever_the_order_and_overlap_every_row_is_found_and_no_other(
    batches: list[tuple[tuple[int, int], set[int]]],
) -> None:
    expected: dict[tuple[tuple[int, int], int], int] = {}
    with tempfile.TemporaryDirectory() as directory:
        store = opened(directory)

        def one(transaction: Transaction, number: int, source: tuple[int, int], offsets: set[int]) -> None:
            asked = array(offsets)
            found = journal.find(transaction, *source, asked)
            assert found.known.tolist() == [(source, offset) in expected for offset in asked.tolist()]
            for offset, row, known in zip(asked.tolist(), found.rows, found.known, strict=True):
                assert not known or (row["offset"], row["number"]) == (offset, expected[source, offset])
            rows = np.zeros(int((~found.known).sum()), JOURNAL_ROW)
            rows["offset"], rows["number"] = asked[~found.known], number
            journal.add(transaction, *source, rows)
            expected.update({(source, offset): number for offset in rows["offset"].tolist()})

        for number, (source, offsets) in enumerate(batches):
            store.write(lambda transaction, n=number, s=source, o=offsets: one(transaction, n, s, o))  # type: ignore[misc]
        everything = set(range(41)) | set(range(2**64 - 5, 2**64))
        for source in SOURCES:
            store.read(lambda transaction, s=source: one_found(transaction, s, everything, expected))  # type: ignore[misc]
        store.read(values_never_overlap)
        store.close()


def one_found(transaction: Transaction, source: tuple[int, int], offsets: set[int], expected: dict) -> None:
    found = journal.find(transaction, *source, array(offsets))
    held = found.rows["offset"][found.known].tolist()
    assert held == sorted(offset for other, offset in expected if other == source)


def values_never_overlap(transaction: Transaction) -> None:
    last: dict[tuple[int, int], int] = {}
    for key, value in transaction.walk(Table.JOURNAL):
        stream, partition, first = JOURNAL_KEY.unpack(key)
        offsets = np.frombuffer(value, JOURNAL_ROW)["offset"]
        assert first == offsets[0]
        assert np.all(offsets[1:] > offsets[:-1])
        assert first > last.get((stream, partition), -1)
        last[stream, partition] = int(offsets[-1])


def test_a_batch_in_order_becomes_one_value_and_is_looked_up_in_one_step(tmp_path: Path) -> None:
    store = opened(str(tmp_path))
    for start in range(0, 5_000, 1_000):
        rows = np.zeros(1_000, JOURNAL_ROW)
        rows["offset"] = np.arange(start, start + 1_000)
        store.write(lambda transaction, rows=rows: journal.add(transaction, 4, 2, rows))  # type: ignore[misc]
    assert store.read(lambda transaction: transaction.count(Table.JOURNAL)) == 5

    steps = 0

    class Counting(Transaction):
        def floor(self, table: Table, key: bytes) -> tuple[bytes, bytes] | None:
            nonlocal steps
            steps += 1
            return super().floor(table, key)

    def look_up(transaction: Transaction) -> int:
        counting = Counting(transaction._environment, transaction._transaction, transaction._tables)
        far_apart = np.array([3, 10, 4_500, 9_999], np.uint64)
        return int(journal.find(counting, 4, 2, far_apart).known.sum())

    assert store.read(look_up) == 3
    assert steps == 2
    store.close()
