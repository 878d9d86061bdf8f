"""The contract of `streamer.transports.transport`, held by the transport in memory and by the one over a real Apache Kafka.

Whatever the tests of service and recovery find out with the broker in memory is worth as much as this suite.
"""

from collections.abc import Iterator, Sequence

import pytest

from index.entry import Position, Source
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Batch, Destination
from streamer.transports.transport import Assigned, Claim, Transport
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import (
    KafkaWorld,
    MemoryWorld,
    World,
    begin,
    go_on,
    only,
    patiently,
    read_assigned,
    read_batch,
    read_records,
    routed,
)

KAFKA_PYTHON = pytest.param("kafka-python", marks=pytest.mark.kafka)
CONFLUENT_KAFKA = pytest.param("confluent-kafka", marks=pytest.mark.kafka)


@pytest.fixture(params=["memory", KAFKA_PYTHON])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = MemoryWorld()
    if request.param != "memory":
        made = KafkaWorld(request.getfixturevalue("kafka").bootstrap_servers, request.param)
    yield made
    made.tear_down()


with_either_client = pytest.mark.parametrize("world", ["memory", KAFKA_PYTHON, CONFLUENT_KAFKA], indirect=True)
"""For what a client behind the seam does; what the transport does for both clients is tested with one of them."""


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [f"document {number}".encode() for number in range(first, first + count)]


def values(batch: Batch) -> list[bytes | None]:
    return [record.value for record in batch.records]


def reading(
    world: World, written: Sequence[Stored | bytes], offset: int | None = None, **chosen: int
) -> tuple[Transport, Assigned]:
    """A transport that reads what was written into a new input, and its sources. chosen: partitions and bounds of a batch."""
    world.set_up(**chosen)
    world.write(written)
    transport = world.transport()
    return transport, begin(transport, offset)


def test_a_missing_topic_is_named_with_the_command_that_makes_it(world: World) -> None:
    with pytest.raises(SettingsError, match=r"documents-.*streamer topics create"):
        world.transport().open()


def test_sources_are_assigned_before_any_record_is_read(world: World) -> None:
    world.set_up(partitions=3)
    world.write(numbered(5))
    transport = world.transport()
    transport.open()
    assigned = read_assigned(transport)
    assert [source.partition for source in assigned.sources] == [0, 1, 2]
    assert assigned.names == {assigned.sources[0].stream: world.settings.topics.input}
    assert len({source.stream for source in assigned.sources}) == 1


@with_either_client
def test_sources_are_assigned_again_and_nothing_is_read_before_each_is_sought_even_where_offsets_are_committed(
    world: World,
) -> None:
    world.set_up(partitions=2)
    world.write(numbered(3), partition=0)
    world.write(numbered(3), partition=1)
    first = world.transport()
    assigned = begin(first)
    for source in assigned.sources:
        first.commit_start({source: 1})
    first.close()
    transport = world.transport()
    transport.open()
    assigned = read_assigned(transport)
    for _ in range(3):
        assert transport.read() == assigned
    transport.seek(assigned.sources[1], 0, None)
    for _ in range(3):
        event = transport.read()
        assert isinstance(event, Assigned)
        assert (event.sources, event.others) == (assigned.sources[:1], assigned.sources[1:])
    transport.seek(assigned.sources[0], 2, None)
    records = read_records(transport, 4)
    assert sorted((record.source, record.offset) for record in records) == [
        (assigned.sources[0], 2),
        *((assigned.sources[1], offset) for offset in range(3)),
    ]


@with_either_client
def test_records_of_a_source_come_in_offset_order_and_once(world: World) -> None:
    world.set_up(partitions=2, records_max=7)
    world.write(numbered(30), partition=0)
    world.write(numbered(30, first=100), partition=1)
    transport = world.transport()
    assigned = begin(transport)
    records = read_records(transport, 60)
    for source, first in zip(assigned.sources, (0, 100), strict=True):
        mine = [record for record in records if record.source == source]
        assert [record.offset for record in mine] == list(range(30))
        assert [record.value for record in mine] == numbered(30, first)
        assert {record.topic for record in mine} == {world.settings.topics.input}


