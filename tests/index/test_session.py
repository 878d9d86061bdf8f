from pathlib import Path

import pytest

from index.index import internals_of
from index.lsm.tree import Tree
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage.counters import counters_of
from index.storage.layout import COUNTERS_KEY, Table
from index.storage.store import Transaction
from tests.support.entries import Row, ends_of, entries_of
from tests.support.indexes import filled, looked_at, opened

ROWS = [Row(offset, (offset + 1) * 0x0123_4567_89AB_CDEF % 2**64, id=f"id {offset}") for offset in range(30)]


def writes_of_counters(patch: pytest.MonkeyPatch) -> list[bytes]:
    """Filled with what is stored as counters from now on."""
    written, put = [], Transaction.put

    def noting(transaction: Transaction, table: Table, key: bytes, value: bytes) -> None:
        if (table, key) == (Table.META, COUNTERS_KEY):
            written.append(value)
        put(transaction, table, key, value)

    patch.setattr(Transaction, "put", noting)
    return written


def test_a_batch_stores_the_counters_once_and_one_that_is_known_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as index:
        written = writes_of_counters(monkeypatch)
        monkeypatch.setattr("index.decide.prepare.ROWS_AT_ONCE", 4)
        index.admit(entries_of(ROWS), ends_of(ROWS))
        assert len(written) == 1
        assert index.admit(entries_of(ROWS), ends_of(ROWS)).replayed.all()
        assert len(written) == 1
        index.forget(["id 3"])
        assert len(written) == 2


def test_what_a_session_counts_is_what_the_next_one_begins_with(tmp_path: Path) -> None:
    with opened(tmp_path) as index:

        def count(session: WriteSession) -> int:
            session.counters = session.counters._replace(journal_rows=session.counters.journal_rows + 7)
            return counters_of(session.transaction).journal_rows

        assert [internals_of(index).write(count) for _ in range(3)] == [0, 7, 14]
        assert index.statistics().journal_rows == 21


def test_what_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    with opened(tmp_path) as index:

        def fail(session: WriteSession) -> None:
            session.counters = session.counters._replace(journal_rows=7)
            raise KeyError

        with pytest.raises(KeyError):
            internals_of(index).write(fail)
        assert index.statistics().journal_rows == 0


def test_a_reading_session_follows_when_it_is_asked_for_the_tree_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, ROWS)
    followed, follow = [], Tree.follow
    monkeypatch.setattr(Tree, "follow", lambda tree, transaction: (followed.append(tree), follow(tree, transaction)))

    def trees(session: ReadSession) -> int:
        before = len(followed)
        assert session.tree is session.tree
        return before

    with looked_at(tmp_path) as index:
        assert internals_of(index).read(trees) == 0
        assert len(followed) == 1
        assert internals_of(index).read(lambda session: session.tree.stats().memtable_entries) == len(ROWS)


def test_more_that_has_expired_is_seen_within_the_session_that_moved_the_horizon(tmp_path: Path) -> None:
    filled(tmp_path, ROWS)

    def seen(session: WriteSession) -> tuple[bool, bool]:
        before = session.visibility
        kept = session.visibility is before
        session.horizon_moved()
        return kept, session.visibility is before

    with opened(tmp_path) as index:
        held: OpenIndex = internals_of(index)
        assert held.write(seen) == (True, False)
