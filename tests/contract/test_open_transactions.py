"""Restoring from a real broker while a transaction is open in the outputs: what was delivered behind it is not missed."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from kafka import KafkaProducer

from streamer.errors import TransactionHanging
from streamer.records.record import Destination
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import transaction_ms_max
from streamer.transports.kafka.transactions import open as open_transactions
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.transport_worlds import KafkaWorld, begin, only, read_batch, routed

VALUES = [b"zero", b"one", b"two"]


@pytest.fixture
def settings(kafka: SimpleNamespace) -> Settings:
    """Settings of a group whose input holds VALUES."""
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    world.write(VALUES)
    return world.settings


def left_open(settings: Settings) -> KafkaProducer:
    """Producer with a record in the unique topic and its transaction open, as a worker leaves it that was killed."""
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers, transactional_id=f"{settings.kafka.group}-other"
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(settings.topics.unique, value=b"open", partition=0).get(timeout=10)
    return producer


def test_what_was_delivered_behind_an_open_transaction_is_restored_once_it_has_ended(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport]
) -> None:
    other = left_open(settings)
    transport = open_transport(settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    transport.deliver(batch, [routed(record) for record in batch.records])
    portions = transport.changelog({source: range(10)}, [Destination.UNIQUE])
    for _ in range(5):
        assert next(portions) == [], "restoring went on without what the transaction hides"
    other.abort_transaction()
    assert [record.value for portion in portions for record in portion] == VALUES
    other.close()


def test_an_open_transaction_that_never_ends_stops_restoring_with_what_to_do(
    settings: Settings, open_transport: Callable[[Settings], KafkaTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions.clients, "transaction_ms_max", lambda settings: 0)
    monkeypatch.setattr(open_transactions, "OPEN_MARGIN_SECONDS", 0.5)
    other = left_open(settings)
    transport = open_transport(settings)
    source = only(begin(transport))
    started = time.monotonic()
    with pytest.raises(TransactionHanging, match=f"--topic {settings.topics.unique} --partition 0 --start-offset 0"):
        list(transport.changelog({source: range(10)}, [Destination.UNIQUE]))
    assert time.monotonic() - started > 0.5
    other.abort_transaction()
    other.close()


def test_the_brokers_say_how_long_a_transaction_may_last(settings: Settings) -> None:
    assert transaction_ms_max(settings) == 900_000
