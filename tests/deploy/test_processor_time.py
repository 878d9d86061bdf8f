"""Processor time of processes: what they take is counted, whatever their name, and those that are gone count nothing."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.processor_time import processes_in, processes_of_session, processor_seconds

BUSY_SECONDS = 0.2
BUSY = f"""
import os, time
if not os.fork():
    while time.process_time() < {BUSY_SECONDS}: pass
    os._exit(0)
os.wait()
while time.process_time() < {BUSY_SECONDS}: pass
print("done", flush=True)
time.sleep(600)
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that took BUSY_SECONDS, as a child that ended did; in a session and a directory of its own, with an odd name."""
    program = tmp_path / "a) 1 2 (b"
    program.symlink_to(sys.executable)
    process = subprocess.Popen(
        [program, "-c", BUSY], cwd=tmp_path, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"done\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_a_process_and_its_ended_children_took_is_counted(busy: subprocess.Popen[bytes]) -> None:
    taken = processor_seconds([busy.pid])
    assert 2 * BUSY_SECONDS - 0.05 <= taken < 20
    assert processor_seconds([busy.pid, busy.pid]) >= 2 * taken


def test_processes_are_found_by_their_session_and_by_their_directory(
    busy: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert processes_of_session(busy.pid) == [busy.pid]
    assert processes_in(tmp_path) == [busy.pid]
    assert os.getpid() not in processes_of_session(busy.pid)
    assert processes_in(tmp_path / "elsewhere") == []


def test_a_process_that_is_gone_counts_nothing(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    busy.kill()
    busy.wait()
    deadline = time.monotonic() + 20
    while processes_in(tmp_path):
        assert time.monotonic() < deadline, "it is still there"
    assert processor_seconds([busy.pid]) == 0
