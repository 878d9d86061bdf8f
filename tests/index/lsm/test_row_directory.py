import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.lsm import row_directory
from index.lsm.row_directory import RowDirectory, RowPlaces
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import LOG_KEY, Table
from index.storage.store import Store, Transaction
from tests.support.examples import examples


def places_of(places: RowPlaces) -> list[tuple[bytes, int]]:
    """Each row's batch and place in it."""
    return [(places.keys[batch], row) for batch, row in zip(places.batches.tolist(), places.rows.tolist(), strict=True)]


@examples(40)
@given(st.integers(0, 2**32))
def test_a_row_leads_to_its_batch_whatever_is_broken_off_or_leaves(seed: int) -> None:
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name), map_bytes_initial=2**22, map_bytes_max=2**24, read_only=False, hooks=CommitHooks())
        store.prepare(Table)
        directory, batches, end = RowDirectory(), [], (0, 0)
        for _ in range(30):
            committed_to = LOG_KEY.pack(*end)
            sizes = generator.integers(1, 9, int(generator.integers(1, 4))).tolist()
            breaking_off = generator.random() < 0.4

            def write(
                transaction: Transaction, end: tuple[int, int] = end, committed_to: bytes = committed_to
            ) -> list[tuple[bytes, int, int]]:
                written = []
                for rows in sizes:  # noqa: B023
                    key, first = LOG_KEY.pack(*end), end[1]
                    transaction.put(Table.LOG, key, bytes(rows))
                    asked = np.array([first + rows - 1], np.uint64)
                    assert places_of(directory.places(transaction, asked, committed_to)) == [(key, rows - 1)]
                    end = end[0] + rows // 2, first + rows
                    written.append((key, first, rows))
                if breaking_off:  # noqa: B023
                    raise KeyError
                return written

            try:
                batches += store.write(write)
                end = end[0] + sum(rows // 2 for rows in sizes), end[1] + sum(sizes)
                committed_to = LOG_KEY.pack(*end)
            except KeyError:
                pass
            if generator.random() < 0.2 and batches:
                gone = batches.pop(int(generator.integers(len(batches))))
                store.write(lambda transaction, gone=gone: transaction.delete(Table.LOG, gone[0]))

            def look(transaction: Transaction, committed_to: bytes = committed_to) -> None:
                for key, first, rows in batches:  # noqa: B023
                    asked = np.arange(first, first + rows, dtype=np.uint64)
                    places = places_of(directory.places(transaction, asked, committed_to))
                    assert places == [(key, row) for row in range(rows)]

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
