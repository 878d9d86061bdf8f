from pathlib import Path

import pytest

from index import Source, Verdict
from streamer.records.record import Record
from streamer.verification.findings import Findings
from streamer.verification.ledger import LedgerWriter
from streamer.verification.originals import check_originals

SOURCES = (Source("stream", 0), Source("stream", 1))
ORIGINAL, OTHER_PARTITION, SAME_PARTITION = 1, 2, 0
"""Rows: two of the first partition, one of the second."""


def later_originals(folder: Path, verdict: Verdict, row: int, rank: int, rank_of_original: int) -> int:
    """How many originals came later than what names them, where a row names ORIGINAL; ranks are places in the index's order."""
    writer = LedgerWriter(folder)
    for source, count in zip(SOURCES, (2, 1), strict=True):
        writer.add(source, [Record(source, "topic", offset, None, b"", 0) for offset in range(count)])
    ledger = writer.finish({}, Findings())
    ledger.state["outputs"] = 1
    ledger.state["verdict"][[ORIGINAL, row]] = Verdict.UNIQUE, verdict
    ledger.state["rank"][[ORIGINAL, row]] = rank_of_original, rank
    ledger.state["original"][row] = ORIGINAL
    check_originals(ledger, "root")
    assert ledger.findings["original-later"].examined == 1
    return ledger.findings["original-later"].wrong


def test_a_duplicate_comes_after_its_original_by_the_order_of_the_index_between_partitions(tmp_path: Path) -> None:
    for folder, ranks, wrong in ((tmp_path / "after", (5, 3), 0), (tmp_path / "before", (3, 5), 1)):
        folder.mkdir()
        assert later_originals(folder, Verdict.DUPLICATE, OTHER_PARTITION, *ranks) == wrong


@pytest.mark.parametrize("verdict", [Verdict.UPDATE, Verdict.TEMPLATE])
def test_what_stands_for_itself_is_held_against_offsets_alone(verdict: Verdict, tmp_path: Path) -> None:
    """A restored index has the documents of another partition in another order than they were decided in."""
    assert later_originals(tmp_path, verdict, OTHER_PARTITION, 3, 5) == 0


@pytest.mark.parametrize("verdict", [Verdict.DUPLICATE, Verdict.UPDATE])
def test_within_a_partition_the_offset_decides_whatever_the_index_says(verdict: Verdict, tmp_path: Path) -> None:
    assert later_originals(tmp_path, verdict, SAME_PARTITION, 5, 3) == 1
