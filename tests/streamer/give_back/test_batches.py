from hypothesis import given
from hypothesis import strategies as st

from index.entry import Source
from streamer.give_back.batches import batches, position_of
from streamer.records.record import Record
from streamer.settings.settings import Batching


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 700)), max_size=40), st.integers(1, 7))
def test_batches_hold_everything_within_their_bounds_and_no_position_twice(
    found: list[tuple[int, int, int]], records_max: int
) -> None:
    records = [Record(Source("s", partition), "t", offset, None, bytes(size), 0) for partition, offset, size in found]
    bounds = Batching(records_max=records_max, bytes_max=1_024)
    made = list(batches(records, bounds))
    assert {position_of(record) for batch in made for record in batch} == set(map(position_of, records))
    for batch in made:
        positions = list(map(position_of, batch))
        assert positions == sorted(set(positions))
        assert 1 <= len(batch) <= records_max
        assert len(batch) == 1 or sum(len(record.value or b"") for record in batch) <= 1_024
