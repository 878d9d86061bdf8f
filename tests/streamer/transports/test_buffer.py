"""Buffered records leave in the order in which they came, in batches within bounds, whatever is peeked at or forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from index import Source
from streamer.records.record import Lost, Record
from streamer.settings.settings import Batching
from streamer.transports.buffer import BATCHES_KEPT, RecordBuffer

ONE, TWO = Source("stream", 1), Source("stream", 2)


def record(source: Source, offset: int, size: int = 1, lost: int = 0) -> Record:
    return Record(source, "documents", offset, None, b"x" * size, 0, lost=Lost(lost, "damaged") if lost else None)


Step = tuple[str, int]

STEPS = st.lists(st.tuples(st.sampled_from(["add", "peek", "cut", "forget"]), st.integers(1, 5)), max_size=40)


@given(STEPS, st.integers(1, 4), st.integers(1, 8))
def test_every_record_leaves_once_and_in_order_and_a_peek_tells_what_leaves_next(
    steps: list[Step], records_max: int, bytes_max: int
) -> None:
    kept = RecordBuffer(Batching.model_construct(records_max=records_max, bytes_max=bytes_max))
    expected: list[Record] = []
    peeked = None
    offset = 0
    for step, number in steps:
        if step == "add":
            new = [record((ONE, TWO)[at % 2], offset + at, size=number) for at in range(number)]
            offset += number
            kept.add(new)
            expected += new
        elif step == "peek":
            upcoming = kept.peek()
            if peeked is None:
                peeked = upcoming
            assert peeked is None or upcoming is peeked
        elif step == "forget":
            kept.forget({TWO})
            if peeked and TWO in peeked.ends:
                peeked = None
            expected = [each for each in expected if each.source != TWO]
            kept.peek()
            peeked = kept.peek()
        else:
            batch = kept.cut()
            assert peeked is None or batch.records is peeked.records
            assert list(batch.records) == expected[: len(batch.records)]
            assert bool(batch.records) == bool(expected)
            assert batch.ends == {each.source: each.offset + 1 for each in batch.records}
            assert len(batch.records) <= records_max
            assert len(batch.records) <= 1 or sum(len(each.value or b"") for each in batch.records) <= bytes_max
            expected, peeked = expected[len(batch.records) :], None
        assert len(kept) == len(expected)
        assert kept.first_offsets() == {each.source: each.offset for each in reversed(expected)}


def test_only_a_full_batch_is_peeked_at() -> None:
    kept = RecordBuffer(Batching(records_max=2, bytes_max=10))
    kept.add([record(ONE, 0)])
    assert kept.peek() is None
    kept.add([record(ONE, 1)])
    assert (upcoming := kept.peek()) is not None
    assert len(upcoming.records) == 2
    kept.cut()
    kept.add([record(ONE, 2, size=6), record(ONE, 3, size=6)])
    assert (upcoming := kept.peek()) is not None
    assert len(upcoming.records) == 1


def test_what_is_left_of_a_peeked_batch_is_another_batch() -> None:
    kept = RecordBuffer(Batching(records_max=2))
    kept.add([record(ONE, 5), record(TWO, 7)])
    assert (upcoming := kept.peek()) is not None
    kept.forget({TWO})
    batch = kept.cut()
    assert batch.records is not upcoming.records
    assert [each.source for each in batch.records] == [ONE]
    assert batch.ends == {ONE: 6}


def test_the_end_behind_records_that_cannot_be_read_is_behind_all_of_them() -> None:
    kept = RecordBuffer(Batching(records_max=2))
    kept.add([record(ONE, 3, lost=4)])
    assert kept.cut().ends == {ONE: 7}


def test_records_wait_for_the_gate_of_their_source_and_do_not_hold_up_others() -> None:
    below = {ONE: 0, TWO: 0}
    kept = RecordBuffer(Batching(records_max=10), gate=lambda source: below[source])
    kept.add([record(ONE, 0), record(TWO, 5), record(ONE, 1), record(ONE, 2)])
    assert (kept.ready_count(), kept.waiting_count(), len(kept)) == (0, 4, 4)
    assert kept.first_offsets() == {ONE: 0, TWO: 5}
    assert (kept.waiting_of(ONE), kept.waiting_of(TWO)) == (3, 1)
    assert kept.cut().records == []
    assert kept.peek() is None
    below[ONE] = 2
    kept.release()
    assert kept.first_offsets() == {ONE: 0, TWO: 5}
    assert [each.offset for each in kept.cut().records] == [0, 1]
    below[TWO] = 9
    kept.forget({ONE})
    kept.release()
    kept.add([record(TWO, 6)])
    assert [each.offset for each in kept.cut().records] == [5, 6]
    assert len(kept) == 0


def test_a_source_keeps_its_share_of_what_waits_and_the_rest_is_read_again() -> None:
    kept = RecordBuffer(Batching(records_max=10), gate=lambda _source: 0)
    kept.add([record(ONE, 0), record(ONE, 4), record(ONE, 6), record(TWO, 5)])
    assert kept.hold_back(2) == {ONE: 5}
    assert (kept.waiting_of(ONE), kept.waiting_of(TWO)) == (2, 1)
    assert kept.hold_back(1) == {ONE: 1, TWO: 6}


def test_room_for_more_ends_with_two_batches_by_records_or_by_bytes() -> None:
    by_records = RecordBuffer(Batching(records_max=4, bytes_max=1_000))
    assert by_records.room() == BATCHES_KEPT * 4
    by_records.add(record(ONE, offset) for offset in range(5))
    assert by_records.room() == BATCHES_KEPT * 4 - 5
    by_records.peek()
    assert by_records.room() == BATCHES_KEPT * 4 - 5
    by_bytes = RecordBuffer(Batching(records_max=4_000, bytes_max=10))
    by_bytes.add(record(ONE, offset, size=5) for offset in range(3))
    assert by_bytes.room() > 1
    by_bytes.add([record(ONE, 3, size=5)])
    assert by_bytes.room() == 1
