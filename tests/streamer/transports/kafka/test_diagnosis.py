"""What `streamer doctor` asks the brokers, against a real one that guards its topics; and that asking changes nothing."""

import gc
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.parts import PARTS, settings_of
from streamer.settings.settings import Kafka, Settings
from streamer.transports.kafka.diagnosis import Facts, codecs, diagnose
from streamer.transports.kafka.handshake import Greeting, greetings, own_certificate_expires
from streamer.transports.kafka.rights import Resource, rights_of
from streamer.transports.kafka.topics import create_topics, produce
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.secure_kafka import Right, SecureKafka
from tests.support.transport_worlds import begin, committed_records, make_settings, read_batch, routed

# The client leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def guarded(secure_kafka: SecureKafka) -> Callable[..., Settings]:
    """Factory of settings of a user with every right but those numbered, on topics of their own."""

    def make(*without: int, **changed: object) -> Settings:
        settings = make_settings(secure_kafka.open_address)
        create_topics(settings, 3, 1)
        user = secure_kafka.make_user()
        secure_kafka.allow(
            user,
            [
                Right(
                    right.operation,
                    right.resource.value.replace("-", "_"),
                    right.name,
                    prefixed=right.resource is Resource.TRANSACTIONAL_ID,
                )
                for number, right in enumerate(rights_of(settings))
                if number not in without
            ],
        )
        kafka = Kafka(**(settings.kafka.model_dump() | secure_kafka.connection("SECURE", user) | changed))
        return settings.model_copy(update={"kafka": kafka})

    return make


@pytest.mark.parametrize(
    "number", range(len(rights_of(Settings()))), ids=[str(right) for right in rights_of(Settings())]
)
def test_exactly_the_right_that_is_missing_is_withheld(guarded: Callable[..., Settings], number: int) -> None:
    settings = guarded(number)
    facts = diagnose(settings)
    missing = rights_of(settings)[number]
    assert list(facts.withheld) == [missing]
    untried = {
        Resource.GROUP: ["kafka.session_timeout_ms"],
        Resource.TRANSACTIONAL_ID: ["kafka.transaction_timeout_ms"],
    }
    assert list(facts.untried) == untried.get(missing.resource, [])


@pytest.mark.parametrize(
    ("key", "value"), [("session_timeout_ms", 500), ("session_timeout_ms", 90_000), ("transaction_timeout_ms", 130_000)]
)
def test_a_timeout_that_the_brokers_do_not_allow_is_refused(
    guarded: Callable[..., Settings], key: str, value: int
) -> None:
    assert list(diagnose(guarded(**{key: value})).refused) == [f"kafka.{key}"]


def test_topics_tell_their_settings_to_those_who_may_ask(
    guarded: Callable[..., Settings], secure_kafka: SecureKafka
) -> None:
    settings = guarded()
    unique = settings.topics.unique
    hidden = diagnose(settings).topics[unique]
    assert hidden is not None
    assert hidden.settings is None
    assert settings.kafka.sasl_username is not None
    secure_kafka.allow(settings.kafka.sasl_username, [Right("DESCRIBE_CONFIGS", "topic", unique)])
    told = diagnose(settings).topics[unique]
    assert told is not None
    assert (told.partitions, told.replicas) == (3, 1)
    assert told.settings is not None
    assert told.settings["cleanup.policy"] == "delete"
    assert told.settings["max.message.bytes"] == str(settings.kafka.request_bytes_max)
    assert set(told.settings) >= {"min.insync.replicas", "retention.ms", "retention.bytes"}


def test_a_topic_that_is_missing_is_told(secure_kafka: SecureKafka) -> None:
    settings = make_settings(secure_kafka.open_address)
    facts = diagnose(settings)
    assert set(facts.topics.values()) == {None}
    assert list(facts.withheld) == []


def test_the_latest_time_of_a_record_of_any_partition_is_told(
    guarded: Callable[..., Settings], secure_kafka: SecureKafka
) -> None:
    settings = guarded()
    assert diagnose(settings).newest_ms is None
    with KafkaProducer(bootstrap_servers=secure_kafka.open_address) as producer:
        for partition, time_ms in ((0, 1_000), (1, 1_700_000_000_000), (1, 2_000)):
            producer.send(settings.topics.input, b"x", partition=partition, timestamp_ms=time_ms).get(timeout=20)
    assert diagnose(settings).newest_ms == 1_700_000_000_000


