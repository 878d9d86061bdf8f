"""The outputs read back: every source in order, whatever partitions its records lie in, and no more read than needed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from structlog.testing import capture_logs

from index.entry import Source
from streamer.errors import BrokerUnavailable, TransactionHanging
from streamer.records.record import Destination, Record
from streamer.records.route import POSITION, STREAM
from streamer.settings.settings import Batching, Settings
from streamer.transports.kafka import changelog, topic_reader
from streamer.transports.kafka.changelog import SourceOrder, read_changelog
from streamer.transports.kafka.topic_reader import first_records
from streamer.transports.kafka.topics import topic_of
from streamer.transports.kafka.transactions import open as open_transactions
from streamer.transports.kafka.unreadable import Damages
from streamer.transports.output_log import portions
from tests.support.examples import examples
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import make_settings

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


@examples(60)
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


@examples(60)
@given(deliveries=DELIVERIES, seed=st.integers(0, 10_000))
def test_nothing_is_lost_where_too_much_would_have_to_be_held(deliveries: list[tuple[int, Source]], seed: int) -> None:
    written = numbered(deliveries)
    found = merged(written, seed, held_bytes_max=3)
    assert sorted(found, key=lambda each: each.offset) == [each for _, each in written]


def test_what_is_held_beyond_the_limit_comes_out_and_later_records_wait_again() -> None:
    order = SourceOrder([0, 1], held_bytes_max=3)
    for offset in range(4):
        assert list(order.ready()) == []
        order.add(0, record(SOURCES[0], offset))
    assert [each.offset for each in order.ready()] == [0, 1, 2, 3]
    order.add(0, record(SOURCES[0], 4))
    assert list(order.ready()) == []


def test_portions_keep_the_bounds_and_never_hold_a_position_twice() -> None:
    one, two = SOURCES[:2]
    records = [record(one, 1), record(two, 1), record(one, 2), record(one, 2), record(one, 3, 90), record(one, 4, 200)]
    bounds = Batching(records_max=4, bytes_max=100)
    found = [[(each.source.partition, each.offset) for each in portion] for portion in portions(records, bounds)]
    assert found == [
        [(0, 1), (1, 1), (0, 2)],
        [(0, 2), (0, 3)],
        [(0, 4)],
    ]
    by_count = portions([record(one, offset) for offset in range(5)], Batching(records_max=2, bytes_max=100))
    assert [[each.offset for each in portion] for portion in by_count] == [[0, 1], [2, 3], [4]]


# --- outputs read through a consumer ----------------------------------------------------------------------------------

Output = list[Stored | None]
"""One partition of an output by offset; None where a transaction's end stands and no record."""


@dataclass
class Outputs:
    """A consumer over one output topic in memory, which hands out records in turns of random length.

    first   offsets below are gone
    hidden  last records of every partition that an open transaction hides
    grow    called before every turn
    """

    partitions: list[Output]
    turns: random.Random = field(default_factory=lambda: random.Random(0))
    first: int = 0
    hidden: int = 0
    grow: Callable[[], None] = lambda: None
    handed_out: int = 0
    closed: bool = False
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _paused: set[TopicPartition] = field(default_factory=set)

    def consumer(self, _settings: Settings, *, committed_only: bool = True) -> "Outputs":
        """This consumer; or one that sees what is open too."""
        return self if committed_only else Outputs(self.partitions, first=self.first)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(len(self.partitions)))

    def beginning_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return {partition: self._end(partition) for partition in partitions}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._positions = dict.fromkeys(partitions, 0)

    damages = Damages()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._paused.difference_update(partitions)

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return self._positions[partition]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        self.grow()
        polled: dict[TopicPartition, list[SimpleNamespace]] = {}
        for partition in self._positions.keys() - self._paused:
            for _ in range(self.turns.randint(0, 3)):
                found = self._next(partition)
                polled.setdefault(partition, []).extend(found)
        return {partition: records for partition, records in polled.items() if records}

    def close(self, autocommit: bool, timeout_ms: int) -> None:
        assert not autocommit
        self.closed = True

    def _end(self, partition: TopicPartition) -> int:
        return max(0, len(self.partitions[partition.partition]) - self.hidden)

    def _next(self, partition: TopicPartition) -> list[SimpleNamespace]:
        """The record at the position, if there is one; the position moves on behind it, or behind a transaction's end."""
        output, offset = self.partitions[partition.partition], self._positions[partition]
        if offset >= self._end(partition):
            return []
        self._positions[partition] = offset + 1
        record = output[offset]
        if record is None:
            return []
        self.handed_out += 1
        return [
            SimpleNamespace(
                offset=offset,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        ]


def delivered(source: Source, offset: int) -> Stored:
    """A record as the filter puts it into an output."""
    position = f"documents/{source.partition}/{offset}".encode()
    return Stored(b"key", b"value %d" % offset, offset, ((POSITION, position), (STREAM, source.stream.encode())))


NOT_OURS = (
    Stored(None, b"no headers"),
    Stored(None, b"no stream", 0, ((POSITION, b"documents/0/3"),)),
    Stored(None, b"no position", 0, ((STREAM, b"stream"),)),
    Stored(None, b"no number", 0, ((POSITION, b"documents/0/three"), (STREAM, b"stream"))),
    Stored(None, b"another stream", 0, ((POSITION, b"documents/0/3"), (STREAM, b"another"))),
)

ITEMS = st.one_of(st.sampled_from(SOURCES), st.sampled_from(NOT_OURS), st.none())
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda borders: range(min(borders), max(borders)))


