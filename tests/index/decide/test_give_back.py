import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Entries, Kind, Position, Source, Verdict
from index.errors import GivingBackError
from index.index import Index
from index.matching.root import RootRule
from index.session import Recrawl, Retention
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.tools import Importer, portions
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import SMALL, all_records, opened, wrong
from tests.support.roots import NEAR_ROOT, root_rules

DAY_MS = 86_400_000
ORIGINAL = Row(0, 0b0, id="original")
DROPPED = Row(1, 0b1, id="dropped")


def admitted(index: Index, *rows: Row) -> list[tuple[str, str | None]]:
    decisions = index.admit(entries_of(rows), ends_of(rows))
    labels = [Verdict(verdict).label for verdict in decisions.verdicts.tolist()]
    return list(zip(labels, decisions.original_ids, strict=True))


def given_back(index: Index, *rows: Row) -> list[bool]:
    new = index.give_back(entries_of(rows)).tolist()
    assert index.settle(index.undelivered()) == any(new)
    return new


def rows_of_pages(generator: np.random.Generator, count: int) -> list[Row]:
    """Pages that come again and again under a few ids, near to each other, of two sources whose time moves on."""
    fingerprints = clustered_fingerprints(generator, count, 64, centres=3)
    rows = []
    for offset, fingerprint in enumerate(fingerprints):
        kind = Kind.EXACT if generator.random() < 0.2 else Kind.NEAR
        if kind is Kind.EXACT:
            fingerprint %= 3
        elif rows and generator.random() < 0.3:
            fingerprint = rows[int(generator.integers(len(rows)))].fingerprint
        source = (ONE, TWO)[int(generator.random() < 0.3)]
        id_ = f"page {int(generator.integers(count // 3 + 1))}"
        rows.append(Row(offset, fingerprint, source, kind, time_ms=(offset + 1) * DAY_MS, id=id_))
    return rows


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(15)
@given(st.data())
def test_a_page_that_was_given_back_is_a_duplicate_of_nothing_but_its_own_versions(insert: Any, data: Any) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = rows_of_pages(generator, data.draw(st.integers(1, 160)))
    entries_max, age_days = data.draw(st.sampled_from([None, 30])), data.draw(st.sampled_from([None, 40]))
    age_max_ms, root = None if age_days is None else age_days * DAY_MS, root_rules(insert, 3, data)
    oracle = BruteForceIndex(3, entries_max, age_max_ms, root=root)
    options: dict[str, Any] = {"retention": Retention(entries_max, age_max_ms), "sizes": SMALL}
    with tempfile.TemporaryDirectory() as name:
        begin = 0
        with opened(Path(name), Parameters(distance_max=3, insert=insert, root=root), **options) as index:
            while begin < len(rows):
                part = rows[begin : begin + int(generator.integers(1, 40))]
                assert answers_of(index.admit(entries_of(part), ends_of(part))) == oracle.admit(
                    entries_of(part), ends_of(part)
                )
                begin += len(part)
                drops = [row for row in rows[:begin] if is_dropped(oracle, row)]
                chosen = [row for row in drops if generator.random() < 0.2]
                if chosen:
                    expected = oracle.give_back(entries_of(chosen))
                    assert given_back(index, *chosen) == expected
                    assert given_back(index, *chosen) == [False] * len(chosen)
                if generator.random() < 0.2:
                    ids = {rows[int(generator.integers(begin))].id}
                    assert [document.id for document in index.forget(ids)] == oracle.forget(ids)
        assert wrong(Path(name)) == {}


def is_dropped(oracle: BruteForceIndex, row: Row) -> bool:
    position = Position(row.source, row.offset)
    # An expired batch takes its positions along, those of what was given back among them: then it is given back anew.
    expired = position in oracle.given_back and oracle.given_back[position] in oracle.retired
    return oracle.journal[position].verdict is Verdict.DUPLICATE and not expired


