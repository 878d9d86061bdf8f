from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Guard, Index, Longer, Position, Recrawl, Retention, Story, Verdict
from index.index import internals_of
from index.matching.root import RootRule
from index.storage.layout import Table, pack_numbers
from index.storage.parameters import Parameters
from index.stories import rows as story_rows
from index.tools import BulkLoader, verify
from tests.support.counted_stories import CountedStories
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import SMALL, opened

PARAMETERS = Parameters(64, 3, "root", root=RootRule(6, 0))
HOSTS = ["", *(f"host-{number}.example" for number in range(30))]
OPTIONS = {
    "stories": True,
    "sizes": SMALL,
    "recrawl": Recrawl("update"),
    "longer": Longer(),
    "guard": Guard(0.5, 2, suspects=True),
}


def rows_of(generator: np.random.Generator, count: int) -> list[Row]:
    fingerprints = clustered_fingerprints(generator, count, 64, centres=3)
    return [
        Row(
            offset,
            fingerprint,
            (ONE, TWO)[int(generator.integers(2))],
            time_ms=int(generator.integers(-1, 50)),
            id=f"id {generator.integers(count)}",
            host=HOSTS[int(generator.integers(len(HOSTS)))],
            length=int(generator.integers(95, 110)),
        )
        for offset, fingerprint in enumerate(fingerprints)
    ]


def all_stories(index: Index) -> list[Story]:
    return index.stories(1_000)


def due_of(index: Index) -> list[Story]:
    return index.due_stories(1_000)[0]


def as_values(stories: list[Story]) -> dict[Position, Story]:
    """Without what depends on an index alone."""
    return {story.root.position: story._replace(number=0) for story in stories}


def sound(index: Index) -> bool:
    return [finding.wrong for finding in verify(index) if finding.check == "stories"] == [0]


def copies(count: int, source: object = ONE, begin: int = 0, fingerprint: int = 7) -> list[Row]:
    """Equal documents, each with a host of its own, a second apart."""
    return [
        Row(
            offset,
            fingerprint,
            source,  # type: ignore[arg-type]
            time_ms=1_000 * (offset + 1),
            id=f"{source}/{offset}",
            host=f"{offset}.example",
            length=100,
        )
        for offset in range(begin, begin + count)
    ]


def admitted(index: Index, rows: list[Row], counted: CountedStories | None = None) -> None:
    decisions = index.admit(entries_of(rows), ends_of(rows))
    if counted is not None:
        counted.note(rows, decisions)


@examples(6)
@given(st.integers(0, 2**32), st.integers(1, 120), st.lists(st.integers(0, 120), max_size=5))
def test_stories_are_those_that_a_person_counts_from_the_verdicts_however_they_are_batched(
    seed: int, count: int, cuts: list[int]
) -> None:
    rows, counted = rows_of(np.random.default_rng(seed), count), CountedStories()
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, **OPTIONS) as index:
        for begin, end in pairwise([0, *sorted(min(cut, count) for cut in cuts), count]):
            counted.note(rows[begin:end], index.admit(entries_of(rows[begin:end]), ends_of(rows[begin:end])))
            # A repetition changes nothing.
            index.admit(entries_of(rows[begin:end]), ends_of(rows[begin:end]))
        assert counted.shown(all_stories(index)) == counted.stories()
        assert sound(index)
        shown = [story.documents for story in all_stories(index)]
        assert shown == sorted(shown, reverse=True)


def test_a_unique_document_has_no_story_and_the_first_duplicate_makes_one_of_two(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, [Row(0, 7), Row(1, 2**60 - 1)])
        assert (index.statistics().stories, all_stories(index)) == (0, [])
        admitted(index, [Row(2, 7)])
        assert [(story.root.id, story.documents) for story in all_stories(index)] == [("stream-one/0/0", 2)]


def test_an_index_without_stories_has_none_and_counts_those_of_its_log_when_they_are_switched_on(
    tmp_path: Path,
) -> None:
    counted = CountedStories()
    with opened(tmp_path, PARAMETERS) as index:
        for begin in range(0, 30, 10):
            admitted(index, copies(10, begin=begin), counted)
        assert all_stories(index) == []
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        (story,) = all_stories(index)
        # The log has digests of hosts, and their names come with their next documents.
        assert (story.documents, story.host_count, story.hosts) == (30, 30, ())
        admitted(index, [replaced._replace(host="3.example") for replaced in copies(1, TWO)], counted)
        assert all_stories(index)[0].hosts == ("3.example",)
        assert sound(index)


def test_a_due_story_stays_due_until_its_mark_is_cleared_and_only_a_size_class_makes_it_due_again(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, copies(5))
        (due,), mark = index.due_stories(10)
        assert due.documents == 5
        admitted(index, copies(4, begin=5))
        index.clear_stories(mark)
        assert due_of(index) == []
        admitted(index, copies(1, begin=9))
        assert [story.documents for story in due_of(index)] == [10]
        index.clear_stories(mark)
        assert due_of(index), "an older mark clears nothing"


def test_a_longer_member_makes_its_story_due(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, copies(6))
        index.clear_stories(index.due_stories(10)[1])
        admitted(index, [row._replace(length=101) for row in copies(1, begin=6)])
        assert [story.longest.position.offset for story in due_of(index)] == [6]


def test_a_forgotten_root_is_due_without_documents_and_a_forgotten_member_leaves(tmp_path: Path) -> None:
    counted, far = CountedStories(), [row._replace(fingerprint=0b111_0111) for row in copies(3, TWO)]
    with opened(tmp_path, Parameters(64, 3, "root", root=RootRule(6, 0)), stories=True) as index:
        admitted(index, [*copies(5), *far], counted)
        assert counted.shown(all_stories(index)) == counted.stories()
        member = far[0].id
        assert [document.id for document in index.forget([member])] == [member]
        counted.leave(Position(TWO, 0))
        assert counted.shown(all_stories(index)) == counted.stories()
        index.clear_stories(index.due_stories(10)[1])
        index.forget([copies(1)[0].id])
        assert all_stories(index) == []
        assert [(story.root.id, story.documents) for story in due_of(index)] == [(copies(1)[0].id, 0)]
        assert sound(index)


