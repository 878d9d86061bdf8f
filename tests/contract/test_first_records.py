"""A partition is read from the offset that was asked for, however late the broker tells where its log ends."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from kafka import KafkaProducer

from deploy.local_kafka import HOST, LocalKafka, free_port
from streamer.errors import DeliveryDoubtful
from streamer.settings.settings import Settings
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.slow_answers import LIST_OFFSETS, SlowAnswers
from tests.support.transport_worlds import Client, KafkaWorld, only, read_assigned, read_batch

HELD_BACK_SECONDS = 1.0
WRITING_SECONDS = 4.0
PAUSE_SECONDS = 0.1
ASKING_SECONDS = 1.5


@pytest.fixture(scope="module")
def slow_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowAnswers]:
    """Proxy before a broker of its own, which tells late where a log begins or ends."""
    port = free_port()
    broker = LocalKafka(tmp_path_factory.mktemp("slow-kafka"), proxy_port=port)
    assert broker.proxied_port is not None
    with SlowAnswers(port, broker.proxied_port) as proxy, broker:
        yield proxy


@pytest.fixture
def slowly(slow_kafka: SlowAnswers) -> Iterator[SlowAnswers]:
    yield slow_kafka
    slow_kafka.seconds.clear()


with_either_client = pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])


@with_either_client
def test_every_record_is_read_though_the_broker_tells_late_where_the_log_ends(
    slowly: SlowAnswers, client: Client, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world = KafkaWorld(f"{HOST}:{slowly.port}", client)
    world.set_up()
    world.write([b"0", b"1", b"2"])
    slowly.seconds[LIST_OFFSETS] = HELD_BACK_SECONDS
    transport = open_transport(world.settings)
    transport.open()
    source = only(read_assigned(transport))
    # A client that asks for the end of the log asks when it knows the partition's leader.
    end = time.monotonic() + ASKING_SECONDS
    while not slowly.waiting and time.monotonic() < end:
        transport.read()
    transport.seek(source, 0, None)
    read: list[bytes | None] = []
    written = 3
    with KafkaProducer(bootstrap_servers=world.settings.kafka.bootstrap_servers) as producer:
        end = time.monotonic() + WRITING_SECONDS
        while time.monotonic() < end or (len(read) < written and time.monotonic() < end + WRITING_SECONDS):
            if time.monotonic() < end:
                producer.send(world.settings.topics.input, b"%d" % written).get(timeout=10)
                written += 1
            read += [record.value for record in transport.read().records]  # type: ignore[union-attr]
            time.sleep(PAUSE_SECONDS)
    assert read == [b"%d" % number for number in range(written)]


@with_either_client
def test_a_client_that_begins_too_far_is_stopped_at_its_first_record(
    kafka: SimpleNamespace, client: Client, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, client)
    world.set_up()
    world.write([b"0", b"1", b"2"])
    transport = open_transport(world.settings)
    transport.open()
    source = only(read_assigned(transport))
    begin = transport._reader.begin
    transport._reader.begin = lambda partition, offset: begin(partition, offset + 2)  # type: ignore[method-assign]
    transport.seek(source, 0, None)
    with pytest.raises(DeliveryDoubtful, match="passed the record of offset 0 over and read on at 2"):
        read_batch(transport)
