"""Two processes never write one index under two lock files, and who holds the writer lock is named."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from index.errors import IndexInUseError, NeardupIndexError
from index.storage.file.commit_hooks import CommitHooks
from index.storage.file.lock_file import LOCK_FILE, writer_of
from tests.support.entries import ends_of, entries_of
from tests.support.indexes import filled, looked_at, mixed_rows, opened, wrong
from tests.support.paths import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from index.index import internals_of
from tests.support.indexes import opened
with opened(Path(sys.argv[1])) as index:
    internals_of(index).store.write(lambda transaction: (print("writing", flush=True), time.sleep(600)))
"""


@pytest.fixture
def writing(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process amid a write into the index in `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def test_the_process_that_holds_the_writer_lock_is_named_and_whether_it_is_stopped(
    tmp_path: Path, writing: "subprocess.Popen[str]"
) -> None:
    found = writer_of(tmp_path)
    assert found is not None
    assert (found.process, found.stopped) == (writing.pid, False)
    assert found.command.startswith(sys.executable)
    suspend(writing)
    found = writer_of(tmp_path)
    assert found is not None
    assert found.stopped
    assert f"process {writing.pid} " in str(found)
    assert f"kill -CONT {writing.pid}" in str(found)
    writing.kill()
    writing.wait()
    assert writer_of(tmp_path) is None


def test_an_index_whose_writer_is_stopped_is_refused_with_who_it_is_and_can_still_be_read(
    tmp_path: Path, writing: "subprocess.Popen[str]"
) -> None:
    suspend(writing)
    with pytest.raises(IndexInUseError, match=rf"process {writing.pid} .*is stopped"):
        opened(tmp_path)
    with looked_at(tmp_path) as index:
        assert index.statistics().entries == 0
    writing.kill()
    writing.wait()
    with opened(tmp_path):
        assert writer_of(tmp_path) is None


@pytest.mark.parametrize("content", [None, b"", b"no lock file", bytes(8_192)])
def test_of_a_lock_file_that_is_none_nobody_is_the_writer(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / LOCK_FILE).write_bytes(content)
    assert writer_of(tmp_path) is None


def test_a_number_in_the_lock_file_that_is_another_process_is_not_taken_for_the_writer(tmp_path: Path) -> None:
    with opened(tmp_path):
        lock = bytearray((tmp_path / LOCK_FILE).read_bytes())
    lock[64:68] = os.getppid().to_bytes(4, "little")
    (tmp_path / LOCK_FILE).write_bytes(lock)
    assert writer_of(tmp_path) is None


# --- one lock file ----------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
import numpy as np
from index.errors import NeardupIndexError
from tests.support.entries import ends_of, entries_of
from tests.support.indexes import mixed_rows, opened
rows = mixed_rows(3, 600)
offset = int(sys.argv[2])
try:
    with opened(Path(sys.argv[1])) as index:
        print("open", flush=True)
        for line in sys.stdin:
            part = rows[offset : offset + 20]
            index.admit(entries_of(part), ends_of(part))
            offset += 20
            print("written", flush=True)
except NeardupIndexError as problem:
    print(f"{type(problem).__name__}: {problem}", flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> "Iterator[Callable[[int], subprocess.Popen[str]]]":
    """Factory of processes that open the index in `tmp_path`, and admit rows from an offset on, one batch to a line."""
    started: list[subprocess.Popen[str]] = []

    def start(offset: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(offset)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return said(process)


def test_a_lock_file_that_is_removed_is_missed_by_the_writer_and_lets_no_second_one_in(
    tmp_path: Path, writer: "Callable[[int], subprocess.Popen[str]]"
) -> None:
    first = writer(0)
    assert said(first) == "open"
    assert answer_of(first) == "written"
    lock = tmp_path / LOCK_FILE
    lock.unlink()
    refused = said(writer(300))
    assert refused.startswith(
        f"IndexInUseError: {lock}: this file is missing, while another process uses the index. Stop"
    )
    assert not lock.exists()
    missed = answer_of(first)
    assert missed.startswith(f"IndexInUseError: {lock}: this file was removed or replaced while the index was in use")
    first.wait()
    second = writer(20)
    assert said(second) == "open"
    assert answer_of(second) == "written"
    assert wrong(tmp_path) == {}


def test_a_lock_file_that_is_replaced_is_missed_even_after_the_batch_was_begun(tmp_path: Path) -> None:
    lock = tmp_path / LOCK_FILE
    rows, armed = mixed_rows(3, 40), list[bool]()

    def replace() -> None:
        fresh = lock.with_suffix(".new")
        fresh.write_bytes(lock.read_bytes())
        fresh.replace(lock)

    with opened(tmp_path, hooks=CommitHooks(before_commit=lambda: replace() if armed else None)) as index:
        armed.append(True)
        with pytest.raises(IndexInUseError, match=r"lock\.mdb: this file was removed or replaced"):
            index.admit(entries_of(rows), ends_of(rows))
    with opened(tmp_path) as index:
        assert not index.applied()


def test_without_the_safeguard_a_second_writer_comes_in_and_batches_are_lost(
    tmp_path: Path, writer: "Callable[[int], subprocess.Popen[str]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    safeguard = "import index.storage.file.lock_file as l; l.HeldFiles.require_lock = lambda self: None; "
    monkeypatch.setattr(f"{__name__}.WRITER", safeguard + "l.fcntl.flock = lambda *_: None\n" + WRITER)
    first = writer(0)
    assert said(first) == "open"
    assert answer_of(first) == "written"
    (tmp_path / LOCK_FILE).unlink()
    second = writer(300)
    assert said(second) == "open"
    answers = [answer_of(process) for _ in range(5) for process in (first, second)]
    for process in (first, second):
        process.kill()
        process.wait()
    assert answers[:2] == ["written", "written"]
    with suppress(NeardupIndexError), looked_at(tmp_path) as index:
        assert index.statistics().journal_rows < 20 * (1 + answers.count("written"))


def test_processes_that_open_an_index_without_a_lock_file_at_once_share_a_new_one(
    tmp_path: Path, writer: "Callable[[int], subprocess.Popen[str]]"
) -> None:
    filled(tmp_path, mixed_rows(4, 20))
    (tmp_path / LOCK_FILE).unlink()
    both = [writer(100 * number) for number in range(1, 4)]
    assert [said(process) for process in both] == ["open"] * 3
    assert [answer_of(process) for process in both] == ["written"] * 3
    assert wrong(tmp_path) == {}


def suspend(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
