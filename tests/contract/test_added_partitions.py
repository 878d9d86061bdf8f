"""Partitions that are added are read, however late the broker answers; on a real broker.

kafka-python 3.0.12 rejoins for them, and a poll may end before that join is answered. The client then forgets the join:
no later poll waits for it, no heartbeat is sent, and the group expels the member.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient
from kafka.errors import NoOffsetForPartitionError
from kafka.structs import MemberState

from deploy.local_kafka import HOST, LocalKafka, free_port
from streamer.errors import DeliveryDoubtful
from streamer.transports.kafka import clients
from streamer.transports.kafka.clients import make_consumer
from streamer.transports.transport import Assigned, Transport
from tests.support.slow_answers import HEARTBEAT, JOIN_GROUP, METADATA, SYNC_GROUP, SlowAnswers
from tests.support.transport_worlds import Client, KafkaWorld, begin, go_on, impatient, patiently

pytestmark = pytest.mark.kafka

POLL_SECONDS = 0.1
"""Longest poll of these worlds."""

FOR_EVER = 1_000.0
with_either_client = pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])


class Delay(NamedTuple):
    """How late answers come, and how long a worker is busy between its polls."""

    requests: tuple[int, ...]
    seconds: float
    pause_seconds: float


LATE, BUSY = 2.5 * POLL_SECONDS, 1.5 * POLL_SECONDS
DELAYS = [
    Delay((), 0, 0),
    *(
        Delay(requests, LATE, pause)
        for requests in ((SYNC_GROUP,), (JOIN_GROUP,), (JOIN_GROUP, SYNC_GROUP), (METADATA,), (HEARTBEAT,))
        for pause in (0, BUSY)
    ),
    # Answered between two polls.
    Delay((SYNC_GROUP,), POLL_SECONDS, 2 * POLL_SECONDS),
    Delay((JOIN_GROUP, SYNC_GROUP), POLL_SECONDS / 2, POLL_SECONDS),
]


@pytest.fixture(scope="module")
def slow_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowAnswers]:
    """Proxy before a broker of its own."""
    port = free_port()
    broker = LocalKafka(tmp_path_factory.mktemp("slow-kafka"), proxy_port=port)
    assert broker.proxied_port is not None
    with SlowAnswers(port, broker.proxied_port) as proxy, broker:
        yield proxy


@pytest.fixture
def world_by(slow_kafka: SlowAnswers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Client], KafkaWorld]]:
    """Maker of a world whose clients notice an added partition at once."""
    monkeypatch.setattr(clients, "METADATA_AGE_MS_MAX", 200)
    worlds: list[KafkaWorld] = []

    def make(client: Client) -> KafkaWorld:
        worlds.append(KafkaWorld(f"{HOST}:{slow_kafka.port}", client))
        worlds[-1].set_up()
        return worlds[-1]

    yield make
    slow_kafka.seconds.clear()
    for world in worlds:
        world.tear_down()


def add_partition(world: KafkaWorld, partition: int) -> None:
    """Add a partition, and write its number to it."""
    with KafkaAdminClient(bootstrap_servers=world.settings.kafka.bootstrap_servers) as admin:
        admin.create_partitions({world.settings.topics.input: partition + 1})
    world.write([b"%d" % partition], partition)


def read_until_value(world: KafkaWorld, members: dict[str, Transport], value: bytes, pause_seconds: float) -> None:
    """Let all members read until one has read this value."""
    seen: list[bytes | None] = []

    def read() -> bool:
        for name, event in world.read_all(members).items():
            if isinstance(event, Assigned):
                go_on(members[name], event)
            else:
                seen.extend(record.value for record in getattr(event, "records", ()))
        time.sleep(pause_seconds)
        return value in seen

    patiently(read)


@with_either_client
@pytest.mark.parametrize("count", [1, 2])
def test_added_partitions_are_read_however_late_the_broker_answers(
    slow_kafka: SlowAnswers, world_by: Callable[[Client], KafkaWorld], client: Client, count: int
) -> None:
    world = world_by(client)
    members = {str(number): world.transport(str(number)) for number in range(count)}
    begin(members["0"])
    for name in list(members)[1:]:
        members[name].open()
    for partition, delay in enumerate(DELAYS, 1):
        slow_kafka.seconds = dict.fromkeys(delay.requests, delay.seconds)
        add_partition(world, partition)
        read_until_value(world, members, b"%d" % partition, delay.pause_seconds)


@with_either_client
def test_a_worker_that_never_becomes_a_member_ends(
    slow_kafka: SlowAnswers, world_by: Callable[[Client], KafkaWorld], client: Client
) -> None:
    world = world_by(client)
    world.settings = impatient(world.settings, max_poll_interval_ms=3_000)
    transport = world.transport()
    transport.open()
    slow_kafka.seconds = {JOIN_GROUP: FOR_EVER}
    began = time.monotonic()
    with pytest.raises(DeliveryDoubtful, match=r"has not become a member of group '.*' within 5000 ms"):
        patiently(lambda: transport.read() is None)
    assert time.monotonic() - began > 5


def test_the_client_by_itself_still_forgets_a_join_that_is_answered_after_the_poll(
    slow_kafka: SlowAnswers, world_by: Callable[[Client], KafkaWorld]
) -> None:
    world = world_by("kafka-python")
    with make_consumer(world.settings, "0") as consumer:
        consumer.subscribe([world.settings.topics.input])
        consumer.partitions_for_topic(world.settings.topics.input)

        def poll() -> bool:
            with suppress(NoOffsetForPartitionError):
                consumer.poll(100)
            return True

        patiently(lambda: poll() and bool(consumer.assignment()))
        slow_kafka.seconds = {SYNC_GROUP: LATE}
        add_partition(world, 1)
        patiently(lambda: poll() and consumer.group_metadata().state is MemberState.REBALANCING)
        slow_kafka.seconds.clear()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            poll()
            assert consumer.group_metadata().state is MemberState.REBALANCING
        assert len(consumer.assignment()) == 1
