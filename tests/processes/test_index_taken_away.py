"""An index that somebody removes, or keeps from being written, under a service that is idle: noticed, named and got over."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.paths import ROOT
from tests.support.services import Started, ask, make_run, require_every_position_once, wait_until

ORPHAN = """
import sys, time
from pathlib import Path
from index.storage.store import CommitHooks, Store
store = Store(
    Path(sys.argv[1]), map_bytes_initial=2**26, map_bytes_max=2**30, read_only=False, hooks=CommitHooks()
)
store.write(lambda transaction: (print("writing", flush=True), time.sleep(600)))
"""


@pytest.fixture
def stopped_orphan() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Factory of processes that are stopped amid a write into an index."""
    made: list[subprocess.Popen[str]] = []

    def make(directory: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ORPHAN, str(directory)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        made.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        return process

    yield make
    for process in made:
        process.kill()
        process.communicate()


def test_a_stopped_process_that_keeps_the_index_from_being_written_is_named_until_it_is_gone(
    kafka: SimpleNamespace,
    tmp_path: Path,
    start: Callable[[Run], Started],
    stopped_orphan: Callable[[Path], subprocess.Popen[str]],
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path)
    values = list(documents(100))
    service = start(run)
    wait_until(run.ready)
    orphan = stopped_orphan(tmp_path / run.name)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    named = f"process {orphan.pid} ("
    wait_until(lambda: "still deciding" in (told := ask(run, "/readyz")[1]) and named in told)
    # The watchdog ends the worker, and its successors say why they cannot begin.
    wait_until(lambda: service.log.read_text().count("IndexInUseError") > 1)
    assert named in service.log.read_text().split("IndexInUseError")[-1]
    orphan.kill()
    orphan.wait()
    require_every_position_once(Outputs(run), len(values))
    assert stop(service.process) == 0


def test_an_index_that_is_removed_under_an_idle_service_is_missed_and_restored(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.count=2", partitions=2)
    values = list(documents(100))
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    wait_until(lambda: run.delivered() == len(values))
    shutil.rmtree(tmp_path / run.name)
    # Once a worker, and once more if one begins again amid the removal.
    wait_until(lambda: service.log.read_text().count("was removed or replaced") >= 2)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    outputs = Outputs(run)
    require_every_position_once(outputs, 2 * len(values))
    unique = [
        value
        for seen in outputs.by_position.values()
        for destination, value, headers in seen
        if destination == "unique" and dict(headers)["neardup.reason"] == b"no-match"
    ]
    assert unique
    assert len(unique) == len(set(unique))
    assert stop(service.process) == 0
