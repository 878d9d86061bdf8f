"""Each way in which an index can be damaged is found, and nothing is found in a sound one."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind, Verdict
from index.index import Index, internals_of
from index.lsm.levels import Levels
from index.matching.minhash import banding_for
from index.matching.root import RootRule
from index.session import Retention
from index.storage import log, scan
from index.storage.codec import Lines, unpack_batch
from index.storage.counters import counters_of
from index.storage.data_file import DATA_FILE
from index.storage.layout import (
    COMPACTION_KEY,
    COUNTERS_KEY,
    JOURNAL_KEY,
    SOURCE_KEY,
    TOMBSTONE_KEY,
    Change,
    Filing,
    Table,
    pack_applied,
    pack_counters,
    pack_journal_run,
    pack_numbers,
)
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import HASH_KEY, Level, pack_compaction
from index.storage.segments.hash_codec import NO_ENTRIES, HashKey, pack_hash_segment, unpack_hash_segment
from index.storage.store import Transaction
from index.tools import verify, verify_tables
from index.tools.backup import structure_problems
from tests.support.entries import ends_of, entries_of
from tests.support.examples import examples
from tests.support.index_process import DOCUMENTS, PARAMETERS
from tests.support.indexes import MAP_BYTES_MAX, SMALL, filled, findings, inspected, mixed_rows, opened, wrong
from tests.support.packed import compaction_state, stored_documents
from tests.support.packed import tombstones as waiting_tombstones
from tests.support.paths import ROOT
from tests.support.roots import NEAR_ROOT

VERIFY = import_module("index.tools.verify")

ROWS = mixed_rows(11, 200, repeated=0.2)
ALL = Parameters(insert="root", root=NEAR_ROOT)
BANDED = Parameters(512, 3_000, banding=banding_for(64, 8, 0.7))


@examples(12)
@given(
    st.integers(0, 2**32),
    st.integers(0, 120),
    st.sampled_from([(64, None), (128, None), (512, BANDED.banding)]),
    st.sampled_from(["unique", "root"]),
    st.sampled_from([None, 5, 30]),
)
def test_a_sound_index_verifies_in_every_compaction_state(
    seed: int, count: int, shape: Any, insert: Any, entries_max: int | None
) -> None:
    """After every batch, with entries that left and are on their way; and when another goes on with it."""
    bits, banding = shape
    parameters = Parameters(bits, 3, insert, {}, banding, root=RootRule(6) if insert == "root" else None)
    rows = mixed_rows(seed, count, bits, repeated=0.3)
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        directory, begin = Path(name) / "index", 0
        opened(directory, parameters).close()
        while begin < count:
            with opened(directory, parameters, sizes=SMALL, retention=Retention(entries_max)) as index:
                for _ in range(int(generator.integers(1, 5))):
                    part = rows[begin : begin + int(generator.integers(1, 25))]
                    begin += len(part)
                    index.admit(entries_of(part, bits), {}) if part else None
                    index.forget({row.id for row in rows[:begin:9]} if generator.random() < 0.3 else set())
                    found = verify(index)
                    assert [each.examples for each in found if each.wrong and each.check != "applied"] == []
        assert structure_problems(directory) == []
        assert wrong(directory).keys() <= {"applied"}


def test_the_compaction_states_that_are_verified_are_all_there_are(tmp_path: Path) -> None:
    """One small index meets what the test above goes through by chance: moving, tombstones before and since."""
    rows = mixed_rows(3, 400, repeated=0.3)
    seen = set()
    with opened(tmp_path, ALL, sizes=SMALL, retention=Retention(60)) as index:
        for begin in range(0, len(rows), 5):
            index.admit(entries_of(rows[begin : begin + 5]), {})
            now, tombstones = inspected(index, lambda t: (compaction_state(t), [*waiting_tombstones(t, 1)]))
            if now.is_moving:
                seen.add(("table", now.table))
            for number, tombstone in tombstones:
                since = number >= now.frozen_tombstones
                seen.update((now.is_moving, since, int(change)) for change in tombstone.changes)
    assert {("table", table) for table in range(4)} <= seen
    assert {(True, since, Change.EXPIRED) for since in (False, True)} <= seen


def test_an_index_verifies_at_every_moment_while_another_process_writes(tmp_path: Path) -> None:
    Index.open(tmp_path, PARAMETERS, map_bytes_max=MAP_BYTES_MAX).close()
    command = [sys.executable, "-m", "tests.support.index_process", str(tmp_path), "0", "1000"]
    moments = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        with opened_for_reading(tmp_path) as index:
            for number, _ in enumerate(process.stdout):
                if number % 5:
                    continue
                found = verify(index)
                assert [finding.examples for finding in found if finding.wrong] == []
                moments.append(next(finding.examined for finding in found if finding.check == "log"))
    assert len(set(moments)) > 3
    assert findings(tmp_path)["log"].examined == DOCUMENTS


def opened_for_reading(directory: Path) -> Index:
    return Index.open(directory, None, map_bytes_max=MAP_BYTES_MAX, read_only=True)


def filled_small(directory: Path) -> None:
    """An index with segments of all tables, and exact ones, in the middle of a compaction, with tombstones."""
    filled(directory, ROWS[:150], ALL, batch_rows=20, sizes=SMALL)
    with opened(directory, ALL, sizes=SMALL) as index:
        index.forget({row.id for row in ROWS[100:110]})
        for row in ROWS[150:]:
            now = inspected(index, compaction_state)
            if now.is_moving and now.table == 1:
                index.forget({ROWS[110].id})
                now, tombstones = inspected(index, lambda t: (compaction_state(t), [*waiting_tombstones(t, 1)]))
                if now.is_moving and now.table < 3 and tombstones[-1][0] >= now.frozen_tombstones:
                    return
            index.admit(entries_of([row]), ends_of([row]))
    raise AssertionError("it never came to such a state")


def batches(transaction: Transaction) -> list[log.Batch]:
    return [log.copied(transaction, key, 1) for key, _ in transaction.walk(Table.LOG)]


def change_rows(transaction: Transaction, change: Callable[[Lines], None]) -> None:
    """Write a batch again with other columns, all else as it was."""
    batch = batches(transaction)[5]
    value = bytearray(transaction.get(Table.LOG, batch.key) or b"")
    change(unpack_batch(memoryview(value)))
    transaction.put(Table.LOG, batch.key, bytes(value))


def first_of(rows: np.ndarray, verdict: Verdict) -> int:
    return int(np.flatnonzero(rows["verdict"] == verdict)[0])


def lose_a_batch(transaction: Transaction) -> None:
    transaction.delete(Table.LOG, batches(transaction)[5].key)


def cut_a_batch(transaction: Transaction) -> None:
    batch = batches(transaction)[5]
    value = transaction.get(Table.LOG, batch.key)
    assert value is not None
    transaction.put(Table.LOG, batch.key, value[:-3])


def cut_off_most_of_a_batch(transaction: Transaction) -> None:
    batch = batches(transaction)[5]
    transaction.put(Table.LOG, batch.key, (transaction.get(Table.LOG, batch.key) or b"")[:50])


def write_a_batch_twice(transaction: Transaction) -> None:
    batch = batches(transaction)[5]
    value = transaction.get(Table.LOG, batch.key)
    assert value is not None
    transaction.put(Table.LOG, log.key_of(batch.first_number, 10**6), value)


def name_a_number_never_given(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["number"][first_of(lines.rows, Verdict.DUPLICATE)] = 9_999

    change_rows(transaction, change)


def change_a_verdict(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["verdict"][first_of(lines.rows, Verdict.UNDECIDABLE)] = Verdict.UNIQUE

    change_rows(transaction, change)


def name_another(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["number"][first_of(lines.rows, Verdict.UNIQUE)] = 0

    change_rows(transaction, change)


def turn_offsets_round(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        both = np.flatnonzero(lines.rows["source"] == 0)[1:3]
        lines.rows["offset"][both] = lines.rows["offset"][both[::-1]]

    change_rows(transaction, change)


def move_an_offset(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["offset"][np.flatnonzero(lines.rows["source"] == 0)[-1]] += np.uint64(10_000)

    change_rows(transaction, change)


def overlap_ids(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["id_end"][:2] = lines.rows["id_end"][1::-1]

    change_rows(transaction, change)


def file_nobody(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["filing"][first_of(lines.rows, Verdict.UNIQUE)] = Filing.NOTHING

    change_rows(transaction, change)


def call_a_duplicate_unique(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.rows["verdict"][first_of(lines.rows, Verdict.DUPLICATE)] = Verdict.UNIQUE

    change_rows(transaction, change)


def enter_an_unknown_stream(transaction: Transaction) -> None:
    def change(lines: Lines) -> None:
        lines.sources["stream"][0] = 77

    change_rows(transaction, change)


def run_at(transaction: Transaction, place: int) -> tuple[int, int, int, Any]:
    return list(scan.runs(transaction))[place]


def lose_a_run(transaction: Transaction) -> None:
    transaction.delete(Table.JOURNAL, JOURNAL_KEY.pack(*run_at(transaction, 4)[:3]))


def overlap_runs(transaction: Transaction) -> None:
    *key, run = run_at(transaction, 4)
    transaction.put(Table.JOURNAL, JOURNAL_KEY.pack(*key), pack_journal_run(run._replace(last=run.last + 30)))


def name_no_batch(transaction: Transaction) -> None:
    *key, run = run_at(transaction, 4)
    transaction.put(Table.JOURNAL, JOURNAL_KEY.pack(*key), pack_journal_run(run._replace(batch=b"\xff" * 16)))


def name_no_source(transaction: Transaction) -> None:
    *key, run = run_at(transaction, 4)
    transaction.put(Table.JOURNAL, JOURNAL_KEY.pack(*key), pack_journal_run(run._replace(source=9)))


def segment_of(transaction: Transaction, table: int) -> tuple[bytes, np.ndarray]:
    """The fullest segment of a table, and its entries."""
    found = [(key, bytes(value)) for key, value in transaction.walk(Table.SEGMENTS) if key[0] == table]
    unpacked = [(key, unpack_hash_segment(value)) for key, value in found if key[1] != Level.REMOVED]
    return max(unpacked, key=lambda each: each[1].shape[1])


def put_segment(transaction: Transaction, key: bytes, entries: np.ndarray) -> None:
    value = pack_hash_segment(HashKey(*HASH_KEY.unpack(key)), np.ascontiguousarray(entries))
    transaction.put(Table.SEGMENTS, key, value)


def lose_an_entry(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 2)
    put_segment(transaction, key, entries[:, 1:])


def lose_a_segment(transaction: Transaction) -> None:
    transaction.delete(Table.SEGMENTS, segment_of(transaction, 1)[0])


def change_an_entry(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 3)
    entries[0, -1] ^= np.uint64(2**24)
    put_segment(transaction, key, entries)


def repeat_an_entry(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 3)
    put_segment(transaction, key, entries[:, [0, *range(entries.shape[1])]])


def move_a_bound(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 2)
    transaction.delete(Table.SEGMENTS, key)
    put_segment(transaction, HashKey(*key[:2], *entries[:, 1].tolist()).packed(), entries)


def change_a_number(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 0)
    put_segment(transaction, key, entries + np.array([[0], [1]], np.uint64))


def cut_a_segment(transaction: Transaction) -> None:
    key, entries = segment_of(transaction, 2)
    value = pack_hash_segment(HashKey(*HASH_KEY.unpack(key)), entries)
    transaction.put(Table.SEGMENTS, key, value[:40])


def make_a_table(transaction: Transaction) -> None:
    put_segment(transaction, HashKey(9, 0).packed(), segment_of(transaction, 2)[1])


def go_on_without_moving(transaction: Transaction) -> None:
    now = compaction_state(transaction)
    assert now.is_moving
    moved = now._replace(table=now.table + 1, bound=bytes(16))
    transaction.put(Table.META, COMPACTION_KEY, pack_compaction(moved))


def end_a_run_too_early(transaction: Transaction) -> None:
    now = compaction_state(transaction)
    transaction.put(
        Table.META, COMPACTION_KEY, pack_compaction(now._replace(merged_to=now.frozen_to, table=0, bound=b""))
    )


def lose_a_tombstone(transaction: Transaction) -> None:
    numbers = [number for number, _ in waiting_tombstones(transaction, 1)]
    transaction.delete(Table.TOMBSTONES, TOMBSTONE_KEY.pack(numbers[-1]))


def first_exact(transaction: Transaction) -> tuple[bytes, bytes]:
    key, value = next(iter(transaction.walk(Table.EXACT)))
    return key, bytes(value)


def lose_an_exact_entry(transaction: Transaction) -> None:
    transaction.delete(Table.EXACT, *first_exact(transaction))


def move_an_exact_entry(transaction: Transaction) -> None:
    key, value = first_exact(transaction)
    transaction.delete(Table.EXACT, key, value)
    transaction.put(Table.EXACT, b"\xee" * 8, value)


def file_under_half_a_fingerprint(transaction: Transaction) -> None:
    transaction.put(Table.EXACT, b"half", pack_numbers(np.array([3], np.uint64))[0])


def cut_a_tombstone(transaction: Transaction) -> None:
    key, value = next(iter(transaction.walk(Table.TOMBSTONES)))
    transaction.put(Table.TOMBSTONES, key, bytes(value)[:-1])


def near_number(transaction: Transaction, filing: Filing = Filing.BLOCKS) -> int:
    """The first NEAR document that is filed like this."""
    stored = stored_documents(transaction, 1)
    return int(stored.numbers[(stored.rows["kind"] == Kind.NEAR) & (stored.rows["filing"] == filing)][0])


def forget_half(transaction: Transaction) -> None:
    transaction.put(Table.RETIRED, pack_numbers(np.array([near_number(transaction)], np.uint64))[0], b"")


def forget_nobody(transaction: Transaction) -> None:
    transaction.put(Table.RETIRED, pack_numbers(np.array([5_000], np.uint64))[0], b"")


def come_back(transaction: Transaction) -> None:
    """A NEAR document that was forgotten, and has left the tables, is no longer noted."""
    stored = stored_documents(transaction, 1)
    gone = np.isin(stored.numbers, scan.forgotten(transaction)) & (stored.rows["kind"] == Kind.NEAR)
    transaction.delete(Table.RETIRED, pack_numbers(stored.numbers[gone][:1])[0])


def count_wrongly(transaction: Transaction, **changes: int) -> None:
    counters = counters_of(transaction)
    changed = {name: getattr(counters, name) + by for name, by in changes.items()}
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters._replace(**changed)))


def count_rows_wrongly(transaction: Transaction) -> None:
    count_wrongly(transaction, journal_rows=-7)


def give_a_number_twice(transaction: Transaction) -> None:
    count_wrongly(transaction, next_number=-1)


def count_entries_wrongly(transaction: Transaction) -> None:
    count_wrongly(transaction, near_entries=1)


def give_a_tombstone_twice(transaction: Transaction) -> None:
    count_wrongly(transaction, next_tombstone=-1)


def lose_a_stream(transaction: Transaction) -> None:
    transaction.delete(Table.STREAM_NUMBERS, transaction.keys(Table.STREAM_NUMBERS)[0])


def fall_behind(transaction: Transaction) -> None:
    stream, partition = scan.journaled_sources(transaction)[0]
    transaction.put(Table.APPLIED, SOURCE_KEY.pack(stream, partition), pack_applied(3, b""))


def lose_the_applied_offset(transaction: Transaction) -> None:
    transaction.delete(Table.APPLIED, SOURCE_KEY.pack(*scan.journaled_sources(transaction)[1]))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lose_a_batch, {"log": "a batch is missing before", "blocks": "does not belong", "journal": "does not exist"}),
        (cut_a_batch, {"log": "cannot be read"}),
        (cut_off_most_of_a_batch, {"log": "cannot be read"}),
        (write_a_batch_twice, {"log": "overlap what comes before"}),
        (name_a_number_never_given, {"log": "names document 9999, which is no original"}),
        (change_a_verdict, {"log": "should have entered, or should not"}),
        (name_another, {"log": "does not name itself"}),
        (turn_offsets_round, {"log": "are out of order"}),
        (move_an_offset, {"log": "is not in the journal", "journal": "begins or ends where its batch has no row"}),
        (overlap_ids, {"log": "its ids overlap"}),
        (file_nobody, {"log": "it has not one fingerprint for each row that entered"}),
        (call_a_duplicate_unique, {"log": "it has not one original for each duplicate"}),
        (enter_an_unknown_stream, {"log": "names stream 77, which does not exist", "journal": "does not have"}),
        (lose_a_run, {"log": "is not in the journal"}),
        (overlap_runs, {"journal": "overlaps"}),
        (name_no_batch, {"log": "is not in the journal", "journal": "which does not exist"}),
        (name_no_source, {"log": "is not in the journal", "journal": "that its batch does not have"}),
        (lose_an_entry, {"blocks": "is not found through its block 2"}),
        (lose_a_segment, {"blocks": "is not found through its block 1"}),
        (change_an_entry, {"blocks": "the segments of block 3 hold document"}),
        (repeat_an_entry, {"blocks": "is not in order"}),
        (move_a_bound, {"blocks": "begins before its bound"}),
        (change_a_number, {"blocks": "is not found through its block 0"}),
        (cut_a_segment, {"blocks": "cannot be read"}),
        (make_a_table, {"blocks": "is of no table"}),
        (go_on_without_moving, {"blocks": "is not found through its block"}),
        (end_a_run_too_early, {"blocks": "is not found through its block"}),
        (lose_a_tombstone, {"counters": "tombstones since the memtable", "blocks": "does not belong"}),
        (cut_a_tombstone, {"blocks": "cannot be read"}),
        (file_under_half_a_fingerprint, {"blocks": "1 keys of `exact` are none"}),
        (lose_an_exact_entry, {"blocks": "is not among the exact ones"}),
        (move_an_exact_entry, {"blocks": "stands among the exact ones wrongly"}),
        (forget_half, {"counters": "NEAR entries", "blocks": "which does not belong"}),
        (forget_nobody, {"log": "the forgotten document 5000 does not exist"}),
        (come_back, {"counters": "NEAR entries", "blocks": "are not what they ought to be"}),
        (count_rows_wrongly, {"log": "overlap what comes before"}),
        (give_a_number_twice, {"log": "overlap what comes before"}),
        (count_entries_wrongly, {"counters": "NEAR entries"}),
        (give_a_tombstone_twice, {"counters": "tombstones since the memtable"}),
        (lose_a_stream, {"counters": "streams by name"}),
        (fall_behind, {"applied": "is applied up to 3"}),
        (lose_the_applied_offset, {"applied": "is applied up to 0"}),
    ],
)  # fmt: skip
def test_damage_is_found(damage: Callable[[Transaction], None], expected: dict[str, str], tmp_path: Path) -> None:
    filled_small(tmp_path)
    assert wrong(tmp_path) == {}
    with opened(tmp_path, ALL, sizes=SMALL) as index:
        internals_of(index).store.write(damage)
    found = wrong(tmp_path)
    assert expected.keys() <= found.keys(), found
    assert all(any(words in example for example in found[check]) for check, words in expected.items()), found


def test_an_entry_under_a_wrong_band_is_found(tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(2, 120, 512), BANDED, batch_rows=10, sizes=SMALL)

    def damage(transaction: Transaction) -> None:
        key, value = next((key, bytes(value)) for key, value in transaction.walk(Table.SEGMENTS) if key[0] == 3)
        entries = unpack_hash_segment(value)
        entries[0, -1] ^= np.uint64(2**40)
        transaction.put(Table.SEGMENTS, key, pack_hash_segment(HashKey(*HASH_KEY.unpack(key)), entries))

    assert wrong(tmp_path) == {}
    with opened(tmp_path, BANDED) as index:
        internals_of(index).store.write(damage)
    (missing, stray) = wrong(tmp_path)["blocks"]
    assert "is not found through its band 3" in missing
    assert "the segments of band 3 hold document" in stray


@pytest.mark.parametrize(("counter", "level"), [("first_entries", "first"), ("last_entries", "last")])
def test_a_level_that_is_counted_wrongly_is_found(counter: str, level: str, tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(2, 400, 512), BANDED, batch_rows=10, sizes=SMALL)
    with opened(tmp_path, BANDED, sizes=SMALL) as index:
        now = inspected(index, compaction_state)
        assert min(now.first_entries, now.last_entries) > 17
        counted = now._replace(**{counter: getattr(now, counter) - 17})
        internals_of(index).store.write(lambda t: t.put(Table.META, COMPACTION_KEY, pack_compaction(counted)))
    found = wrong(tmp_path)
    assert found.keys() == {"counters"}
    (problem,) = found["counters"]
    assert problem.startswith(f"entries of the {level} level: counted {getattr(counted, counter)}, there are")


def test_entries_of_the_wrong_level_are_counted_where_they_stand(tmp_path: Path) -> None:
    """Every entry is where look-ups find it, so the blocks are sound."""
    filled(tmp_path, mixed_rows(2, 400, 512), BANDED, batch_rows=10, sizes=SMALL)

    def damage(transaction: Transaction) -> None:
        key, value = next(
            (key, bytes(value)) for key, value in transaction.walk(Table.SEGMENTS) if key[1] == Level.FIRST
        )
        transaction.delete(Table.SEGMENTS, key)
        Levels(transaction, Table.SEGMENTS, 1_000).merge_in(
            key[0], Level.LAST, unpack_hash_segment(value), NO_ENTRIES, 1_000
        )

    with opened(tmp_path, BANDED, sizes=SMALL) as index:
        internals_of(index).store.write(damage)
    found = wrong(tmp_path)
    assert found.keys() == {"counters"}
    assert [problem.split(":")[0] for problem in found["counters"]] == [
        "entries of the first level", "entries of the last level",
    ]  # fmt: skip


def test_no_fingerprint_of_many_is_held_to_find_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more parts differ than are looked at, it says so; one part is enough to tell an unsound index."""
    filled_small(tmp_path)
    monkeypatch.setattr(VERIFY, "PARTS_MAX", 1)
    with opened(tmp_path, ALL, sizes=SMALL) as index:
        internals_of(index).store.write(lose_a_segment)
    assert any("parts of tables are not what they ought to be" in each for each in wrong(tmp_path)["blocks"])
    monkeypatch.setattr("index.tools.verify_tables.ENTRIES_MAX", 0)
    assert any("parts of tables are not what they ought to be" in each for each in wrong(tmp_path)["blocks"])


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=20, unique=True))
def test_hashes_of_different_identities_differ(values: list[int]) -> None:
    single = np.array(values, np.uint64)[:, None]
    assert len(set(verify_tables.hashes_of(single).tolist())) == len(values)
    turned = np.column_stack([single, single[::-1]])
    assert len(set(verify_tables.hashes_of(turned).tolist())) == len(values)


def test_a_page_overwritten_in_the_file_is_found(tmp_path: Path) -> None:
    filled(tmp_path, ROWS)
    with (tmp_path / DATA_FILE).open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"\xff" * 4096)
    assert structure_problems(tmp_path) != []


def test_a_file_that_is_none_is_found(tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(b"\0" * 8192)
    assert structure_problems(tmp_path) != []
