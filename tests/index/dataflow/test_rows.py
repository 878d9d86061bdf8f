import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow.rows import by_group, document_keys, numbered, partitions, shard_of, shard_of_batches

PLACES = st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**16 - 1), st.integers(0, 9))


@given(st.lists(PLACES, min_size=1, max_size=20))
def test_keys_stand_in_the_order_of_time_partition_and_row(places: list[tuple[int, int, int]]) -> None:
    keys = []
    for time_ms, partition, row in places:
        high, low = document_keys(time_ms, partition, 10)
        keys.append((high, int(low[row])))
        assert partitions(np.array([high], np.uint64)).tolist() == [partition]
        assert low.tolist() == list(range(10))
    assert sorted(range(len(keys)), key=lambda place: keys[place]) == sorted(
        range(len(keys)), key=lambda place: places[place]
    )
    highs, lows = (
        np.array(column, kind) for column, kind in zip(zip(*keys, strict=True), (np.uint64, np.uint16), strict=True)
    )
    numbers, distinct = numbered(highs, lows)
    assert [keys[place] for place in distinct.tolist()] == sorted(set(keys))
    assert [sorted(set(keys))[number] for number in numbers.tolist()] == keys


def test_batches_and_numbers_spread_over_all_shards() -> None:
    highs = np.array([document_keys(time_ms, 3, 1)[0] for time_ms in range(1_000)], np.uint64)
    assert np.bincount(shard_of_batches(highs, 64)).min() > 5
    assert np.bincount(shard_of(np.arange(64_000, dtype=np.uint64), 64)).min() > 850


def test_groups_keep_their_order() -> None:
    assert [(value, places.tolist()) for value, places in by_group(np.array([3, 1, 3, 1]))] == [
        (1, [1, 3]),
        (3, [0, 2]),
    ]
    assert not list(by_group(np.array([], np.int64)))
