"""Checks on rows written by hand."""

from pathlib import Path

import pytest

from index import NO_DISTANCE, Kind, Position, Source, Verdict
from streamer.delivered.table import Delivered, Table, opened
from streamer.records.output_headers import OutputHeaders
from streamer.transports.output_log import Extent
from streamer.verification.checks import KNOWN, Check, Group, originals, updates
from streamer.verification.findings import EXAMPLES_MAX, Findings

ENDS = {Source("stream", 0): 2, Source("stream", 1): 1}
EXTENT = Extent({}, {}, ENDS, ENDS, outputs=0, inputs=0)
ORIGINAL, OTHER_PARTITION, SAME_PARTITION = 1, 2, 0
"""Rows: two of the first partition, one of the second."""

SCHEMA = """
CREATE TABLE journal (row INTEGER PRIMARY KEY, rank INTEGER, verdict INTEGER, is_retired INTEGER, in_frame INTEGER);
CREATE TABLE measured (row INTEGER PRIMARY KEY, distance INTEGER, is_near INTEGER);
CREATE TABLE given_back (row INTEGER PRIMARY KEY, sent INTEGER, is_known INTEGER);
"""


def outputs(table: Table, verdicts: dict[int, Verdict], original: int) -> None:
    table.add_outputs(
        [
            Delivered(row, OutputHeaders(verdict, "", None, "", None, NO_DISTANCE, None, "", ()), original)
            for row, verdict in verdicts.items()
        ]
    )


def later_originals(folder: Path, verdict: Verdict, row: int, rank: int, rank_of_original: int) -> int:
    """How many originals came later than what names them, where a row names ORIGINAL; ranks are places in the index's order."""
    with opened(folder / "table", EXTENT) as table:
        table.execute(SCHEMA)
        outputs(table, {ORIGINAL: Verdict.UNIQUE, row: verdict}, ORIGINAL)
        table.insert("journal", [(ORIGINAL, rank_of_original, 0, 0, 0), (row, rank, int(verdict), 0, 0)])
        findings = Findings()
        originals("o.settings = ''", only_unique=False).run(table, findings)
    assert findings["original-later"].examined == 1
    return findings["original-later"].wrong


def test_a_duplicate_comes_after_its_original_by_the_order_of_the_index_between_partitions(tmp_path: Path) -> None:
    for ranks, wrong in (((5, 3), 0), ((3, 5), 1)):
        assert later_originals(tmp_path, Verdict.DUPLICATE, OTHER_PARTITION, *ranks) == wrong


@pytest.mark.parametrize("verdict", [Verdict.UPDATE, Verdict.TEMPLATE])
def test_what_stands_for_itself_is_held_against_offsets_alone(verdict: Verdict, tmp_path: Path) -> None:
    """A restored index has the documents of another partition in another order than they were decided in."""
    assert later_originals(tmp_path, verdict, OTHER_PARTITION, 3, 5) == 0


@pytest.mark.parametrize("verdict", [Verdict.DUPLICATE, Verdict.UPDATE])
def test_within_a_partition_the_offset_decides_whatever_the_index_says(verdict: Verdict, tmp_path: Path) -> None:
    assert later_originals(tmp_path, verdict, SAME_PARTITION, 5, 3) == 1


@pytest.mark.parametrize("framed", [(), (ORIGINAL,), (OTHER_PARTITION,)])
def test_the_similarity_of_an_update_in_a_frame_is_counted_and_not_blamed(
    framed: tuple[int, ...], tmp_path: Path
) -> None:
    """A restored index may know another frame for either version."""
    told = OutputHeaders(Verdict.UPDATE, "", None, "", None, 3_000, None, "", ())
    with opened(tmp_path / "table", EXTENT) as table:
        table.execute(SCHEMA)
        outputs(table, {ORIGINAL: Verdict.UNIQUE}, ORIGINAL)
        table.add_outputs([Delivered(OTHER_PARTITION, told, ORIGINAL)])
        for row in (ORIGINAL, OTHER_PARTITION):
            table.insert("journal", [(row, row, 0, row == ORIGINAL, row in framed)])
            table.insert("print", [(row, int(Kind.NEAR), bytes(8), 0, None, None, 0, False, None, None, None, None)])
        table.insert("measured", [(OTHER_PARTITION, 3_001, True)])
        findings = Findings()
        updates(KNOWN).run(table, findings)
    assert findings["similarity"].wrong == (not framed)
    assert findings.unchecked["similarities in the frames of hosts, which the index may know otherwise"] == bool(framed)


def test_the_first_excuse_of_a_problem_counts_and_only_the_first_problems_are_in_words(tmp_path: Path) -> None:
    count = 3 * EXAMPLES_MAX
    with opened(tmp_path / "table", Extent({}, {}, {Source("stream", 0): count}, {}, 0, 0)) as table:
        outputs(table, dict.fromkeys(range(count), Verdict.UNIQUE), ORIGINAL)
        excused = [("below 2", "row < 2"), ("below 5", "row < 5"), ("by nothing", "NULL")]
        check = Check("value", "row != 7", "place(row)", over="row < 25", excused=excused)
        findings = Findings()
        Group("FROM output", [check], left_out=[("odd", "row % 2")]).run(table, findings)
        first = [table.text(row) for row in range(5, 6 + EXAMPLES_MAX) if row != 7]
        assert table.position(5) == Position(Source("stream", 0), 5)
    assert findings.unchecked == {"odd": count // 2, "below 2": 2, "below 5": 3, "by nothing": 0}
    assert findings["value"].as_json() == {"check": "value", "examined": 25, "wrong": count - 6, "examples": first}
