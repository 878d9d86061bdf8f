import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import numbers

NUMBERS = st.lists(st.one_of(st.integers(0, 2**64 - 2), st.integers(0, 50)), max_size=200)


@given(st.lists(NUMBERS, max_size=4), NUMBERS)
def test_numbers_get_places_in_the_order_in_which_they_come(batches: list[list[int]], asked: list[int]) -> None:
    table, places = np.full(4, numbers.EMPTY, np.uint64), np.empty(4, np.int64)
    known: dict[int, int] = {}
    for batch in batches:
        found, table, places, count = numbers.entered(table, places, np.array(batch, np.uint64), len(known))
        assert found.tolist() == [known.setdefault(number, len(known)) for number in batch]
        assert count == len(known)
    of_asked = numbers.found(table, places, np.array(asked, np.uint64))
    assert of_asked.tolist() == [known.get(number, -1) for number in asked]