def test_a_full_batch_at_hand_can_be_peeked_at_and_is_read_next(world: World) -> None:
    transport, _ = reading(world, numbered(12), records_max=5)
    found = [read_batch(transport)]
    assert (upcoming := transport.peek()) is not None
    assert (upcoming.snapshot, values(upcoming)) == (None, numbered(5, 5))
    transport.deliver(found[0], [routed(record) for record in found[0].records])
    found.append(read_batch(transport))
    assert found[1].records is upcoming.records
    assert found[1].ends == upcoming.ends
    transport.deliver(found[1], [routed(record) for record in found[1].records])
    assert transport.peek() is None
    found.append(read_batch(transport))
    assert [value for batch in found for value in values(batch)] == numbered(12)


def test_what_was_peeked_at_is_forgotten_where_its_source_is_sought_anew(world: World) -> None:
    transport, assigned = reading(world, numbered(9), records_max=3)
    source = only(assigned)
    read_batch(transport)
    assert (upcoming := transport.peek()) is not None
    assert values(upcoming) == numbered(3, 3)
    transport.seek(source, 1, None)
    assert values(read_batch(transport)) == numbered(3, 1)


@with_either_client
def test_reading_begins_at_the_offset_that_seek_names(world: World) -> None:
    transport, assigned = reading(world, numbered(10), offset=6)
    source = only(assigned)
    assert [record.offset for record in read_records(transport, 4)] == [6, 7, 8, 9]
    transport.seek(source, 8, None)
    assert [record.offset for record in read_records(transport, 2)] == [8, 9]


def test_an_empty_batch_comes_where_there_is_nothing_new(world: World) -> None:
    world.set_up()
    transport = world.transport()
    begin(transport)
    event = transport.read()
    assert isinstance(event, Batch)
    assert not event.records
    assert not event.ends
    transport.deliver(event, [])


def test_nothing_is_committed_before_the_first_delivery(world: World) -> None:
    transport, assigned = reading(world, numbered(2), partitions=2)
    read_batch(transport)
    assert transport.committed(assigned.sources) == dict.fromkeys(assigned.sources)


@with_either_client
def test_outputs_and_offsets_arrive_together(world: World) -> None:
    transport, assigned = reading(world, numbered(3))
    source = only(assigned)
    batch = read_batch(transport)
    destinations = [Destination.UNIQUE, Destination.DUPLICATE, Destination.DEAD_LETTER]
    transport.deliver(batch, [routed(record, to) for record, to in zip(batch.records, destinations, strict=True)])
    assert transport.committed([source]) == {source: 3}
    for destination, value in zip(destinations, numbered(3), strict=True):
        assert [record.value for record in world.delivered(destination)] == [value]


@with_either_client
def test_a_successor_goes_on_where_the_last_delivery_ended(world: World) -> None:
    first, _ = reading(world, numbered(10), records_max=4)
    batch = read_batch(first)
    first.deliver(batch, [routed(record) for record in batch.records])
    read_batch(first)
    first.close()
    second = world.transport()
    begin(second)
    delivered = len(batch.records)
    assert [record.offset for record in read_records(second, 10 - delivered)] == list(range(delivered, 10))


@with_either_client
def test_a_fenced_instance_delivers_nothing(world: World) -> None:
    old, assigned = reading(world, numbered(2))
    source = only(assigned)
    batch = read_batch(old)
    new = world.transport()
    new.open()
    with pytest.raises(DeliveryDoubtful):
        old.deliver(batch, [routed(record) for record in batch.records])
    go_on(new, read_assigned(new))
    assert new.committed([source]) == {source: None}
    assert world.delivered(Destination.UNIQUE) == []
    again = read_batch(new)
    new.deliver(again, [routed(record) for record in again.records])
    assert [record.value for record in world.delivered(Destination.UNIQUE)] == numbered(2)


