"""A partition that was paused amid its records is read again after a seek, on a real broker."""

from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, TopicPartition

from streamer.transports.kafka.clients import make_detached_consumer
from tests.support.transport_worlds import KafkaWorld, patiently

RECORDS = 6


def read_again_after_a_pause(world: KafkaWorld, consumer: KafkaConsumer) -> int:
    """Count of records of a partition that was paused amid them, sought, and resumed; another one ran dry meanwhile."""
    paused, other = (TopicPartition(world.settings.topics.input, number) for number in (0, 1))
    consumer.assign([paused])
    consumer.seek(paused, 0)
    patiently(lambda: bool(consumer.poll(100, max_records=1)))
    consumer.pause(paused)
    # This poll sets what was fetched aside.
    consumer.poll(100, max_records=1)
    consumer.assign([paused, other])
    consumer.pause(paused)
    consumer.seek(other, 0)
    seen: list[int] = []
    patiently(lambda: seen.extend(map(len, consumer.poll(100, max_records=1).values())) or sum(seen) == RECORDS)
    consumer.seek(paused, 0)
    consumer.resume(paused)
    return sum(len(records) for _ in range(20) for records in consumer.poll(100).values())


@pytest.fixture
def world(kafka: SimpleNamespace) -> KafkaWorld:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up(partitions=2)
    for partition in (0, 1):
        world.write([b"value %d" % number for number in range(RECORDS)], partition)
    return world


def test_a_partition_that_was_paused_amid_its_records_is_read_again(world: KafkaWorld) -> None:
    with make_detached_consumer(world.settings) as consumer:
        assert read_again_after_a_pause(world, consumer) == RECORDS


def test_the_client_by_itself_still_reads_nothing_more_of_it(kafka: SimpleNamespace, world: KafkaWorld) -> None:
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=None, enable_auto_commit=False) as consumer:
        assert read_again_after_a_pause(world, consumer) == 0
