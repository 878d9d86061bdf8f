"""The order in which documents are decided once more, on rows written by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import NO_DISTANCE, Parameters, Position, Source, Verdict
from streamer.records.output_headers import OutputHeaders
from streamer.verification.position_table import NONE
from streamer.what_if.documents import Documents, DocumentsWriter
from streamer.what_if.order import order_of
from tests.support.entries import Row, entries_of
from tests.support.examples import examples

WEST, EAST = Source("stream", 0), Source("stream", 1)
Written = tuple[Source, int, int, Position | None]
"""Source, offset and timestamp of a document, and its original."""


def documents_of(folder: Path, written: list[Written]) -> Documents:
    with DocumentsWriter(folder, Parameters(), {"stream": "documents"}) as writer:
        for source, offset, arrived_ms, original in written:
            verdict = Verdict.UNIQUE if original is None else Verdict.DUPLICATE
            told = OutputHeaders(verdict, "", Position(source, offset), "", None, NO_DISTANCE, original, "", ())
            writer.add(entries_of([Row(offset, 1, source)]), [arrived_ms], [told])
        return writer.documents()


def ordered(documents: Documents, ranks: list[int]) -> list[int]:
    return order_of(documents, np.array(ranks, np.int64), documents.originals()).tolist()


def test_the_order_is_that_of_the_index(tmp_path: Path) -> None:
    documents = documents_of(tmp_path, [(WEST, 5, 10, None), (WEST, 6, 20, None), (EAST, 5, 30, None)])
    assert ordered(documents, [1, 2, 0]) == [2, 0, 1]


def test_what_the_index_does_not_know_comes_behind_what_it_knows_and_behind_its_original(tmp_path: Path) -> None:
    written = [
        (WEST, 0, 10, None),
        (WEST, 1, 20, Position(EAST, 0)),
        (WEST, 2, 30, None),
        (EAST, 0, 40, None),
        (EAST, 1, 50, Position(WEST, 0)),
    ]
    assert ordered(documents_of(tmp_path, written), [0, NONE, 1, 2, NONE]) == [0, 2, 3, 1, 4]


def test_without_an_index_timestamps_tell_and_files_come_one_after_the_other(tmp_path: Path) -> None:
    for folder in ("kafka", "files"):
        (tmp_path / folder).mkdir()
    times = [(WEST, 0, 30, None), (EAST, 0, 10, None), (EAST, 1, 40, None), (WEST, 1, 5, None)]
    documents = documents_of(tmp_path / "kafka", [*times])
    assert ordered(documents, [NONE] * 4) == [1, 0, 3, 2]
    files = documents_of(tmp_path / "files", [(source, offset, -1, None) for source, offset, _, _ in times])
    assert ordered(files, [NONE] * 4) == [0, 3, 1, 2]


def test_a_position_that_came_out_again_and_a_duplicate_of_nothing_that_can_be_read_are_left_out(
    tmp_path: Path,
) -> None:
    written = [(WEST, 3, 1, None), (WEST, 4, 2, Position(WEST, 1)), (WEST, 3, 1, None), (WEST, 5, 3, None)]
    assert ordered(documents_of(tmp_path, written), [0, 1, 0, 2]) == [0, 3]


@examples(30)
@given(st.data())
def test_an_original_always_comes_before_its_duplicates_whatever_the_index_knows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    written: list[Written] = []
    for offset, source in enumerate(data.draw(st.lists(st.sampled_from([WEST, EAST]), min_size=1, max_size=10))):
        uniques = [Position(each, at) for each, at, _, original in written if original is None]
        written.append((source, offset, data.draw(st.integers(0, 5)), data.draw(st.sampled_from([None, *uniques]))))
    documents = documents_of(tmp_path_factory.mktemp("rows"), written)
    ranks = [place if data.draw(st.booleans()) else NONE for place in range(len(written))]
    order = ordered(documents, ranks)
    assert sorted(order) == list(range(len(written)))
    places = {row: place for place, row in enumerate(order)}
    for row, original in enumerate(documents.originals().tolist()):
        if original != NONE:
            assert places[original] < places[row]
