"""A coordinator that has lost the last commits of a group, as one does whose log was loaded in part."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, TopicPartition

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.services import Started, make_parts, make_run, require_every_position_once, start_part, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

FIRST, ALL = 100, 140


def lose_commits(run: Run, count: int) -> None:
    """Commit an older offset with the note of the newest one."""
    at = TopicPartition(run.input_topic, 0)
    with KafkaAdminClient(bootstrap_servers=run.bootstrap_servers) as admin:
        wait_until(lambda: admin.describe_groups([run.name])[run.name]["group_state"] == "Empty")
        newest = admin.list_group_offsets({run.name: None})[run.name][at]
        admin.alter_group_offsets(run.name, {at: newest._replace(offset=newest.offset - count)})


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_commits_that_a_broker_lost_deliver_nothing_twice(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], client: str
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}")
    values = list(documents(ALL))
    fill(kafka.bootstrap_servers, run.input_topic, values[:FIRST])
    service = start(run)
    wait_until(lambda: run.delivered() >= FIRST, 60)
    assert stop(service.process) == 0
    lose_commits(run, 60)
    fill(kafka.bootstrap_servers, run.input_topic, values[FIRST:])
    again = start(run)
    require_every_position_once(Outputs(run), ALL)
    assert "the brokers lost commits" in again.log.read_text()


def lose_group(run: Run, _count: int) -> None:
    """Let the coordinator know nothing of the group."""
    with KafkaAdminClient(bootstrap_servers=run.bootstrap_servers) as admin:
        wait_until(lambda: admin.describe_groups([run.name])[run.name]["group_state"] == "Empty")
        admin.delete_groups([run.name])


@pytest.mark.parametrize("lose", [lose_commits, lose_group])
def test_a_part_that_delivers_does_so_once_though_a_broker_lost_its_commits_or_its_group(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[..., Started], lose: Callable[[Run, int], None]
) -> None:
    run = make_parts(kafka.bootstrap_servers, tmp_path)
    values = list(documents(ALL))
    fill(kafka.bootstrap_servers, run.input_topic, values[:FIRST])
    start_part(start, run, "fingerprint", "decide")
    route, outputs = start_part(start, run, "route"), Outputs(run)
    wait_until(lambda: outputs.poll(50) >= FIRST, 60)
    assert stop(route.process) == 0
    lose(run, 60)
    fill(kafka.bootstrap_servers, run.input_topic, values[FIRST:])
    again = start_part(start, run, "route")
    require_every_position_once(outputs, ALL)
    assert "the brokers lost commits" in again.log.read_text()
