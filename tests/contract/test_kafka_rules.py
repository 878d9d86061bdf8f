"""The rules of `streamer.transports.kafka`, one by one, against a real broker; and the client's defects that they contain.

A test named `the_client_still_...` pins a defect (F1 to F4): when it fails after an upgrade the rule may be relaxed.
"""

import gc
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, UnknownError
from kafka.producer import kafka as producer_module
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Batch
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients
from streamer.transports.kafka.kafka_python.reader import RebalanceNotes
from streamer.transports.kafka.topics import create_topics
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.transport_worlds import (
    KafkaWorld,
    begin,
    committed_records,
    configure_topic,
    deliver_all,
    group_is_empty,
    impatient,
    make_settings,
    only,
    patiently,
    read_batch,
    read_records,
    unique_values,
)

if TYPE_CHECKING:
    from deploy.local_kafka import LocalKafka

# The client leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up()
    yield made
    made.tear_down()


# 1. Checksums


def test_1_a_client_without_fast_checksums_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients.record_checksums, "crc32c_c", None)
    with pytest.raises(SettingsError, match="pip install --force-reinstall crc32c"):
        KafkaTransport(make_settings(), "0").open()


# 2. Nothing under way at commit (F1)


def test_2_a_record_that_missed_its_timeout_is_delivered_once_by_the_replay(
    fragile_kafka: "LocalKafka", open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    broker = fragile_kafka
    settings = impatient(make_settings(broker.bootstrap_servers), delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    create_topics(settings, 1, 1)
    world = KafkaWorld(broker.bootstrap_servers)
    world.settings = settings
    world.write([b"one", b"two"])
    transport = open_transport(settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    # The canary: the same fault, with the client used as its own documentation says.
    careless = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id=uuid.uuid4().hex,
        delivery_timeout_ms=3_000,
        request_timeout_ms=2_000,
        transaction_timeout_ms=30_000,
    )
    careless.init_transactions()
    careless.begin_transaction()
    careless.send(settings.topics.dead_letter, value=b"first").get(timeout=5)
    broker.kill()
    lost = careless.send(settings.topics.dead_letter, value=b"lost")
    started = time.monotonic()
    with pytest.raises(DeliveryDoubtful):
        deliver_all(transport, batch)
    assert time.monotonic() - started < 10
    started = time.monotonic()
    transport.close()
    assert time.monotonic() - started < 5, "closing waits for a broker that is away"
    patiently(lambda: lost.is_done)
    broker.start()

    successor = open_transport(impatient(settings, delivery_timeout_ms=20_000, request_timeout_ms=10_000))
    begin(successor)
    assert successor.committed([source]) == {source: None}
    records = read_records(successor, 2)
    deliver_all(successor, Batch(records, {source: 2}, snapshot=successor._reader.member()))
    assert successor.committed([source]) == {source: 2}
    assert unique_values(settings) == [b"one", b"two"]

    # The client still commits a transaction that misses a record (F1).
    assert lost.failed()
    careless.commit_transaction()
    survived = committed_records(broker.bootstrap_servers, settings.topics.dead_letter)
    assert [record.value for record in survived] == [b"first"]
    careless.close(timeout=1)


def test_2_records_are_waited_for_where_the_broker_makes_the_client_split_a_pack(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    settings = world.settings
    configure_topic(settings, settings.topics.unique, {"max.message.bytes": "60000"})
    values = [uuid.uuid4().bytes * 600 for _ in range(30)]
    world.write(values)
    transport = open_transport(impatient(settings, compression="none"))
    source = only(begin(transport))
    records = read_records(transport, 30)
    world.write([b"proof"])
    deliver_all(transport, Batch(records, {source: 30}, snapshot=read_batch(transport).snapshot))
    assert unique_values(settings) == values


def test_2_a_record_that_the_output_refuses_leaves_nothing_behind(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    settings = impatient(world.settings, request_bytes_max=5_000)
    world.write([b"small", b"x" * 6_000])
    transport = open_transport(settings)
    source = only(begin(transport))
    with pytest.raises(SettingsError, match=r"6\d{3} bytes.*max\.message\.bytes"):
        deliver_all(transport, read_batch(transport))
    successor = open_transport(world.settings)
    begin(successor)
    assert successor.committed([source]) == {source: None}
    assert unique_values(settings) == []


def test_an_offset_committed_for_a_former_topic_of_this_name_counts_as_none(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(world.settings)
    source = only(begin(transport))
    partition = TopicPartition(world.settings.topics.input, source.partition)
    consumer = transport._reader.consumer
    former = "5f9c2a4e-8c1b-4d1a-9d53-0a54c2f4f1b7"
    for note, expected in ((former, None), ("", 7), (source.stream, 7)):
        consumer.commit({partition: OffsetAndMetadata(7, note, -1)})
        assert transport.committed([source]) == {source: expected}
    transport.commit_start({source: 3})
    assert transport.committed([source]) == {source: 3}


# 3. Membership as it was at the poll (F4)


def test_3_a_member_that_was_dropped_delivers_nothing(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write([b"one"])
    transport = open_transport(
        impatient(world.settings, max_poll_interval_ms=2_500, session_timeout_ms=1_500, request_timeout_ms=1_400)
    )
    source = only(begin(transport))
    batch = read_batch(transport)
    consumer = transport._reader.consumer
    patiently(lambda: consumer.group_metadata().generation_id == -1)
    live = consumer.group_metadata()
    assert live.member_id == ""
    # The broker refuses the snapshot taken then; the transport refuses the live value.
    patiently(lambda: group_is_empty(world.settings))
    with pytest.raises(DeliveryDoubtful, match="proof of membership"):
        deliver_all(transport, Batch(batch.records, batch.ends, snapshot=live))
    with pytest.raises(DeliveryDoubtful):
        deliver_all(transport, batch)
    assert unique_values(world.settings) == []

    # The broker still accepts the live value from the client (F4).
    careless = KafkaProducer(
        bootstrap_servers=world.settings.kafka.bootstrap_servers, transactional_id=uuid.uuid4().hex
    )
    careless.init_transactions()
    careless.begin_transaction()
    partition = TopicPartition(world.settings.topics.input, source.partition)
    careless.send_offsets_to_transaction({partition: OffsetAndMetadata(1, "", -1)}, live)
    careless.commit_transaction()
    careless.close()
    assert consumer.committed(partition) == 1


def test_3_the_worker_is_a_static_member(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(world.settings)
    begin(transport)
    assert transport._reader.consumer.group_metadata().group_instance_id == "0"


# 4. No abort, no second use (F2)


def test_4_the_client_still_commits_offsets_of_an_aborted_transaction(
    kafka: SimpleNamespace, world: KafkaWorld
) -> None:
    group = f"careless-{uuid.uuid4().hex}"
    dropped, kept = TopicPartition(world.settings.topics.input, 0), TopicPartition(world.settings.topics.unique, 0)
    careless = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=group)
    careless.init_transactions()
    careless.begin_transaction()
    careless.send(kept.topic, value=b"dropped").get(timeout=5)
    with pytest.raises(KafkaError):
        careless.send_offsets_to_transaction(
            {dropped: OffsetAndMetadata(7, "", -1)}, ConsumerGroupMetadata(group, 5, "nobody")
        )
    careless.abort_transaction()
    careless.begin_transaction()
    careless.send(kept.topic, value=b"kept").get(timeout=5)
    careless.send_offsets_to_transaction({kept: OffsetAndMetadata(1, "", -1)}, group)
    careless.commit_transaction()
    careless.close()
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    committed = {partition: consumer.committed(partition) for partition in (dropped, kept)}
    consumer.close()
    assert committed == {dropped: 7, kept: 1}


def test_4_the_producer_is_gone_after_a_failed_delivery(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write([b"one"])
    transport = open_transport(world.settings)
    begin(transport)
    batch = read_batch(transport)
    producer = transport._writer.producer.client
    aborts: list[str] = []
    monkeypatch.setattr(producer, "abort_transaction", lambda: aborts.append("abort"))

    def refuse(*_: object) -> None:
        raise KafkaError("no offsets today")

    monkeypatch.setattr(producer, "send_offsets_to_transaction", refuse)
    with pytest.raises(DeliveryDoubtful, match="no offsets today"):
        deliver_all(transport, batch)
    with pytest.raises(DeliveryDoubtful, match="delivers no more"):
        deliver_all(transport, batch)
    assert aborts == []
    successor = open_transport(world.settings)
    begin(successor)
    deliver_all(successor, read_batch(successor))
    assert unique_values(world.settings) == [b"one"]


# 5. No endless wait (F3)


def test_5_a_commit_that_is_not_answered_is_given_up_and_replayed(
    fragile_kafka: "LocalKafka", open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    broker = fragile_kafka
    settings = impatient(make_settings(broker.bootstrap_servers), delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    create_topics(settings, 1, 1)
    world = KafkaWorld(broker.bootstrap_servers)
    world.settings = settings
    world.write([b"one"])
    transport = open_transport(settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    producer = transport._writer.producer.client
    send_offsets = producer.send_offsets_to_transaction

    def send_offsets_and_kill(*arguments: object) -> None:
        send_offsets(*arguments)
        broker.kill()

    producer.send_offsets_to_transaction = send_offsets_and_kill
    started = time.monotonic()
    with pytest.raises(DeliveryDoubtful, match="commit of the transaction was not answered within 3000 ms"):
        deliver_all(transport, batch)
    assert time.monotonic() - started < 8
    transport.close()
    broker.start()
    successor = open_transport(impatient(settings, delivery_timeout_ms=20_000, request_timeout_ms=10_000))
    begin(successor)
    if successor.committed([source]) == {source: None}:
        deliver_all(successor, read_batch(successor))
    assert successor.committed([source]) == {source: 1}
    assert unique_values(settings) == [b"one"]


NO_BROKER = """
import sys, warnings
warnings.simplefilter("ignore")
from streamer.transports.kafka.transport import KafkaTransport
from streamer.settings.settings import Kafka, Settings
from streamer.errors import BrokerUnavailable
transport = KafkaTransport(Settings(kafka=Kafka(bootstrap_servers=["127.0.0.1:1"], request_timeout_ms=1_000)), "0")
try:
    transport.open()
except BrokerUnavailable as error:
    sys.exit(str(error))
finally:
    transport.close()
"""


def test_5_no_broker_is_an_error_within_the_timeout_and_the_process_ends() -> None:
    # In a process of its own, because the client's thread never gives up.
    ended = subprocess.run([sys.executable, "-c", NO_BROKER], capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    assert "no answer from 127.0.0.1:1 while looking for the topics" in ended.stderr


# 6. Committed records only, nothing by the client's own doing


def test_6_records_of_an_aborted_transaction_are_never_read(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    writer = KafkaProducer(bootstrap_servers=world.settings.kafka.bootstrap_servers, transactional_id=uuid.uuid4().hex)
    writer.init_transactions()
    writer.begin_transaction()
    writer.send(world.settings.topics.input, value=b"aborted").get(timeout=5)
    writer.abort_transaction()
    writer.close()
    world.write([b"kept"])
    transport = open_transport(world.settings)
    source = only(begin(transport))
    records = read_records(transport, 1)
    assert [(record.value, record.offset) for record in records] == [(b"kept", 2)]
    assert transport.lags() == {source: 0}


def test_6_nothing_is_committed_or_created_by_opening_reading_and_closing(
    kafka: SimpleNamespace, world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write([b"one"])
    transport = open_transport(world.settings)
    source = only(begin(transport))
    read_batch(transport)
    transport.close()
    elsewhere = make_settings(kafka.bootstrap_servers)
    with pytest.raises(SettingsError):
        open_transport(elsewhere).open()
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert elsewhere.topics.input not in admin.list_topics()
    successor = open_transport(world.settings)
    begin(successor)
    assert successor.committed([source]) == {source: None}


# 7. Timeouts in their order


def test_7_the_clients_get_the_timeouts_of_the_settings(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(world.settings)
    begin(transport)
    producer, consumer = transport._writer.producer.client.config, transport._reader.consumer.config
    assert producer["linger_ms"] + producer["request_timeout_ms"] <= producer["delivery_timeout_ms"]
    assert producer["delivery_timeout_ms"] < producer["transaction_timeout_ms"]
    assert consumer["heartbeat_interval_ms"] * 3 <= consumer["session_timeout_ms"]
    assert consumer["session_timeout_ms"] < consumer["max_poll_interval_ms"]
    assert consumer["max_poll_records"] == world.settings.batch.records_max


# 8. The listener takes notes


def test_8_the_rebalance_listener_does_nothing_but_take_notes() -> None:
    notes = RebalanceNotes()
    one, two = TopicPartition("documents", 1), TopicPartition("documents", 2)
    notes.on_partitions_assigned({one, two})
    notes.on_partitions_revoked({one})
    notes.on_partitions_lost({two})
    assert list(notes.changes) == [(True, {1, 2}), (False, {1}), (False, {2})]


# 9. Names and ends of producers


def test_9_transactions_are_named_by_group_and_instance_and_dropped_producers_are_kept(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(world.settings)
    begin(transport)
    producer = transport._writer.producer.client
    assert producer.config["transactional_id"] == f"{world.settings.kafka.group}:0"
    transport.close()
    assert producer in clients._dropped


def test_9_the_client_still_silences_its_logger_when_a_producer_is_collected(
    kafka: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "log", producer_module.log)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.close()
    del producer
    gc.collect()
    assert type(producer_module.log).__name__ == "NullLogger"


# 10. Lag


def test_10_the_end_marks_of_transactions_are_no_lag(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write_with_gap([b"one"], [b"two"])
    transport = open_transport(world.settings)
    source = only(begin(transport))
    read_records(transport, 2)
    patiently(lambda: not transport.read().records and transport.lags() == {source: 0})  # type: ignore[union-attr]
    assert transport.end_offsets([source]) == {source: 4}


# The split of a batch of the client, and the error of flush


def test_the_client_still_stumbles_in_flush_over_a_pack_that_was_split(world: KafkaWorld) -> None:
    configure_topic(world.settings, world.settings.topics.unique, {"max.message.bytes": "60000"})
    careless = KafkaProducer(
        bootstrap_servers=world.settings.kafka.bootstrap_servers, batch_size=500_000, linger_ms=200
    )
    sent = [careless.send(world.settings.topics.unique, value=uuid.uuid4().bytes * 600) for _ in range(30)]
    with pytest.raises(UnknownError, match="Future not done"):
        careless.flush(timeout=5)
    for future in sent:
        future.get(timeout=5)
    clients.drop_producer(careless)
