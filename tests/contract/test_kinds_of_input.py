"""Inputs of every kind are read whole by either client: every codec, aborted transactions, compacted topics."""

import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.record.memory_records import MemoryRecords

from deploy.local_kafka import LocalKafka
from index.entry import Source
from streamer.records.record import Batch, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import (
    Client,
    KafkaWorld,
    begin,
    committed_records,
    configure_topic,
    deliver_all,
    impatient,
    only,
    patiently,
    read_batch,
    read_records,
    unique_values,
)

# In the order of their numbers in Kafka's protocol.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS: tuple[Client, Client] = ("kafka-python", "confluent-kafka")
Open = Callable[[Settings], KafkaTransport]


@pytest.fixture(params=CLIENTS)
def world(request: pytest.FixtureRequest, kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers, request.param)
    made.set_up()
    yield made
    made.tear_down()


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_and_written(
    world: KafkaWorld, codec: str, open_transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = world.settings = impatient(world.settings, compression=codec)
    values = [b"document %d " % number * 100 for number in range(50)]
    world.write(values)
    transport = open_transport(settings)
    begin(transport)
    delivered = 0
    while delivered < len(values):
        batch = read_batch(transport)
        deliver_all(transport, batch)
        delivered += len(batch.records)
    assert unique_values(settings) == values
    number = CODECS.index(codec)
    assert codecs_of(settings, settings.topics.input, monkeypatch) == {number}
    # The end of a transaction is a batch without a codec.
    assert codecs_of(settings, settings.topics.unique, monkeypatch) - {0} == {number} - {0}


def codecs_of(settings: Settings, topic: str, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of the codecs of all batches that a consumer receives of partition 0."""
    found: set[int] = set()
    next_batch = MemoryRecords.next_batch

    def noting(records: MemoryRecords) -> Any:
        batch = next_batch(records)
        if batch is not None:
            found.add(batch.compression_type)
        return batch

    monkeypatch.setattr(MemoryRecords, "next_batch", noting)
    committed_records(settings.kafka.bootstrap_servers[0], topic)
    return found


def test_aborted_records_of_the_input_never_come_out(world: KafkaWorld, open_transport: Open) -> None:
    servers, topic = world.settings.kafka.bootstrap_servers, world.settings.topics.input
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=str(uuid.uuid4()))
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        for part in range(3):
            producer.send(topic, b"%d.%d" % (number, part), partition=0)
        producer.flush()
        if number % 3:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    committed = [b"%d.%d" % (number, part) for number in range(0, 12, 3) for part in range(3)]
    transport = open_transport(world.settings)
    begin(transport)
    read: list[Record] = []
    while len(read) < len(committed):
        batch = read_batch(transport)
        deliver_all(transport, batch)
        read += batch.records
    assert [record.value for record in read] == committed
    assert unique_values(world.settings) == committed
    # A successor goes on amid the gaps.
    transport.close()
    world.write([b"last"])
    successor = open_transport(world.settings)
    begin(successor)
    assert [record.value for record in read_records(successor, 1)] == [b"last"]


@pytest.mark.parametrize("ending", ["committed", "aborted twice"])
def test_an_input_that_ends_in_marks_and_aborted_records_is_read_to_its_end(
    world: KafkaWorld, ending: str, open_transport: Open
) -> None:
    """An idle service shows no lag and owes nothing, also after a restart, which reads no record."""
    servers, topic = world.settings.kafka.bootstrap_servers, world.settings.topics.input
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=str(uuid.uuid4()))
    producer.init_transactions()
    for is_committed in (True, False, False) if ending == "aborted twice" else (True,):
        producer.begin_transaction()
        producer.send(topic, b"record", partition=0)
        producer.flush()
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    transport = open_transport(world.settings)
    source = only(begin(transport))
    deliver_all(transport, read_batch(transport))
    assert unique_values(world.settings) == [b"record"]
    require_idle(transport, source)
    transport.close()
    successor = open_transport(world.settings)
    begin(successor)
    require_idle(successor, source)


def require_idle(transport: KafkaTransport, source: Source) -> None:
    def idles() -> bool:
        event = transport.read()
        assert isinstance(event, Batch)
        assert not event.records
        return transport.lags() == {source: 0}

    patiently(idles)
    assert transport.owed() == ()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_compacted_input_is_read_as_it_stands(
    struck_brokers: Callable[..., LocalKafka], client: Client, open_transport: Open
) -> None:
    servers = struck_brokers("compacting-kafka", {"log.cleaner.backoff.ms": "100"}).bootstrap_servers
    world = KafkaWorld(servers, client)
    world.set_up()
    settings = world.settings
    chosen = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "100",
    }
    configure_topic(settings, settings.topics.input, chosen)

    def left() -> list[bytes | None]:
        """Values as a reader sees them. A record of a later time closes the segment, which is compacted only then."""
        world.write([Stored(b"other", b"other", int(time.time() * 1000))])
        return [record.value for record in committed_records(servers, settings.topics.input)]

    for number in range(8):
        world.write([Stored(b"key %d" % (number % 2), b"%d" % number), Stored(b"key %d" % number, b"only %d" % number)])
    patiently(lambda: b"0" not in (found := left()) and b"2" not in found)
    expected = left()
    transport = open_transport(settings)
    source = only(begin(transport, offset=0))
    end = transport.end_offsets([source])[source]
    read = read_records(transport, 1)
    assert read[0].offset > 0
    while read[-1].end < end:
        read += read_batch(transport).records
    # The cleaner may go on between the two readings, but leaves one record of each key.
    assert [record.value for record in read if record.key != b"other"] == [
        value for value in expected if value != b"other"
    ]
