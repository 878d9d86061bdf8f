"""Tables of records by position: the example, and offsets that a source does not have."""

import doctest

import numpy as np

from index import Source
from streamer.verification import position_table
from streamer.verification.position_table import NONE, PositionTable


def test_the_example_of_the_table_is_true() -> None:
    results = doctest.testmod(position_table)
    assert (results.failed, results.attempted > 0) == (0, True)


def test_a_source_without_rows_and_offsets_beyond_the_last_have_no_row() -> None:
    source = Source("stream", 0)
    table = PositionTable({source: np.array([3], np.uint64)}, lambda _, places: places, {})
    asked = np.array([2, 3, 4], np.uint64)
    assert table.rows_of(source, asked).tolist() == [NONE, 0, NONE]
    assert table.rows_of(Source("stream", 1), asked).tolist() == [NONE] * 3
