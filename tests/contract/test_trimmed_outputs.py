"""Outputs on a real broker that have lost records: what may be missing when an index is restored from them."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, TopicPartition

from index.entry import Source
from streamer.records.record import Destination
from streamer.settings.settings import Settings
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Trimmed
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import KafkaWorld, begin, configure_topic, only, read_batch, routed

Delivered = tuple[Settings, KafkaTransport, Source]


@pytest.fixture
def delivered(kafka: SimpleNamespace, open_transport: Callable[[Settings], KafkaTransport]) -> Delivered:
    """Ten records of one source, delivered at the offsets 0 to 9 of the unique topic, with the times 1,000 to 1,009."""
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    world.write(Stored(None, b"document", 1_000 + number) for number in range(10))
    transport = open_transport(world.settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    assert len(batch.records) == 10
    transport.deliver(batch, [routed(record) for record in batch.records])
    return world.settings, transport, source


def delete_before(settings: Settings, offset: int) -> None:
    with KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(settings.topics.unique, 0): offset})


def parts(delivered: Delivered, wanted: range) -> list[Trimmed]:
    _, transport, source = delivered
    return [part for part in transport.trimmed({source: wanted}, [Destination.UNIQUE]) if part is not None]


def test_a_whole_output_is_not_told_of(delivered: Delivered) -> None:
    assert parts(delivered, range(10)) == []


def test_an_output_that_begins_behind_its_first_record_is_told_of_with_the_time_of_what_is_left(
    delivered: Delivered,
) -> None:
    settings, _, source = delivered
    delete_before(settings, 4)
    (part,) = parts(delivered, range(10))
    assert part.place == f"{settings.topics.unique}/0"
    assert part.why == "begins at offset 4 now: what stood before was deleted"
    assert part.sources == (source,)
    assert part.first_time_ms == 1_004


def test_an_output_that_still_has_a_record_from_before_the_range_lacks_nothing_of_it(delivered: Delivered) -> None:
    delete_before(delivered[0], 4)
    assert parts(delivered, range(5, 10)) == []
    assert len(parts(delivered, range(4, 10))) == 1


def test_an_output_of_which_nothing_is_left_is_told_of(delivered: Delivered) -> None:
    delete_before(delivered[0], 10)
    (part,) = parts(delivered, range(5, 10))
    assert part.first_time_ms is None


def test_an_output_that_keeps_one_record_of_a_key_is_told_of(delivered: Delivered) -> None:
    settings, _, source = delivered
    configure_topic(settings, settings.topics.unique, {"cleanup.policy": "compact,delete"})
    (part,) = parts(delivered, range(10))
    assert (part.place, part.sources) == (settings.topics.unique, (source,))
    assert "cleanup.policy" in part.why