def test_a_transport_delivers_no_more_after_a_doubt(world: World) -> None:
    old, _ = reading(world, numbered(2), records_max=1)
    batches = [read_batch(old), read_batch(old)]
    world.transport().open()
    for batch in batches:
        with pytest.raises(DeliveryDoubtful):
            old.deliver(batch, [routed(record) for record in batch.records])
    assert world.delivered(Destination.UNIQUE) == []


def test_a_batch_without_proof_of_membership_is_refused(world: World) -> None:
    transport, _ = reading(world, numbered(1))
    batch = read_batch(transport)
    with pytest.raises(DeliveryDoubtful):
        transport.deliver(Batch(batch.records, batch.ends), [routed(record) for record in batch.records])
    assert world.delivered(Destination.UNIQUE) == []


@with_either_client
def test_offsets_may_have_gaps(world: World) -> None:
    world.set_up()
    world.write_with_gap(numbered(2), numbered(2, first=2))
    transport = world.transport()
    source = only(begin(transport))
    records = read_records(transport, 4)
    assert [record.offset for record in records] == [0, 1, 3, 4]
    assert [record.value for record in records] == numbered(4)
    assert transport.end_offsets([source]) == {source: 6}


@with_either_client
def test_two_transports_share_the_sources_and_lose_nothing(world: World) -> None:
    world.set_up(partitions=4, records_max=3)
    for partition in range(4):
        world.write(numbered(5, first=100 * partition), partition=partition)
    transports = {name: world.transport(name) for name in ("a", "b")}
    owners: dict[Source, str] = {}
    delivered: list[bytes] = []

    def deliver(name: str, batch: Batch) -> None:
        assert {owners[record.source] for record in batch.records} == {name}, "read by the wrong owner"
        transports[name].deliver(batch, [routed(record) for record in batch.records])
        delivered.extend(record.value or b"" for record in batch.records)

    def each_reads_once() -> None:
        for name, event in world.read_all(transports).items():
            if isinstance(event, Assigned):
                owners.update(dict.fromkeys(event.sources, name))
                go_on(transports[name], event)
            elif isinstance(event, Batch) and event.records:
                deliver(name, event)

    def both_read_until(count: int) -> bool:
        each_reads_once()
        return len(delivered) >= count and len(set(owners.values())) == 2

    owners.update(dict.fromkeys(begin(transports["a"]).sources, "a"))
    deliver("a", read_batch(transports["a"]))
    transports["b"].open()
    patiently(lambda: both_read_until(20))
    for partition in range(4):
        world.write(numbered(5, first=500 + 100 * partition), partition=partition)
    patiently(lambda: both_read_until(40))
    assert sorted(owners.values()) == ["a", "a", "b", "b"]
    expected = [value for group in (0, 1, 2, 3, 5, 6, 7, 8) for value in numbered(5, first=100 * group)]
    assert sorted(delivered) == sorted(expected)
    assert sorted(record.value or b"" for record in world.delivered(Destination.UNIQUE)) == sorted(expected)


@with_either_client
def test_a_survivor_takes_the_sources_of_a_dead_worker_over(world: World) -> None:
    world.set_up(partitions=2)
    world.write(numbered(2), partition=0)
    world.write(numbered(2, first=2), partition=1)
    dead, survivor = world.transport("dead"), world.transport("survivor")
    assert len(begin(dead).sources) == 2
    read_batch(dead)
    dead.close()
    world.expel("dead")
    assert len(begin(survivor).sources) == 2
    assert sorted(record.value or b"" for record in read_records(survivor, 4)) == numbered(4)


