import numpy as np
import pytest

from index.dataflow import Kind
from index.dataflow.buckets import Buckets
from tests.support.dataflow import KeyState

ENTRY = np.dtype([("high", "<u8"), ("low", "<u8")])


def entries(*numbers: int) -> np.ndarray:
    rows = np.zeros(len(numbers), ENTRY)
    rows["high"] = numbers
    return rows


@pytest.mark.parametrize("chunk_entries", [1, 2, 3, 100])
def test_a_bucket_gives_its_entries_in_the_order_in_which_they_came(chunk_entries: int) -> None:
    task, buckets = KeyState({}), Buckets(Kind.NEAR_CLAIMS, ENTRY, chunk_entries)
    buckets.add(task, 7, entries(1, 2))
    buckets.add(task, 9, entries(3))
    buckets.add(task, 7, entries(4, 5, 6))
    found, counts = buckets.read(task, [7, 8, 9])
    assert found["high"].tolist() == [1, 2, 4, 5, 6, 3]
    assert counts.tolist() == [5, 0, 1]


def test_full_chunks_are_never_written_again() -> None:
    task, buckets = KeyState({}), Buckets(Kind.NEAR_CLAIMS, ENTRY, 2)
    buckets.add(task, 7, entries(1, 2, 3))
    full = {name for name, content in task.content.items() if len(content) == 2 * ENTRY.itemsize}
    before = dict(task.content)
    buckets.add(task, 7, entries(4, 5))
    assert len(full) == 1
    assert {name for name in before if task.content[name] == before[name]} == full


def test_kinds_have_buckets_of_their_own() -> None:
    task = KeyState({})
    Buckets(Kind.NEAR_CLAIMS, ENTRY, 2).add(task, 7, entries(1))
    assert not len(Buckets(Kind.EXACT_CLAIMS, ENTRY, 2).read(task, [7])[0])