@pytest.fixture(autouse=True)
def _brokers_name_no_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that no broker answers leaves its sockets open, and most of these tests have no broker."""
    monkeypatch.setattr(open_transactions, "_producers_of", lambda *_: ["7 of transactional id 'crawler'"])


def restored(
    outputs: Outputs, ranges: dict[Source, range], stretch: int = 2_000, chosen: Settings | None = None
) -> list[list[Record]]:
    """What `read_changelog` gives for outputs in memory, of the unique topic and in portions of at most three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changelog, "SEARCH_OFFSETS", stretch)
        patch.setattr(topic_reader, "make_detached_consumer", outputs.consumer)
        return list(read_changelog(chosen or make_settings(records_max=3), ranges, [Destination.UNIQUE]))


def output_of(source: Source, offsets: range) -> Output:
    return [delivered(source, offset) for offset in offsets]


@examples(150)
@given(
    items=st.lists(st.tuples(st.integers(0, 2), ITEMS), max_size=40),
    ranges=st.dictionaries(st.sampled_from(SOURCES), RANGES),
    stretch=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_every_delivered_record_of_the_ranges_comes_back_once_and_in_order(
    items: list[tuple[int, Source | Stored | None]], ranges: dict[Source, range], stretch: int, seed: int
) -> None:
    partitions: list[Output] = [[], [], []]
    wanted: dict[Source, list[Stored]] = {source: [] for source in SOURCES}
    for offset, (partition, item) in enumerate(items):
        stored = delivered(item, offset) if isinstance(item, Source) else item
        partitions[partition].append(stored)
        if isinstance(item, Source) and offset in ranges.get(item, ()):
            assert stored is not None
            wanted[item].append(stored)
    outputs = Outputs(partitions, random.Random(seed))
    chosen = make_settings(records_max=3)
    batches = restored(outputs, ranges, stretch, chosen)
    for source, expected in wanted.items():
        found = [each for portion in batches for each in portion if each.source == source]
        assert [(each.topic, each.offset) for each in found] == [
            (chosen.topics.input, each.timestamp_ms) for each in expected
        ]
        assert [Stored(each.key, each.value, each.timestamp_ms, each.headers) for each in found] == expected
    assert sum(map(len, batches)) == sum(map(len, wanted.values()))
    for portion in batches:
        positions = [(each.source, each.offset) for each in portion]
        assert len(set(positions)) == len(positions) <= 3
    assert outputs.closed


def test_what_is_delivered_while_the_outputs_are_read_is_left_for_the_next_time() -> None:
    output = output_of(SOURCES[0], range(10))
    outputs = Outputs([output])
    outputs.grow = lambda: output.append(delivered(SOURCES[0], len(output)))
    batches = restored(outputs, {SOURCES[0]: range(1_000)})
    assert [each.offset for portion in batches for each in portion] == list(range(10))
    assert len(output) > 10


def test_only_the_end_of_an_output_is_read_where_only_its_end_is_wanted() -> None:
    outputs = Outputs([output_of(SOURCES[0], range(1_000))])
    batches = restored(outputs, {SOURCES[0]: range(990, 1_000)}, stretch=20)
    assert [each.offset for portion in batches for each in portion] == list(range(990, 1_000))
    # Once to look for the beginning, once to read on from there.
    assert 10 <= outputs.handed_out <= 40


@pytest.mark.parametrize("start", [0, 15])
def test_records_behind_an_open_transaction_are_waited_for_with_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    monkeypatch.setattr(open_transactions.clients, "transaction_ms_max", lambda settings: 1_000)
    outputs = Outputs([output_of(SOURCES[0], range(20)), output_of(SOURCES[1], range(3))], hidden=12)
    monkeypatch.setattr(topic_reader, "make_detached_consumer", outputs.consumer)
    batches = read_changelog(make_settings(records_max=100), {SOURCES[0]: range(start, 20)}, [Destination.UNIQUE])
    with capture_logs() as logged:
        assert [next(batches) for _ in range(3)] == [[], [], []]
    assert [(each["log_level"], each["partitions"][0].partition("/")[2]) for each in logged] == [
        ("warning", "0 from offset 8 on")
    ]
    outputs.hidden = 0
    assert [each.offset for portion in batches for each in portion] == list(range(start, 20))


def test_a_transaction_that_outlives_what_the_brokers_allow_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transactions.clients, "transaction_ms_max", lambda settings: 200)
    monkeypatch.setattr(open_transactions, "OPEN_MARGIN_SECONDS", 0.1)
    outputs = Outputs([output_of(SOURCES[0], range(20))], hidden=5)
    with pytest.raises(TransactionHanging, match=r"cannot be read to their ends.*--partition 0 --start-offset 15"):
        restored(outputs, {SOURCES[0]: range(20)})
    assert outputs.closed