def test_what_was_given_back_stands_for_itself_at_the_position_of_the_drop(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert admitted(index, ORIGINAL, DROPPED) == [("unique", None), ("duplicate", "original")]
        assert given_back(index, DROPPED) == [True]
        decisions = index.admit(entries_of([Row(2, 0b11111, TWO, id="other")]), {})
        assert decisions.verdicts.tolist() == [Verdict.UNIQUE]
        decisions = index.admit(entries_of([Row(3, 0b1111, TWO, id="like the dropped one")]), {})
        assert decisions.original_positions == [Position(TWO, 2)]
        decisions = index.admit(entries_of([Row(4, 0b1 | 0b111 << 40, TWO, id="like the dropped one alone")]), {})
        assert (decisions.original_ids, decisions.original_positions) == (["dropped"], [Position(ONE, 1)])
        kinds = [(each.verdict, each.position, each.document is not None) for each in index.decided({"dropped"})]
    at = Position(ONE, 1)
    assert kinds == [(Verdict.DUPLICATE, at, False), (Verdict.GIVEN_BACK, at, True)]


def test_the_drop_itself_keeps_its_verdict(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admitted(index, ORIGINAL, DROPPED)
        given_back(index, DROPPED)
        decisions = index.admit(entries_of([ORIGINAL, DROPPED]), {})
    assert decisions.replayed.tolist() == [True, True]
    assert decisions.verdicts.tolist() == [Verdict.UNIQUE, Verdict.DUPLICATE]


def log_batches(index: Index) -> int:
    return index._opened.read(lambda session: sum(1 for _ in session.transaction.walk(Table.LOG)))


def test_pages_that_were_given_back_are_decided_together_with_the_rest_of_their_batch(tmp_path: Path) -> None:
    originals = [Row(number, number * 0x0101010101010101, id=f"original {number}") for number in range(8)]
    dropped = [Row(8 + place, row.fingerprint | 1, id=f"page {place}") for place, row in enumerate(originals)]
    with opened(tmp_path) as index:
        admitted(index, *originals)
        assert admitted(index, *dropped) == [("duplicate", row.id) for row in originals]
        assert given_back(index, *dropped) == [True] * len(dropped)
        before = log_batches(index)
        mixed = [row for pair in zip(dropped, originals, strict=True) for row in pair]
        again = [row._replace(offset=16 + place) for place, row in enumerate(mixed)]
        assert admitted(index, *again) == [("duplicate", row.id) for row in mixed]
        # A page that needed a step of its own would be logged by itself.
        assert log_batches(index) == before + 1


@pytest.mark.parametrize("together", [True, False])
def test_each_version_of_a_page_given_back_is_given_back_however_batches_are_cut(
    tmp_path: Path, together: bool
) -> None:
    versions = [Row(2, 0b11 << 40, id="dropped"), Row(3, 0b11 << 50, id="dropped"), Row(4, 0b11 << 60, id="dropped")]
    with opened(tmp_path, recrawl=Recrawl("update")) as index:
        admitted(index, ORIGINAL, DROPPED)
        given_back(index, DROPPED)
        found = admitted(index, *versions) if together else [each for row in versions for each in admitted(index, row)]
        assert found == [("update", "dropped")] * 3
        # Near to another document, and to no version of its own.
        assert admitted(index, DROPPED._replace(offset=5)) == [("update", "dropped")]


@pytest.mark.parametrize("together", [True, False])
def test_a_copy_of_a_page_that_an_update_replaces_is_no_version_of_a_page_given_back(
    tmp_path: Path, together: bool
) -> None:
    """A dropped copy counts no longer than the page that it resembled, under whatever id."""
    copy = Row(2, 0b111, id="dropped", host="there")
    update = Row(3, 0b111 << 40, id="original")
    near_copy = Row(4, 0b111 | 0b11 << 50, id="dropped", host="elsewhere")
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT), recrawl=Recrawl("update")) as index:
        assert admitted(index, ORIGINAL, DROPPED, copy)[1:] == [("duplicate", "original")] * 2
        given_back(index, DROPPED)
        batches = [[update, near_copy]] if together else [[update], [near_copy]]
        assert [each for batch in batches for each in admitted(index, *batch)] == [
            ("update", "original"),
            ("unique", None),
        ]


def test_a_page_given_back_comes_again_with_small_changes_and_with_large_ones(tmp_path: Path) -> None:
    changed, moved = Row(2, 0b11, id="dropped"), Row(3, 0b111 << 30, id="dropped")
    with opened(tmp_path) as index:
        admitted(index, ORIGINAL, DROPPED)
        assert given_back(index, DROPPED) == [True]
        # As near to the original as to its own version; and near to the original alone.
        assert admitted(index, changed, moved) == [("duplicate", "dropped"), ("unique", None)]
        index.forget({"dropped"})
        assert admitted(index, Row(4, 0b111 << 30, id="dropped")) == [("duplicate", "original")]


