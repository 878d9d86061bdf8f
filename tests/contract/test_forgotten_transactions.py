"""Transactions that a real broker has forgotten to end, in every shape, and how the next worker ends them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from deploy.local_kafka import LocalKafka
from index.entry import Source
from streamer.errors import BrokerUnavailable, DeliveryDoubtful, TransactionHanging
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import drop_producer
from streamer.transports.kafka.kafka_python.producer import KafkaPythonProducer
from streamer.transports.kafka.rights import transactional_id
from streamer.transports.kafka.transactions.hanging import OFFSETS_TOPIC, partition_of_group
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.forgotten import Predecessor, abort_what_hangs, initialised, send_unmarked
from tests.support.transport_worlds import (
    KafkaWorld,
    begin,
    committed_records,
    only,
    patiently,
    read_batch,
    routed,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

VALUES = [b"zero", b"one", b"two"]


@pytest.fixture
def settings(forgetful_kafka: LocalKafka, tmp_path: Path) -> Settings:
    """Settings of a group whose input holds VALUES, with a folder for an index."""
    world = KafkaWorld(forgetful_kafka.bootstrap_servers)
    world.set_up(records_max=2)
    world.write(VALUES)
    index = world.settings.index.model_copy(update={"directory": tmp_path})
    return world.settings.model_copy(update={"index": index})


def begun(transport: KafkaTransport) -> Source:
    """The one source, begun at offset 0 by a worker that is closed again."""
    source = only(begin(transport))
    transport.commit_start({source: 0})
    transport.close()
    return source


def open_ends(settings: Settings, topic: str) -> tuple[int, int]:
    """End of a topic for readers of committed records, and for all others."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers, isolation_level=isolation)
        ends.append(consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)])
        consumer.close()
    return ends[0], ends[1]


def deliver_what_is_left(transport: KafkaTransport, settings: Settings) -> int:
    """Go on as a worker does, until all is delivered. Returns the first offset read."""
    source = only(begin(transport))
    at = transport.committed([source])[source]
    assert at is not None
    for _ in range(at, len(VALUES), settings.batch.records_max):
        deliver_next(transport)
    patiently(lambda: transport.committed([source]) == {source: len(VALUES)})
    return at


def deliver_next(transport: KafkaTransport) -> None:
    batch = read_batch(transport)
    transport.deliver(batch, [routed(record) for record in batch.records])


def values_of(settings: Settings) -> list[bytes | None]:
    found = committed_records(settings.kafka.bootstrap_servers[0], settings.topics.unique)
    return [record.value for record in found]


@pytest.mark.parametrize(
    ("outputs", "offsets", "end", "at"),
    [
        pytest.param("forgotten", "not sent", "abort", 0, id="aborted while it was written, as by its timeout"),
        pytest.param("forgotten", "not sent", "nothing", 0, id="left open"),
        pytest.param("forgotten", "forgotten", "commit", 3, id="committed, all marks forgotten"),
        pytest.param("forgotten", "forgotten", "abort", 0, id="aborted, all marks forgotten"),
        pytest.param("forgotten", "forgotten", "nothing", 0, id="left open behind the offsets"),
        pytest.param("forgotten", "marked", "commit", 3, id="committed, the outputs' forgotten"),
        pytest.param("forgotten", "marked", "abort", 0, id="aborted, the outputs' forgotten"),
        pytest.param("marked", "forgotten", "commit", 3, id="committed, the offsets' forgotten"),
        pytest.param("marked", "forgotten", "abort", 0, id="aborted, the offsets' forgotten"),
        pytest.param("marked", "marked", "commit", 3, id="committed, nothing forgotten"),
        pytest.param("marked", "marked", "abort", 0, id="aborted, nothing forgotten"),
    ],
)
def test_whatever_marks_were_forgotten_every_record_comes_out_once(
    settings: Settings,
    open_transport: Callable[[Settings], KafkaTransport],
    outputs: str,
    offsets: str,
    end: str,
    at: int,
) -> None:
    source = begun(open_transport(settings))
    predecessor = Predecessor(settings, source)
    predecessor.write(VALUES, marked=outputs == "marked")
    if offsets != "not sent":
        predecessor.send_offsets(len(VALUES), marked=offsets == "marked")
    predecessor.end(end)

    assert deliver_what_is_left(open_transport(settings), settings) == at
    assert values_of(settings) == VALUES
    # Nothing stays open: a reader of committed records comes to the same end as any other.
    patiently(lambda: len(set(open_ends(settings, settings.topics.unique))) == 1)