def test_a_batch_is_bounded_by_records_and_by_bytes(world: World) -> None:
    world.set_up(records_max=4, bytes_max=1_000)
    sizes = [100] * 6 + [600, 600, 3_000, 10, 10]
    world.write([bytes([65 + number]) * size for number, size in enumerate(sizes)])
    transport = world.transport()
    begin(transport)
    seen: list[int] = []
    while len(seen) < len(sizes):
        batch = read_batch(transport)
        assert len(batch.records) <= 4
        total = sum(len(record.value or b"") for record in batch.records)
        assert total <= 1_000 or len(batch.records) == 1
        assert list(batch.ends.values()) == [batch.records[-1].offset + 1]
        seen += [len(record.value or b"") for record in batch.records]
        transport.deliver(batch, [routed(record) for record in batch.records])
    assert seen == sizes
    assert len(world.delivered(Destination.UNIQUE)) == len(sizes)


@with_either_client
def test_a_batch_that_does_not_fit_stays_in_order_behind_a_seek(world: World) -> None:
    transport, assigned = reading(
        world, [bytes([65 + number]) * 60 for number in range(6)], records_max=10, bytes_max=100
    )
    source = only(assigned)
    assert [record.offset for record in read_batch(transport).records] == [0]
    transport.seek(source, 4, None)
    assert [record.offset for record in read_records(transport, 2)] == [4, 5]


@with_either_client
def test_everything_a_record_holds_comes_through_unchanged(world: World) -> None:
    world.set_up()
    # To confluent-kafka 0 is the time of now.
    earliest_ms = 1 if world.settings.kafka.client == "confluent-kafka" else 0
    written = [
        Stored(b"", b"", 1_000),
        Stored(b"key", b"value", 1_500_000_000_000, (("a", b"1"), ("a", b"2"), ("空", "白".encode()))),
        Stored(None, b"no key", 1_600_000_000_000),
        Stored(b"no value", None, earliest_ms),
        Stored(None, None, 1_700_000_000_000, (("neither", b""),)),
    ]
    world.write(written)
    transport = world.transport()
    begin(transport)
    records = read_records(transport, 5)
    read = [Stored(record.key, record.value, record.timestamp_ms, record.headers) for record in records]
    assert read == written
    batch = Batch(records, {records[0].source: 5}, snapshot=read_proof(world, transport))
    transport.deliver(batch, [routed(record) for record in records])
    outputs = [
        Stored(record.key, record.value, record.timestamp_ms, record.headers[:-2])
        for record in world.delivered(Destination.UNIQUE)
    ]
    assert sorted(outputs, key=repr) == sorted(written, key=repr)


def read_proof(world: World, transport: Transport) -> object:
    """Snapshot of the membership as it is now, from one more batch."""
    world.write([b"one more"])
    return read_batch(transport).snapshot


@with_either_client
def test_a_header_without_a_value_goes_out_with_an_empty_one_where_the_client_knows_no_other(world: World) -> None:
    transport, _ = reading(world, [b"document"])
    batch = read_batch(transport)
    transport.deliver(batch, [routed(record, headers=(("empty", None),)) for record in batch.records])
    (found,) = world.delivered(Destination.UNIQUE)
    as_written = None if world.settings.kafka.client == "confluent-kafka" else b""
    assert found.headers[0] == ("empty", as_written)


def test_timestamps_far_ahead_are_taken_by_the_outputs(world: World) -> None:
    transport, _ = reading(world, [b"from the future"])
    batch = read_batch(transport)
    record = batch.records[0]
    far = type(record)(
        record.source, record.topic, record.offset, record.key, record.value, 4_102_444_800_000, record.headers
    )
    transport.deliver(batch, [routed(far)])
    assert [found.timestamp_ms for found in world.delivered(Destination.UNIQUE)] == [4_102_444_800_000]


