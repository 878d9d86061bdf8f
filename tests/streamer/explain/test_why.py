"""Why a record was decided as it was, asked of real indexes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.entry import Kind, Position, Source, Verdict
from index.index import Index
from index.matching.root import RootRule
from index.matching.second_look import CosineLook
from index.session import Longer, Recrawl, Retention
from index.storage.parameters import Parameters
from streamer.explain.explanation import Explanation
from streamer.explain.why import explain
from streamer.records.reason import Reason
from streamer.settings.settings import load
from tests.support.entries import ONE, TWO, Row, ends_of, entries_of
from tests.support.indexes import looked_at, opened

SETTINGS = load()
A = 0x0123_4567_89AB_CDEF
ROOTED = Parameters(distance_max=3, insert="root", root=RootRule(6, 1))


def flipped(bits: int, at: int = 0) -> int:
    """A fingerprint this many bits apart from A."""
    return A ^ (((1 << bits) - 1) << at)


@contextmanager
def decided(
    directory: Path, rows: Sequence[Row], parameters: Parameters | None = None, **options: Any
) -> Iterator[Index]:
    """An index that decided these rows, each in a batch of its own."""
    with opened(directory, parameters or Parameters(distance_max=3), **options) as index:
        index.begin(ONE, "news", 0)
        for row in rows:
            index.admit(entries_of([row]), ends_of([row]))
        yield index


def only(index: Index, asked: str) -> Explanation:
    (explanation,) = explain(index, SETTINGS, asked).explanations
    return explanation


def test_a_duplicate_names_its_original_and_the_threshold(tmp_path: Path) -> None:
    rows = [Row(0, A, id="one"), Row(1, flipped(2), id="copy")]
    with decided(tmp_path, rows):
        pass
    with looked_at(tmp_path) as index:
        told = only(index, "copy")
    assert (told.where, told.verdict, told.reason) == ("news/0/1", "duplicate", "similar")
    assert told.likeness is not None
    assert told.likeness.distance == 2
    assert told.original is not None
    assert (told.original.id, told.original.where, told.original.verdict) == ("one", "news/0/0", "unique")
    assert (told.original.standing, told.standing) == ("counts", None)
    assert [rule.setting for rule in told.rules] == ["index.distance_max", "index.insert"]
    assert told.near is None
    assert "only unique documents" in told.notes[0]


def test_an_id_that_came_again_is_told_newest_first_up_to_the_limit(tmp_path: Path) -> None:
    rows = [Row(0, A, id="page"), Row(1, ~A & 2**64 - 1, id="page"), Row(2, A, TWO, id="page")]
    with decided(tmp_path, rows) as index:
        assert [each.where for each in explain(index, SETTINGS, "page").explanations] == [
            "stream-two/3/2",
            "news/0/1",
            "news/0/0",
        ]
        answer = explain(index, SETTINGS, "page", limit=2)
        assert ([each.verdict for each in answer.explanations], answer.left_out) == (["duplicate", "unique"], 1)
        assert explain(index, SETTINGS, "page", limit=None).left_out == 0


def test_a_position_finds_its_decision_once_whatever_its_id(tmp_path: Path) -> None:
    rows = [Row(0, A, id="news/0/0"), Row(1, A, id="")]
    with decided(tmp_path, rows) as index:
        assert [each.where for each in explain(index, SETTINGS, "news/0/0").explanations] == ["news/0/0"]
        assert only(index, "news/0/1").verdict == "duplicate"
        assert only(index, f"{ONE.stream}/0/1").verdict == "duplicate"


def test_a_member_far_from_the_original_was_matched_by_another_one(tmp_path: Path) -> None:
    rows = [Row(0, A, id="root"), Row(1, flipped(3), id="member"), Row(2, flipped(6), id="far")]
    with decided(tmp_path, rows, ROOTED) as index:
        told = only(index, "far")
        assert told.original is not None
        assert told.original.id == "root"
        assert "6 bits" in told.measure
        assert "another duplicate" in told.measure
        assert told.near is not None
        assert [(near.id, near.relation, near.later, near.why_not) for near in told.near] == [
            ("member", "member", False, "")
        ]
        of_root = only(index, "root")
        assert of_root.near is not None
        assert [(near.id, near.relation, near.later) for near in of_root.near] == [("member", "copy", True)]


def test_a_member_counts_no_more_once_its_original_was_replaced(tmp_path: Path) -> None:
    far = ~A & 2**64 - 1
    rows = [
        Row(0, A, id="root"),
        Row(1, flipped(3), id="member"),
        Row(2, far, id="root"),
        Row(3, flipped(5), id="copy"),
    ]
    with decided(tmp_path, rows, ROOTED, recrawl=Recrawl("update")) as index:
        told = only(index, "copy")
    assert told.verdict == "unique"
    assert told.near is not None
    assert [(near.id, near.why_not) for near in told.near] == [("member", "its original is gone")]


def test_the_chain_goes_on_where_the_original_was_a_duplicate_itself(tmp_path: Path) -> None:
    rows = [Row(0, A, id="root"), Row(1, 0, id="other"), Row(2, flipped(3), id="member")]
    verdicts = np.array([Verdict.UNIQUE, Verdict.UNIQUE, Verdict.SUSPECT], np.uint8)
    parameters, far = Parameters(distance_max=3, insert="root", root=RootRule(6)), Row(3, flipped(6), id="far")
    with decided(tmp_path, [], parameters, retention=Retention(entries_max=2)) as index:
        # The guard let the member pass: it goes on as its own root once its root has expired.
        index.restore(entries_of(rows), verdicts, [None, None, Position(ONE, 0)])
        index.admit(entries_of([far]), ends_of([far]))
        member, root = only(index, "far").chain
    assert (member.id, member.verdict, member.standing) == ("member", "suspect", "counts")
    assert (root.id, root.verdict, root.standing) == ("root", "unique", "expired")
    assert "expired" in root.note


def test_a_forgotten_original_and_a_forgotten_document_say_so(tmp_path: Path) -> None:
    with decided(tmp_path, [Row(0, A, id="one"), Row(1, A, id="copy")]) as index:
        index.forget(["one"])
        original = only(index, "copy").original
        assert original is not None
        assert (original.standing, "forgotten" in original.note) == ("forgotten", True)
        assert (only(index, "one").standing, "forgotten" in only(index, "one").notes[0]) == ("forgotten", True)


def test_an_update_names_the_version_that_it_replaces_and_that_one_says_by_which(tmp_path: Path) -> None:
    rows = [Row(0, A, id="page"), Row(1, flipped(2), id="page"), Row(2, flipped(1), id="copy")]
    with decided(tmp_path, rows, recrawl=Recrawl("update")) as index:
        newest, oldest = explain(index, SETTINGS, "page").explanations
        (of_copy,) = only(index, "copy").chain[:1]
    assert (newest.verdict, newest.reason, newest.standing) == ("update", "recrawled", "counts")
    assert newest.measure == "It is 2 bits apart from the version that it replaces."
    assert newest.rules[0].setting == "index.recrawl"
    assert [(link.role, link.where) for link in newest.chain] == [("older version", "news/0/0")]
    assert newest.notes == ()
    assert oldest.notes == ("It was replaced by its version at news/0/1.",)
    assert newest.chain[0].note == "was replaced by its version at news/0/1"
    assert (of_copy.role, of_copy.where, of_copy.verdict) == ("original", "news/0/1", "update")


def test_an_original_whose_decision_has_left_the_index_is_still_named(tmp_path: Path) -> None:
    rows = [
        Row(0, A, id="one"),
        Row(1, A, id="copy"),
        Row(2, A ^ 0xFFFF),
        Row(3, A ^ 0xFFFF_0000),
        Row(4, 0, kind=Kind.UNDECIDABLE),
    ]
    with decided(tmp_path, rows[:1], retention=Retention(entries_max=2)) as index:
        for batch in (rows[1:3], rows[3:4], rows[4:]):
            index.admit(entries_of(batch), ends_of(batch))
        assert explain(index, SETTINGS, "one").explanations == []
        original = only(index, "copy").original
    assert original is not None
    assert (original.id, original.decided, original.verdict) == ("one", None, None)
    assert "expired" in original.note


@pytest.mark.parametrize(
    ("kind", "reason", "verdict", "label"),
    [
        (Kind.UNDECIDABLE, Reason.NO_FEATURES, "undecidable", "no-features"),
        (Kind.DEAD_LETTER, Reason.NOT_JSON, "dead-letter", "not-json"),
        (Kind.EXACT, Reason.SHORT_TEXT, "unique", "short-text-new"),
    ],
)
def test_what_resembles_nothing_is_told_too(
    tmp_path: Path, kind: Kind, reason: Reason, verdict: str, label: str
) -> None:
    with decided(tmp_path, [Row(0, A, kind=kind, reason=reason, id="it")]) as index:
        told = only(index, "it")
    assert (told.verdict, told.reason, told.original, told.near) == (verdict, label, None, ())


def test_an_equal_short_text_is_near_and_nothing_else_is(tmp_path: Path) -> None:
    rows = [Row(n, A, kind=Kind.EXACT, reason=Reason.SHORT_TEXT, id=f"short {n}") for n in range(2)]
    with decided(tmp_path, rows) as index:
        index.give_back(entries_of(rows[1:]))
        told = only(index, "short 0")
    assert told.near is not None
    assert [(near.id, near.relation, near.why_not) for near in told.near] == [("short 1", "other", "")]


def test_what_was_near_but_not_enough_says_why(tmp_path: Path) -> None:
    def look(*cells: int) -> bytes:
        return np.array(cells, np.int8).tobytes()

    parameters = Parameters(distance_max=2, look=CosineLook(2, 0.9))
    rows = [
        Row(0, A, id="far", look=look(1, 0)),
        Row(1, flipped(4, 30), id="page", look=look(100, 0)),
        Row(2, flipped(4, 30), id="other words", look=look(0, 100)),
    ]
    with decided(tmp_path, rows, parameters) as index:
        told = only(index, "page")
    assert told.near is not None
    assert [(near.id, near.likeness.distance, near.likeness.cosine, near.why_not) for near in told.near] == [
        ("other words", 0, 0.0, "refused by the second look"),
        ("far", 4, 1.0, "not near enough"),
    ]


def reasons_near(told: Explanation) -> list[tuple[str, str]]:
    assert told.near is not None
    return [(near.id, near.why_not) for near in told.near]


def test_a_longer_version_says_why_its_original_does_not_count(tmp_path: Path) -> None:
    with decided(tmp_path, [], longer=Longer(1_000)) as index:
        for row, letters in ((Row(0, A, id="short"), 1_000), (Row(1, flipped(2), id="whole"), 1_200)):
            index.admit(replace(entries_of([row]), lengths=np.array([letters], np.uint32)), ends_of([row]))
        told = only(index, "whole")
    assert (told.verdict, told.original and told.original.id) == ("extends", "short")
    assert reasons_near(told) == [("short", "much shorter")]


def test_a_page_given_back_says_that_only_its_own_versions_count(tmp_path: Path) -> None:
    rows = [Row(0, A, id="other"), Row(1, flipped(1), id="page")]
    with decided(tmp_path, rows) as index:
        index.give_back(entries_of(rows[1:]))
        again = Row(2, flipped(2), id="page")
        index.admit(entries_of([again]), ends_of([again]))
        told = only(index, "other")
        (back,) = [each for each in explain(index, SETTINGS, "page").explanations if each.verdict == "given-back"]
    assert reasons_near(told) == [("page", "")]
    assert reasons_near(back) == [("other", "no version of this document, which was given back")]


def test_a_version_that_was_replaced_is_near_no_more(tmp_path: Path) -> None:
    rows = [Row(0, A, id="page"), Row(1, flipped(1), id="page"), Row(2, flipped(20), id="far")]
    with decided(tmp_path, rows, recrawl=Recrawl("update")) as index:
        newest, _ = explain(index, SETTINGS, "page").explanations
    assert newest.verdict == "update"
    assert reasons_near(newest) == []


def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    with decided(tmp_path, [Row(0, A, id="one"), Row(5, 0, id="two")]) as index:
        for asked, words in {
            "nobody": "nothing is known of 'nobody'",
            "news/0/6": "not decided yet; news/0 is decided below offset 6",
            "news/0/3": "decided, as all below offset 6, but unknown",
            "news/1/0": "no decision on this partition",
            "elsewhere/0/0": "(news)",
        }.items():
            answer = explain(index, SETTINGS, asked)
            assert (answer.explanations, words in answer.problem) == ([], True), asked


def test_positions_of_a_stream_without_a_name_are_told_by_its_id(tmp_path: Path) -> None:
    with decided(tmp_path, [Row(0, A, Source("nameless", 4), id="one")]) as index:
        assert only(index, "nameless/4/0").where == "nameless/4/0"


def test_a_drop_that_was_given_back_says_so_and_ends_the_chain_of_its_copies(tmp_path: Path) -> None:
    original, dropped = Row(0, A, id="original"), Row(1, flipped(3), id="dropped")
    with decided(tmp_path, [original, dropped]) as index:
        index.give_back(entries_of([dropped]), delivered=True)
        copy = Row(2, flipped(3) ^ 0b11 << 40, id="copy")
        index.admit(entries_of([copy]), ends_of([copy]))
        given_back, drop = explain(index, SETTINGS, "dropped").explanations
        assert (given_back.verdict, given_back.sentence[:10]) == ("given-back", "Given back")
        assert (drop.verdict, drop.notes[0][:23]) == ("duplicate", "It was given back since")
        assert [link.note for link in only(index, "copy").chain] == [
            "was dropped, and given back since: it is an original"
        ]
