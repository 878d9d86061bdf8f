import numpy as np
import pytest

from index.dataflow.buckets.in_place import Buckets
from index.dataflow.rows import PARTITION_BITS, Retained
from index.session import Retention
from tests.support.dataflow import KeyState

ENTRY = np.dtype([("high", "<u8"), ("low", "<u8")])


def entries(*numbers: int) -> np.ndarray:
    rows = np.zeros(len(numbers), ENTRY)
    rows["high"] = numbers
    return rows


def at(number: int, epoch: int) -> int:
    """High key of a document with this number in an epoch of one millisecond."""
    return epoch << PARTITION_BITS | number


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
@pytest.mark.parametrize("old", [[], [2, 5], [1], [1, 2, 3, 4, 5, 6]])
def test_expired_entries_leave_the_state_and_later_ones_come_behind_the_others(
    chunk_entries: int, old: list[int]
) -> None:
    task, buckets = KeyState({}), Buckets(ENTRY, chunk_entries, Retained(Retention(100), 1))
    kept = [number for number in range(1, 7) if number not in old]
    add(buckets, task, [7, 9], [at(number, 0 if number in old else 9) for number in range(1, 7)], [at(8, 9)])
    buckets.expire(task, 9)
    left = buckets.read(task, np.array([7], np.uint64))
    assert (left.entries["high"] & 0xFFFF).tolist() == kept
    left.add(task, np.zeros(2, np.int64), entries(at(10, 9), at(11, 9)))
    found = buckets.read(task, np.array([7, 9], np.uint64))
    assert (found.entries["high"] & 0xFFFF).tolist() == [*kept, 10, 11, 8]
    # No chunk is left over: all else is names, and the number of full chunks.
    assert sum(len(content) // ENTRY.itemsize for content in task.content.values()) == len(kept) + 3
