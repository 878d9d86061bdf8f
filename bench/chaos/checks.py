"""What must hold once all faults are over: of the topics, the group, the transactions and the index."""

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from bench.chaos.ledger import Ledger, differences
from bench.chaos.recount import recount
from bench.chaos.world import ENVIRONMENT, INPUT, Stuck, World
from bench.ready import wait_until_ready
from deploy.kafka_run import DESTINATIONS, create_topics, stop
from deploy.local_kafka import free_port

_PATIENCE_SECONDS = 30.0
_LAST_POLLS = 20
_VERIFIED_WHOLE_MAX = 100_000
"""Documents up to which `streamer verify` compares all unique ones with each other."""


def finish(world: World) -> list[str]:
    """Let the last documents through, look at the running group, stop, and check everything. Returns what is wrong."""
    world.traffic.stop()
    try:
        world.recover()
        found = _patiently(world)
        for service in world.services:
            service.stop()
    except Stuck as error:
        return [str(error)]
    return found + outcome(world)


def outcome(world: World) -> list[str]:
    """What is wrong with topics and index of a world whose services have stopped."""
    found = (
        world.readiness.problems()
        + topic_problems(world)
        + counted_again(world)
        + said_by_verify(world)
        + _said(world, "index", "check")
    )
    if world.partitions == 1:
        found += undisturbed_differences(world)
    return found


def topic_problems(world: World) -> list[str]:
    """Input positions that do not stand in the outputs exactly once, with the same bytes."""
    for _ in range(_LAST_POLLS):
        world.ledger.poll(timeout_ms=100)
    return [*world.ledger.problems, *world.ledger.unfinished()]


def counted_again(world: World) -> list[str]:
    """What the second count finds wrong with the topics: see `recount`."""
    outputs = {destination: world.run.topic(destination) for destination in DESTINATIONS}
    return recount(world.run.bootstrap_servers, INPUT, outputs)


def _patiently(world: World) -> list[str]:
    """What is wrong with the running group for longer than a while: a rebalance or a transaction may be under way."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := group_problems(world)) and time.monotonic() < deadline:
        world.watch()
        time.sleep(0.5)
    return found


def group_problems(world: World) -> list[str]:
    """Partitions without an owner, services that are not ready, and transactions that are open."""
    group = world.run.name
    with world.admin() as admin:
        described = admin.describe_groups([group])[group]
        listed = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
    owned = {
        partition
        for member in described["members"]
        for topic in (member["member_assignment"] or {"assigned_partitions": []})["assigned_partitions"]
        for partition in topic["partitions"]
    }
    found = [] if described["group_state"] == "Stable" else [f"the group is {described['group_state']}"]
    found += [f"nobody owns partition {each}" for each in sorted(set(range(world.traffic.partitions)) - owned)]
    found += [f"service {each.instance} is not ready" for each in world.services if not each.run.ready()]
    found += [f"a transaction is open: {each}" for of_broker in listed.values() for each in of_broker]
    return found + hidden_ends(world)


def hidden_ends(world: World) -> list[str]:
    """Partitions that readers of committed records cannot read to their ends: a transaction is open, or hangs."""
    ends: list[dict[TopicPartition, int]] = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = KafkaConsumer(
            bootstrap_servers=world.run.bootstrap_servers, isolation_level=isolation, group_id=None
        )
        partitions = [
            TopicPartition(topic, partition)
            for topic in (INPUT, *world.outputs)
            for partition in consumer.partitions_for_topic(topic) or ()
        ]
        ends.append(consumer.end_offsets(partitions))
        consumer.close()
    return [f"{at} can be read up to {ends[0][at]} of {ends[1][at]}" for at in ends[0] if ends[0][at] != ends[1][at]]


def said_by_verify(world: World) -> list[str]:
    """What `streamer verify` says of input, outputs and index, where not all is sound."""
    return _said(world, "verify", *(("--all",) if world.ledger.inputs < _VERIFIED_WHOLE_MAX else ()))


def _said(world: World, *command: str) -> list[str]:
    done = subprocess.run(world.run.arguments(*command), capture_output=True, check=False, text=True)
    if done.returncode == os.EX_OK:
        return []
    return [f"`streamer {' '.join(command)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}"]


def undisturbed_differences(world: World) -> list[str]:
    """Differences of the outputs from those of a run that nobody disturbs, over the same input."""
    run = replace(world.run, name="undisturbed", port=free_port(), directory=world.directory / "undisturbed")
    create_topics(
        run.bootstrap_servers,
        [run.topic(destination) for destination in DESTINATIONS],
        replicas=len(world.brokers),
    )
    log = Path(world.directory / "undisturbed.log")
    process = run.start(log, ENVIRONMENT)
    try:
        wait_until_ready(run, process)
        with Ledger(run) as ledger:
            ledger.follow(1)
            deadline = time.monotonic() + world.recovery_seconds_max + world.ledger.inputs / 500
            while len(ledger.outputs) < len(world.ledger.outputs) and time.monotonic() < deadline:
                ledger.poll()
            stop(process)
            return differences(world.ledger, ledger)
    finally:
        if process.poll() is None:
            process.kill()
