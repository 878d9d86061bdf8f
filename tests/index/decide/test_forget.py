import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from index.decide import forget
from index.entry import Insert, Kind, Position, Source, Verdict
from index.index import Index, internals_of
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from tests.support.answers import answers_of
from tests.support.entries import TWO, Row, ends_of, entries_of
from tests.support.index_process import DOCUMENTS, rows_of
from tests.support.index_process import PARAMETERS as PROCESS_PARAMETERS
from tests.support.indexes import MAP_BYTES_MAX, everything, filled, looked_at, mixed_rows, opened, wrong
from tests.support.paths import ROOT
from tests.support.roots import NEAR_ROOT

FAR = 0xFFFF_FFFF_0000_0000


def admit(index: Index, *rows: Row, bits: int = 64) -> list[Verdict]:
    return [Verdict(verdict) for verdict in index.admit(entries_of(rows, bits), ends_of(rows)).verdicts.tolist()]


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("kind", [Kind.NEAR, Kind.EXACT])
def test_what_resembles_a_forgotten_document_is_unique_again(tmp_path: Path, bits: int, kind: Kind) -> None:
    with opened(tmp_path, Parameters(bits)) as index:
        assert (
            admit(index, Row(0, 5, kind=kind, id="a"), Row(1, FAR, kind=kind, id="b"), bits=bits)
            == [Verdict.UNIQUE] * 2
        )
        assert admit(index, Row(2, 5, kind=kind), bits=bits) == [Verdict.DUPLICATE]
        assert [document.id for document in index.forget(["a", "nobody"])] == ["a"]
        assert index.forget(["a"]) == []
        assert admit(index, Row(3, 5, kind=kind), Row(4, FAR, kind=kind), bits=bits) == [
            Verdict.UNIQUE,
            Verdict.DUPLICATE,
        ]
        statistics = index.statistics()
        assert statistics.entries + statistics.exact_entries == 2
        assert statistics.forgotten == 1
    assert wrong(tmp_path) == {}


def test_verdicts_that_name_a_forgotten_document_stay_what_they_were(tmp_path: Path) -> None:
    rows = [Row(0, 5, id="a"), Row(1, 7, id="b")]
    with opened(tmp_path) as index:
        before = answers_of(index.admit(entries_of(rows), ends_of(rows)))
        index.forget(["a"])
        again = index.admit(entries_of(rows), ends_of(rows))
        assert again.replayed.all()
        assert answers_of(again) == before
        assert again.original_ids == [None, "a"]


def test_all_documents_of_one_id_are_forgotten_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, Row(0, 0, id="a"), Row(1, FAR, id="a"), Row(2, 2**64 - 1, id="b"))
        assert len(index.forget(["a"])) == 2
        assert index.statistics().entries == 1


def test_a_forgotten_original_takes_the_duplicates_that_entered_along(tmp_path: Path) -> None:
    rows = [Row(0, 0, id="a"), Row(1, 1, id="b"), Row(2, FAR, id="c"), Row(3, FAR + 1, id="d")]
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT)) as index:
        admit(index, *rows)
        assert [document.id for document in index.forget(["a", "d"])] == ["a", "b", "d"]
        assert admit(index, Row(4, 1), Row(5, FAR + 1)) == [Verdict.UNIQUE, Verdict.DUPLICATE]
    assert wrong(tmp_path) == {}


def test_what_enters_between_the_last_look_and_the_removal_is_forgotten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as index:
        admit(index, Row(0, 5, id="a"))
        write = internals_of(index).store.write

        def late(operation: Callable[[Transaction], object], committed: Callable[[], None]) -> object:
            monkeypatch.setattr(internals_of(index).store, "write", write)
            admit(index, Row(1, FAR, id="a"))
            return write(operation, committed)

        monkeypatch.setattr(internals_of(index).store, "write", late)
        assert [document.number for document in index.forget(["a"])] == [0, 1]
        assert index.statistics().entries == 0


STREAMS = [
    Row(0, 0, id="a"),
    Row(1, 1, TWO, id="b"),
    Row(1, FAR, id="c"),
    Row(2, FAR + 1, TWO, id="d"),
    Row(3, 2**64 - 1, TWO, id="e"),
    Row(2, 2**64 - 2, id="f"),
    Row(4, 0xAAAA_AAAA_AAAA_AAAA, TWO, id="a"),
]
"""Of a stream `a` and `c` with duplicates from another one, `f` as a duplicate, and an id that the other one has too."""


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 1_000])
def test_what_one_stream_delivered_is_forgotten_with_its_duplicates_from_elsewhere(
    rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "ROWS_AT_ONCE", rows_at_once)
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT)) as index:
        admit(index, *STREAMS)
        before = everything(index)
        assert index.forget_streams(["stream-one", "nobody"], dry_run=True) == 5
        assert everything(index) == before
        assert index.forget_streams(["stream-one", "nobody"]) == 5
        assert index.forget_streams(["stream-one"]) == index.forget_streams(["nobody"]) == 0
        assert index.statistics().forgotten == 5
        late = [Row(10, 0), Row(11, FAR), Row(12, 2**64 - 1), Row(13, 0xAAAA_AAAA_AAAA_AAAA)]
        assert admit(index, *late) == [Verdict.UNIQUE, Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.DUPLICATE]
    assert wrong(tmp_path) == {}


def test_a_stream_of_an_index_with_unique_documents_only_is_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admit(index, *STREAMS)
        assert index.forget_streams(["stream-two"]) == 2
        assert [document.id for document in index.find(["a", "c", "e"]) if index.forget([document.id])] == ["a", "c"]
    assert wrong(tmp_path) == {}


