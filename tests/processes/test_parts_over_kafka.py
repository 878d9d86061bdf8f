"""A service in parts as its users run it: a supervisor for each part, a real broker, and whatever is taken away meanwhile."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import Outputs, Run, create_topics, fill, stop
from deploy.local_kafka import free_port
from streamer.audit.store import AuditStore
from streamer.demo.demo import documents
from streamer.settings.parts import PARTS
from tests.support.services import (
    Started,
    ask,
    make_parts,
    require_every_position_once,
    start_part,
    verified,
    wait_until,
    workers_of,
    wrong,
)

PATIENCE_SECONDS = 180.0
COUNT = 600

Start = Callable[..., Started]


def wait_for(outputs: Outputs, count: int) -> None:
    wait_until(lambda: outputs.poll(50) >= count, timeout_seconds=PATIENCE_SECONDS)


def serial(kafka: SimpleNamespace, start: Start, run: Run, directory: Path, count: int) -> dict[str, object]:
    """Outputs of the whole service on the same input, under a group and an index of its own."""
    name = f"{run.name}-serial"
    other = Run(name, kafka.bootstrap_servers, run.input_topic, directory / "serial", free_port(), run.settings)
    create_topics(kafka.bootstrap_servers, [other.topic(each) for each in ("unique", "duplicate", "dead-letter")])
    service = start(other)
    outputs = Outputs(other)
    wait_for(outputs, count)
    outputs.close()
    assert stop(service.process) == 0
    return dict(outputs.by_position)


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_kill_9_of_every_part_leaves_the_outputs_and_the_audit_of_the_whole_service(
    kafka: SimpleNamespace, tmp_path: Path, start: Start, client: str
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}", "audit.one_in=1")
    values = list(documents(COUNT))
    fill(kafka.bootstrap_servers, run.input_topic, values)
    parts = {part: start_part(start, run, part) for part in PARTS}
    outputs = Outputs(run)
    for number, part in enumerate(PARTS):
        wait_for(outputs, 40 + 150 * number)
        wait_until(lambda part=part: bool(workers_of(parts[part].process)), timeout_seconds=PATIENCE_SECONDS)
        for worker in workers_of(parts[part].process):
            worker.kill()
    wait_for(outputs, COUNT)
    require_every_position_once(outputs, COUNT)
    for part in parts.values():
        assert stop(part.process) == 0
    assert dict(outputs.by_position) == serial(kafka, start, run, tmp_path, COUNT)
    samples = [
        [each._replace(seconds=0.0) for each in AuditStore(folder, 2**30).judged()]
        for folder in (tmp_path / run.name, tmp_path / "serial" / f"{run.name}-serial")
    ]
    assert samples[0] == samples[1]
    assert sum(each.dropped and each.original is not None for each in samples[0]) > 100


def test_four_partitions_and_two_workers_of_each_part_stay_consistent_while_they_are_killed(
    kafka: SimpleNamespace, tmp_path: Path, start: Start
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path, "workers.count=2", partitions=4)
    values = list(documents(COUNT))
    fill(kafka.bootstrap_servers, run.input_topic, values)
    # Two parts in one process, and one alone.
    services = [start_part(start, run, "fingerprint", "route"), start_part(start, run, "decide")]
    outputs = Outputs(run)
    for threshold in (40, 200, 350):
        wait_for(outputs, threshold)
        for service in services:
            for worker in workers_of(service.process)[:1]:
                worker.kill()
    wait_for(outputs, COUNT)
    require_every_position_once(outputs, COUNT)
    for service in services:
        assert stop(service.process) == 0
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    assert found["counts"]["outputs"] == COUNT


def test_a_router_whose_verdicts_do_not_come_is_not_ready_and_says_what_it_waits_for(
    kafka: SimpleNamespace, tmp_path: Path, start: Start
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path)
    route = start_part(start, run, "fingerprint", "route")
    wait_until(route.run.ready, timeout_seconds=PATIENCE_SECONDS)
    values = list(documents(COUNT))
    fill(kafka.bootstrap_servers, run.input_topic, values)
    waiting = f"records wait for verdicts in '{run.name}-verdicts'"
    wait_until(lambda: waiting in ask(route.run, "/readyz")[1], timeout_seconds=PATIENCE_SECONDS)
    status, words = ask(route.run, "/readyz")
    assert (status, words.startswith("route: worker 1 has delivered nothing for ")) == (503, True)
    decide = start_part(start, run, "decide")
    outputs = Outputs(run)
    wait_for(outputs, COUNT)
    require_every_position_once(outputs, COUNT)
    wait_until(lambda: route.run.ready() and decide.run.ready(), timeout_seconds=PATIENCE_SECONDS)


def test_from_one_process_to_parts_and_back_nothing_is_forgotten_and_nothing_decided_twice(
    kafka: SimpleNamespace, tmp_path: Path, start: Start
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path)
    values = list(documents(COUNT))
    quarter = COUNT // 4
    outputs = Outputs(run)
    for number, in_parts in enumerate((False, True, False, True)):
        fill(kafka.bootstrap_servers, run.input_topic, values[number * quarter : (number + 1) * quarter])
        services = [start_part(start, run, part) for part in PARTS] if in_parts else [start(run)]
        wait_for(outputs, (number + 1) * quarter)
        for service in services:
            assert stop(service.process) == 0
    require_every_position_once(outputs, COUNT)
    assert dict(outputs.by_position) == serial(kafka, start, run, tmp_path, COUNT)


def test_a_lost_index_comes_back_from_outputs_and_from_verdicts_that_were_told_and_not_delivered(
    kafka: SimpleNamespace, tmp_path: Path, start: Start
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path)
    values = list(documents(COUNT))
    half = COUNT // 2
    outputs = Outputs(run)
    fingerprint, route = start_part(start, run, "fingerprint"), start_part(start, run, "route")
    decide = start_part(start, run, "decide")
    fill(kafka.bootstrap_servers, run.input_topic, values[: half // 2])
    wait_for(outputs, half // 2)
    assert stop(route.process) == 0
    # Decided and told, but delivered to nobody.
    fill(kafka.bootstrap_servers, run.input_topic, values[half // 2 : half])
    wait_until(lambda: decide.run.delivered() >= half, timeout_seconds=PATIENCE_SECONDS)
    assert stop(decide.process) == 0
    shutil.rmtree(run.directory / run.name)
    (run.directory / run.name).mkdir()
    decide = start_part(start, run, "decide")
    fill(kafka.bootstrap_servers, run.input_topic, values[half:])
    wait_until(lambda: decide.run.delivered() >= half, timeout_seconds=PATIENCE_SECONDS)
    assert "restoring the index from the outputs" in decide.log.read_text()
    route = start_part(start, run, "route")
    wait_for(outputs, COUNT)
    require_every_position_once(outputs, COUNT)
    for service in (fingerprint, decide, route):
        assert stop(service.process) == 0
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
