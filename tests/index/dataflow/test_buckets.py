import numpy as np
import pytest

from index.dataflow.buckets import Buckets
from tests.support.dataflow import KeyState

ENTRY = np.dtype([("high", "<u8"), ("low", "<u8")])


def entries(*numbers: int) -> np.ndarray:
    rows = np.zeros(len(numbers), ENTRY)
    rows["high"] = numbers
    return rows


def add(buckets: Buckets, task: KeyState, pages: list[int], *numbers: list[int]) -> None:
    places = np.repeat(np.arange(len(pages)), [len(each) for each in numbers])
    buckets.add(
        task,
        buckets.read(task, np.array(pages, np.uint64)),
        places,
        entries(*(number for each in numbers for number in each)),
    )


@pytest.mark.parametrize("chunk_entries", [1, 2, 3, 100])
def test_a_bucket_gives_its_entries_in_the_order_in_which_they_came(chunk_entries: int) -> None:
    task, buckets = KeyState({}), Buckets(ENTRY, chunk_entries)
    add(buckets, task, [7, 9], [1, 2], [3])
    add(buckets, task, [7, 8], [4, 5, 6], [])
    found = buckets.read(task, np.array([7, 8, 9], np.uint64))
    assert found.entries["high"].tolist() == [1, 2, 4, 5, 6, 3]
    assert found.counts.tolist() == [5, 0, 1]


def test_full_chunks_are_never_written_again() -> None:
    task, buckets = KeyState({}), Buckets(ENTRY, 2)
    add(buckets, task, [7], [1, 2, 3])
    full = {name for name, content in task.content.items() if len(content) == 2 * ENTRY.itemsize}
    before = dict(task.content)
    add(buckets, task, [7], [4, 5])
    assert len(full) == 1
    assert {name for name in before if task.content[name] == before[name]} == full


def test_a_chunk_that_the_state_has_lost_is_noticed_and_not_left_out() -> None:
    task, buckets = KeyState({}), Buckets(ENTRY, 2)
    add(buckets, task, [7], [1, 2, 3])
    (full,) = (name for name, content in task.content.items() if len(content) == 2 * ENTRY.itemsize)
    del task.content[full]
    with pytest.raises(AssertionError, match="never removed"):
        buckets.read(task, np.array([7], np.uint64))


@pytest.mark.parametrize("chunk_entries", [1, 2, 3, 100])
@pytest.mark.parametrize("kept", [[], [2, 5], [1, 2, 4, 5, 6], [1, 2, 3, 4, 5, 6]])
def test_entries_that_are_not_kept_leave_the_state_and_later_ones_come_behind_the_others(
    chunk_entries: int, kept: list[int]
) -> None:
    task, buckets = KeyState({}), Buckets(ENTRY, chunk_entries)
    add(buckets, task, [7, 9], [1, 2, 3, 4, 5, 6], [8])
    opened = buckets.read(task, np.array([7], np.uint64))
    left = buckets.keep(task, opened, np.isin(opened.entries["high"], kept))
    assert left.entries["high"].tolist() == kept
    buckets.add(task, left, np.zeros(2, np.int64), entries(10, 11))
    found = buckets.read(task, np.array([7, 9], np.uint64))
    assert found.entries["high"].tolist() == [*kept, 10, 11, 8]
    # No chunk is left over: all else is names, and the number of full chunks.
    assert sum(len(content) // ENTRY.itemsize for content in task.content.values()) == len(kept) + 3
