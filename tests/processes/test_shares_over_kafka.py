"""A worker whose processes prepare shares of its batches delivers what one that prepares them itself does."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import orjson
import psutil
import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.command_line import run as run_command
from tests.support.paths import ROOT
from tests.support.services import Started, make_run, require_every_position_once, wait_until, workers_of
from tests.support.transport_worlds import Client

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

POISON = b'{"id": "crash", "text": "deadly-segfault"}'
POISON_ROW = 1_700
KILLS = 3
PUBLIC_KEY = "fingerprint.key=public"


def prepared_by(worker: psutil.Process) -> list[psutil.Process]:
    """The processes that prepare shares: copies of the worker, and later those below the server that starts them."""
    below = []
    with suppress(psutil.NoSuchProcess):
        below = worker.children(recursive=True)
    return [each for each in below if not each.children()]


def reasons_of_a_file_job(folder: Path, values: list[bytes]) -> list[bytes]:
    path = folder / "documents.jsonl"
    path.write_bytes(b"".join(value + b"\n" for value in values))
    done = run_command(
        "--set", PUBLIC_KEY, "filter", path, "--out", folder / "out", "--index", folder / "file-index", "--processes", 1
    )
    assert done.code == 0, done.err
    return [
        orjson.loads(line)["reason"].encode() for line in (folder / "out" / "verdicts.jsonl").read_bytes().splitlines()
    ]


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_processes_of_a_worker_may_be_killed_and_their_poison_is_a_dead_letter(
    kafka: SimpleNamespace,
    tmp_path: Path,
    start: Callable[[Run], Started],
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
) -> None:
    values = list(documents(4_000))
    wanted = reasons_of_a_file_job(tmp_path, values)
    values.insert(POISON_ROW, POISON)
    wanted.insert(POISON_ROW, b"poison")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    run = make_run(
        kafka.bootstrap_servers,
        tmp_path,
        f"kafka.client={client}",
        "workers.processes=2",
        "batch.records_max=400",
        PUBLIC_KEY,
    )
    outputs = Outputs(run)
    service = start(run)
    wait_until(lambda: bool(workers_of(service.process)) and len(prepared_by(workers_of(service.process)[0])) == 2)
    for number in range(KILLS + 1):
        part = values[number * len(values) // (KILLS + 1) : (number + 1) * len(values) // (KILLS + 1)]
        fill(kafka.bootstrap_servers, run.input_topic, part)
        if number < KILLS:
            # A small batch is the worker's own, so poison in it ends the worker, and another follows.
            wait_until(lambda: bool(workers_of(service.process)) and bool(prepared_by(workers_of(service.process)[0])))
            prepared_by(workers_of(service.process)[0])[-1].kill()
            time.sleep(0.5)
    require_every_position_once(outputs, len(values))
    delivered = [outputs.by_position[f"{run.input_topic}/0/{offset}"][0] for offset in range(len(values))]
    found = [dict(headers)["neardup.reason"] for _, _, headers in delivered]
    assert found == wanted
    log = service.log.read_text()
    assert "a process that prepares batches ended" in log
    assert "process: SIGSEGV" in log
    assert stop(service.process) == 0


def test_a_worker_that_is_killed_leaves_no_process_behind(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.processes=3")
    service = start(run)
    wait_until(lambda: bool(workers_of(service.process)) and len(prepared_by(workers_of(service.process)[0])) == 3)
    worker = workers_of(service.process)[0]
    processes = prepared_by(worker)
    worker.kill()
    wait_until(lambda: not any(each.is_running() for each in processes), timeout_seconds=20)
    wait_until(lambda: workers_of(service.process) not in ([], [worker]))
    assert stop(service.process) == 0
