"""Route reads records and verdicts of many partitions: none keeps another waiting, and what is kept stays within bounds."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Source
from streamer.parts import verdict_log
from streamer.parts.verdict_log import BATCHES_AHEAD, VerdictLog
from streamer.records.record import Record
from streamer.transports.buffer import BATCHES_KEPT, RecordBuffer
from tests.support.examples import examples
from tests.support.memory_routing import STREAM, MemoryRouting, Told, record, told

BATCH_DOCUMENTS = 8
FETCHED_BATCHES = 9


@dataclass(frozen=True)
class Partition:
    """Documents by offset: 0 never had one, 1 has one, 2 had one that the input has lost since its verdict."""

    offsets: tuple[int, ...]

    def records(self, number: int) -> list[Record]:
        return [record(number, offset) for offset, kind in enumerate(self.offsets) if kind == 1]

    def told(self, number: int) -> list[Told]:
        stretches = [
            self.offsets[begin : begin + BATCH_DOCUMENTS] for begin in range(0, len(self.offsets), BATCH_DOCUMENTS)
        ]
        return [
            told(number, place * BATCH_DOCUMENTS, place * BATCH_DOCUMENTS + len(stretch), sum(map(bool, stretch)))
            for place, stretch in enumerate(stretches)
        ]


PARTITIONS = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.sampled_from((1, 1, 1, 1, 0, 2)), min_size=1, max_size=12)).map(
        lambda drawn: Partition(tuple(drawn[1] * drawn[0]))
    ),
    min_size=1,
    max_size=5,
)


def deliver_all(routing: MemoryRouting, count: int) -> int:
    """Read until so many records are delivered, or as many reads as there are records bring none. Returns what is missing."""
    idle = 0
    while len(routing.delivered) < count and idle < 50 + count:
        idle = 0 if routing.turn() else idle + 1
    return count - len(routing.delivered)


def require_bounds(routing: MemoryRouting, partitions: int, records_max: int) -> None:
    """What is kept after a read is within what the docstrings of `routing` and `verdict_log` say."""
    one_poll = max(1, BATCHES_KEPT * records_max)
    assert routing.waiting() <= max(BATCHES_KEPT * records_max, partitions) + one_poll
    for partition in range(partitions):
        share = BATCHES_AHEAD * records_max // partitions
        assert routing.ahead(partition) <= share + FETCHED_BATCHES * BATCH_DOCUMENTS


@examples(150)
@given(PARTITIONS, st.integers(1, 6), st.integers(0, 2**32), st.lists(st.integers(0, 4), max_size=60))
def test_every_record_whose_verdict_is_there_comes_out_once_in_order_whatever_other_partitions_wait_for(
    partitions: list[Partition], records_max: int, seed: int, decided: list[int]
) -> None:
    """Each of `decided` is a batch that is decided in this partition, or a read. At the end one partition is undecided."""
    records = {number: each.records(number) for number, each in enumerate(partitions)}
    upcoming = {number: each.told(number) for number, each in enumerate(partitions)}
    topic: dict[int, list[Told]] = {number: [] for number in upcoming}
    routing = MemoryRouting(records, topic, records_max, seed)
    for number in decided:
        if upcoming.get(number):
            topic[number].append(upcoming[number].pop(0))
        routing.turn()
        require_bounds(routing, len(partitions), records_max)
    last = seed % len(partitions)
    for number in upcoming:
        if number != last:
            topic[number] += upcoming[number]
    reached = topic[last][-1].heading.end if topic[last] else 0
    possible = sum(map(len, records.values())) - sum(each.offset >= reached for each in records[last])
    assert deliver_all(routing, possible) == 0
    require_bounds(routing, len(partitions), records_max)
    topic[last] += upcoming[last]
    assert deliver_all(routing, sum(map(len, records.values()))) == 0
    for number, expected in records.items():
        assert [each for each in routing.delivered if each.source == Source(STREAM, number)] == expected


def test_a_router_that_starts_last_delivers_everything() -> None:
    partitions = {number: Partition((1,) * 1_500) for number in range(4)}
    records = {number: each.records(number) for number, each in partitions.items()}
    for seed in range(5):
        routing = MemoryRouting(records, {number: each.told(number) for number, each in partitions.items()}, 25, seed)
        assert deliver_all(routing, 6_000) == 0


def missing_beside_lost_records() -> int:
    """Records of partition 0 that do not come out while partition 1 has verdicts on records that the input has lost."""
    partitions = {0: Partition((1,) * 400), 1: Partition((2,) * 400)}
    topic = {number: each.told(number) for number, each in partitions.items()}
    routing = MemoryRouting({0: partitions[0].records(0), 1: []}, topic, 4, seed=3)
    return deliver_all(routing, 400)


def test_verdicts_that_no_record_asks_for_take_no_room_of_other_partitions() -> None:
    assert missing_beside_lost_records() == 0


def test_with_one_bound_for_the_verdicts_of_all_partitions_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = VerdictLog.poll

    def bounded_together(log: VerdictLog, wait_ms: int) -> bool:
        ahead = sum(len(batch) for tail in log._tails.values() for batch in log.batches_of(tail.source))
        return False if ahead > BATCHES_AHEAD * 4 else poll(log, wait_ms)

    monkeypatch.setattr(VerdictLog, "poll", bounded_together)
    monkeypatch.setattr(verdict_log._Tail, "weigh", lambda _tail, _share: None)
    assert missing_beside_lost_records() > 0


def missing_beside_an_undecided_partition() -> int:
    """Records of partition 0, decided after they waited, that do not come out while nothing of partition 1 is decided."""
    partitions = {number: Partition((1,) * 40) for number in range(2)}
    topic: dict[int, list[Told]] = {0: [], 1: []}
    routing = MemoryRouting({number: each.records(number) for number, each in partitions.items()}, topic, 4, seed=3)
    for _ in range(50):
        assert routing.turn() == 0
    topic[0] += partitions[0].told(0)
    return deliver_all(routing, 40)


def test_records_without_a_verdict_hold_up_no_other_partition() -> None:
    assert missing_beside_an_undecided_partition() == 0


def test_if_held_partitions_went_on_together_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordBuffer, "waiting_of", lambda kept, _source: kept.waiting_count())
    assert missing_beside_an_undecided_partition() > 0
