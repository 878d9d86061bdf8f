"""A worker owes the records that it could read or deliver now, over a real broker: the base of a readiness that is true."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kafka import KafkaProducer

from index import Source
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.transport_worlds import KafkaWorld, begin, deliver_all, only, patiently, read_batch


@pytest.fixture(params=["kafka-python", "confluent-kafka"])
def world(request: pytest.FixtureRequest, kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    world = KafkaWorld(kafka.bootstrap_servers, request.param)
    yield world
    world.tear_down()


def reading(world: KafkaWorld) -> tuple[KafkaTransport, Source]:
    """A transport amid ten records, of which four are delivered."""
    world.set_up(records_max=4)
    world.write([b"value %d" % number for number in range(10)])
    transport = world.transport()
    assert isinstance(transport, KafkaTransport)
    source = only(begin(transport))
    deliver_all(transport, read_batch(transport))
    return transport, source


def require_nothing_owed(transport: KafkaTransport) -> None:
    """Deliver what comes, until the transport has heard that nothing is left."""

    def rested() -> bool:
        batch = transport.read()
        if batch.records:  # type: ignore[union-attr]
            deliver_all(transport, batch)  # type: ignore[arg-type]
        return transport.owed() == ()

    patiently(rested)


def test_records_are_owed_until_they_are_delivered(world: KafkaWorld) -> None:
    transport, source = reading(world)
    assert transport.owed() == (source.partition,)
    require_nothing_owed(transport)
    assert transport.committed([source]) == {source: 10}


def test_a_partition_that_is_read_no_further_is_owed(world: KafkaWorld) -> None:
    transport, source = reading(world)
    transport._reader.hold([source.partition])
    while transport.read().records:  # type: ignore[union-attr]
        pass
    assert transport.owed() == (source.partition,)


def test_what_a_producer_hides_by_an_open_transaction_is_lag_and_not_owed(
    kafka: SimpleNamespace, world: KafkaWorld
) -> None:
    transport, source = reading(world)
    require_nothing_owed(transport)
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"{world.settings.kafka.group}-crawler"
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(world.settings.topics.input, value=b"open", partition=0).get(timeout=10)
    # Without the look at what is committed, this lag would be owed.
    patiently(lambda: not transport.read().records and transport.lags() == {source: 1})  # type: ignore[union-attr]
    assert transport.owed() == ()
    producer.commit_transaction()
    # The broker answers the commit before readers see the record.
    deliver_all(transport, read_batch(transport))
    require_nothing_owed(transport)
    assert transport.committed([source]) == {source: 11}
    producer.close()


def test_what_is_owed_is_not_known_before_the_group_has_answered(world: KafkaWorld) -> None:
    world.set_up(records_max=4)
    world.write([b"value"])
    transport = world.transport()
    assert isinstance(transport, KafkaTransport)
    transport.open()
    assert transport.owed() is None
