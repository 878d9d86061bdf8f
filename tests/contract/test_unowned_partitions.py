"""A rebalance whose members die half way, on a real broker: every partition gets an owner again.

A cooperative rebalance has a moment, between its two rounds, when the partitions that move have no owner.
"""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest

from streamer.transports.kafka import ownership
from streamer.transports.kafka.clients import ask_for_rejoin, make_admin
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned
from tests.support.transport_worlds import KafkaWorld, begin, go_on, patiently

PARTITIONS = 4
ROUNDS_MAX = 200
ATTEMPTS_MAX = 3

Members = dict[str, KafkaTransport]


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    """A topic of PARTITIONS, and a group that waits long for members that went away."""
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up(partitions=PARTITIONS)
    patient = made.settings.kafka.model_copy(update={"session_timeout_ms": 30_000})
    made.settings = made.settings.model_copy(update={"kafka": patient})
    yield made
    made.tear_down()


def member(world: KafkaWorld, instance: str) -> KafkaTransport:
    transport = world.transport(instance)
    assert isinstance(transport, KafkaTransport)
    return transport


def owned(world: KafkaWorld) -> dict[str, list[int]] | None:
    """Partitions of each member of the group, as the broker has it; None while a rebalance is under way."""
    with make_admin(world.settings) as admin:
        group = admin.describe_groups([world.settings.kafka.group])[world.settings.kafka.group]
    if group["group_state"] != "Stable":
        return None
    return {
        each["group_instance_id"]: [
            partition
            for topic in (each["member_assignment"] or {"assigned_partitions": []})["assigned_partitions"]
            for partition in topic["partitions"]
        ]
        for each in group["members"]
    }


def read_once(world: KafkaWorld, members: Members) -> None:
    """Let every member read once, and begin what it is assigned."""
    for name, event in world.read_all(members).items():
        if isinstance(event, Assigned):
            go_on(members[name], event)


def left_half_way(world: KafkaWorld) -> Members:
    """Two members that have come back to a group whose rebalance they left between its rounds."""
    for _ in range(ATTEMPTS_MAX):
        first, second = member(world, "0"), member(world, "1")
        begin(first)
        second.open()
        seen = any(between_the_rounds(world, {"0": first, "1": second}) for _ in range(ROUNDS_MAX))
        # Neither says goodbye: a static member never does.
        first.close()
        second.close()
        if seen:
            break
        # On a busy machine both rounds may pass between two looks: again, in a group of its own.
        kafka = world.settings.kafka.model_copy(update={"group": f"{world.settings.kafka.group}-again"})
        world.settings = world.settings.model_copy(update={"kafka": kafka})
    else:
        raise AssertionError("the moment between the rounds was never seen")
    members = {"0": member(world, "0"), "1": member(world, "1")}
    for each in members.values():
        each.open()
    return members


def between_the_rounds(world: KafkaWorld, members: Members) -> bool:
    """Let every member read once; whether partitions of the group have no owner then."""
    # What a member is assigned is not begun: between the rounds nothing new is assigned.
    world.read_all(members)
    found = owned(world)
    return found is not None and len(found) == 2 and count(found) < PARTITIONS


def count(found: Mapping[str, list[int]]) -> int:
    return sum(map(len, found.values()))


def test_a_rebalance_whose_members_died_half_way_is_finished_by_those_that_come_back(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "CHECK_SECONDS", 1.0)
    members = left_half_way(world)
    told: set[int] = set()

    def every_partition_has_an_owner() -> bool:
        read_once(world, members)
        told.update(source.partition for each in members.values() for source in each.unowned())
        found = owned(world)
        return found is not None and count(found) == PARTITIONS

    patiently(every_partition_has_an_owner)
    assert len(told) == 2, "it was not told that partitions had no owner"

    def nobody_tells_of_any_more() -> bool:
        read_once(world, members)
        return not any(each.unowned() for each in members.values())

    patiently(nobody_tells_of_any_more)


def test_the_broker_still_leaves_partitions_without_an_owner_until_the_leader_joins_anew(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "CHECK_SECONDS", 600.0)
    members = left_half_way(world)
    for _ in range(20):
        read_once(world, members)
    left = owned(world)
    assert left is not None
    assert count(left) < PARTITIONS
    # The member that was there first leads.
    for instance, whole in (("1", False), ("0", True)):
        ask_for_rejoin(members[instance]._reader.consumer)
        for _ in range(20):
            read_once(world, members)
        found = owned(world)
        assert found is not None
        assert (count(found) == PARTITIONS) is whole