def test_an_update_of_a_page_that_was_given_back_stays_a_duplicate_of_nothing_else(tmp_path: Path) -> None:
    update = Recrawl("update")
    with opened(tmp_path / "first", recrawl=update) as index:
        admitted(index, ORIGINAL, DROPPED)
        given_back(index, DROPPED)
        changed, again = Row(2, 0b11, id="dropped"), Row(3, 0b10, id="dropped")
        # All are near to the original, and the older version counts no more.
        assert admitted(index, changed, again) == [("update", "dropped"), ("update", "dropped")]
        assert admitted(index, again._replace(offset=4)) == [("duplicate", "dropped")]
        found, streams = all_records(index), index.stream_names()
    assert wrong(tmp_path / "first") == {}
    with opened(tmp_path / "second", recrawl=update) as index:
        taking = Importer(index)
        taking.begin(list(streams.items()))
        for portion in portions(iter(found), 2):
            taking.add(portion)
        assert admitted(index, Row(5, 0b111 << 30, id="dropped")) == [("update", "dropped")]


def test_a_document_whose_text_is_no_longer_compared_is_given_back_without_an_entry(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admitted(index, ORIGINAL, DROPPED)
        assert given_back(index, DROPPED._replace(kind=Kind.UNDECIDABLE)) == [True]
        assert given_back(index, DROPPED) == [False]
        assert [each.document for each in index.decided({"dropped"})] == [None, None]
        found, streams = all_records(index), index.stream_names()
    assert wrong(tmp_path) == {}
    with opened(tmp_path / "taken over") as index:
        taking = Importer(index)
        taking.begin(list(streams.items()))
        assert [taking.add(portion).entered for portion in portions(iter(found), 10)] == [3]


def test_a_batch_is_undelivered_until_it_is_settled_and_no_other_is_decided_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        admitted(index, ORIGINAL, DROPPED, Row(2, 0b10, id="more"))
        index.give_back(entries_of([DROPPED]))
    with opened(tmp_path) as index:
        assert index.undelivered() == [Position(ONE, 1)]
        with pytest.raises(GivingBackError):
            index.give_back(entries_of([Row(2, 0b10)]))
        assert index.are_given_back([Position(ONE, 2), Position(ONE, 1), Position(TWO, 1)]).tolist() == [
            False,
            True,
            False,
        ]
        assert not index.settle([])
        assert not index.settle([Position(ONE, 1), Position(ONE, 2)])
        assert index.settle([Position(ONE, 1)])
        assert index.undelivered() == []
        assert index.give_back(entries_of([Row(2, 0b10)]), delivered=True).tolist() == [True]
        assert index.undelivered() == []


def test_an_index_with_given_back_documents_is_taken_over_whole(tmp_path: Path) -> None:
    generator = np.random.default_rng(14)
    rows = rows_of_pages(generator, 120)
    parameters = Parameters(insert="root", root=RootRule(5, 1))
    with opened(tmp_path / "first", parameters) as index:
        verdicts = index.admit(entries_of(rows), ends_of(rows)).verdicts
        given_back(index, *[row for row, verdict in zip(rows, verdicts.tolist(), strict=True) if verdict][::3])
        found, streams, applied = all_records(index), index.stream_names(), index.applied()
        expected = index.admit(*again(rows))
    with opened(tmp_path / "second", parameters) as index:
        taking = Importer(index)
        taking.begin(list(streams.items()))
        for portion in portions(iter(found), 17):
            taking.add(portion)
        taking.finish(applied)
        assert all_records(index) == found
        assert index.applied() == applied
        assert answers_of(index.admit(*again(rows))) == answers_of(expected)
    assert wrong(tmp_path / "second") == {}


def again(rows: list[Row]) -> tuple[Entries, dict[Source, int]]:
    later = [row._replace(offset=1_000 + row.offset) for row in rows]
    return entries_of(later), ends_of(later)


def test_a_restored_duplicate_of_a_given_back_document_finds_it_by_its_position(tmp_path: Path) -> None:
    copy = Row(2, 0b1 | 0b11 << 40, id="copy of the dropped one")
    with opened(tmp_path, Parameters(insert="root", root=NEAR_ROOT)) as index:
        index.restore(entries_of([ORIGINAL]), np.array([Verdict.UNIQUE], np.uint8), [None])
        index.restore(entries_of([DROPPED]), np.array([Verdict.DUPLICATE], np.uint8), [Position(ONE, 0)])
        index.give_back(entries_of([DROPPED]), delivered=True)
        verdict, at = np.array([Verdict.DUPLICATE], np.uint8), Position(ONE, 1)
        found = index.restore(entries_of([copy]), verdict, [at], ends_of([copy]))
        assert found.restored == 1
        assert [each.original_id for each in index.decided({copy.id})] == ["dropped"]
    assert wrong(tmp_path) == {}
