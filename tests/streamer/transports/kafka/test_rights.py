"""Every right that is missing, and every timeout that the brokers do not allow, needs a person and is named."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from streamer.errors import SettingsError
from streamer.settings.settings import Kafka, Settings
from streamer.transports.kafka.clients import transaction_ms_max
from streamer.transports.kafka.rights import Resource, rights_of, user_of
from streamer.transports.kafka.topics import create_topics, produce
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.secure_kafka import Right, SecureKafka, documented_rights
from tests.support.transport_worlds import begin, make_settings, patiently, read_batch, routed

# The client leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

REQUIRED = [f"{right.operation} {right.setting}" for right in rights_of(Settings()) if right.required]
ADVISED = [f"{right.operation} {right.setting}" for right in rights_of(Settings()) if not right.required]


def acl_of(settings: Settings, named: str) -> Right:
    """The right with this operation and setting, as a broker takes it."""
    [right] = [right for right in rights_of(settings) if f"{right.operation} {right.setting}" == named]
    kind = right.resource.value.replace("-", "_")
    return Right(right.operation, kind, right.name, prefixed=right.resource is Resource.TRANSACTIONAL_ID)


@dataclass
class Guarded:
    """Topics on the broker that asks, a user with chosen rights, and what a test does with them."""

    broker: SecureKafka
    settings: Settings
    user: str

    def transport(self, **chosen: object) -> KafkaTransport:
        kafka = self.settings.kafka.model_copy(update=chosen)
        return KafkaTransport(self.settings.model_copy(update={"kafka": kafka}), f"{self.settings.kafka.instance}-0")

    def withdraw(self, named: str) -> None:
        self.broker.withdraw(self.user, acl_of(self.settings, named))


@pytest.fixture
def guarded(secure_kafka: SecureKafka) -> Iterator[Callable[..., Guarded]]:
    """Factory: a user with every right that the service uses, without those named."""

    def make(*without: str) -> Guarded:
        settings = make_settings(secure_kafka.open_address)
        create_topics(settings, 1, 1)
        produce(settings, settings.topics.input, [b"one", b"two"])
        user = secure_kafka.make_user()
        kafka = Kafka(**(settings.kafka.model_dump() | secure_kafka.connection("SECURE", user)))
        names = [named for named in (*REQUIRED, *ADVISED) if named not in without]
        secure_kafka.allow(user, [acl_of(settings, named) for named in names])
        return Guarded(secure_kafka, settings.model_copy(update={"kafka": kafka}), user)

    yield make
    gc.collect()


def refused(transport: KafkaTransport) -> str:
    """Last line of a worker that opens and reads."""

    def work() -> None:
        transport.open()
        patiently(lambda: bool(transport.read() and False))

    with pytest.raises(SettingsError) as raised:
        work()
    transport.close()
    assert raised.value.exit_code == os.EX_CONFIG
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_rights_are_those_that_the_documents_allow() -> None:
    settings = Settings()
    assert documented_rights() == {acl_of(settings, named) for named in (*REQUIRED, *ADVISED)}


@pytest.mark.parametrize("named", REQUIRED)
def test_a_right_that_is_missing_is_named_with_its_setting_and_the_user(
    guarded: Callable[..., Guarded], named: str
) -> None:
    made = guarded(named)
    [right] = [right for right in rights_of(made.settings) if f"{right.operation} {right.setting}" == named]
    message = refused(made.transport())
    assert str(right) in message
    assert f"user {made.user!r} (kafka.sasl_username)" in message
    assert "docs/running.md, Rights" in message


def test_all_rights_that_are_missing_on_topics_are_named_at_once(guarded: Callable[..., Guarded]) -> None:
    made = guarded("WRITE topics.unique", "WRITE topics.dead_letter", "READ topics.dead_letter")
    message = refused(made.transport())
    assert "WRITE on topic" in message
    assert "(topics.unique)" in message
    assert "(topics.dead_letter)" in message
    assert "(topics.duplicate)" not in message


def test_without_the_rights_to_look_back_the_service_delivers_and_warns(guarded: Callable[..., Guarded]) -> None:
    made = guarded(*ADVISED)
    transport = made.transport()
    with capture_logs() as logs:
        begin(transport)
        batch = read_batch(transport)
        transport.deliver(batch, [routed(record) for record in batch.records])
    transport.close()
    assert "cannot look for transactions that the broker forgot" in {line["event"] for line in logs}


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize(
    ("key", "value"), [("session_timeout_ms", 500), ("session_timeout_ms", 90_000), ("transaction_timeout_ms", 130_000)]
)
def test_a_timeout_that_the_brokers_do_not_allow_is_named_with_either_client(
    guarded: Callable[..., Guarded], key: str, value: int, client: str
) -> None:
    message = refused(guarded().transport(client=client, **{key: value}))
    assert message.startswith(f"kafka.{key} ({value}): ")
    assert {
        "session_timeout_ms": "group.max.session.timeout.ms",
        "transaction_timeout_ms": "transaction.max.timeout.ms",
    }[key] in message


@pytest.mark.parametrize("named", ["WRITE topics.unique", "WRITE kafka.group, kafka.instance", "READ kafka.group"])
def test_a_right_withdrawn_before_a_delivery_ends_the_worker_for_a_person(
    guarded: Callable[..., Guarded], named: str
) -> None:
    made = guarded()
    transport = made.transport()
    begin(transport)
    batch = read_batch(transport)
    made.withdraw(named)
    with pytest.raises(SettingsError, match=r"does not allow user .*nothing is lost") as raised:
        transport.deliver(batch, [routed(record) for record in batch.records])
    transport.close()
    setting = named.partition(" ")[2]
    assert (
        made.settings.topics.unique in str(raised.value) if "topics" in setting else f"({setting})" in str(raised.value)
    )


@pytest.mark.parametrize("named", ["READ topics.input", "READ kafka.group"])
def test_a_right_withdrawn_while_reading_ends_the_worker_for_a_person(
    guarded: Callable[..., Guarded], named: str
) -> None:
    made = guarded()
    transport = made.transport()
    begin(transport)
    made.withdraw(named)
    with pytest.raises(SettingsError, match="does not allow user") as raised:
        patiently(lambda: bool(transport.read() and False))
    transport.close()
    assert (made.settings.topics.input if "topics" in named else made.settings.kafka.group) in str(raised.value)


def test_the_longest_transaction_is_the_default_to_those_who_may_not_ask(guarded: Callable[..., Guarded]) -> None:
    made = guarded()
    assert transaction_ms_max(made.settings) == 900_000
    made.broker.allow(made.user, [Right("DESCRIBE_CONFIGS", "cluster", "kafka-cluster")])
    assert transaction_ms_max(made.settings) == 120_000


def test_the_user_is_named_by_the_setting_that_makes_him() -> None:
    kafka = Settings().kafka
    assert "anonymous user" in user_of(Kafka())
    shown = kafka.model_copy(update={"ssl_certfile": "client.pem"})
    assert "kafka.ssl_certfile" in user_of(shown)


def test_another_instance_needs_transactional_ids_of_its_own() -> None:
    settings = Settings()
    other = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"instance": "b"})})
    [right] = [right for right in rights_of(other) if right.resource is Resource.TRANSACTIONAL_ID]
    assert right == replace(right, name="neardup:b-")
