"""The service as its users run it, with supervisor, workers and a real broker, and with each of these taken away."""

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from deploy.local_kafka import LocalKafka, free_port
from streamer.demo.demo import documents
from tests.support.services import Started, make_run, require_every_position_once, wait_until, workers_of


def kill_for_longer_than_the_delivery_timeout(broker: LocalKafka, run: Run) -> None:
    broker.kill()
    wait_until(lambda: not run.ready())
    time.sleep(6)
    broker.start()


def stop_past_the_session_timeout(broker: LocalKafka, _run: Run) -> None:
    broker.suspend()
    time.sleep(9)
    broker.resume()


@pytest.mark.parametrize("go_away", [kill_for_longer_than_the_delivery_timeout, stop_past_the_session_timeout])
def test_a_broker_that_goes_away_amid_a_transaction_costs_nothing(
    fragile_kafka: LocalKafka,
    tmp_path: Path,
    start: Callable[[Run], Started],
    go_away: Callable[[LocalKafka, Run], None],
) -> None:
    broker = fragile_kafka
    # Small batches, so that a transaction is under way whenever the broker goes. When the broker restarts, it forgets to
    # end some of them (`streamer.transports.kafka.transactions.hanging`).
    run = make_run(broker.bootstrap_servers, tmp_path)
    values = list(documents(600))
    service = start(run)
    wait_until(run.ready)
    fill(broker.bootstrap_servers, run.input_topic, values)
    wait_until(lambda: run.delivered() > 50)
    go_away(broker, run)
    assert service.process.poll() is None
    wait_until(run.ready)
    require_every_position_once(Outputs(run), len(values))
    assert stop(service.process) == 0


def test_a_worker_that_stands_still_is_killed_and_a_fresh_one_goes_on(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path)
    values = list(documents(300))
    service = start(run)
    wait_until(run.ready)
    outputs = Outputs(run)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    wait_until(lambda: outputs.poll(20) > 20)
    (worker,) = workers_of(service.process)
    worker.suspend()
    require_every_position_once(outputs, len(values))
    assert not worker.is_running()
    assert 'neardup_worker_restarts_total{cause="no-progress"} 1.0' in run.metrics()


def test_workers_more_than_partitions_stand_by_ready_and_all_end_with_their_supervisor(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.count=2", partitions=1)
    service = start(run)
    wait_until(run.ready)
    workers = workers_of(service.process)
    assert len(workers) == 2
    service.process.kill()
    service.process.wait()
    wait_until(lambda: not any(worker.is_running() and worker.status() != "zombie" for worker in workers))


def test_near_duplicates_on_different_partitions_get_one_unique_while_workers_are_killed(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    """With the same documents on four partitions and two workers, one copy of each document comes out as unique."""
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.count=2", partitions=4)
    values = [value for value in documents(150) if value.startswith(b"{") and b'"text"' in value]
    distinct = {value.split(b'"text"')[1] for value in values}
    service = start(run)
    wait_until(run.ready)
    outputs = Outputs(run)
    for _ in range(4):
        fill(kafka.bootstrap_servers, run.input_topic, values)
    for threshold in (40, 120, 250):
        wait_until(lambda threshold=threshold: outputs.poll(20) > threshold)
        for worker in workers_of(service.process)[:1]:
            worker.kill()
    require_every_position_once(outputs, 4 * len(values))
    unique = [
        value.split(b'"text"')[1]
        for seen in outputs.by_position.values()
        for destination, value, headers in seen
        if destination == "unique" and value and (b"no-match" in dict(headers)["neardup.reason"])
    ]
    assert len(unique) == len(set(unique))
    assert set(unique) <= distinct
    assert stop(service.process) == 0


def test_a_topic_that_is_missing_stops_the_service_with_a_message_and_its_exit_code(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = Run(f"none-{uuid.uuid4().hex[:8]}", kafka.bootstrap_servers, "no-such-topic", tmp_path, free_port())
    service = start(run)
    assert service.process.wait(30) == os.EX_CONFIG
    assert "streamer topics create" in service.log.read_text()


def test_other_settings_than_the_index_was_built_with_stop_the_service(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path)
    first = start(run)
    wait_until(run.ready)
    assert stop(first.process) == 0
    other = Run(run.name, run.bootstrap_servers, run.input_topic, tmp_path, free_port(), ("minhash.bins=64",))
    second = start(other)
    assert second.process.wait(30) == os.EX_CONFIG
    log = second.log.read_text()
    assert "minhash.bins: stored 128, asked 64" in log
