"""The order in which documents are decided once more, on rows written by hand."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import NO_DISTANCE, Position, Source, Verdict
from streamer.delivered.table import Delivered, opened
from streamer.records.output_headers import OutputHeaders
from streamer.transports.output_log import Extent
from streamer.what_if.order import SCHEMA, write_order
from tests.support.examples import examples

WEST, EAST = Source("stream", 0), Source("stream", 1)
Written = tuple[Source, int, int, Position | None]
"""Source, offset and timestamp of a document, and its original."""

UNKNOWN = None


def ordered(folder: Path, written: Sequence[Written], ranks: Sequence[int | None]) -> list[int]:
    """Places of the documents among those written, in the order in which they are decided once more."""
    extent = Extent({"stream": "documents"}, {}, {WEST: 20, EAST: 20}, {}, outputs=0, inputs=0)
    with opened(folder / "table", extent) as table:
        table.execute(SCHEMA)
        numbers: dict[int, int] = {}
        for number, (source, offset, arrived_ms, original) in enumerate(written):
            row = table.row(Position(source, offset))
            assert row is not None
            numbers.setdefault(row, number)
            verdict = Verdict.UNIQUE if original is None else Verdict.DUPLICATE
            told = OutputHeaders(verdict, "", Position(source, offset), "", None, NO_DISTANCE, original, "", ())
            table.add_outputs([Delivered(row, told, table.row(original), arrived_ms, number)])
            if (rank := ranks[number]) is not None:
                table.insert("journal", [(row, rank, int(verdict))], replacing=True)
        write_order(table)
        portions = table.portions("SELECT place, row FROM ordered ORDER BY place")
        rows = [row for portion in portions for _, row in portion]
        assert table.one("SELECT coalesce(max(place) + 1, 0), count(*) FROM ordered") == (len(rows), len(rows))
        return [numbers[row] for row in rows]


def test_the_order_is_that_of_the_index(tmp_path: Path) -> None:
    written = [(WEST, 5, 10, None), (WEST, 6, 20, None), (EAST, 5, 30, None)]
    assert ordered(tmp_path, written, [1, 2, 0]) == [2, 0, 1]


def test_what_the_index_does_not_know_comes_behind_what_it_knows_and_behind_its_original(tmp_path: Path) -> None:
    written = [
        (WEST, 0, 10, None),
        (WEST, 1, 20, Position(EAST, 0)),
        (WEST, 2, 30, None),
        (EAST, 0, 40, None),
        (EAST, 1, 50, Position(WEST, 0)),
    ]
    assert ordered(tmp_path, written, [0, UNKNOWN, 1, 2, UNKNOWN]) == [0, 2, 3, 1, 4]


def test_without_an_index_timestamps_tell_and_files_come_one_after_the_other(tmp_path: Path) -> None:
    times = [(WEST, 0, 30, None), (EAST, 0, 10, None), (EAST, 1, 40, None), (WEST, 1, 5, None)]
    assert ordered(tmp_path, times, [UNKNOWN] * 4) == [1, 0, 3, 2]
    files = [(source, offset, -1, None) for source, offset, _, _ in times]
    assert ordered(tmp_path, files, [UNKNOWN] * 4) == [0, 3, 1, 2]


def test_a_position_that_came_out_again_and_a_duplicate_of_nothing_that_can_be_read_are_left_out(
    tmp_path: Path,
) -> None:
    written = [(WEST, 3, 1, None), (WEST, 4, 2, Position(WEST, 1)), (WEST, 3, 1, None), (WEST, 5, 3, None)]
    assert ordered(tmp_path, written, [0, 1, 0, 2]) == [0, 3]


@examples(30)
@given(st.data())
def test_an_original_always_comes_before_its_duplicates_whatever_the_index_knows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    written: list[Written] = []
    for offset, source in enumerate(data.draw(st.lists(st.sampled_from([WEST, EAST]), min_size=1, max_size=10))):
        uniques = [Position(each, at) for each, at, _, original in written if original is None]
        written.append((source, offset, data.draw(st.integers(0, 5)), data.draw(st.sampled_from([None, *uniques]))))
    ranks = [place if data.draw(st.booleans()) else UNKNOWN for place in range(len(written))]
    order = ordered(tmp_path_factory.mktemp("rows"), written, ranks)
    assert sorted(order) == list(range(len(written)))
    places = {Position(*written[number][:2]): place for place, number in enumerate(order)}
    for source, offset, _, original in written:
        if original is not None:
            assert places[original] < places[Position(source, offset)]
