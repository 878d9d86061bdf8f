"""Documents that end every worker, in the service as its users run it: all others come out, and these are dead letters."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.paths import ROOT
from tests.support.services import Started, make_run, require_every_position_once, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

DEADLY = [b'{"id": "crash", "text": "deadly-segfault"}', b'{"id": "endless", "text": "deadly-endless"}']


def test_documents_that_end_every_worker_are_dead_letters_and_all_others_come_out(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    run = make_run(
        kafka.bootstrap_servers,
        tmp_path,
        "workers.count=2",
        "workers.deaths_max=2",
        "workers.document_timeout_ms=2000",
        partitions=2,
    )
    sound = list(documents(100))[:79]
    values = [*sound[:20], DEADLY[0], *sound[20:50], DEADLY[1], *sound[50:]]
    fill(kafka.bootstrap_servers, run.input_topic, values)
    service = start(run)
    outputs = Outputs(run)
    wait_until(lambda: outputs.poll(20) >= len(values), timeout_seconds=400)
    require_every_position_once(outputs, len(values))
    poison = {
        value
        for seen in outputs.by_position.values()
        for destination, value, headers in seen
        if (destination, dict(headers)["neardup.reason"]) == ("dead-letter", b"poison")
    }
    assert poison == set(DEADLY)
    wait_until(run.ready)
    assert 'neardup_documents_total{reason="poison",verdict="dead-letter"} 2.0' in run.metrics()
    log = service.log.read_text()
    for said in (
        "signal=SIG",
        "step=decode",
        f"{run.input_topic}/",
        "process: SIGSEGV",
        "document_timeout_ms = 2000",
    ):
        assert said in log
    assert stop(service.process) == 0


def test_poison_in_quantity_costs_few_workers_and_every_sound_document_comes_out(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/support/poisoned'}:{ROOT}")
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.deaths_max=2", partitions=1)
    values = list(documents(500))[:400]
    for number in range(30):
        values.insert(number * 14, b'{"id": "crash-%d", "text": "deadly-segfault"}' % number)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    service = start(run)
    outputs = Outputs(run)
    wait_until(lambda: outputs.poll(20) >= len(values), timeout_seconds=400)
    require_every_position_once(outputs, len(values))
    wait_until(run.ready)
    assert 'neardup_documents_total{reason="poison",verdict="dead-letter"} 30.0' in run.metrics()
    deaths = [line for line in service.log.read_text().splitlines() if "worker ended" in line]
    assert len(deaths) <= 4, "only the first poison ends workers"
    assert stop(service.process) == 0