def test_the_broker_still_commits_what_it_forgot_to_abort_with_the_next_transaction(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    """Canary: the fate of a batch that is aborted, forgotten, and delivered again by a producer that never looks."""
    source = begun(open_transport(settings))
    predecessor = Predecessor(settings, source)
    predecessor.write(VALUES, marked=False)
    predecessor.end("abort")
    careless = Predecessor(settings, source)
    careless.write(VALUES, marked=True)
    careless.end("commit")
    assert values_of(settings) == VALUES + VALUES


def test_where_nothing_tells_how_it_has_to_end_the_worker_says_what_a_person_does(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    source = begun(open_transport(settings))
    predecessor = Predecessor(settings, source)
    predecessor.write(VALUES, marked=False)
    predecessor.send_offsets(len(VALUES), marked=False)
    predecessor.end("commit")
    drop_producer(initialised(settings, "0"))
    transport = open_transport(settings)
    identity, group = transactional_id(settings.kafka, "0"), settings.kafka.group
    with pytest.raises(TransactionHanging) as raised:
        transport.open()
    message = str(raised.value)
    assert repr(group) in message
    assert repr(identity) in message
    assert f"abort --topic {settings.topics.unique} --partition 0 --start-offset 0" in message
    assert f"abort --topic {OFFSETS_TOPIC} --partition {partition_of_group(group, 4)} --start-offset" in message
    transport.close()

    abort_what_hangs(settings)
    assert deliver_what_is_left(open_transport(settings), settings) == 0
    assert values_of(settings) == VALUES


def test_an_offset_that_another_worker_left_open_is_told_from_a_broker_that_is_away(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    source = begun(open_transport(settings))
    other = Predecessor(settings, source, instance="1")
    other.send_offsets(len(VALUES), marked=False)
    timeouts = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 900, "transaction_timeout_ms": 6_000}
    impatient = settings.model_copy(update={"kafka": settings.kafka.model_copy(update=timeouts)})
    transport = open_transport(impatient)
    with pytest.raises(BrokerUnavailable, match="fetching committed offsets"):
        begin(transport)
    other.end("abort")
    with pytest.raises(TransactionHanging, match=f"transactional id '{transactional_id(settings.kafka, '1')}'"):
        transport.committed([source])
    transport.close()
    # The worker itself would end the transaction, if it started again under its name.
    successor = KafkaTransport(settings, "1")
    successor.open()
    successor.close()
    assert deliver_what_is_left(open_transport(settings), settings) == 0
    assert values_of(settings) == VALUES


def test_a_worker_that_outlives_its_broker_looks_whether_its_last_transaction_was_ended(
    forgetful_kafka: LocalKafka, settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(settings)
    begin(transport)
    first, second = read_batch(transport), read_batch(transport)
    producer = transport._writer.producer.client
    begin_transaction = producer.begin_transaction

    def begin_unknown_to_the_coordinator() -> None:
        begin_transaction()
        producer._transaction_manager._partitions_in_transaction.add(TopicPartition(settings.topics.unique, 0))

    producer.begin_transaction = begin_unknown_to_the_coordinator
    transport.deliver(first, [routed(record) for record in first.records])
    forgetful_kafka.kill()
    forgetful_kafka.start()
    # The next transaction would end the first batch together with the second: an abort would lose both.
    with pytest.raises(DeliveryDoubtful, match="still open in"):
        transport.deliver(second, [routed(record) for record in second.records])
    transport.close()
    assert deliver_what_is_left(open_transport(settings), settings) == 2
    assert values_of(settings) == VALUES


def test_a_connection_that_was_lost_costs_nothing_where_nothing_was_forgotten(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    transport = open_transport(settings)
    begin(transport)
    deliver_next(transport)
    transport._writer.producer._connections = frozenset({"one that is gone"})
    deliver_next(transport)
    assert values_of(settings) == VALUES


def die(*_: object) -> None:
    raise KafkaTimeoutError("the worker's process ends here")


def deliver_and_die(transport: KafkaTransport, settings: Settings, *, asked: bool, offsets_marked: bool = True) -> None:
    """Deliver the next batch, with outputs unknown to the coordinator, and die before or after the commit is asked for."""
    batch = read_batch(transport)
    writer = transport._writer
    assert isinstance(writer.producer, KafkaPythonProducer)
    producer, manager = writer.producer.client, writer.producer.client._transaction_manager
    begin_transaction = producer.begin_transaction

    def begin_unknown_to_the_coordinator() -> None:
        begin_transaction()
        manager._partitions_in_transaction.add(TopicPartition(settings.topics.unique, 0))
        # As in `Predecessor`: the coordinator has a transaction to end.
        manager.maybe_add_partition_to_transaction(TopicPartition(settings.topics.dead_letter, 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer, "begin_transaction", begin_unknown_to_the_coordinator)
        if not offsets_marked:
            patch.setattr(
                producer, "send_offsets_to_transaction", lambda offsets, _: send_unmarked(settings, producer, offsets)
            )
        patch.setattr(*((producer, "commit_transaction", die) if asked else (writer._note, "ask", die)))
        with pytest.raises(DeliveryDoubtful, match="ends here"):
            transport.deliver(batch, [routed(record) for record in batch.records])
    transport.close()
    # The broker goes away amid the next worker's start, and what the coordinator knew is gone.
    drop_producer(initialised(settings, "0"))


@pytest.mark.parametrize("asked", [False, True], ids=["never asked for", "control: asked for"])
def test_a_commit_that_was_never_asked_for_is_aborted_though_another_worker_has_delivered_since(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport], asked: bool
) -> None:
    transport = open_transport(settings)
    begin(transport)
    deliver_next(transport)
    deliver_and_die(transport, settings, asked=asked)
    other = KafkaTransport(settings, "1")
    assert deliver_what_is_left(other, settings) == 2
    other.close()
    successor = open_transport(settings)
    if asked:
        with pytest.raises(TransactionHanging):
            successor.open()
        return
    assert deliver_what_is_left(successor, settings) == len(VALUES)
    assert values_of(settings) == VALUES
