"""The table of what was delivered: rows by position, several outputs of one position, a full disk."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from index import NO_DISTANCE, Position, Source, Verdict
from streamer.delivered.table import Delivered, Table, blobs, opened, text_bytes, text_of
from streamer.errors import OutputUnwritable
from streamer.records.output_headers import OutputHeaders
from streamer.transports.output_log import Extent

WEST, EAST = Source("stream", 0), Source("stream", 1)
EXTENT = Extent({"stream": "pages"}, {}, {WEST: 9, EAST: 4}, {WEST: 12}, outputs=0, inputs=0)


def headers(verdict: Verdict) -> OutputHeaders:
    return OutputHeaders(verdict, "", None, "a", None, NO_DISTANCE, None, "", ())


def test_rows_ascend_within_a_source_and_sources_follow_each_other(tmp_path: Path) -> None:
    with opened(tmp_path / "table", EXTENT) as table:
        positions = [Position(WEST, 0), Position(WEST, 11), Position(EAST, 0), Position(EAST, 3)]
        rows = [table.row(position) for position in positions]
        assert rows == [0, 11, 12, 15]
        assert [table.position(row) for row in rows if row is not None] == positions
        assert table.text(15) == "pages/1/3"
        assert table.of_one_source(np.array([0, 11, 12]), np.array([11, 12, 15])).tolist() == [True, False, True]


@pytest.mark.parametrize(
    "position",
    [
        None,
        Position(WEST, 12),
        Position(EAST, 4),
        Position(EAST, 2**64),
        Position(EAST, -1),
        Position(Source("other", 0), 0),
    ],
)
def test_a_position_beyond_the_end_of_its_source_or_of_an_unknown_source_has_no_row(
    tmp_path: Path, position: Position | None
) -> None:
    with opened(tmp_path / "table", EXTENT) as table:
        assert table.row(position) is None


@pytest.mark.parametrize(("last_stays", "verdict"), [(False, Verdict.UNIQUE), (True, Verdict.DUPLICATE)])
def test_of_several_outputs_at_a_position_one_stays_and_all_are_counted(
    tmp_path: Path, last_stays: bool, verdict: Verdict
) -> None:
    with opened(tmp_path / "table", EXTENT) as table:
        for each in (Verdict.UNIQUE, Verdict.DUPLICATE):
            table.add_outputs([Delivered(7, headers(each), None)], last_stays=last_stays)
        assert table.present("output", [3, None, 7], "row, times, verdict") == {7: (7, 2, int(verdict))}


def test_a_further_table_leaves_all_rows_in_one_transaction(tmp_path: Path) -> None:
    """Outside of one SQLite writes each row by itself, at ten times the cost."""
    connection = sqlite3.connect(tmp_path / "table", isolation_level=None)
    table = Table(connection, EXTENT)
    assert connection.in_transaction
    table.execute("CREATE TABLE further (row INTEGER PRIMARY KEY)")
    assert connection.in_transaction
    connection.close()


def test_a_result_comes_in_portions_and_the_file_is_gone_at_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "table", EXTENT) as table:
        table.add_outputs([Delivered(row, headers(Verdict.UNIQUE), None) for row in range(5)])
        assert [len(portion) for portion in table.portions("SELECT row FROM output", size=2)] == [2, 2, 1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "page", "\udcff", "网页"])
def test_an_id_comes_back_as_it_was_also_with_lone_surrogates(text: str) -> None:
    assert text_of(text_bytes(text)) == text


def test_a_missing_fingerprint_is_zeros() -> None:
    assert blobs([b"\1\0", None], "<u2", 1).tolist() == [[1], [0]]


def test_a_table_that_cannot_be_written_names_its_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputUnwritable, match="none: the table"), opened(tmp_path / "none" / "table", EXTENT):
        pass


def test_a_full_disk_is_told_and_a_wrong_query_is_no_such_thing(tmp_path: Path) -> None:
    def fill(table: Table) -> None:
        table.execute("PRAGMA max_page_count = 10")
        rows = (Delivered(row, headers(Verdict.UNIQUE), None) for row in range(9_000))
        table.add_outputs([each._replace(number=each.row) for each in rows])

    with pytest.raises(OutputUnwritable, match="full"), opened(tmp_path / "table", EXTENT) as table:
        fill(table)
    with pytest.raises(sqlite3.OperationalError), opened(tmp_path / "table", EXTENT) as table:
        table.one("SELECT nothing")
