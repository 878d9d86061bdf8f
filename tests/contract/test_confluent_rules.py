"""The rules of `streamer.transports.kafka.confluent`, by number, against a real broker; and the client's own defects."""

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from index import Source
from streamer.errors import DeliveryDoubtful, RecordsUnreadable, SettingsError
from streamer.records.record import Batch
from streamer.settings.settings import Settings
from streamer.transports.kafka.confluent.clients import parse_membership
from streamer.transports.kafka.confluent.reader import ConfluentReader
from streamer.transports.kafka.kafka_python.reader import KafkaPythonReader
from streamer.transports.kafka.topics import Note, claims_of_group, create_topics, parse_note
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.kafka.unreadable import HeaderName
from streamer.transports.transport import Assigned, Claim
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import (
    Client,
    KafkaWorld,
    begin,
    committed_records,
    configure_topic,
    deliver_all,
    go_on,
    group_is_empty,
    impatient,
    only,
    patiently,
    read_assigned,
    read_batch,
    read_records,
    routed,
    unique_values,
)

if TYPE_CHECKING:
    from deploy.local_kafka import LocalKafka

# kafka-python leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CLIENT = "confluent-kafka"


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers, CLIENT)
    made.set_up()
    yield made
    made.tear_down()


def patient(settings: Settings) -> Settings:
    return impatient(settings, delivery_timeout_ms=20_000, request_timeout_ms=10_000, transaction_timeout_ms=30_000)


