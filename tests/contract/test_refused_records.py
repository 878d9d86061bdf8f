"""Records that an output's settings refuse need a person: the topic and its setting are named; on a real broker."""

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from streamer.errors import SettingsError
from streamer.records.record import Destination
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import CLEANUP_POLICY, TIMESTAMP_AFTER, TIMESTAMP_BEFORE
from streamer.transports.kafka.topics import produce
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import Client, KafkaWorld, begin, configure_topic, read_batch, routed, topic

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
FAR_AHEAD_MS = 2**62


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize("destination", list(Destination))
@pytest.mark.parametrize(
    ("changed", "keys", "time_ms", "words"),
    [
        ({CLEANUP_POLICY: "compact"}, (None,), 0, r"cleanup\.policy = compact.*without a key.*/0/0"),
        ({CLEANUP_POLICY: "compact,delete"}, (b"key", b"key", None), 0, r"cleanup\.policy = compact,delete.*/0/2"),
        ({TIMESTAMP_BEFORE: str(HOUR_MS)}, (b"key",), -2 * HOUR_MS, r"before\.max\.ms = 3600000"),
        ({TIMESTAMP_AFTER: str(HOUR_MS)}, (b"key", None), 2 * HOUR_MS, r"after\.max\.ms = 3600000"),
    ],
)
def test_what_an_output_refuses_for_its_settings_needs_a_person(
    kafka: SimpleNamespace,
    client: Client,
    open_transport: Callable[[Settings], KafkaTransport],
    destination: Destination,
    changed: Mapping[str, str],
    keys: tuple[bytes | None, ...],
    time_ms: int,
    words: str,
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, client)
    world.set_up()
    configure_topic(world.settings, world.settings.topics.input, {TIMESTAMP_AFTER: str(FAR_AHEAD_MS)})
    output = topic(world.settings, destination)
    configure_topic(world.settings, output, changed)
    world.write([Stored(key, b"value", now_ms() + time_ms) for key in keys])
    transport = open_transport(world.settings)
    begin(transport)
    batch = read_batch(transport)
    assert len(batch.records) == len(keys)
    with pytest.raises(SettingsError, match=rf"topic '{output}' has .*{words}"):
        transport.deliver(batch, [routed(record, destination) for record in batch.records])
    assert world.delivered(destination) == []


def test_what_an_input_refuses_for_its_settings_needs_a_person(kafka: SimpleNamespace) -> None:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    name = world.settings.topics.input
    configure_topic(world.settings, name, {CLEANUP_POLICY: "compact"})
    with pytest.raises(SettingsError, match=rf"refuses a record for topic '{name}'.*without key.*cleanup\.policy"):
        produce(world.settings, name, [b"value"])