def test_asking_disturbs_neither_a_transaction_nor_the_group(
    guarded: Callable[..., Settings], secure_kafka: SecureKafka
) -> None:
    settings = guarded()
    produce(make_open(settings, secure_kafka), settings.topics.input, [b"one", b"two"])
    transport = KafkaTransport(settings, f"{settings.kafka.instance}-0")
    begin(transport)
    batch = read_batch(transport)
    before = transport._reader.consumer.group_metadata()
    producer = transport._writer.producer.client
    producer.begin_transaction()
    producer.send(settings.topics.unique, value=b"delivered").get(timeout=10)
    told = diagnose(settings)
    assert told == Facts((), told.topics, (), (), told.newest_ms)
    producer.commit_transaction()
    transport.deliver(batch, [routed(record) for record in batch.records])
    assert transport.read() is not None
    assert transport._reader.consumer.group_metadata() == before
    transport.close()
    delivered = committed_records(secure_kafka.open_address, settings.topics.unique)
    assert {record.value for record in delivered} >= {b"delivered", b"one"}


def make_open(settings: Settings, secure_kafka: SecureKafka) -> Settings:
    open_to_all = make_settings(secure_kafka.open_address).kafka
    return settings.model_copy(update={"kafka": open_to_all})


def test_every_broker_is_greeted(guarded: Callable[..., Settings], secure_kafka: SecureKafka) -> None:
    address = secure_kafka.address("SECURE")
    settings = guarded(bootstrap_servers=["127.0.0.1:1", address])
    found = dict(greetings(settings.kafka))
    assert list(found) == ["127.0.0.1:1", address]
    assert isinstance(found["127.0.0.1:1"], BrokerUnavailable)
    assert isinstance(found[address], Greeting)


def test_a_certificate_of_ones_own_tells_when_it_ends(secure_kafka: SecureKafka) -> None:
    held = secure_kafka.certificates
    settings = make_settings()

    def showing(**changed: object) -> Settings:
        kafka = Kafka(**(settings.kafka.model_dump() | secure_kafka.connection("MUTUAL") | changed))
        return settings.model_copy(update={"kafka": kafka})

    assert own_certificate_expires(settings.kafka) is None
    expires = own_certificate_expires(showing().kafka)
    assert expires is not None
    assert expires > 4e9
    with pytest.raises(SettingsError, match=r"kafka.ssl_certfile: .*: certificate has expired"):
        own_certificate_expires(showing(ssl_certfile=held.expired_client, ssl_keyfile=held.expired_client_key).kafka)


def test_all_codecs_are_there() -> None:
    assert set(codecs().values()) == {True}


def test_groups_and_transactional_ids_of_parts_are_tried_where_their_topics_are_there(
    secure_kafka: SecureKafka,
) -> None:
    settings = make_settings(secure_kafka.open_address)
    between = {key: f"{settings.kafka.group}-{key}" for key in ("fingerprints", "verdicts")}
    settings = settings.model_copy(update={"topics": settings.topics.model_copy(update=between)})
    create_topics(settings, 1, 1, parts=True)
    user = secure_kafka.make_user()
    of_part = {part: rights_of(settings_of(settings, part)) for part in PARTS}
    missing = {
        right
        for part in ("fingerprint", "decide")
        for right in of_part[part]
        if right.resource is (Resource.GROUP if part == "decide" else Resource.TRANSACTIONAL_ID)
    }
    secure_kafka.allow(
        user,
        [
            Right(
                right.operation,
                right.resource.value.replace("-", "_"),
                right.name,
                prefixed=right.resource is Resource.TRANSACTIONAL_ID,
            )
            for right in {right for rights in of_part.values() for right in rights} - missing
        ],
    )
    kafka = Kafka(**(settings.kafka.model_dump() | secure_kafka.connection("SECURE", user)))
    facts = diagnose(settings.model_copy(update={"kafka": kafka}))
    assert set(facts.withheld_from_parts) == missing
    assert not facts.withheld
