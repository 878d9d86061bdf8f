"""Two services that are killed between the two rounds of a rebalance: they come back, and every partition is read."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError

from deploy.kafka_run import Outputs, Run, kill_group, stop
from streamer.demo.demo import documents
from tests.support.services import Started, free_port, make_run, require_every_position_once, wait_until

PARTITIONS = 4
EACH = 30
"""Documents that wait in every partition."""

PATIENCE_SECONDS = 180.0
"""A busy machine takes most of a minute to start two services."""

ATTEMPTS_MAX = 5


def owned(admin: KafkaAdminClient, run: Run) -> tuple[int, int] | None:
    """Members of the group and the partitions that they own; None while a rebalance is under way."""
    try:
        group = admin.describe_groups([run.name])[run.name]
    except CoordinatorNotAvailableError:
        # Of the first group that a broker ever has.
        return None
    if group["group_state"] != "Stable":
        return None
    assignments = [each["member_assignment"] or {"assigned_partitions": []} for each in group["members"]]
    topics = [topic for each in assignments for topic in each["assigned_partitions"]]
    return len(group["members"]), sum(len(topic["partitions"]) for topic in topics)


def killed_half_way(
    admin: KafkaAdminClient, servers: str, directory: Path, start: Callable[[Run], Started]
) -> tuple[Run, Run]:
    """Two services of one group, killed while partitions that move from the first to the second belong to nobody."""
    patient = ("kafka.max_poll_interval_ms=200000", "kafka.session_timeout_ms=100000")
    for _ in range(ATTEMPTS_MAX):
        first = make_run(servers, directory, *patient, partitions=PARTITIONS)
        second = replace(first, port=free_port(), settings=(*first.settings, "kafka.instance=1"))
        services = [start(first)]
        wait_until(lambda first=first: owned(admin, first) == (1, PARTITIONS), PATIENCE_SECONDS)
        services.append(start(second))
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Without a pause: the moment takes milliseconds.
        while (found := owned(admin, first)) is None or found[0] < 2:
            assert time.monotonic() < deadline, "the second service did not join"
        for service in services:
            kill_group(service.process)
        found = owned(admin, first)
        if found is not None and found[1] < PARTITIONS:
            return first, second
    raise AssertionError("the moment between the rounds was never hit")


def test_services_killed_between_the_rounds_of_a_rebalance_own_every_partition_when_they_are_back(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        first, second = killed_half_way(admin, kafka.bootstrap_servers, tmp_path, start)
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number, value in enumerate(documents(PARTITIONS * EACH)):
                producer.send(first.input_topic, value=value, partition=number % PARTITIONS)
        services = [start(first), start(second)]
        require_every_position_once(Outputs(first), PARTITIONS * EACH)
        wait_until(lambda: owned(admin, first) == (2, PARTITIONS), PATIENCE_SECONDS)
    wait_until(first.ready, PATIENCE_SECONDS)
    wait_until(second.ready, PATIENCE_SECONDS)
    assert "no worker reads these partitions" in services[0].log.read_text(), "the group was whole from the start"
    for service in services:
        assert stop(service.process) == 0