def test_what_the_broker_deleted_is_not_asked_for() -> None:
    outputs = Outputs([output_of(SOURCES[0], range(50))], first=30)
    batches = restored(outputs, {SOURCES[0]: range(10, 50)}, stretch=4)
    assert [each.offset for portion in batches for each in portion] == list(range(30, 50))


def test_an_empty_output_still_shows_that_time_passes() -> None:
    batches = restored(Outputs([[], []]), {SOURCES[0]: range(10)})
    assert len(batches) >= 2
    assert not any(batches)


def test_outputs_that_give_nothing_for_the_delivery_timeout_are_an_unavailable_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = Outputs([output_of(SOURCES[0], range(10))])
    timeout_seconds = make_settings().kafka.delivery_timeout_ms / 1000
    seconds = iter([0.0, timeout_seconds, timeout_seconds + 0.1])
    monkeypatch.setattr(topic_reader, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(outputs, "poll", lambda timeout_ms: {})
    with pytest.raises(BrokerUnavailable, match="reading the outputs back gave nothing for 6000 ms"):
        restored(outputs, {SOURCES[0]: range(10)})
    assert next(seconds, None) is None, "it did not wait until the timeout"
    assert outputs.closed


def test_the_consumer_is_closed_where_the_reader_stops_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = Outputs([output_of(SOURCES[0], range(10))])
    monkeypatch.setattr(topic_reader, "make_detached_consumer", outputs.consumer)
    batches = read_changelog(make_settings(), {SOURCES[0]: range(10)}, [Destination.UNIQUE])
    next(batches)
    assert not outputs.closed
    batches.close()  # type: ignore[attr-defined]
    assert outputs.closed


def test_the_records_at_given_offsets_are_found_and_none_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, gone, ended = (TopicPartition("unique", number) for number in range(3))
    outputs = Outputs([output_of(SOURCES[0], range(9)), output_of(SOURCES[1], range(9)), [None] * 9], first=3)
    monkeypatch.setattr(topic_reader, "make_detached_consumer", lambda settings, committed_only: outputs)
    found = first_records(make_settings(), {kept: 3, gone: 2, ended: 5})
    assert {at: each and each.offset for at, each in found.items()} == {kept: 3, gone: None, ended: None}
    assert outputs.closed


def test_every_destination_has_a_topic_of_its_own() -> None:
    chosen = make_settings()
    topics = chosen.topics
    assert [topic_of(chosen, each) for each in Destination] == [topics.unique, topics.duplicate, topics.dead_letter]
