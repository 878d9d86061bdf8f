"""Each way in which an index can be damaged is found, and nothing is found in a sound one."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import contents
from index.admission import Index
from index.blocks import buckets_of
from index.copies import structure_problems
from index.entry import Kind, Verdict
from index.layout import (
    COUNTERS_KEY,
    JOURNAL_KEY,
    SOURCE_KEY,
    Table,
    pack_applied,
    pack_bucket_keys,
    pack_bucket_values,
    pack_counters,
    pack_numbers,
    unpack_counters,
)
from index.parameters import Parameters
from index.store import DATA_FILE, Transaction
from index.verification import verify
from tests.support.index_process import DOCUMENTS, PARAMETERS
from tests.support.indexes import MAP_BYTES_MAX, filled, findings, looked_at, mixed_rows, opened, wrong

ROOT = Path(__file__).resolve().parents[2]
ROWS = mixed_rows(11, 200)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 120),
    st.sampled_from([64, 128]),
    st.integers(0, 7),
    st.sampled_from(["unique", "all"]),
)
def test_a_sound_index_verifies(seed: int, count: int, bits: int, distance_max: int, insert: Any) -> None:
    parameters = Parameters(bits, distance_max, insert)
    rows = mixed_rows(seed, count, bits)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "index"
        filled(directory, rows, parameters)
        with opened(directory, parameters) as index:
            forgotten = index.forget([row.id for row in rows[::5]])
        assert structure_problems(directory) == []
        found = findings(directory)
        with looked_at(directory) as index:
            statistics = index.statistics()
    assert {check: finding.examples for check, finding in found.items() if finding.wrong} == {}
    assert found["documents"].examined == statistics.entries + statistics.exact_entries + len(forgotten)
    assert found["blocks"].examined == statistics.entries * (bits // 16) + statistics.exact_entries
    assert found["journal"].examined == statistics.journal_rows == count


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
        with looked_at(tmp_path) as index:
            for number, _ in enumerate(process.stdout):
                if number % 5:
                    continue
                found, problems = index.inspect(lambda t: (verify(t, index.parameters), structure_problems(tmp_path)))
                assert [finding.examples for finding in found if finding.wrong] == []
                assert problems == []
                moments.append(next(finding.examined for finding in found if finding.check == "journal"))
    assert len(set(moments)) > 3
    assert findings(tmp_path)["journal"].examined == DOCUMENTS


def near_number(transaction: Transaction) -> int:
    """A document that several others name as their original."""
    (stored,) = contents.stored(transaction, 1)
    return int(stored.numbers[stored.columns["kind"] == Kind.NEAR][0])


def places_of(transaction: Transaction, number: int) -> tuple[list[bytes], list[bytes]]:
    (stored,) = contents.stored(transaction, 1)
    fingerprint = stored.columns["fingerprint"][stored.numbers == number].astype(np.uint64)
    places = buckets_of(fingerprint, np.array([number], np.uint64))
    return pack_bucket_keys(places.keys), pack_bucket_values(places)


def lose_one_block(transaction: Transaction) -> None:
    keys, values = places_of(transaction, near_number(transaction))
    transaction.delete(Table.BUCKETS, keys[2], values[2])


def file_under_a_wrong_block(transaction: Transaction) -> None:
    keys, values = places_of(transaction, near_number(transaction))
    transaction.put(Table.BUCKETS, bytes([keys[0][0], keys[0][1], keys[0][2] ^ 1]), values[0])


def file_under_no_block(transaction: Transaction) -> None:
    _, values = places_of(transaction, near_number(transaction))
    transaction.put(Table.BUCKETS, b"\x09\x00\x00", values[0])


def file_a_stranger(transaction: Transaction) -> None:
    places = buckets_of(np.array([[77]], np.uint64), np.array([9_999], np.uint64))
    transaction.put(Table.BUCKETS, pack_bucket_keys(places.keys)[0], pack_bucket_values(places)[0])


def lose_an_exact_entry(transaction: Transaction) -> None:
    key, value = next(iter(transaction.walk(Table.EXACT)))
    transaction.delete(Table.EXACT, key, value)


def move_an_exact_entry(transaction: Transaction) -> None:
    key, value = next(iter(transaction.walk(Table.EXACT)))
    transaction.delete(Table.EXACT, key, value)
    transaction.put(Table.EXACT, b"\xee" * 8, value)


def lose_a_document(transaction: Transaction) -> None:
    transaction.delete(Table.DOCUMENTS, pack_numbers(np.array([near_number(transaction)], np.uint64))[0])


def forget_half(transaction: Transaction) -> None:
    transaction.put(Table.FORGOTTEN, pack_numbers(np.array([near_number(transaction)], np.uint64))[0], b"")


def forget_nobody(transaction: Transaction) -> None:
    transaction.put(Table.FORGOTTEN, pack_numbers(np.array([5_000], np.uint64))[0], b"")


def journal_rows(transaction: Transaction, change: Callable[[np.ndarray], np.ndarray], verdict: Verdict) -> None:
    for stream, partition, first, rows in list(contents.journals(transaction)):
        chosen = np.flatnonzero(rows["verdict"] == verdict)
        if len(chosen):
            key = JOURNAL_KEY.pack(stream, partition, first)
            transaction.put(Table.JOURNAL, key, change(rows.copy())[:].tobytes())
            return


def name_a_number_never_given(transaction: Transaction) -> None:
    def change(rows: np.ndarray) -> np.ndarray:
        rows["number"][np.flatnonzero(rows["verdict"] == Verdict.DUPLICATE)[0]] = 9_999
        return rows

    journal_rows(transaction, change, Verdict.DUPLICATE)


def lose_a_unique_row(transaction: Transaction) -> None:
    journal_rows(transaction, lambda rows: np.delete(rows, np.flatnonzero(rows["verdict"] == 0)[-1]), Verdict.UNIQUE)


def change_a_verdict(transaction: Transaction) -> None:
    def change(rows: np.ndarray) -> np.ndarray:
        rows["verdict"][np.flatnonzero(rows["verdict"] == Verdict.DUPLICATE)[0]] = Verdict.UNIQUE
        return rows

    journal_rows(transaction, change, Verdict.DUPLICATE)


def turn_rows_round(transaction: Transaction) -> None:
    journal_rows(transaction, lambda rows: rows[::-1], Verdict.UNIQUE)


def count_wrongly(transaction: Transaction) -> None:
    counters = unpack_counters(transaction.get(Table.META, COUNTERS_KEY))
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters._replace(journal_rows=7)))


def give_a_number_twice(transaction: Transaction) -> None:
    counters = unpack_counters(transaction.get(Table.META, COUNTERS_KEY))
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters._replace(next_number=counters.next_number - 1)))


def fall_behind(transaction: Transaction) -> None:
    stream, partition = contents.journaled_sources(transaction)[0]
    transaction.put(Table.APPLIED, SOURCE_KEY.pack(stream, partition), pack_applied(3, b""))


def lose_the_applied_offset(transaction: Transaction) -> None:
    transaction.delete(Table.APPLIED, SOURCE_KEY.pack(*contents.journaled_sources(transaction)[1]))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lose_one_block, {"blocks": "is found through 3 of its 4 blocks"}),
        (file_under_a_wrong_block, {"blocks": "which does not belong there"}),
        (file_under_no_block, {"blocks": "1 places stand under keys that are none"}),
        (file_a_stranger, {"blocks": "holds document 9999, which does not belong there"}),
        (lose_an_exact_entry, {"blocks": "is not among the exact ones"}),
        (move_an_exact_entry, {"blocks": "stands among the exact ones wrongly"}),
        (lose_a_document, {"counters": "next number", "documents": "gap", "blocks": "does not belong", "journal": "no original"}),
        (forget_half, {"blocks": "which does not belong there"}),
        (forget_nobody, {"documents": "the forgotten document 5000 does not exist"}),
        (name_a_number_never_given, {"journal": "names document 9999, which is no original"}),
        (lose_a_unique_row, {"counters": "journal rows", "documents": "does not name document", "journal": "unique rows for"}),
        (change_a_verdict, {"journal": "unique rows for"}),
        (turn_rows_round, {"documents": "does not name document", "journal": "are out of order"}),
        (count_wrongly, {"counters": "journal rows: counted 7, there are 200"}),
        (give_a_number_twice, {"counters": "next number"}),
        (fall_behind, {"applied": "is applied up to 3"}),
        (lose_the_applied_offset, {"applied": "is applied up to 0"}),
    ],
)  # fmt: skip
def test_damage_is_found(damage: Callable[[Transaction], None], expected: dict[str, str], tmp_path: Path) -> None:
    filled(tmp_path, ROWS)
    assert wrong(tmp_path) == {}
    with opened(tmp_path) as index:
        index.change(damage)
    found = wrong(tmp_path)
    assert found.keys() == expected.keys()
    assert all(any(words in example for example in found[check]) for check, words in expected.items()), found


def test_a_page_overwritten_in_the_file_is_found(tmp_path: Path) -> None:
    filled(tmp_path, ROWS)
    with (tmp_path / DATA_FILE).open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"\xff" * 4096)
    assert structure_problems(tmp_path) != []


def test_a_file_that_is_none_is_found(tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(b"\0" * 8192)
    assert structure_problems(tmp_path) != []