def fragile(broker: "LocalKafka") -> KafkaWorld:
    """A world with a broker to kill, and little patience."""
    world = KafkaWorld(broker.bootstrap_servers, CLIENT)
    world.settings = impatient(world.settings, delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    create_topics(world.settings, 1, 1)
    return world


# 2. Records and offsets travel together


def test_2_a_record_that_the_broker_refuses_takes_its_whole_batch_along(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    """Records are not waited for before the offsets are sent: the commit itself must fail."""
    settings = with_a_record_to_refuse(world)
    transport = open_transport(settings)
    source = only(begin(transport))
    with pytest.raises(SettingsError, match=rf"{settings.topics.input}/0/1, has 6\d\d\d bytes.*max\.message\.bytes"):
        deliver_all(transport, read_batch(transport))
    successor = open_transport(settings)
    begin(successor)
    assert successor.committed([source]) == {source: None}
    assert unique_values(settings) == []


def test_2_a_record_that_is_refused_while_the_offsets_are_sent_is_the_cause(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    """The client says only that its state is wrong. Asked again, it names the refusal."""
    settings = with_a_record_to_refuse(world)
    transport = open_transport(settings)
    begin(transport)
    producer = transport._writer.producer
    refusing = _RefusingOnce(producer.client)
    producer.client = refusing
    with pytest.raises(SettingsError, match=r"max\.message\.bytes"):
        deliver_all(transport, read_batch(transport))
    assert refusing.calls == 2
    assert unique_values(settings) == []


def test_2_a_record_that_the_client_refuses_is_named(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write([b"small", b"x" * 6_000])
    transport = open_transport(impatient(world.settings, request_bytes_max=5_000))
    begin(transport)
    with pytest.raises(SettingsError, match=r"has 6\d\d\d bytes.*kafka\.request_bytes_max.*nothing is lost"):
        deliver_all(transport, read_batch(transport))


def with_a_record_to_refuse(world: KafkaWorld) -> Settings:
    """Settings of a world whose second record is larger than the outputs take."""
    settings = impatient(world.settings, compression="none")
    limit_output(settings, 2_000)
    world.write([b"small", b"x" * 6_000])
    return settings


class _RefusingOnce:
    """A client whose first call with offsets meets a transaction that just failed."""

    def __init__(self, client: Producer) -> None:
        self._client = client
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def send_offsets_to_transaction(self, *arguments: object) -> None:
        self.calls += 1
        if self.calls == 1:
            self._client.flush()
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._client.send_offsets_to_transaction(*arguments)


def limit_output(settings: Settings, size: int) -> None:
    configure_topic(settings, settings.topics.unique, {"max.message.bytes": str(size)})


# 3. The membership when the batch is delivered


def test_3_a_member_that_was_dropped_delivers_nothing(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write([b"one"])
    transport = open_transport(
        impatient(world.settings, max_poll_interval_ms=2_500, session_timeout_ms=1_500, request_timeout_ms=1_400)
    )
    begin(transport)
    batch = read_batch(transport)
    patiently(lambda: group_is_empty(world.settings))
    with pytest.raises(DeliveryDoubtful, match="no member of the group any more"):
        deliver_all(transport, batch)
    assert unique_values(world.settings) == []


def test_3_a_batch_outlives_a_rebalance_that_leaves_its_partitions_where_they_are_and_no_other(
    kafka: SimpleNamespace, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, CLIENT)
    world.set_up(partitions=2)
    for partition in (0, 1):
        world.write([b"%d" % partition], partition=partition)
    first, second = open_transport(world.settings), world.transport("1")
    begin(first)
    records = {record.source.partition: record for record in read_records(first, 2)}
    proof = read_proof(world, first)
    assert isinstance(second, KafkaTransport)
    second.open()

    def both_own_one() -> bool:
        for each in (first, second):
            each.read()
        return len(first._reader.assignment()) == len(second._reader.assignment()) == 1

    patiently(both_own_one)
    (kept,), (given,) = first._reader.assignment(), second._reader.assignment()
    batches = {partition: Batch([record], {record.source: 1}, snapshot=proof) for partition, record in records.items()}
    deliver_all(first, batches[kept])
    with pytest.raises(DeliveryDoubtful, match=rf"partitions \[{given}\] were given to other members"):
        deliver_all(first, batches[given])
    assert unique_values(world.settings) == [b"%d" % kept]
    world.tear_down()


def read_proof(world: KafkaWorld, transport: KafkaTransport) -> object:
    world.write([b"one more"])
    return read_batch(transport).snapshot


# 5. No endless wait


def test_5_a_commit_that_is_not_answered_is_given_up_and_replayed(
    fragile_kafka: "LocalKafka", open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world = fragile(fragile_kafka)
    world.write([b"one"])
    transport = open_transport(world.settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    writer = transport._writer.producer
    lost_before = writer._lines.lost  # type: ignore[attr-defined]

    class Killing:
        """The producer, whose broker is killed once it has all but the commit."""

        def __init__(self, producer: object) -> None:
            self._producer = producer

        def __getattr__(self, name: str) -> object:
            return getattr(self._producer, name)

        def commit_transaction(self, *arguments: object) -> None:
            self._producer.flush()  # type: ignore[attr-defined]
            fragile_kafka.kill()
            self._producer.commit_transaction(*arguments)  # type: ignore[attr-defined]

    writer.client = Killing(writer.client)  # type: ignore[attr-defined]
    started = time.monotonic()
    with pytest.raises(DeliveryDoubtful, match="commit of the transaction was not answered within 3000 ms"):
        deliver_all(transport, batch)
    assert time.monotonic() - started < 8
    # By this the next delivery would know that the broker may have forgotten to end this transaction.
    writer.client.poll(0)  # type: ignore[attr-defined]
    assert writer._lines.lost > lost_before  # type: ignore[attr-defined]
    started = time.monotonic()
    transport.close()
    assert time.monotonic() - started < 5, "closing waits for a broker that is away"
    fragile_kafka.start()
    successor = open_transport(patient(world.settings))
    begin(successor)
    if successor.committed([source]) == {source: None}:
        deliver_all(successor, read_batch(successor))
    assert successor.committed([source]) == {source: 1}
    assert unique_values(world.settings) == [b"one"]


# 10. Lag


def test_10_neither_end_marks_nor_aborted_records_are_lag(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write_with_gap([b"one"], [b"two"])
    transport = open_transport(world.settings)
    source = only(begin(transport))
    read_records(transport, 2)
    patiently(lambda: not transport.read().records and transport.lags() == {source: 0})  # type: ignore[union-attr]
    assert transport.end_offsets([source]) == {source: 4}


# 11. Joining anew


def test_11_a_reader_that_joins_anew_makes_the_group_share_its_partitions_out(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write([b"one", b"two"])
    transport = open_transport(world.settings)
    begin(transport)
    read_records(transport, 2)
    before = generation(transport)
    transport._reader.rejoin()
    go_on(transport, read_assigned(transport))
    assert generation(transport) > before
    assert [record.value for record in read_records(transport, 2)] == [b"one", b"two"]


def generation(transport: KafkaTransport) -> int:
    membership = parse_membership(transport._reader.consumer.consumer_group_metadata())  # type: ignore[attr-defined]
    assert membership is not None
    return membership.generation


# 12. Header names


def test_12_a_header_name_that_is_not_utf_8_stops_with_its_record_and_the_remedy(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    world.write(
        [b"one", Stored(None, b"odd", headers=((HeaderName(b"caf\xe9".decode(errors="surrogateescape")), b"x"),))]
    )
    transport = open_transport(world.settings)
    begin(transport)
    with pytest.raises(RecordsUnreadable, match=r"offset 1 has a header.*kafka\.client = 'kafka-python'"):
        patiently(lambda: bool(transport.read() is None))


# 14. Batches that an output takes


def test_14_a_batch_that_an_output_does_not_take_at_once_goes_in_smaller_ones(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    settings = impatient(world.settings, compression="none")
    limit_output(settings, 60_000)
    values = [uuid.uuid4().bytes * 600 for _ in range(30)]
    world.write(values)
    transport = open_transport(settings)
    source = only(begin(transport))
    records = read_records(transport, 30)
    deliver_all(transport, Batch(records, {source: 30}, snapshot=read_proof(world, transport)))
    assert unique_values(settings) == values


def test_14_an_output_that_takes_less_than_before_is_asked_anew(
    world: KafkaWorld, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    settings = impatient(world.settings, compression="none")
    values = [uuid.uuid4().bytes * 600 for _ in range(30)]
    world.write(values)
    transport = open_transport(settings)
    source = only(begin(transport))
    records = read_records(transport, 30)
    proof = read_proof(world, transport)
    limit_output(settings, 60_000)
    with pytest.raises(DeliveryDoubtful, match=r"no more than 60000 bytes by now .*/0/\d+, has 9\d\d\d bytes"):
        deliver_all(transport, Batch(records, {source: 30}, snapshot=proof))
    successor = open_transport(settings)
    begin(successor)
    deliver_all(successor, Batch(read_records(successor, 31), {source: 31}, snapshot=read_proof(world, successor)))
    assert unique_values(settings) == [*values, b"one more"]


# Keys


def test_records_of_a_key_stay_in_their_partition_whichever_client_writes(kafka: SimpleNamespace) -> None:
    placed = []
    for client in ("kafka-python", CLIENT):
        world = KafkaWorld(kafka.bootstrap_servers, client)
        world.set_up(partitions=5)
        world.write([Stored(b"key %d" % number, b"%d" % number) for number in range(20)])
        transport = world.transport()
        begin(transport)
        for _ in range(20):
            batch = read_batch(transport)
            transport.deliver(batch, [routed(record) for record in batch.records])
            if len(committed := committed_records(kafka.bootstrap_servers, world.settings.topics.unique)) == 20:
                break
        placed.append([record.value for record in committed])
        world.tear_down()
    assert placed[0] == placed[1]


# Both clients in one group


@pytest.mark.parametrize("first", ["kafka-python", CLIENT])
def test_workers_of_either_client_share_a_group_and_deliver_everything_once(
    kafka: SimpleNamespace, first: Client
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, first)
    world.set_up(partitions=2)
    written = [b"%d of %d" % (number, partition) for partition in (0, 1) for number in range(3)]
    for partition in (0, 1):
        world.write(written[3 * partition :][:3], partition)
    other = CLIENT if first == "kafka-python" else "kafka-python"
    workers = [
        KafkaTransport(impatient(world.settings, client=client), str(number))
        for number, client in enumerate((first, other))
    ]

    def turn(worker: KafkaTransport, *, deliver: bool) -> None:
        event = worker.read()
        if isinstance(event, Assigned):
            go_on(worker, event)
        elif deliver and isinstance(event, Batch) and event.records:
            deliver_all(worker, event)

    def only_read(worker: KafkaTransport) -> bool:
        turn(worker, deliver=False)
        return True

    begin(workers[0])
    workers[1].open()
    # Both poll without a pause, as workers do: kafka-python throws a join away that is answered while nobody polls.
    with ThreadPoolExecutor(2) as threads:
        # Nothing is delivered before both own one: what was read until then is read again by whom it belongs to.
        patiently(lambda: all(threads.map(only_read, workers)) and owned(workers) == [1, 1])
        for worker in workers:
            for partition in worker._reader.assignment():
                worker.seek(Source(worker.stream, partition), 0, None)
        all_is_there = Event()

        def work(worker: KafkaTransport) -> None:
            while not all_is_there.is_set():
                turn(worker, deliver=True)

        working = [threads.submit(work, worker) for worker in workers]
        try:
            patiently(lambda: len(unique_values(world.settings)) >= 6)
        finally:
            all_is_there.set()
        for each in working:
            each.result()
    assert owned(workers) == [1, 1]
    assert sorted(value or b"" for value in unique_values(world.settings)) == sorted(written)
    for worker in workers:
        worker.close()
    world.tear_down()


READERS: dict[str, type[KafkaPythonReader] | type[ConfluentReader]] = {
    "kafka-python": KafkaPythonReader,
    CLIENT: ConfluentReader,
}


@pytest.mark.parametrize(("writer", "reader"), [("kafka-python", CLIENT), (CLIENT, "kafka-python"), (CLIENT, CLIENT)])
def test_either_client_reads_the_notes_that_the_other_commits(
    kafka: SimpleNamespace, writer: Client, reader: Client
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, writer)
    world.set_up()
    world.write([b"one", b"two"])
    transport = world.transport(index="1234")
    source = only(begin(transport))
    for restoring in (True, False):
        transport.commit_start({source: 0}, restoring=restoring)
        assert notes_read(world.settings, reader) == {(0, Note(source.stream, "1234", in_use=not restoring))}
    batch = read_batch(transport)
    deliver_all(transport, batch)
    assert notes_read(world.settings, reader) == {(batch.ends[source], Note(source.stream, "1234"))}
    assert claims_of_group(world.settings) == {source: Claim(batch.ends[source], "1234", in_use=True)}
    world.tear_down()


@pytest.mark.parametrize("reader", READERS)
def test_what_another_program_notes_is_no_note_of_ours(kafka: SimpleNamespace, reader: str) -> None:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    at, group = TopicPartition(world.settings.topics.input, 0), world.settings.kafka.group
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.alter_group_offsets(group, {at: OffsetAndMetadata(1, "caf\u00e9 of another program", -1)})
    for offset, note in notes_read(world.settings, reader):
        assert (offset, note.stream) == (1, "caf\u00e9")


def notes_read(settings: Settings, reader: str) -> set[tuple[int, Note]]:
    """Offset and note of partition 0 as a client reads them; it reads past the end of a note only now and then."""
    opened = READERS[reader](impatient(settings, client=reader), "reading", "stream")
    try:
        found = [opened.committed(0) for _ in range(50)]
    finally:
        opened.close()
    return {(at[0], parse_note(at[1])) for at in found if at is not None}


def owned(workers: list[KafkaTransport]) -> list[int]:
    """How many partitions each owns and has begun."""
    return [len(worker._reader.assignment() & worker._begun) for worker in workers]
