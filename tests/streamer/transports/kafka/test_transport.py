"""What of the Kafka seam can be told without a transport: order, portions, topics by hand, errors in plain words."""

import random
import uuid
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import (
    KafkaConfigurationError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

from index.entry import Position, Source
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.records.record import Destination, Headers, Record
from streamer.records.route import parse_position
from streamer.settings.settings import Settings
from streamer.transports.kafka import changelog
from streamer.transports.kafka.changelog import SourceOrder, _portions
from streamer.transports.kafka.clients import broker_errors
from streamer.transports.kafka.topics import create_topics, produce, require_topics
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import KafkaWorld, begin, committed_records, make_settings, read_batch, routed

SOURCES = [Source("stream", number) for number in range(3)]


def record(source: Source, offset: int, size: int = 1) -> Record:
    return Record(source, "documents", offset, None, b"x" * size, 0)


def merged(
    delivered: Sequence[tuple[int, Record]], seed: int, partitions: int = 3, held_bytes_max: int = 2**20
) -> list[Record]:
    """Write the records to their output partitions, read those in turns of random length, merge."""
    logs: list[list[Record]] = [[] for _ in range(partitions)]
    for partition, each in delivered:
        logs[partition].append(each)
    turns = random.Random(seed)
    order = SourceOrder(range(partitions), held_bytes_max)
    found: list[Record] = []
    unread = dict(enumerate(logs))
    while unread:
        partition = turns.choice(list(unread))
        for _ in range(turns.randint(0, 4)):
            if unread[partition]:
                order.add(partition, unread[partition].pop(0))
        if not unread[partition]:
            order.finish(partition)
            del unread[partition]
        found += order.ready()
    return found


DELIVERIES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(SOURCES)), max_size=40)


def numbered(deliveries: Sequence[tuple[int, Source]]) -> list[tuple[int, Record]]:
    return [(partition, record(source, offset)) for offset, (partition, source) in enumerate(deliveries)]


@settings(max_examples=60, deadline=None)
@given(deliveries=DELIVERIES, seed=st.integers(0, 10_000))
def test_the_records_of_a_source_come_in_order_whatever_partitions_they_lie_in(
    deliveries: list[tuple[int, Source]], seed: int
) -> None:
    written = numbered(deliveries)
    found = merged(written, seed)
    for source in SOURCES:
        assert [each for each in found if each.source == source] == [
            each for _, each in written if each.source == source
        ]


@settings(max_examples=60, deadline=None)
@given(deliveries=DELIVERIES, seed=st.integers(0, 10_000))
def test_nothing_is_lost_where_too_much_would_have_to_be_held(deliveries: list[tuple[int, Source]], seed: int) -> None:
    written = numbered(deliveries)
    found = merged(written, seed, held_bytes_max=3)
    assert sorted(found, key=lambda each: each.offset) == [each for _, each in written]


def test_a_record_waits_for_the_partition_that_may_hold_an_earlier_one() -> None:
    order = SourceOrder([0, 1])
    order.add(0, record(SOURCES[0], 5))
    assert list(order.ready()) == []
    order.add(1, record(SOURCES[0], 3))
    assert [each.offset for each in order.ready()] == [3]
    order.finish(1)
    assert [each.offset for each in order.ready()] == [5]


def test_portions_keep_the_bounds_and_never_hold_a_position_twice() -> None:
    one, two = SOURCES[:2]
    records = [record(one, 1), record(two, 1), record(one, 2), record(one, 2), record(one, 3, 90), record(one, 4, 200)]
    portions = [[(each.source.partition, each.offset) for each in portion] for portion in _portions(records, 3, 100)]
    assert portions == [[(0, 1), (1, 1), (0, 2)], [(0, 2), (0, 3)], [(0, 4)]]


def test_an_empty_portion_shows_that_time_passes() -> None:
    assert list(_portions([], 3, 100)) == [[]]


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (KafkaTimeoutError("late"), BrokerUnavailable, "no answer from 127.0.0.1:1 while testing: .*late"),
        (SaslAuthenticationFailedError("no"), SettingsError, "refuses kafka.sasl_username"),
        (TopicAuthorizationFailedError({"documents"}), SettingsError, "does not allow this user.*testing"),
        (KafkaConfigurationError("odd"), SettingsError, "refuses its settings"),
    ],
)
def test_errors_of_the_client_become_ours(raised: Exception, expected: type[Exception], message: str) -> None:
    with pytest.raises(expected, match=message), broker_errors(make_settings(), "testing"):
        raise raised