@pytest.mark.parametrize("rows_at_once", [1, 1_000])
def test_documents_whose_ids_begin_alike_are_forgotten_with_their_duplicates(
    rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "ROWS_AT_ONCE", rows_at_once)
    rows = [Row(0, 0, id="a/1"), Row(1, 1, TWO, id="b/1"), Row(2, FAR, id="a/2"), Row(3, 2**64 - 1, TWO, id="ab/1")]
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT)) as index:
        admit(index, *rows, Row(4, 0xAAAA_AAAA_AAAA_AAAA, TWO))
        before = everything(index)
        assert index.forget_names("a/", dry_run=True) == 3
        assert everything(index) == before
        with pytest.raises(ValueError, match="empty prefix"):
            index.forget_names("")
        assert index.forget_names("a/") == 3
        assert index.forget_names("a/") == 0
        late = [Row(10, 0), Row(11, FAR), Row(12, 2**64 - 1), Row(13, 0xAAAA_AAAA_AAAA_AAAA)]
        assert admit(index, *late) == [Verdict.UNIQUE, Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.DUPLICATE]
    assert wrong(tmp_path) == {}


def test_a_document_that_its_position_names_is_no_document_of_a_scope_called_like_its_topic(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        for stream, name in (("stream-one", "a"), ("stream-two", "pages")):
            index.begin(Source(stream, 0), name, 0)
        one, two = Source("stream-one", 0), Source("stream-two", 0)
        by_position = Row(7, 0, one, id="a/0/7")
        by_id = [Row(7, FAR, two, id="a/0/7"), Row(8, 0xAAAA_AAAA_AAAA_AAAA, one, id="a/0/7")]
        admit(index, by_position, *by_id)
        assert index.forget_names("a/", dry_run=True) == 2
        assert index.forget_names("a/") == 2
        late = [Row(10, 0), Row(11, FAR), Row(12, 0xAAAA_AAAA_AAAA_AAAA)]
        assert admit(index, *late) == [Verdict.DUPLICATE, Verdict.UNIQUE, Verdict.UNIQUE]
    assert wrong(tmp_path) == {}


def test_what_was_given_back_to_a_stream_is_forgotten_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        dropped = Row(1, 1, id="b")
        admit(index, Row(0, 0, TWO, id="a"), dropped)
        assert index.give_back(entries_of([dropped])).all()
        index.settle([Position(dropped.source, dropped.offset)])
        assert index.forget_streams(["stream-one"]) == 1
        assert admit(index, Row(9, 1)) == [Verdict.DUPLICATE]
        assert index.forget_streams(["stream-two"]) == 1
        assert admit(index, Row(10, 1)) == [Verdict.UNIQUE]
    assert wrong(tmp_path) == {}


def test_a_stream_is_forgotten_whole_after_a_failure_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "ROWS_AT_ONCE", 2)
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT)) as index:
        admit(index, *STREAMS)
        write, calls = internals_of(index).store.write, iter([True, False])

        def failing(operation: Callable[[Transaction], object], committed: Callable[[], None]) -> object:
            if not next(calls):
                raise OSError("no space")
            return write(operation, committed)

        monkeypatch.setattr(internals_of(index).store, "write", failing)
        with pytest.raises(OSError, match="no space"):
            index.forget_streams(["stream-one"])
        monkeypatch.setattr(internals_of(index).store, "write", write)
        assert index.statistics().forgotten == 2
        assert index.forget_streams(["stream-one"]) == 3
    assert wrong(tmp_path) == {}


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_a_dry_run_says_which_documents_would_go_and_changes_nothing(insert: Insert, tmp_path: Path) -> None:
    root = NEAR_ROOT if insert == "root" else None
    with opened(tmp_path, Parameters(insert=insert, root=root)) as index:
        admit(index, *STREAMS)
        before = everything(index)
        expected = index.forget(["a"], dry_run=True)
        assert everything(index) == before
        assert index.forget(["a"]) == expected
        assert [each.id for each in expected] == (["a", "a"] if insert == "unique" else ["a", "b", "a"])
        assert index.forget(["a"], dry_run=True) == []


def test_documents_are_found_by_their_ids_oldest_first(tmp_path: Path) -> None:
    rows = mixed_rows(1, 300)
    filled(tmp_path, rows)
    with looked_at(tmp_path) as index:
        by_id = {document.id: document for document in index.documents(range(300)) if document}
        ids = [id_ for number, id_ in enumerate(by_id) if number % 3 == 0]
        assert index.find(ids) == [by_id[id_] for id_ in ids]
        assert index.find([]) == []


def test_an_index_opened_for_reading_forgets_nothing(tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(2, 50))
    with looked_at(tmp_path) as index:
        before = everything(index)
        with pytest.raises(Exception, match="opened for reading only"):
            index.forget(["id 0"])
        assert everything(index) == before


def test_forgetting_while_another_process_admits_leaves_an_index_that_verifies(tmp_path: Path) -> None:
    Index.open(tmp_path, PROCESS_PARAMETERS, map_bytes_max=MAP_BYTES_MAX).close()
    command = [sys.executable, "-m", "tests.support.index_process", str(tmp_path), "0", "1000"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        forgotten, rows = 0, rows_of(0)
        with Index.open(tmp_path, PROCESS_PARAMETERS, map_bytes_max=MAP_BYTES_MAX) as index:
            for line in process.stdout:
                forgotten += len(index.forget([row.id for row in rows[int(line) - 20 : int(line)]]))
            statistics = index.statistics()
    assert statistics.journal_rows == DOCUMENTS
    assert statistics.forgotten == forgotten > 0
    assert wrong(tmp_path) == {}
