"""A member that the group expels amid a rebalance begins its partitions anew; on a real broker.

Others may have read and delivered them meanwhile. The client forgets to tell: it prepares once for all attempts of a
rebalance, so a membership that is lost between two of them takes no partitions away.
"""

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import NoOffsetForPartitionError

from streamer.transports.kafka.clients import make_consumer
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.transport_worlds import KafkaWorld, begin, patiently, read_assigned, read_batch


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up(partitions=2)
    yield made
    made.tear_down()


class Told(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.changes: list[str] = []

    def on_partitions_assigned(self, _assigned: set[TopicPartition]) -> None:
        self.changes.append("assigned")

    def on_partitions_revoked(self, _revoked: set[TopicPartition]) -> None:
        self.changes.append("revoked")

    def on_partitions_lost(self, _lost: set[TopicPartition]) -> None:
        self.changes.append("lost")


def poll(consumer: KafkaConsumer) -> bool:
    # Nothing was ever committed, and nothing is read here.
    with suppress(NoOffsetForPartitionError):
        consumer.poll(100)
    return True


def expel_amid_a_rebalance(consumer: KafkaConsumer) -> None:
    """Leave the client as it is when the broker answers its SyncGroup with UNKNOWN_MEMBER_ID."""
    consumer._coordinator.rejoining = True
    consumer._coordinator.reset_generation()


def test_an_expelled_member_begins_all_its_partitions_anew(world: KafkaWorld) -> None:
    world.write([b"one", b"two"])
    transport = world.transport("0")
    assert isinstance(transport, KafkaTransport)
    before = begin(transport)
    assert len(read_batch(transport).records) == 2
    world.write([b"three"])
    expel_amid_a_rebalance(transport._reader.consumer)
    assert read_assigned(transport).sources == before.sources


def test_the_client_by_itself_still_tells_nobody(world: KafkaWorld) -> None:
    told = Told()
    with make_consumer(world.settings, "0") as consumer:
        consumer.subscribe([world.settings.topics.input], listener=told)
        # As the transport does: a leader that does not know the partitions yet assigns none.
        consumer.partitions_for_topic(world.settings.topics.input)
        patiently(lambda: poll(consumer) and len(consumer.assignment()) == 2)
        member = consumer.group_metadata().member_id
        expel_amid_a_rebalance(consumer)
        patiently(lambda: poll(consumer) and consumer.group_metadata().member_id not in ("", member))
        assert len(consumer.assignment()) == 2
        assert told.changes == ["assigned"]
