import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.kernels.columns import columns_at, count_at, grown, lower
from index.kernels.scan import address_of
from index.storage.codec import pack_segment


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30).map(sorted), st.integers(0, 10))
def test_the_first_place_of_a_value_is_that_of_searching(values: list[int], value: int) -> None:
    column = np.array(values, np.uint16)
    assert lower(column, value, 0, len(column)) == np.searchsorted(column, value)


def test_a_column_grows_to_twice_its_length_and_keeps_its_begin() -> None:
    column = np.arange(6).reshape(3, 2)
    larger = grown(column)
    assert larger.shape == (6, 2)
    assert larger[:3].tolist() == column.tolist()


def test_a_segment_is_read_at_its_address() -> None:
    columns = np.arange(12, dtype=np.uint16).reshape(4, 3)
    value = pack_segment(columns, np.empty(0, np.uint64))
    assert count_at(address_of(value)) == 3
    assert columns_at(address_of(value), 2).tolist() == columns[:2].tolist()
