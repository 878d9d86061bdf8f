"""A member that asks for offsets before it begins, as recovery does, keeps no rebalance from its end; on a real broker.

What is asked of the group's coordinator waits on the same connection for the answer to a join, and the client discards a
join that is answered while nobody polls.
"""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned
from tests.support.transport_worlds import KafkaWorld, go_on, patiently, read_assigned

PARTITIONS = 4
REST_SECONDS = 8.0
"""Longer than two heartbeats: a group that does not come to rest begins another generation with each."""


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up(partitions=PARTITIONS)
    yield made
    made.tear_down()


def member(world: KafkaWorld, instance: str) -> KafkaTransport:
    transport = world.transport(instance)
    assert isinstance(transport, KafkaTransport)
    return transport


def generation(transport: KafkaTransport) -> int:
    return int(transport._reader.consumer.group_metadata().generation_id)


def test_a_group_comes_to_rest_while_a_member_is_still_looking_where_to_begin(world: KafkaWorld) -> None:
    looking, newcomer = member(world, "0"), member(world, "1")
    looking.open()
    read_assigned(looking)
    seen: dict[str, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            event = looking.read()
            if isinstance(event, Assigned):
                looking.committed(event.sources + event.others)
                seen["looking"] = len(event.sources)

    def read() -> None:
        newcomer.open()
        while not over.is_set():
            event = newcomer.read()
            if isinstance(event, Assigned):
                go_on(newcomer, event)
                seen["newcomer"] = len(event.sources)

    threads = [threading.Thread(target=each) for each in (look, read)]
    for thread in threads:
        thread.start()
    try:
        patiently(lambda: seen.get("newcomer") == PARTITIONS // 2)
        patiently(lambda: rests(looking))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(looking._reader.consumer.assignment()) == PARTITIONS // 2


def rests(transport: KafkaTransport) -> bool:
    before = generation(transport)
    time.sleep(REST_SECONDS)
    return generation(transport) == before
