from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow.buckets import segment, segmented
from index.dataflow.buckets.segmented import GROWTH, LOG_VALUES_MAX, SegmentedBuckets
from index.dataflow.rows import PARTITION_BITS, Retained
from index.session import Retention
from tests.support.dataflow import KeyState
from tests.support.examples import examples

ENTRY = np.dtype([("high", "<u8"), ("low", "<u2")])
RETAINED = Retained(Retention(100), 1)


def at(number: int, epoch: int) -> int:
    """High key of a document with this number in an epoch of one millisecond."""
    return epoch << PARTITION_BITS | number


def entries(*highs: int) -> np.ndarray:
    rows = np.zeros(len(highs), ENTRY)
    rows["high"] = highs
    return rows


def opened(task: KeyState, segment_entries: int = 4, retained: Retained | None = None) -> SegmentedBuckets:
    return SegmentedBuckets(task, ENTRY, segment_entries, retained)


def add(buckets: SegmentedBuckets, task: KeyState, page: int, *highs: int) -> None:
    buckets.read(task, np.array([page], np.uint64)).add(task, np.zeros(len(highs), np.int64), entries(*highs))


def stored(task: KeyState) -> int:
    """Entries in the state, in leaves and in the log."""
    size = ENTRY.itemsize + 8
    return sum(len(content) // size for name, content in task.content.items() if name[:1] in b"lr")


@examples(40)
@given(data=st.data())
def test_a_bucket_gives_its_entries_in_the_order_in_which_they_came_whatever_became_segments(
    data: st.DataObject,
) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    segment_entries, leaf_entries = (data.draw(st.sampled_from(each)) for each in ([1, 3, 20], [1, 2, 64]))
    retained = data.draw(st.sampled_from([None, RETAINED]))
    task, floor = KeyState({}), 0
    pages_max = data.draw(st.sampled_from([1, 5, 1_000]))
    expected: dict[int, list[int]] = defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "LEAF_ENTRIES", leaf_entries)
        patch.setattr(segmented, "MERGED_ENTRIES_MAX", data.draw(st.sampled_from([10, 2**20])))
        patch.setattr(segmented, "LOG_VALUES_MAX", data.draw(st.sampled_from([1, 3, 64])))
        buckets = opened(task, segment_entries, retained)
        for step in range(data.draw(st.integers(1, 40))):
            if generator.random() < 0.3:
                buckets = opened(task, segment_entries, retained)
            pages = np.unique(generator.integers(0, pages_max, 6).astype(np.uint64))
            found = buckets.read(task, pages)
            counted = [[high for high in expected[page] if high >> PARTITION_BITS >= floor] for page in pages.tolist()]
            assert found.counts.tolist() == [len(each) for each in counted]
            assert found.entries["high"].tolist() == [high for each in counted for high in each]
            places = np.sort(generator.integers(0, len(pages), int(generator.integers(4))))
            highs = [at(100 * step + number, step) for number in range(len(places))]
            found.add(task, places, entries(*highs))
            for place, high in zip(places.tolist(), highs, strict=True):
                expected[int(pages[place])].append(high)
            if retained is not None and generator.random() < 0.2:
                floor = int(generator.integers(step + 1))
                buckets.expire(task, floor)
                floor = buckets.floor


def test_segments_are_merged_and_what_they_were_leaves_the_state() -> None:
    task = KeyState({})
    buckets = opened(task)
    for number in range(4 * GROWTH):
        add(buckets, task, number, number)
    names = [name for name in task.content if name[:1] == b"d"]
    assert (len(names), stored(task)) == (1, 4 * GROWTH)


def test_a_large_segment_is_not_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmented, "MERGED_ENTRIES_MAX", 4 * GROWTH)
    task = KeyState({})
    buckets = opened(task)
    for number in range(8 * GROWTH * GROWTH):
        add(buckets, task, number, number)
    assert len([name for name in task.content if name[:1] == b"d"]) == 2 * GROWTH


def test_new_buckets_read_nothing() -> None:
    class Counted(KeyState):
        reads = 0

        def get(self, name: bytes) -> bytes | None:
            self.reads += 1
            return super().get(name)

    task = Counted({})
    buckets = opened(task, 1_000)
    pages = np.arange(10_000, dtype=np.uint64)
    buckets.read(task, pages).add(task, np.arange(10_000), entries(*range(10_000)))
    before = task.reads
    assert not buckets.read(task, pages + np.uint64(2**41)).counts.any()
    # The filter says yes to one in a hundred.
    assert task.reads - before < 200
    assert buckets.read(task, pages[:1]).counts.tolist() == [1]


def test_a_log_of_many_values_becomes_one() -> None:
    task = KeyState({})
    buckets = opened(task, 10_000)
    for number in range(3 * LOG_VALUES_MAX):
        add(buckets, task, 1, number)
    assert len(task.content) <= LOG_VALUES_MAX
    assert opened(task, 10_000).read(task, np.array([1], np.uint64)).entries["high"].tolist() == list(
        range(3 * LOG_VALUES_MAX)
    )


@pytest.mark.parametrize("pages", [1, 100_000])
def test_at_most_half_of_a_segment_has_expired(pages: int) -> None:
    task, generator = KeyState({}), np.random.default_rng(1)
    buckets = opened(task, 64, RETAINED)
    for epoch in range(200):
        for number in range(10):
            add(buckets, task, int(generator.integers(pages)), at(number, epoch))
        buckets.expire(task, epoch - 20)
    assert stored(task) <= 2 * 10 * 21 + 64
    assert opened(task, 64, RETAINED).floor == 179


@pytest.mark.parametrize(("name", "message"), [(b"d", "directory"), (b"l", "with its segment")])
def test_what_the_state_has_lost_is_noticed_and_not_left_out(name: bytes, message: str) -> None:
    task = KeyState({})
    add(opened(task, 1), task, 7, 1)
    for lost in [each for each in task.content if each[:1] == name]:
        del task.content[lost]
    with pytest.raises(AssertionError, match=message):
        opened(task, 1).read(task, np.array([7], np.uint64))
