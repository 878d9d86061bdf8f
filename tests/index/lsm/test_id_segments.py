import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from index.lsm import id_memtable, id_segments
from index.lsm.id_memtable import IdMemtable
from index.storage.codec import unpack_id_segment
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import (
    ID_HASHES,
    IDS_KEY,
    LOG_KEY,
    STRIPE_HASHES,
    IdsState,
    Table,
    pack_ids_state,
    unpack_id_key,
)
from index.storage.store import Store, Transaction

HASHES = st.one_of(
    st.integers(0, ID_HASHES - 1), st.integers(0, 9), st.sampled_from([STRIPE_HASHES - 1, STRIPE_HASHES, ID_HASHES - 1])
)


def stored(transaction: Transaction) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for key, value in transaction.walk(Table.IDS):
        bound = unpack_id_key(key)
        hashes, rows = unpack_id_segment(bound[0], value)
        of_segment = list(zip(hashes.tolist(), rows.tolist(), strict=True))
        assert not found or found[-1] < bound
        assert bound <= of_segment[0]
        assert len({each // STRIPE_HASHES for each in [bound[0], *hashes.tolist()]}) == 1
        found += of_segment
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(HASHES, min_size=1, max_size=60), min_size=1, max_size=5),
    st.integers(1, 200),
    st.integers(1, 9),
    st.sampled_from([1, 4, id_memtable._ROWS_IN_STRIPE]),
)
# A segment begins behind all rows of a stripe of the memtable.
@example([[0, 9 * STRIPE_HASHES, 9 * STRIPE_HASHES + 9], [9 * STRIPE_HASHES, 2**39 + 1, 2**39 + 9]], 9, 9, 2)
def test_rows_that_moved_stand_in_order_and_are_found(
    memtables: list[list[int]], segment_bytes: int, limit: int, rows_in_stripe: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_memtable, "_ROWS_IN_STRIPE", rows_in_stripe)
        store = Store(Path(name), map_bytes_initial=2**24, map_bytes_max=2**28, read_only=False, hooks=CommitHooks())
        store.prepare(Table)
        expected: list[tuple[int, int]] = []
        row = 2**32 - 40
        for hashes in memtables:
            # What stands for the rows that have left the log: the first third of those before.
            first_row = expected[len(expected) // 3][1] if expected else 0
            memtable = IdMemtable(row)
            memtable.add(row, np.array(hashes, np.uint64))
            expected += [(each, row + at) for at, each in enumerate(hashes)]
            row += len(hashes)
            end = LOG_KEY.pack(0, row)

            def freeze(transaction: Transaction, end: bytes = end) -> None:
                frozen = id_segments.state(transaction)._replace(frozen_to=end, cursor=0)
                transaction.put(Table.META, IDS_KEY, pack_ids_state(frozen))

            def move(transaction: Transaction, memtable: IdMemtable = memtable, first_row: int = first_row) -> IdsState:
                return id_segments.move(transaction, memtable, segment_bytes, first_row, 1.0, 1)

            store.write(freeze)
            while (now := store.write(move)).cursor is not None:
                assert 0 < id_segments.progress(now) < 1
            held = store.read(stored)
            assert now == IdsState(end, end, len(held), None)
            assert held == sorted(held)
            assert [each for each in held if each[1] >= first_row] == sorted(
                each for each in expected if each[1] >= first_row
            )
        asked = sorted({each for hashes in memtables for each in hashes[:9]} | {0, 5, STRIPE_HASHES, ID_HASHES - 1})
        hits = store.read(
            lambda transaction: id_segments.IdSegments().hits(transaction, np.array(asked, np.uint64), limit)
        )
        assert sorted(zip(hits.asked.tolist(), hits.rows.tolist(), strict=True)) == sorted(
            (one, at)
            for one, value in enumerate(asked)
            for at in sorted((at for each, at in held if each == value), reverse=True)[:limit]
        )
        store.close()
