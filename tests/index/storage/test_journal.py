import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Verdict
from index.storage import journal, log
from index.storage.file.checksums import Checksums
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import JOURNAL_KEY, LOG_KEY, Table, unpack_journal_run
from index.storage.log import Origin
from index.storage.store import Store, Transaction
from tests.support.entries import Row, entries_of
from tests.support.examples import examples

SOURCES = [(0, 0), (0, 1), (1, 0), (2**32 - 1, 2**32 - 1)]
offsets_of = st.sets(st.one_of(st.integers(0, 40), st.integers(2**64 - 5, 2**64 - 1)), min_size=1, max_size=25)


def opened(directory: str) -> Store:
    store = Store(Path(directory), map_bytes_initial=2**24, map_bytes_max=2**24, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    return store


def array(offsets: set[int]) -> np.ndarray:
    return np.array(sorted(offsets), np.uint64)


def decided(transaction: Transaction, source: tuple[int, int], offsets: np.ndarray, number: int) -> None:
    """A batch of the log, which names another source first, and its rows in the journal; their number tells them."""
    key = LOG_KEY.pack(0, number)
    entries = entries_of([Row(int(offset), 0) for offset in offsets])
    entries.source_numbers[:] = 1
    sources = log.sources_of(np.array([9, source[0]], np.uint32), np.array([9, source[1]], np.uint32))
    # Every third row is a duplicate; its original's offset tells it.
    verdicts = np.where(offsets % 3 == 0, Verdict.DUPLICATE, Verdict.UNIQUE)
    origins = [Origin(f"of {offset}", 5, 6, offset ^ 1) for offset in offsets[offsets % 3 == 0].tolist()]
    columns = {"number": np.full(len(offsets), number), "verdict": verdicts}
    log.write(transaction, key, entries, sources, columns, origins)
    journal.add(transaction, *source, offsets, key, 1, 1)


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(SOURCES), offsets_of), max_size=12))
def test_whatever_the_order_and_overlap_every_row_is_found_and_no_other(
    batches: list[tuple[tuple[int, int], set[int]]],
) -> None:
    expected: dict[tuple[tuple[int, int], int], int] = {}
    with tempfile.TemporaryDirectory() as directory:
        store = opened(directory)

        def one(transaction: Transaction, number: int, source: tuple[int, int], offsets: set[int]) -> None:
            asked = array(offsets)
            found = journal.find(transaction, *source, asked, 1)
            assert found.known.tolist() == [(source, offset) in expected for offset in asked.tolist()]
            for place, (offset, row, known) in enumerate(zip(asked.tolist(), found.rows, found.known, strict=True)):
                assert not known or (row["offset"], row["number"]) == (offset, expected[source, offset])
                named = Origin(f"of {offset}", 5, 6, offset ^ 1) if known and offset % 3 == 0 else None
                assert found.origins.get(place) == named
            new = asked[~found.known]
            if len(new):
                decided(transaction, source, new, number)
            expected.update({(source, offset): number for offset in new.tolist()})

        for number, (source, offsets) in enumerate(batches):
            store.write(lambda transaction, n=number, s=source, o=offsets: one(transaction, n, s, o))  # type: ignore[misc]
        everything = set(range(41)) | set(range(2**64 - 5, 2**64))
        for source in SOURCES:
            store.read(lambda transaction, s=source: one_found(transaction, s, everything, expected))  # type: ignore[misc]
        store.read(runs_never_overlap)
        store.close()


def one_found(transaction: Transaction, source: tuple[int, int], offsets: set[int], expected: dict) -> None:
    found = journal.find(transaction, *source, array(offsets), 1)
    held = {row["offset"]: row["number"] for row in found.rows[found.known]}
    assert held == {offset: number for (other, offset), number in expected.items() if other == source}


def rows_by_run(transaction: Transaction) -> set[tuple[tuple[int, int], int]]:
    found = set()
    for key, value in transaction.walk(Table.JOURNAL):
        stream, partition, first = JOURNAL_KEY.unpack(key)
        run = unpack_journal_run(bytes(value))
        rows = log.read(transaction, run.batch, 1).rows
        own = (rows["source"] == run.source) & (rows["offset"] >= first) & (rows["offset"] <= run.last)
        found |= {((stream, partition), offset) for offset in rows["offset"][own].tolist()}
    return found


@examples(15)
@given(st.lists(st.tuples(st.sampled_from(SOURCES), offsets_of), max_size=10), st.data())
def test_a_batch_that_is_dropped_takes_its_own_rows_along_and_no_others(
    batches: list[tuple[tuple[int, int], set[int]]], data: st.DataObject
) -> None:
    expected: dict[tuple[tuple[int, int], int], int] = {}
    with tempfile.TemporaryDirectory() as directory, closing(opened(directory)) as store:
        for number, (source, offsets) in enumerate(batches):
            new = array({offset for offset in offsets if (source, offset) not in expected})
            if len(new):
                store.write(lambda transaction, n=number, s=source, o=new: decided(transaction, s, o, n))  # type: ignore[misc]
            expected.update({(source, offset): number for offset in new.tolist()})
        gone = data.draw(st.sets(st.sampled_from(sorted(set(expected.values()))))) if expected else set()
        for number in gone:
            key = LOG_KEY.pack(0, number)
            store.write(lambda transaction, k=key: journal.drop(transaction, log.copied(transaction, k, 1)))  # type: ignore[misc]
        left = {position for position, number in expected.items() if number not in gone}
        assert store.read(rows_by_run) == left


def runs_never_overlap(transaction: Transaction) -> None:
    last: dict[tuple[int, int], int] = {}
    for key, value in transaction.walk(Table.JOURNAL):
        stream, partition, first = JOURNAL_KEY.unpack(key)
        run = unpack_journal_run(bytes(value))
        held = log.read(transaction, run.batch, 1).rows["offset"]
        assert {first, run.last} <= set(held.tolist())
        assert last.get((stream, partition), -1) < first <= run.last
        last[stream, partition] = run.last


def test_batches_in_order_are_looked_up_without_a_look_at_the_log(tmp_path: Path) -> None:
    store = opened(str(tmp_path))
    for start in range(0, 5_000, 1_000):
        offsets = np.arange(start, start + 1_000, dtype=np.uint64)
        store.write(lambda transaction, o=offsets: decided(transaction, (4, 2), o, 1 + int(o[0])))  # type: ignore[misc]
    assert store.read(lambda transaction: transaction.count(Table.JOURNAL)) == 5

    reads: list[Table] = []

    class Counting(Transaction):
        def floor(self, table: Table, key: bytes) -> tuple[bytes, memoryview] | None:
            reads.append(table)
            return super().floor(table, key)

        def view(self, table: Table, key: bytes, *, recheck: bool = False) -> memoryview | None:
            reads.append(table)
            return super().view(table, key, recheck=recheck)

    def look_up(transaction: Transaction, offsets: list[int]) -> list[int]:
        reads.clear()
        counting = Counting(transaction._environment, transaction._transaction, transaction._tables, Checksums())
        found = journal.find(counting, 4, 2, np.array(offsets, np.uint64), 1)
        return found.rows["number"][found.known].tolist()

    assert store.read(lambda transaction: look_up(transaction, [5_000, 5_001, 9_999])) == []
    assert reads == [Table.JOURNAL]
    assert store.read(lambda transaction: look_up(transaction, [3, 10, 4_500, 9_999])) == [1, 1, 4_001]
    assert reads == [Table.JOURNAL, Table.LOG, Table.JOURNAL, Table.LOG]
    store.close()
