"""`streamer filter` under a limit of memory: a clear end, and nothing lost when it goes on without the limit."""

import gzip
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from deploy.kafka_run import Outputs, Run, fill
from streamer.cli.main import ADDRESS_SPACE_BYTES_MIN
from streamer.demo.demo import documents
from tests.support.paths import ROOT
from tests.support.services import Started, make_run, require_every_position_once, wait_until
from tests.support.tiers import first_of

DOCUMENTS = 200


def filtered(input_path: Path, folder: Path, limit_bytes: int | None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    command = [sys.executable, "-m", "streamer", "filter", str(input_path), "--out", str(folder / "out")]
    return subprocess.run(
        [*command, "--index", str(folder / "index")],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write(path: Path, longest: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number in range(DOCUMENTS):
            padding = "x" * (longest if number == DOCUMENTS // 2 else 10)
            file.write(orjson.dumps({"id": str(number), "text": f"document {number} {padding}"}) + b"\n")


def identities(folder: Path) -> list[str]:
    names = ("unique", "duplicate", "dead-letter")
    lines = [line for name in names for line in (folder / "out" / f"{name}.jsonl").read_bytes().splitlines()]
    return sorted((orjson.loads(line)["id"] for line in lines), key=int)


@pytest.mark.parametrize(
    ("limit_bytes", "longest", "message"),
    first_of(
        (ADDRESS_SPACE_BYTES_MIN + 2**20, 250 * 10**6, "not enough memory"),
        (ADDRESS_SPACE_BYTES_MIN - 2**20, 10, "address space is limited"),
    ),
)
def test_too_little_memory_ends_the_command_and_the_same_command_goes_on(
    tmp_path: Path, limit_bytes: int, longest: int, message: str
) -> None:
    write(tmp_path / "documents.jsonl.gz", longest)
    done = filtered(tmp_path / "documents.jsonl.gz", tmp_path, limit_bytes)
    # Machine code that is loaded when memory has just ended aborts the process, as docs/limits.md says.
    if limit_bytes < ADDRESS_SPACE_BYTES_MIN or done.returncode != -signal.SIGABRT:
        assert done.returncode == os.EX_OSERR, done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    done = filtered(tmp_path / "documents.jsonl.gz", tmp_path, None)
    assert done.returncode == 0, done.stderr
    assert identities(tmp_path) == [str(number) for number in range(DOCUMENTS)]


@pytest.mark.kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_a_service_at_the_least_address_space_says_what_it_lacks_or_delivers_and_loses_nothing(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], client: str
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}")
    fill(kafka.bootstrap_servers, run.input_topic, documents(DOCUMENTS))
    service = start(run)
    # Interpreters start slowly: the limit comes before the first module of the service.
    resource.prlimit(service.process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES_MIN, ADDRESS_SPACE_BYTES_MIN))
    wait_until(
        lambda: (
            "memory" in service.log.read_text() or run.delivered() == DOCUMENTS or service.process.poll() is not None
        )
    )
    log = service.log.read_text()
    assert "Traceback" not in log
    if run.delivered() < DOCUMENTS:
        assert "memory" in log
        wait_until(lambda: not run.ready())
    service.end()
    start(run)
    require_every_position_once(Outputs(run), DOCUMENTS)


@pytest.mark.kafka
def test_a_batch_that_never_fits_into_memory_comes_out_record_by_record_and_none_is_poison(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel kills what exceeds a container's limit; here a process is killed at its fifth heavy document."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.deaths_max=2")
    sound = list(documents(100))
    heavy = [b'{"id": "heavy-%d", "text": "deadly-heavy, the report number %d"}' % (n, n) for n in range(10)]
    values = [*sound[:50], *heavy, *sound[50:]]
    fill(kafka.bootstrap_servers, run.input_topic, values)
    service = start(run)
    outputs = Outputs(run)
    wait_until(lambda: outputs.poll(20) >= len(values), timeout_seconds=200)
    require_every_position_once(outputs, len(values))
    reasons = [dict(headers)["neardup.reason"] for seen in outputs.by_position.values() for *_, headers in seen]
    assert b"poison" not in reasons
    log = service.log.read_text()
    assert log.count("killed by SIGKILL: the kernel for lack of memory") == 2
    assert "trying the records of a batch in a process of their own" in log
    wait_until(run.ready)
