import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide import admit
from index.index import Index, internals_of
from index.lsm import memtable, shape
from index.lsm.compaction import TreeSizes
from index.lsm.id_table import NEWEST_AT_FIRST, IdTable
from index.lsm.tree import Tree
from index.session import OpenIndex, ReadSession
from index.storage import log
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import IDS_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from tests.support.entries import Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import inspected, opened, wrong
from tests.support.packed import compaction_state

PARAMETERS = Parameters()


def another(process: OpenIndex, sizes: TreeSizes) -> OpenIndex:
    """As another process has it open."""
    return replace(process, tree=Tree(PARAMETERS, sizes), ids=IdTable(sizes))


def found(process: OpenIndex, ids: list[str]) -> list[int]:
    """Rows with these ids, as this process finds them."""

    return process.read(lambda session: session.ids.find(session.transaction, ids).rows.tolist())


@examples(12)
@given(st.integers(0, 2**32), st.sampled_from([1, 7, 30]))
def test_every_process_finds_what_all_have_committed_and_nothing_else(seed: int, memtable_entries: int) -> None:
    generator, sizes = np.random.default_rng(seed), TreeSizes(memtable_entries, 100)
    crashing = False

    def crash() -> None:
        if crashing:
            raise KeyError

    hooks = CommitHooks(before_commit=crash)
    with tempfile.TemporaryDirectory() as name, opened(Path(name), PARAMETERS, sizes=sizes, hooks=hooks) as index:
        processes = [internals_of(index), *(another(internals_of(index), sizes) for _ in range(2))]
        ids: list[str] = []
        for _ in range(40):
            process = processes[int(generator.integers(3))]
            # Mostly unlike documents: a fingerprint has few neighbours among 2^64.
            part = [
                Row(len(ids) + row, int(generator.integers(2**63)), id=f"id {generator.integers(50)}")
                for row in range(int(generator.integers(1, 12)))
            ]
            crashing = generator.random() < 0.3
            try:
                admit.admit(process, entries_of(part), ends_of(part), {})
                ids += [row.id for row in part]
            except KeyError:
                pass
            crashing = False
            looking = processes[int(generator.integers(3))]
            for id_ in ("id 0", "id 1", "nobody"):
                assert found(looking, [id_]) == [row for row, each in enumerate(ids) if each == id_]
        for process in processes:
            assert found(process, ["id 3", "id 4"]) == [row for row, each in enumerate(ids) if each in ("id 3", "id 4")]
        index.close()
        assert wrong(Path(name)) == {}


def test_an_id_with_another_id_s_hash_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape.checksums, "id_hashes", lambda _, ends: np.full(len(ends), 7 << 24, np.uint64))
    rows = [Row(at, at << 40, id="early" if at == 0 else f"id {at}") for at in range(30)]
    asked = ["early", "nobody", "id 29", "early"]
    for sizes in (TreeSizes(1_000, 1_000), TreeSizes(4, 64)):
        with opened(tmp_path / str(sizes.segment_bytes), PARAMETERS, sizes=sizes) as index:
            for begin in range(0, len(rows), 5):
                index.admit(entries_of(rows[begin : begin + 5]), {})
            assert len(rows) > 2 * NEWEST_AT_FIRST
            process = internals_of(index)
            assert found(process, ["early"]) == [0]
            assert found(process, ["nobody"]) == []

            newest = process.read(lambda session: session.ids.newest(session.transaction, asked))
            assert list(zip(*map(np.ndarray.tolist, newest), strict=True)) == [(0, 0), (2, 29), (3, 0)]


def test_rows_that_left_the_log_are_dropped_when_their_segment_is_written_anew(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, sizes=TreeSizes(20, 2**16)) as index:

        def admitted(begin: int) -> None:
            rows = [
                Row(begin + at, (begin + at) * 0x9E3779B97F4A7C15 % 2**64, id=f"id {begin + at}") for at in range(20)
            ]
            index.admit(entries_of(rows), {})

        for begin in range(0, 200, 20):
            admitted(begin)

        before = rows_in_segments(index)
        assert before >= 140

        def drop(transaction: Transaction) -> None:
            for batch in list(log.walk(transaction, 1))[:5]:
                transaction.delete(Table.LOG, batch.key)

        internals_of(index).store.write(drop)
        assert found(internals_of(index), ["id 3"]) == []
        assert found(internals_of(index), ["id 103"]) == [103]
        for begin in range(200, 300, 20):
            admitted(begin)
        # Segments that no new row went into still hold old ones.
        assert rows_in_segments(index) < before + 100 - 30


def rows_in_segments(index: Index) -> int:
    now = inspected(index, partial(compaction_state, key=IDS_KEY))
    return now.first_entries + now.last_entries


@pytest.mark.parametrize("hits_max", [3, 2**20])
def test_the_last_rows_of_an_id_are_the_newest_wherever_they_stand(
    hits_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memtable, "HITS_MAX", hits_max)
    with opened(tmp_path, PARAMETERS, sizes=TreeSizes(40, 64)) as index:
        process, rows, asked = internals_of(index), 0, ["id 0", "often", "", "nobody"]
        for batch in range(60):
            part = [
                Row(rows + row, (rows + row) << 32, id=("often" if row % 2 else "" if row % 4 else f"id {row}"))
                for row in range(7)
            ]
            index.admit(entries_of(part), ends_of(part))
            rows += len(part)
            for limit in (1, 2, 5, 1_000):
                latest = process.read(lambda session, n=limit: session.ids.latest(session.transaction, asked, n))
                numbers = [latest.rows[latest.asked == place].tolist() for place in range(len(asked))]
                often = [row for row in reversed(range(rows)) if row % 7 % 2]
                assert numbers == [[7 * at for at in range(batch, -1, -1)][:limit], often[:limit], [], []]
        assert rows_in_segments(index) > 100
    assert wrong(tmp_path) == {}


def test_an_id_that_comes_a_thousand_times_is_read_a_few_times(tmp_path: Path) -> None:
    """Of a hash the look-up of the newest takes a few rows from the memtable and from each segment."""
    with opened(tmp_path, PARAMETERS, sizes=TreeSizes(1_000, 2**16)) as index:
        for begin in range(0, 3_000, 500):
            index.admit(entries_of([Row(row, row << 40, id="often") for row in range(begin, begin + 500)]), {})

        def hits(session: ReadSession) -> int:
            table, asked = session.ids, shape.id_hashes(b"often", np.array([5]))
            assert len(table._hits(session.transaction, asked, memtable.NO_LIMIT).rows) == 3_000
            return len(table._hits(session.transaction, asked, NEWEST_AT_FIRST).rows)

        segments = inspected(index, lambda transaction: transaction.count(Table.IDS))
        assert NEWEST_AT_FIRST <= internals_of(index).read(hits) <= NEWEST_AT_FIRST * (segments + 2)
