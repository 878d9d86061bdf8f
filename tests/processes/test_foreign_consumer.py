"""Another program in the service's group: it is named while it is there, and what it has read is not skipped."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import OffsetAndMetadata

from deploy.kafka_run import Outputs, Run, fill
from streamer.demo.demo import documents
from tests.support.services import Started, ask, make_run, require_every_position_once, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

FIRST, ALL = 60, 160


@contextmanager
def another_program(run: Run) -> Iterator[KafkaConsumer]:
    """A consumer of the group that reads what it gets and commits it by itself."""
    consumer = KafkaConsumer(
        run.input_topic,
        bootstrap_servers=run.bootstrap_servers,
        group_id=run.name,
        client_id="nightly-report",
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        partition_assignment_strategy=[CooperativeStickyAssignor],
    )
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            consumer.poll(timeout_ms=100)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        yield consumer
    finally:
        over.set()
        reading.join()
        consumer.close()


def committed(run: Run) -> dict[int, int]:
    with KafkaAdminClient(bootstrap_servers=run.bootstrap_servers) as admin:
        found = admin.list_group_offsets({run.name: None})[run.name]
        return {at.partition: each.offset for at, each in found.items()}


def set_back(run: Run, partition: int, offset: int) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` does, once the group has no member."""
    with KafkaAdminClient(bootstrap_servers=run.bootstrap_servers) as admin:
        wait_until(lambda: admin.describe_groups([run.name])[run.name]["group_state"] == "Empty")
        admin.alter_group_offsets(
            run.name, {TopicPartition(run.input_topic, partition): OffsetAndMetadata(offset, "", -1)}
        )


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_another_program_is_named_and_the_records_that_it_took_come_out_once_after_all(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], client: str
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}", partitions=2)
    values = list(documents(ALL))
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, values[:FIRST])
    wait_until(lambda: run.delivered() == FIRST)
    before = committed(run)
    with another_program(run):
        wait_until(lambda: "client 'nightly-report' at 127.0.0.1 (partitions: " in ask(run, "/readyz")[1])
        assert ask(run, "/readyz")[0] == 503
        wait_until(lambda: "neardup_partitions_unowned 1.0" in run.metrics())
        fill(kafka.bootstrap_servers, run.input_topic, values[FIRST:])
        wait_until(lambda: sum(committed(run).values()) == ALL)
    assert service.process.wait(120) == os.EX_CONFIG
    (taken,) = (
        number for number in before if f"{run.input_topic}/{number}: the service did not" in service.log.read_text()
    )
    assert f"--to-offset {before[taken]}" in service.log.read_text()
    assert "other programs are members of the group" in service.log.read_text()

    set_back(run, taken, before[taken])
    service = start(run)
    wait_until(run.ready)
    require_every_position_once(Outputs(run), ALL)
