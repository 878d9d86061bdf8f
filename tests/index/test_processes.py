"""Several processes on one index, and processes that die in the midst of it."""

import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from index.entry import Verdict
from index.index import Index
from index.storage.documents import Document
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import ends_of, entries_of
from tests.support.index_process import BATCH_ROWS, DOCUMENTS, MAP_BYTES_MAX, PARAMETERS, SIZES, rows_of, source_of
from tests.support.packed import number_of, packed, require_packed
from tests.support.paths import ROOT
from tests.support.tiers import first_of

WAIT_SECONDS = 60


def started(directory: Path, partition: int, *arguments: object) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "tests.support.index_process",
        str(directory),
        str(partition),
        *map(str, arguments),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def ended(process: "subprocess.Popen[str]") -> list[int]:
    """The acknowledged offsets; the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    # Not `communicate`: it would leave out what `readline` has buffered.
    output = process.stdout.read()
    process.stdout.close()
    process.wait(timeout=WAIT_SECONDS)
    return [int(line) for line in output.split()]


def opened(directory: Path) -> Index:
    return Index.open(directory, PARAMETERS, map_bytes_max=MAP_BYTES_MAX, sizes=SIZES)


def require_consistent(directory: Path, decided: int) -> None:
    """The first `decided` documents of partition 0, and no more, stand in the index exactly as brute force decides."""
    rows = rows_of(0)
    oracle = BruteForceIndex(PARAMETERS.distance_max)
    expected = oracle.admit(entries_of(rows[:decided]), {}) if decided else []
    with opened(directory) as index:
        assert (index.applied()[source_of(0)].offset if decided else 0) == decided
        statistics = index.statistics()
        assert (statistics.entries, statistics.journal_rows) == (len(oracle.known), decided)
        require_packed(index, oracle.known)
        if decided:
            again = index.admit(entries_of(rows[:decided]), {})
            assert again.replayed.all()
            assert answers_of(again) == expected
        following = rows[decided : decided + BATCH_ROWS]
        decisions = index.admit(entries_of(following), {}) if following else None
        if decisions is not None:
            assert not decisions.replayed.any()
            assert answers_of(decisions) == oracle.admit(entries_of(following), {})
    checked = subprocess.run([sys.executable, "-m", "lmdb", "verify", str(directory)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


MOVED_TABLES = {4: 1, 5: 3, 9: 3}
"""The commits of a lone process amid a compaction, each with the table that it moves."""


@pytest.mark.parametrize(("moment", "lost"), [("before", 1), ("after", 0)])
@pytest.mark.parametrize("commit", first_of(4, 1, 2, 5, 9))
def test_a_process_killed_at_a_commit_leaves_whole_batches_only(
    moment: str, lost: int, commit: int, tmp_path: Path
) -> None:
    opened(tmp_path).close()
    process = started(tmp_path, 0, 100, moment, commit)
    go(process)
    acknowledged = ended(process)
    assert process.returncode == -signal.SIGKILL
    assert acknowledged == [BATCH_ROWS * (batch + 1) for batch in range(commit - 1)]
    if commit - lost in MOVED_TABLES:
        with opened(tmp_path) as index:
            now = packed(index).compaction
            assert (now.frozen_to > now.merged_to, now.table) == (True, MOVED_TABLES[commit - lost])
    require_consistent(tmp_path, (commit - lost) * BATCH_ROWS)


def test_two_processes_killed_again_and_again_lose_and_double_nothing(tmp_path: Path) -> None:
    acknowledged = {0: 0, 1: 0}
    for round_ in range(5):
        processes = {partition: started(tmp_path, partition, 100) for partition in (0, 1)}
        for process in processes.values():
            go(process)
        for partition, process in processes.items():
            assert process.stdout is not None
            for _ in range(1 + (round_ + partition) % 3):
                line = process.stdout.readline()
                acknowledged[partition] = int(line) if line else acknowledged[partition]
        for process in processes.values():
            process.kill()
        for partition, process in processes.items():
            acknowledged[partition] = max([acknowledged[partition], *ended(process)])
        with opened(tmp_path) as index:
            require_packed(index, documents_of(index))
    with opened(tmp_path) as index:
        verdicts = []
        for partition in (0, 1):
            applied = index.applied()[source_of(partition)].offset
            assert acknowledged[partition] <= applied <= acknowledged[partition] + BATCH_ROWS
            decisions = index.admit(entries_of(rows_of(partition)[:applied]), {})
            assert decisions.replayed.all()
            verdicts += decisions.verdicts.tolist()
        assert index.statistics().journal_rows == len(verdicts)
        assert index.statistics().entries == verdicts.count(Verdict.UNIQUE)
        apart = [number_of(document.fingerprint) for document in documents_of(index)]
    assert all((a ^ b).bit_count() > PARAMETERS.distance_max for place, a in enumerate(apart) for b in apart[:place])


def documents_of(index: Index) -> list[Document]:
    found = index.documents(range(index.statistics().entries))
    return [document for document in found if document is not None]


def test_a_process_sees_what_another_one_appends_froze_and_moved(tmp_path: Path) -> None:
    rows = [row._replace(source=source_of(7)) for row in rows_of(0)]
    oracle = BruteForceIndex(PARAMETERS.distance_max)
    options = {"map_bytes_max": MAP_BYTES_MAX, "map_bytes_initial": 2**20, "sizes": SIZES}
    with Index.open(tmp_path, PARAMETERS, **options) as index:  # type: ignore[arg-type]
        for begin in range(0, 1_000, 250):
            # The other one goes on by some batches, few at first and whole compactions later.
            process = started(tmp_path, 0, 1 + begin // 100)
            go(process)
            ends = [0, *ended(process)]
            other = rows_of(0)[: ends[-1]]
            oracle.admit(entries_of(other), {})
            part = rows[begin : begin + 250]
            assert answers_of(index.admit(entries_of(part), {})) == oracle.admit(entries_of(part), {})
            require_packed(index, oracle.known)
        assert packed(index).compaction.merged_to > 400
        # The map has grown under what is kept of the segments.
        assert index.statistics().map_bytes > 2**20


def test_a_killed_reader_does_not_make_the_file_grow(tmp_path: Path) -> None:
    reading = (
        "import sys; from pathlib import Path; from index.index import Index, internals_of\n"
        "index = Index.open(Path(sys.argv[1]), None, map_bytes_max=2**30, read_only=True)\n"
        "internals_of(index).store.read(lambda transaction: (print('reading', flush=True), sys.stdin.readline()))"
    )
    rows = rows_of(0)

    def grown_by(killed_reader: bool) -> int:
        directory = tmp_path / str(killed_reader)
        with opened(directory) as index:
            index.admit(entries_of(rows[:1_000]), {})
            if killed_reader:
                command = [sys.executable, "-c", reading, str(directory)]
                process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                assert process.stdout is not None
                assert process.stdout.readline() == "reading\n"
                process.kill()
                process.communicate(timeout=WAIT_SECONDS)
            # What a supervisor does next: the index is opened again, while others still have it open.
            successor = started(directory, 0, 0)
            before = index.statistics().used_bytes
            for offset in range(50):
                index.set_applied(source_of(9), offset)
            successor.kill()
            ended(successor)
            return index.statistics().used_bytes - before

    assert grown_by(killed_reader=True) == grown_by(killed_reader=False)


def test_near_duplicates_that_arrive_at_two_processes_at_once_get_exactly_one_unique(tmp_path: Path) -> None:
    processes = [started(tmp_path, partition, 1_000) for partition in (0, 1)]
    for process in processes:
        go(process)
    for process in processes:
        assert ended(process)[-1] == DOCUMENTS
        assert process.returncode == 0
    with opened(tmp_path) as index:
        per_partition = [index.admit(entries_of(rows_of(partition)), {}) for partition in (0, 1)]
        assert index.statistics().journal_rows == 2 * DOCUMENTS
    fingerprints = [[row.fingerprint for row in rows_of(partition)] for partition in (0, 1)]
    uniques: dict[int, list[int]] = defaultdict(list)
    for partition, decisions in enumerate(per_partition):
        assert decisions.replayed.all()
        for row, verdict in enumerate(decisions.verdicts):
            if verdict == Verdict.UNIQUE:
                uniques[fingerprints[partition][row]].append(partition)
    # Every fingerprint stands in both partitions: one of the two is the unique one, and it may be either.
    assert all(len(partitions) == 1 for partitions in uniques.values())
    assert {partition for partitions in uniques.values() for partition in partitions} == {0, 1}
    apart = list(uniques)
    assert all((a ^ b).bit_count() > PARAMETERS.distance_max for place, a in enumerate(apart) for b in apart[:place])
    assert all(
        any((fingerprint ^ unique).bit_count() <= PARAMETERS.distance_max for unique in apart)
        for fingerprint in fingerprints[0]
    )


def test_a_map_grown_by_another_process_is_taken_over(tmp_path: Path) -> None:
    rows = rows_of(5)[:100]
    with Index.open(tmp_path, PARAMETERS, map_bytes_max=MAP_BYTES_MAX, map_bytes_initial=2**20) as index:
        before = index.statistics()
        process = started(tmp_path, 0, 1_000)
        go(process)
        assert ended(process)[-1] == DOCUMENTS
        assert before.map_bytes == 2**20
        after = index.statistics()
        assert after.used_bytes > before.map_bytes
        assert after.journal_rows == DOCUMENTS
        decisions = index.admit(entries_of(rows), ends_of(rows))
        assert set(decisions.verdicts.tolist()) == {Verdict.DUPLICATE}


@pytest.mark.rest
def test_a_read_only_index_survives_growth_by_a_writer(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with Index.open(tmp_path, None, map_bytes_max=2**20, map_bytes_initial=2**20, read_only=True) as index:
        process = started(tmp_path, 0, 1_000)
        go(process)
        ended(process)
        assert index.statistics().journal_rows == DOCUMENTS
