import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.lsm import row_directory
from index.lsm.row_directory import RowDirectory
from index.storage.layout import LOG_KEY, Table
from index.storage.store import CommitHooks, Store, Transaction


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_row_leads_to_its_batch_whatever_is_broken_off_or_leaves(seed: int) -> None:
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name), map_bytes_initial=2**22, map_bytes_max=2**24, read_only=False, hooks=CommitHooks())
        store.prepare(Table)
        directory, batches, end = RowDirectory(), [], (0, 0)
        for _ in range(30):
            key, rows = LOG_KEY.pack(*end), int(generator.integers(1, 9))
            breaking_off = generator.random() < 0.4
            committed_to = key

            def write(transaction: Transaction, key: bytes = key, rows: int = rows, end: int = end[1]) -> None:
                transaction.put(Table.LOG, key, bytes(rows))
                asked = np.arange(end + rows, dtype=np.uint64)
                own = directory.places(transaction, asked[-1:], key)
                assert own == [(key, rows - 1)]
                if breaking_off:  # noqa: B023
                    raise KeyError

            try:
                store.write(write)
                batches.append((key, end[1], rows))
                end = end[0] + int(generator.integers(0, rows + 1)), end[1] + rows
                committed_to = LOG_KEY.pack(*end)
            except KeyError:
                pass
            if generator.random() < 0.2 and batches:
                gone = batches.pop(int(generator.integers(len(batches))))
                store.write(lambda transaction, gone=gone: transaction.delete(Table.LOG, gone[0]))

            def look(transaction: Transaction, committed_to: bytes = committed_to) -> None:
                for key, first, rows in batches:
                    asked = np.arange(first, first + rows, dtype=np.uint64)
                    assert directory.places(transaction, asked, committed_to) == [(key, row) for row in range(rows)]

            store.read(look)
        store.close()


def test_keys_of_batches_that_left_the_log_do_not_stay_for_ever(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**24, map_bytes_max=2**26, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    directory, last = RowDirectory(), row_directory._KEYS_AT_LEAST * 4

    def replace(transaction: Transaction, at: int) -> None:
        transaction.put(Table.LOG, LOG_KEY.pack(0, at), b"")
        if at:
            transaction.delete(Table.LOG, LOG_KEY.pack(0, at - 1))
        directory.places(transaction, np.array([at], np.uint64), LOG_KEY.pack(0, at))

    def operation(transaction: Transaction) -> None:
        for at in range(last):
            replace(transaction, at)

    store.write(operation)
    assert directory._committed < last // 2
    store.close()
