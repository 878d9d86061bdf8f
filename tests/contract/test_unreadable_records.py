"""Records that the client cannot parse, on a real broker: odd header names, and damage in the broker's own log."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError

from deploy.local_kafka import LocalKafka
from streamer.errors import RecordsUnreadable
from streamer.records.record import Destination, Lost, Record
from streamer.settings.settings import Recovery, Settings
from streamer.transports.kafka.clients import make_detached_consumer
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.kafka.unreadable import HeaderName
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import Client, KafkaWorld, begin, patiently, read_batch, routed

CLIENTS: tuple[Client, ...] = ("kafka-python", "confluent-kafka")
ODD = HeaderName(b"caf\xe9".decode(errors="surrogateescape"))
DAMAGED = b"this one is damaged on disk"


def values(begin: int, end: int) -> list[bytes]:
    return [b"value %d" % number for number in range(begin, end)]


def test_a_header_name_that_is_not_utf_8_goes_in_and_out_as_it_is(
    kafka: SimpleNamespace, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    world.write([*values(0, 10), Stored(None, b"odd", headers=((ODD, b"x"),)), *values(10, 80)])
    transport = open_transport(world.settings)
    begin(transport)
    read: list[Record] = []
    while len(read) < 81:
        batch = read_batch(transport)
        transport.deliver(batch, [routed(record) for record in batch.records])
        read += batch.records
    assert [record.value for record in read] == [*values(0, 10), b"odd", *values(10, 80)]
    with make_detached_consumer(world.settings) as consumer:
        partition = TopicPartition(world.settings.topics.unique, 0)
        consumer.assign([partition])
        consumer.seek(partition, 10)
        found: list[tuple[str, bytes]] = []

        def seen() -> bool:
            found.extend(
                header for records in consumer.poll(100).values() for record in records for header in record.headers
            )
            return any(name.encode() == b"caf\xe9" for name, _ in found)

        patiently(seen)


def test_the_client_by_itself_still_ends_at_such_a_name(kafka: SimpleNamespace) -> None:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    world.write([Stored(None, b"odd", headers=((ODD, b"x"),))])
    consumer = KafkaConsumer(
        world.settings.topics.input,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with pytest.raises(CorruptRecordError):
        patiently(lambda: bool(consumer.poll(100)))
    consumer.close()


def damage(broker: LocalKafka, *topics: str) -> None:
    """Change a byte of DAMAGED in the log of each topic, under a broker that starts again and does not look."""
    broker.stop()
    for topic in topics:
        logs = Path(broker.directory / "data").glob(f"{topic}-0/*.log")
        (log,) = [log for log in logs if DAMAGED in log.read_bytes()]
        content = log.read_bytes()
        assert content.count(DAMAGED) == 1
        log.write_bytes(content.replace(DAMAGED, DAMAGED.upper()))
    broker.start()


def deliver_all(transport: KafkaTransport, count: int) -> list[Record]:
    read: list[Record] = []
    while len(read) < count:
        read += deliver_next(transport)
    return read


def deliver_next(transport: KafkaTransport) -> list[Record]:
    batch = read_batch(transport)
    places = [Destination.DEAD_LETTER if record.lost else Destination.UNIQUE for record in batch.records]
    transport.deliver(batch, [routed(*each) for each in zip(batch.records, places, strict=True)])
    return list(batch.records)


def deliver_to_the_end(transport: KafkaTransport, read: list[Record]) -> None:
    """Deliver until reading fails; what comes out is added to `read`."""
    while len(read) < 81:
        read += deliver_next(transport)


@dataclass(frozen=True)
class Damaged:
    """Groups whose broker has started again on damaged logs.

    inputs   80 sound records on two partitions; a damaged batch of one record is the eleventh of the first partition; one
             group for each value of recovery.unreadable and each client
    outputs  20 sound records of one partition were delivered; a damaged batch of one is the eleventh of the unique output
    """

    inputs: Mapping[tuple[str, Client], KafkaWorld]
    outputs: Settings


@pytest.fixture(scope="module")
def damaged(struck_brokers: Callable[..., LocalKafka]) -> Damaged:
    broker = struck_brokers("fragile-kafka")
    inputs = {each: world_to_damage(broker, *each) for each in product(("stop", "skip"), CLIENTS)}
    outputs = delivered_to_damage(broker)
    damage(broker, *(world.settings.topics.input for world in inputs.values()), outputs.topics.unique)
    return Damaged(inputs, outputs)


def world_to_damage(broker: LocalKafka, unreadable: str, client: Client) -> KafkaWorld:
    world = KafkaWorld(broker.bootstrap_servers, client)
    world.set_up(partitions=2)
    world.settings = world.settings.model_copy(update={"recovery": Recovery(unreadable=unreadable)})
    world.write(values(0, 10))
    world.write([DAMAGED])
    world.write(values(10, 40))
    world.write(values(40, 80), partition=1)
    return world


def delivered_to_damage(broker: LocalKafka) -> Settings:
    world = KafkaWorld(broker.bootstrap_servers)
    world.set_up()
    with closing(KafkaTransport(world.settings, "0")) as transport:
        begin(transport)
        for portion in (values(0, 10), [DAMAGED], values(10, 20)):
            world.write(portion)
            deliver_all(transport, len(portion))
    return world.settings


@pytest.mark.parametrize("client", CLIENTS)
def test_a_damaged_batch_stops_with_its_place_once_all_before_it_is_delivered(
    damaged: Damaged, open_transport: Callable[[Settings], KafkaTransport], client: Client
) -> None:
    settings = damaged.inputs["stop", client].settings
    transport = open_transport(settings)
    begin(transport)
    read: list[Record] = []
    # The other partition goes on meanwhile. How far depends on the machine.
    with pytest.raises(RecordsUnreadable, match=rf"{settings.topics.input}/0: the record of offset 10 cannot"):
        deliver_to_the_end(transport, read)
    assert [record.value for record in read if record.source.partition == 0] == values(0, 10)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_damaged_batch_is_skipped_where_that_is_wanted_and_80_of_81_come_out(
    damaged: Damaged, open_transport: Callable[[Settings], KafkaTransport], client: Client
) -> None:
    world = damaged.inputs["skip", client]
    transport = open_transport(world.settings)
    begin(transport)
    read = deliver_all(transport, 81)
    (skipped,) = [record for record in read if record.lost]
    assert (skipped.source.partition, skipped.offset, skipped.value) == (0, 10, None)
    assert isinstance(skipped.lost, Lost)
    assert skipped.lost.offsets == 1
    assert "offset 10" in skipped.lost.why
    assert sorted(record.value or b"" for record in world.delivered(Destination.UNIQUE)) == sorted(values(0, 80))
    transport.close()
    output_log = KafkaOutputLog(world.settings)
    output_log.extent()
    lost = [record for records in output_log.inputs() for record in records if record.lost]
    assert [(each.source, each.offset, each.lost) for each in lost] == [(skipped.source, 10, skipped.lost)]
    again = open_transport(world.settings)
    committed = again.committed(begin(again).sources)
    assert {source.partition: offset for source, offset in committed.items()} == {0: 41, 1: 40}


def test_damage_in_an_output_stops_restoring_with_its_place(
    damaged: Damaged, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    settings = damaged.outputs
    ranges = {source: range(30) for source in begin(open_transport(settings)).sources}
    with pytest.raises(RecordsUnreadable, match=f"{settings.topics.unique}/0: the record"):
        list(open_transport(settings).changelog(ranges, [Destination.UNIQUE]))
    skipping = settings.model_copy(update={"recovery": Recovery(unreadable="skip")})
    found = [
        record.value
        for portion in open_transport(skipping).changelog(ranges, [Destination.UNIQUE])
        for record in portion
    ]
    assert found == values(0, 20)