@pytest.fixture
def fresh(kafka: SimpleNamespace) -> Settings:
    return make_settings(kafka.bootstrap_servers)


@pytest.mark.kafka
def test_topics_are_made_once_and_left_alone_afterwards(fresh: Settings) -> None:
    names = [fresh.topics.input, fresh.topics.unique, fresh.topics.duplicate, fresh.topics.dead_letter]
    assert create_topics(fresh, 2, 1) == dict.fromkeys(names, "created")
    stream = require_topics(fresh)
    assert create_topics(fresh, 3, 1) == dict.fromkeys(names, "exists")
    assert require_topics(fresh) == stream
    assert uuid.UUID(stream).int != 0


@pytest.mark.kafka
def test_more_replicas_than_brokers_are_refused_in_plain_words(fresh: Settings) -> None:
    with pytest.raises(SettingsError, match=r"refuses to create topic 'documents-.*[Rr]eplication"):
        create_topics(fresh, 1, 3)


@pytest.mark.kafka
def test_the_loader_writes_every_value_in_order(fresh: Settings) -> None:
    create_topics(fresh, 1, 1)
    values = [f"document {number}".encode() for number in range(6_000)]
    assert produce(fresh, fresh.topics.input, iter(values)) == 6_000
    found = committed_records(fresh.kafka.bootstrap_servers[0], fresh.topics.input)
    assert [each.value for each in found] == values


@pytest.mark.kafka
def test_the_loader_makes_no_topic(fresh: Settings) -> None:
    with pytest.raises(SettingsError, match=r"no topic 'documents-.*streamer topics create"):
        produce(fresh, fresh.topics.input, [b"document"])
    with pytest.raises(SettingsError, match="no topic"):
        require_topics(fresh)


@pytest.mark.kafka
def test_the_loader_tells_how_many_were_written_before_one_was_refused(fresh: Settings) -> None:
    create_topics(fresh, 1, 1)
    with pytest.raises(BrokerUnavailable, match="0 records were written"):
        produce(fresh, fresh.topics.input, [b"x" * (fresh.kafka.request_bytes_max + 1)])


@pytest.mark.kafka
def test_a_lost_tail_is_found_from_the_end_without_reading_the_whole_output(
    kafka: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up(partitions=2, records_max=10)
    for partition in (0, 1):
        world.write([Stored(f"{number}".encode(), b"document") for number in range(200)], partition=partition)
    transport = world.transport()
    sources = begin(transport).sources
    delivered = 0
    while delivered < 400:
        batch = read_batch(transport)
        transport.deliver(batch, [routed(each) for each in batch.records])
        delivered += len(batch.records)
    monkeypatch.setattr(changelog, "STRETCH_OFFSETS", 8)
    parsed: list[object] = []

    def parse_and_count(headers: Headers) -> Position | None:
        parsed.append(headers)
        return parse_position(headers)

    monkeypatch.setattr(changelog, "parse_position", parse_and_count)
    for starts in ((0, 190), (1, 1), (150, 60), (195, 198), (200, 200)):
        parsed.clear()
        ranges = {source: range(start, 1_000) for source, start in zip(sources, starts, strict=True)}
        found = [each for portion in transport.changelog(ranges, [Destination.UNIQUE]) for each in portion]
        for source in sources:
            assert [each.offset for each in found if each.source == source] == list(range(ranges[source].start, 200))
    only_last = {transport_tail(world): range(195, 1_000)}
    parsed.clear()
    assert sum(len(portion) for portion in transport.changelog(only_last, [Destination.UNIQUE])) == 5
    assert len(parsed) < 400, "the whole output was read"
    world.tear_down()


def transport_tail(world: KafkaWorld) -> Source:
    """The source whose records were delivered last."""
    found = committed_records(world.settings.kafka.bootstrap_servers[0], world.settings.topics.unique)
    position = parse_position(found[-1].headers)
    assert position is not None
    return position.source