def test_the_changelog_gives_delivered_records_back_as_they_were_read(world: World) -> None:
    world.set_up(partitions=2, records_max=6)
    for partition in (0, 1):
        world.write(
            [
                Stored(f"key {number}".encode(), f"{partition} {number}".encode(), 1_000 + number, (("h", b"x"),))
                for number in range(20)
            ],
            partition=partition,
        )
    transport = world.transport()
    assigned = begin(transport)
    read = []
    while len(read) < 40:
        batch = read_batch(transport)
        transport.deliver(
            batch,
            [
                routed(record, Destination.DUPLICATE if record.offset % 3 == 2 else Destination.UNIQUE)
                for record in batch.records
            ],
        )
        read += batch.records
    ranges = {assigned.sources[0]: range(5, 15), assigned.sources[1]: range(18, 40)}
    wanted = [record for record in read if record.offset in ranges[record.source]]
    for destination, remainders in ((Destination.UNIQUE, (0, 1)), (Destination.DUPLICATE, (2,))):
        portions = list(transport.changelog(ranges, [destination]))
        assert all(len(portion) <= 6 for portion in portions)
        found = [record for portion in portions for record in portion]
        expected = [record for record in wanted if record.offset % 3 in remainders]
        for source in assigned.sources:
            mine = [record for record in found if record.source == source]
            assert [routed(record).record for record in expected if record.source == source] == [
                type(record)(
                    record.source,
                    record.topic,
                    record.offset,
                    record.key,
                    record.value,
                    record.timestamp_ms,
                    record.headers[:-2],
                )
                for record in mine
            ]
    both = transport.changelog(ranges, [Destination.UNIQUE, Destination.DUPLICATE])
    assert sum(len(portion) for portion in both) == len(wanted)


def test_the_changelog_leaves_out_what_was_never_committed(world: World) -> None:
    old, assigned = reading(world, numbered(2))
    source = only(assigned)
    batch = read_batch(old)
    new = world.transport()
    new.open()
    with pytest.raises(DeliveryDoubtful):
        old.deliver(batch, [routed(record) for record in batch.records])
    assert [record for portion in new.changelog({source: range(10)}, [Destination.UNIQUE]) for record in portion] == []


@with_either_client
def test_a_start_can_be_committed_without_a_delivery(world: World) -> None:
    transport, assigned = reading(world, numbered(4))
    source = only(assigned)
    transport.commit_start({source: 2})
    assert transport.committed([source]) == {source: 2}


@with_either_client
def test_first_and_end_offsets_follow_retention(world: World) -> None:
    transport, assigned = reading(world, numbered(6))
    source = only(assigned)
    assert (transport.first_offsets([source]), transport.end_offsets([source])) == ({source: 0}, {source: 6})
    world.delete_before(4)
    assert (transport.first_offsets([source]), transport.end_offsets([source])) == ({source: 4}, {source: 6})


@with_either_client
def test_a_source_whose_next_record_retention_took_is_assigned_once_more(world: World) -> None:
    world.set_up()
    world.write(numbered(6))
    world.delete_before(4)
    transport = world.transport()
    source = only(begin(transport, offset=1))
    assert read_assigned(transport).sources == (source,)
    transport.seek(source, 4, None)
    assert values(read_batch(transport)) == numbered(2, first=4)


@with_either_client
def test_a_committed_offset_says_by_which_index_was_decided_and_whether_it_was_whole(world: World) -> None:
    world.set_up(partitions=2)
    world.write(numbered(3))
    transport = world.transport(index="1234")
    first, second = begin(transport).sources
    assert transport.claims([first, second]) == {first: None, second: None}
    transport.commit_start({first: 0}, restoring=True)
    assert transport.claims([first]) == {first: Claim(0, "1234", in_use=False)}
    transport.commit_start({first: 0, second: 0})
    assert transport.claims([second, first]) == {each: Claim(0, "1234", in_use=True) for each in (first, second)}
    batch = read_batch(transport)
    transport.commit_start({first: 0}, restoring=True)
    transport.deliver(batch, [routed(record) for record in batch.records])
    assert transport.claims([first]) == {first: Claim(3, "1234", in_use=True, delivered=3)}
    assert transport.committed([first, second]) == {first: 3, second: 0}


