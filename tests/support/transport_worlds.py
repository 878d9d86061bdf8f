"""Two worlds that one contract suite runs in: a broker in memory, and a real Apache Kafka."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Literal, Protocol

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource

from index.entry import Source, Verdict
from streamer.records.record import Batch, Decision, Destination, Headers, Outgoing, Record
from streamer.records.route import POSITION, STREAM
from streamer.settings.settings import Batching, Decode, Kafka, Settings, Topics, Workers
from streamer.transports.kafka.clients import make_admin, make_loader, topic_settings
from streamer.transports.kafka.topics import create_topics
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned, Finished, Transport
from tests.support.memory_broker import MemoryBroker, MemoryTransport, Stored
from tests.support.null_values import NULL_VALUE, NullValueSerializer

PATIENCE_SECONDS = 60.0
MARKING_SECONDS = 5.0

Client = Literal["kafka-python", "confluent-kafka"]


def make_settings(bootstrap_servers: str = "127.0.0.1:1", client: Client = "kafka-python", **batch: int) -> Settings:
    """Settings with topics and a group of their own, and short timeouts."""
    unique = uuid.uuid4().hex[:12]
    return Settings(
        kafka=Kafka(
            client=client,
            bootstrap_servers=[bootstrap_servers],
            group=f"group-{unique}",
            session_timeout_ms=2_000,
            request_timeout_ms=4_000,
            delivery_timeout_ms=6_000,
            transaction_timeout_ms=10_000,
            max_poll_interval_ms=200_000,
        ),
        topics=Topics(
            input=f"documents-{unique}",
            unique=f"unique-{unique}",
            duplicate=f"duplicate-{unique}",
            dead_letter=f"dead-letter-{unique}",
        ),
        batch=Batching(wait_ms=100, **batch),
        decode=Decode(value_bytes_max=min(batch.get("bytes_max", 2**20), 2**20)),
        workers=Workers(progress_timeout_ms=8_000),
    )


def configure_topic(settings: Settings, name: str, chosen: Mapping[str, str]) -> None:
    """Give a topic settings, and wait until the broker that answers and checks has taken them over."""
    with make_admin(settings) as admin:
        admin.alter_configs([ConfigResource("topic", name, dict(chosen))])
        patiently(lambda: topic_settings(admin, [name], chosen) == {name: dict(chosen)})


class World(Protocol):
    """Actions of a contract test besides those of transports."""

    settings: Settings

    def set_up(self, partitions: int = 1, **batch: int) -> None: ...
    def transport(self, instance: str = "0", index: str = "") -> Transport: ...
    def write(self, records: Iterable[Stored | bytes], partition: int = 0) -> None: ...
    def write_with_gap(self, first: Sequence[bytes], second: Sequence[bytes]) -> None: ...
    def delivered(self, destination: Destination) -> list[Stored]: ...
    def delete_before(self, offset: int) -> None: ...
    def make_input_anew(self) -> None: ...
    def expel(self, instance: str) -> None: ...
    def read_all(self, transports: Mapping[str, Transport]) -> dict[str, Batch | Assigned | Finished]: ...
    def tear_down(self) -> None: ...


class MemoryWorld:
    """Everything in memory."""

    def __init__(self) -> None:
        self.settings = make_settings()
        self._broker = MemoryBroker()

    def set_up(self, partitions: int = 1, **batch: int) -> None:
        self.settings = make_settings(**batch)
        self._broker.create_for(self.settings, partitions)

    def transport(self, instance: str = "0", index: str = "") -> Transport:
        return MemoryTransport(self._broker, self.settings, instance, index)

    def write(self, records: Iterable[Stored | bytes], partition: int = 0) -> None:
        self._broker.write(self.settings.topics.input, partition, records)

    def write_with_gap(self, first: Sequence[bytes], second: Sequence[bytes]) -> None:
        self.write(first)
        self._broker.skip(self.settings.topics.input, 0)
        self.write(second)
        self._broker.skip(self.settings.topics.input, 0)

    def delivered(self, destination: Destination) -> list[Stored]:
        return self._broker.records(topic(self.settings, destination))

    def delete_before(self, offset: int) -> None:
        self._broker.delete_before(self.settings.topics.input, 0, offset)

    def make_input_anew(self) -> None:
        self._broker.create(self.settings.topics.input)

    def expel(self, instance: str) -> None:
        self._broker.expel(self.settings.kafka.group, instance)

    def read_all(self, transports: Mapping[str, Transport]) -> dict[str, Batch | Assigned | Finished]:
        return {name: transport.read() for name, transport in transports.items()}

    def tear_down(self) -> None:
        pass


class KafkaWorld:
    """Topics and groups of a real broker, by either client."""

    def __init__(self, bootstrap_servers: str, client: Client = "kafka-python") -> None:
        self.settings = make_settings(bootstrap_servers, client)
        self._client = client
        self._bootstrap_servers = bootstrap_servers
        self._transports: list[Transport] = []

    def set_up(self, partitions: int = 1, **batch: int) -> None:
        self.settings = make_settings(self._bootstrap_servers, self._client, **batch)
        create_topics(self.settings, partitions, 1)

    def transport(self, instance: str = "0", index: str = "") -> Transport:
        self._transports.append(KafkaTransport(self.settings, instance, index))
        return self._transports[-1]

    def write(self, records: Iterable[Stored | bytes], partition: int = 0) -> None:
        with closing(make_loader(self.settings)) as producer:
            producer.config["value_serializer"] = NullValueSerializer()
            sent = [
                producer.send(
                    self.settings.topics.input,
                    value=NULL_VALUE if record.value is None else record.value,
                    key=record.key,
                    headers=[(name, value or b"") for name, value in record.headers],
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in (each if isinstance(each, Stored) else Stored(None, each) for each in records)
            ]
            producer.flush()
            for future in sent:
                future.get(timeout=0)

    def write_with_gap(self, first: Sequence[bytes], second: Sequence[bytes]) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap_servers, transactional_id=str(uuid.uuid4()))
        producer.init_transactions()
        for values in (first, second):
            producer.begin_transaction()
            for value in values:
                producer.send(self.settings.topics.input, value=value, partition=0)
            producer.flush()
            producer.commit_transaction()
        producer.close()

    def delivered(self, destination: Destination) -> list[Stored]:
        return committed_records(self._bootstrap_servers, topic(self.settings, destination))

    def delete_before(self, offset: int) -> None:
        with KafkaAdminClient(bootstrap_servers=self._bootstrap_servers) as admin:
            admin.delete_records({TopicPartition(self.settings.topics.input, 0): offset})

    def make_input_anew(self) -> None:
        with KafkaAdminClient(bootstrap_servers=self._bootstrap_servers) as admin:
            admin.delete_topics([self.settings.topics.input])
        patiently(lambda: create_topics(self.settings, 1, 1)[self.settings.topics.input] == "created")

    def expel(self, instance: str) -> None:
        """Wait for the session timeout: the transport of that instance is closed, and sends no heartbeats."""

    def read_all(self, transports: Mapping[str, Transport]) -> dict[str, Batch | Assigned | Finished]:
        # At the same time, as workers do: the client throws a join away that is answered while nobody polls.
        with ThreadPoolExecutor(len(transports)) as threads:
            return dict(zip(transports, threads.map(lambda each: each.read(), transports.values()), strict=True))

    def tear_down(self) -> None:
        for transport in self._transports:
            transport.close()


def topic(settings: Settings, destination: Destination) -> str:
    """Name of the output topic."""
    topics = settings.topics
    names = {Destination.UNIQUE: topics.unique, Destination.DUPLICATE: topics.duplicate}
    return names.get(destination, topics.dead_letter)


def committed_records(bootstrap_servers: str, name: str) -> list[Stored]:
    """Records of a topic as another reader sees them, partition after partition.

    The broker answers a commit before it has marked the partitions, and readers see the records after that. So a
    transaction that seems open is waited for; one that stays open for MARKING_SECONDS is left out, as by any reader.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    )
    try:
        partitions = [TopicPartition(name, number) for number in sorted(consumer.partitions_for_topic(name))]
        with KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as careless:
            appended = careless.end_offsets(partitions)
        marked_by = time.monotonic() + MARKING_SECONDS
        while (ends := consumer.end_offsets(partitions)) != appended and time.monotonic() < marked_by:
            time.sleep(0.05)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        found: dict[TopicPartition, list[Stored]] = {partition: [] for partition in partitions}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any((consumer.position(partition) or 0) < ends[partition] for partition in partitions):
            assert time.monotonic() < deadline, f"{name} cannot be read to its end"
            for partition, records in consumer.poll(timeout_ms=100).items():
                found[partition] += [
                    Stored(record.key, record.value, record.timestamp, tuple(record.headers)) for record in records
                ]
        return [record for partition in partitions for record in found[partition]]
    finally:
        consumer.close()