def test_a_document_that_is_given_back_leaves_its_story_and_is_the_root_of_its_own(tmp_path: Path) -> None:
    counted = CountedStories()
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, copies(6), counted)
        assert index.give_back(entries_of(copies(1, begin=5)), delivered=True).all()
        counted.leave(Position(ONE, 5))
        assert counted.shown(all_stories(index)) == counted.stories()
        admitted(index, [row._replace(id="") for row in copies(2, TWO, fingerprint=7)], counted)
        assert counted.shown(all_stories(index)) == counted.stories()
        assert sound(index)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_restored_index_has_the_same_stories_and_all_of_them_are_due(tmp_path: Path, bulk: bool) -> None:
    generator = np.random.default_rng(1)
    rows = [*rows_of(generator, 60), *copies(3, begin=100)]
    with opened(tmp_path / "lost", PARAMETERS, **OPTIONS) as index:
        decisions = index.admit(entries_of(rows), ends_of(rows))
        index.give_back(entries_of(rows[-1:]), delivered=True)
        lost = as_values(all_stories(index))
    assert len(lost) > 2
    with opened(tmp_path / "new", PARAMETERS, **OPTIONS) as index:
        taking = BulkLoader(index) if bulk else index
        taking.give_back(entries_of(rows[-1:]), delivered=True)
        # As outputs come back: unique documents first, then duplicates.
        for dropped in (False, True):
            chosen = np.flatnonzero(np.isin(decisions.verdicts, (Verdict.DUPLICATE, Verdict.SUSPECT)) == dropped)
            some = [rows[row] for row in chosen.tolist()]
            originals = [decisions.original_positions[row] for row in chosen.tolist()]
            taking.restore(entries_of(some), decisions.verdicts[chosen], originals)
        if isinstance(taking, BulkLoader):
            taking.finish()
        assert as_values(all_stories(index)) == lost
        assert len(due_of(index)) == len(lost)
        assert sound(index)


def test_a_story_leaves_with_the_batch_of_its_root_and_nothing_is_due(tmp_path: Path) -> None:
    retention = Retention(entries_max=20)
    with opened(tmp_path, PARAMETERS, stories=True, retention=retention) as index:
        admitted(index, copies(5))
        for begin in range(100, 400, 20):
            admitted(index, [Row(offset, offset * 0x9E3779B97F4A7C15 % 2**64) for offset in range(begin, begin + 20)])
        assert (index.statistics().stories, due_of(index)) == (0, [])
        assert sound(index)


def test_a_story_with_more_hosts_than_are_kept_counts_as_many_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_rows, "HOSTS_MAX", 8)
    shown = []
    for name, step in (("forwards", 1), ("backwards", -1)):
        rows = [Row(0, 7), *(row._replace(offset=place + 1) for place, row in enumerate(copies(40)[::step]))]
        with opened(tmp_path / name, PARAMETERS, stories=True) as index:
            for begin in range(0, 41, 7):
                admitted(index, rows[begin : begin + 7])
            shown += [(story.host_count, story.hosts) for story in all_stories(index)]
    assert shown[0] == shown[1]
    assert shown[0][0] == 8


def test_a_list_chooses_by_time_and_by_host(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, [*copies(3), *copies(2, begin=50, fingerprint=2**60 - 1)])
        assert [story.documents for story in index.stories(1)] == [3]
        assert [story.documents for story in index.stories(10, since_ms=10_000)] == [2]
        assert [story.documents for story in index.stories(10, host="1.example")] == [3]
        assert index.stories(10, host="none.example") == []


def test_a_story_names_what_its_root_extends_or_replaced(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True, longer=Longer(), recrawl=Recrawl("update")) as index:
        admitted(index, copies(1))
        longer = [row._replace(length=150) for row in copies(2, begin=1, fingerprint=6)]
        newer = [
            row._replace(fingerprint=2**60 - 1, id=copies(1)[0].id, host="0.example") for row in copies(1, begin=3)
        ]
        admitted(index, [*longer, *newer, *copies(1, begin=4, fingerprint=2**60 - 1)])
        linked = {story.root.position.offset: (story.extends, story.updates) for story in all_stories(index)}
        root = all_stories(index)[0].root._replace(id=copies(1)[0].id, position=Position(ONE, 0))
        assert linked == {1: (root, None), 3: (None, root)}


@pytest.mark.parametrize("change", ["a count", "a host", "a missing row"])
def test_verification_reports_a_row_that_is_not_what_the_log_says(tmp_path: Path, change: str) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, copies(4))

        def damage(transaction: object) -> None:
            stored = story_rows.read(transaction, np.zeros(1, np.uint64))  # type: ignore[arg-type]
            if change == "a missing row":
                transaction.delete(Table.STORIES, pack_numbers(stored.numbers)[0])  # type: ignore[attr-defined]
                return
            hosts = stored.hosts.copy()
            stored.heads["documents"] += change == "a count"
            hosts["first_ms"] += change == "a host"
            story_rows.write(transaction, stored._replace(hosts=hosts))  # type: ignore[arg-type]

        internals_of(index).store.write(damage)
        assert [finding.check for finding in verify(index) if finding.wrong] == ["stories"]


def test_stories_need_roots(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='stories need insert = "root", and the index has "unique"'):
        opened(tmp_path, replace(PARAMETERS, insert="unique", root=None), stories=True)