def test_what_was_delivered_is_known_until_a_start_before_it_is_committed(world: World) -> None:
    world.set_up()
    world.write(numbered(3))
    transport = world.transport(index="1234")
    source = only(begin(transport))
    batch = read_batch(transport)
    transport.deliver(batch, [routed(record) for record in batch.records])
    transport.commit_start({source: 1}, restoring=True)
    assert transport.claims([source]) == {source: Claim(1, "1234", in_use=False, delivered=3)}
    transport.commit_start({source: 1})
    assert transport.claims([source]) == {source: Claim(1, "1234", in_use=True, delivered=1)}


def test_a_committed_offset_that_names_no_index_is_whosever(world: World) -> None:
    before, assigned = reading(world, numbered(3))
    source = only(assigned)
    before.commit_start({source: 2})
    assert before.claims([source]) == {source: Claim(2, "", in_use=True, delivered=2)}


@with_either_client
def test_a_topic_made_anew_is_another_stream_without_committed_offsets(world: World) -> None:
    first, assigned = reading(world, numbered(3))
    old = only(assigned)
    batch = read_batch(first)
    first.deliver(batch, [routed(record) for record in batch.records])
    first.close()
    world.make_input_anew()
    world.write(numbered(1, first=9))
    second = world.transport()
    second.open()
    assigned = read_assigned(second)
    new = only(assigned)
    assert new.partition == old.partition
    assert new.stream != old.stream
    assert assigned.names == {new.stream: world.settings.topics.input}
    assert second.committed([new]) == {new: None}
    second.seek(new, 0, None)
    assert values(read_batch(second)) == numbered(1, first=9)


def test_a_topic_made_anew_under_a_running_reader_ends_the_reading(world: World) -> None:
    transport, _ = reading(world, numbered(3))
    read_records(transport, 3)
    world.make_input_anew()
    world.write(numbered(5))

    def read_on() -> bool:
        event = transport.read()
        assert isinstance(event, Batch)
        assert not event.records, "records of another stream under the old one's name"
        return False

    with pytest.raises(DeliveryDoubtful):
        patiently(read_on)


@with_either_client
def test_the_lag_counts_what_is_unread(world: World) -> None:
    transport, assigned = reading(world, numbered(10), records_max=4)
    source = only(assigned)
    read = len(read_batch(transport).records)
    assert transport.lags() == {source: 10 - read}
    while read < 10:
        read += len(read_batch(transport).records)
    assert transport.lags() == {source: 0}


@with_either_client
def test_closing_twice_and_unopened_is_harmless(world: World) -> None:
    world.set_up()
    transport = world.transport()
    transport.close()
    transport.open()
    transport.close()
    transport.close()


def test_records_of_the_input_are_read_again_by_their_positions_as_far_as_it_has_them(world: World) -> None:
    world.set_up(partitions=2)
    world.write(numbered(12), partition=0)
    world.write(numbered(3, first=100), partition=1)
    world.delete_before(2)
    transport = world.transport()
    assigned = begin(transport, 2)
    one, other = sorted(assigned.sources, key=lambda source: source.partition)
    asked = [Position(one, offset) for offset in (0, 5, 9, 40)] + [Position(other, 2)]
    found = {record.position: record.value for records in transport.inputs_at(asked) for record in records}
    assert found == {
        f"{world.settings.topics.input}/0/5": b"document 5",
        f"{world.settings.topics.input}/0/9": b"document 9",
        f"{world.settings.topics.input}/1/2": b"document 102",
    }
    assert not any(transport.inputs_at([]))
    # The worker reads on where it was.
    assert min(record.offset for record in read_records(transport, 3)) == 2