def patiently(condition: Callable[[], bool]) -> None:
    """Try until the condition holds. Fails after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def read_assigned(transport: Transport) -> Assigned:
    """Read until sources are assigned; no record may come before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        event = transport.read()
        if isinstance(event, Assigned):
            return event
        assert isinstance(event, Batch)
        assert not event.records, "records came before their source was assigned"
    raise AssertionError("no source was assigned")


def begin(transport: Transport, offset: int | None = None) -> Assigned:
    """Open, wait for sources, and begin each at `offset`, else where it is committed, else at its first record."""
    transport.open()
    assigned = read_assigned(transport)
    go_on(transport, assigned, offset)
    return assigned


def go_on(transport: Transport, assigned: Assigned, offset: int | None = None) -> None:
    """Begin each assigned source at `offset`, else where it is committed, else at its first record."""
    committed = transport.committed(assigned.sources)
    first = transport.first_offsets(assigned.sources)
    for source in assigned.sources:
        known = committed[source]
        transport.seek(source, offset if offset is not None else first[source] if known is None else known, None)


def read_batch(transport: Transport) -> Batch:
    """Read until a batch has records."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        event = transport.read()
        assert isinstance(event, Batch), f"{event} instead of a batch"
        if event.records:
            return event
    raise AssertionError("no record came")


def read_records(transport: Transport, count: int) -> list[Record]:
    """Read until this many records have come. Returns all of them, in order."""
    records: list[Record] = []
    while len(records) < count:
        records += read_batch(transport).records
    return records


def routed(record: Record, destination: Destination = Destination.UNIQUE, headers: Headers = ()) -> Outgoing:
    """Outgoing record with the headers that name its position."""
    named: Headers = ((POSITION, record.position.encode()), (STREAM, record.source.stream.encode()))
    return Outgoing(destination, record, record.headers + headers + named, Decision(Verdict.UNIQUE, "no-match", None))


def only(assigned: Assigned) -> Source:
    """The one source that was assigned."""
    (source,) = assigned.sources
    return source


def group_is_empty(settings: Settings) -> bool:
    """Whether no member is left."""
    with KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers) as admin:
        (group,) = admin.describe_groups([settings.kafka.group]).values()
        return not group["members"]


def impatient(settings: Settings, **chosen: object) -> Settings:
    """The same settings with others of `kafka`, such as its timeouts."""
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update=chosen)})


def deliver_all(transport: Transport, batch: Batch) -> None:
    """Deliver a batch as unique."""
    transport.deliver(batch, [routed(record) for record in batch.records])


def unique_values(settings: Settings) -> list[bytes | None]:
    """Values of the unique output, as another reader sees them."""
    found = committed_records(settings.kafka.bootstrap_servers[0], settings.topics.unique)
    return [record.value for record in found]
