"""What the client says in place of records."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streamer.errors import DeliveryDoubtful
from streamer.settings.settings import Settings
from streamer.transports.kafka.confluent.reader import ConfluentReader


@pytest.fixture
def reader() -> Iterator[ConfluentReader]:
    """A client without a broker."""
    made = ConfluentReader(Settings(), "0", "stream")
    yield made
    made.close()


def message(error: KafkaError) -> Any:
    return SimpleNamespace(error=lambda: error, partition=lambda: 0)


FENCED = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaError(KafkaError._FATAL, FENCED), "reads no more: Fatal error: Broker: Static consumer fenced"),
        (KafkaError(KafkaError._ALL_BROKERS_DOWN, "gone", True), "reads no more: gone"),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID), "another worker runs as instance '0'"),
    ],
)
def test_a_client_at_its_end_ends_the_worker_before_its_partitions_begin(
    reader: ConfluentReader, error: KafkaError, words: str
) -> None:
    """The client would go on without a word, and the worker would wait for its partitions for ever."""
    with pytest.raises(DeliveryDoubtful, match=words):
        reader._records([message(error)])


def test_a_client_that_recovers_by_itself_ends_nothing(reader: ConfluentReader) -> None:
    assert reader._records([message(KafkaError(KafkaError._ALL_BROKERS_DOWN))]) == {}
