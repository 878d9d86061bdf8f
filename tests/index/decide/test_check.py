"""Checking says what admitting would say, and changes nothing."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import NO_NUMBER, Entries, Verdict
from index.index import Index
from index.matching.minhash import banding_for
from index.matching.root import RootRule
from index.session import Guard, Recrawl, Retention
from index.storage.parameters import Parameters
from tests.support.answers import answers_of
from tests.support.brute_force_index import Answer
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import MAP_BYTES_MAX, SMALL, all_records, everything, mixed_rows, opened
from tests.support.looks import LOOKS, looked_at_rows, parameters_with
from tests.support.roots import NEAR_ROOT

SCHEMES = ["simhash", "minhash", *LOOKS]


def parameters_of(scheme: str, insert: Any) -> Parameters:
    if scheme in LOOKS:
        parameters = parameters_with(LOOKS[scheme])
    elif scheme == "simhash":
        parameters = Parameters(64, 4)
    else:
        parameters = Parameters(512, 1_000, banding=banding_for(64, 8, 0.7))
    if insert != "root":
        return parameters
    return replace(parameters, insert="root", root=RootRule(parameters.distance_max + 2, 1))


def rows_of(scheme: str, seed: int, count: int) -> list[Row]:
    if scheme in LOOKS:
        return looked_at_rows(seed, count, LOOKS[scheme])
    return mixed_rows(seed, count, 512 if scheme == "minhash" else 64, repeated=0.3)


def batch_of(rows: list[Row], parameters: Parameters) -> Entries:
    """With three hosts, and without one, in turn; of pages that come again."""
    rows = [row._replace(id=f"page {row.offset % 23}") for row in rows]
    hosts = [(None, "a.example", "b.example", "a.example")[row.offset % 4] for row in rows]
    return replace(entries_of(rows, parameters.bits), hosts=hosts)


def without_own_numbers(answers: list[Answer]) -> list[Answer]:
    return [one._replace(original=None) if one.verdict.stands_for_itself else one for one in answers]


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(3)
@given(st.data())
def test_a_check_says_what_admitting_the_document_alone_says(scheme: str, insert: Any, data: st.DataObject) -> None:
    parameters = parameters_of(scheme, insert)
    rows = rows_of(scheme, data.draw(st.integers(0, 2**32)), 60)
    begin = data.draw(st.integers(0, 45))
    options: dict[str, Any] = {
        "retention": Retention(data.draw(st.one_of(st.none(), st.integers(1, 40)))),
        "guard": Guard(0.3, 2, suspects=insert != "unique"),
        "recrawl": data.draw(st.sampled_from([Recrawl(), Recrawl("update")])),
        "sizes": SMALL,
    }
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory), parameters, **options) as index:
        if begin:
            index.admit(batch_of(rows[:begin], parameters), ends_of(rows[:begin]))
        for place in range(begin, len(rows), 5):
            rest = rows[place : place + 5]
            together = without_own_numbers(answers_of(index.check(batch_of(rest, parameters))))
            alone = [answers_of(index.check(batch_of([row], parameters)))[0] for row in rest]
            admitted = answers_of(index.admit(batch_of(rest[:1], parameters), ends_of(rest[:1])))
            assert together == alone
            assert alone[:1] == without_own_numbers(admitted)
            if rest[1:]:
                index.admit(batch_of(rest[1:], parameters), ends_of(rest[1:]))


def test_checking_suspects_is_tested_by_batches_that_hold_some(tmp_path: Path) -> None:
    """The property above is no empty one: with this guard there are suspects, and a check tells them."""
    parameters = Parameters(64, 4, "root", root=NEAR_ROOT)
    rows = [Row(1 + 4 * place, (1 << place) - 1 if place < 3 else 1 << place) for place in range(12)]
    with opened(tmp_path, parameters, guard=Guard(0.3, 2, suspects=True)) as index:
        index.admit(batch_of(rows, parameters), ends_of(rows))
        assert index.watched_hosts().beyond == 1
        checked = index.check(batch_of([Row(1_001, 1 << 40)], parameters))
    assert checked.verdicts.tolist() == [Verdict.SUSPECT]
    assert checked.original_ids == ["page 1"]


def test_a_check_changes_nothing_and_answers_beside_a_writer(tmp_path: Path) -> None:
    rows = mixed_rows(3, 80)
    with opened(tmp_path) as index:
        index.begin(ONE, "news", 0)
        index.admit(entries_of(rows[:40]), ends_of(rows[:40]))
        before = everything(index), all_records(index), (tmp_path / "data.mdb").read_bytes()
        index.check(entries_of(rows))
        assert (everything(index), all_records(index), (tmp_path / "data.mdb").read_bytes()) == before


def test_an_index_opened_for_reading_can_be_checked_too(tmp_path: Path) -> None:
    rows = [Row(0, 0), Row(1, 1)]
    with opened(tmp_path) as index:
        index.admit(entries_of(rows[:1]), ends_of(rows[:1]))
    with Index.open(tmp_path, Parameters(), map_bytes_max=MAP_BYTES_MAX, read_only=True) as index:
        checked = index.check(entries_of(rows))
    assert checked.verdicts.tolist() == [Verdict.DUPLICATE, Verdict.DUPLICATE]
    assert checked.distances.tolist() == [0, 1]


def test_a_document_is_held_against_the_index_and_not_against_its_own_batch(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        checked = index.check(entries_of([Row(0, 7), Row(1, 7)]))
        assert checked.verdicts.tolist() == [Verdict.UNIQUE, Verdict.UNIQUE]
        assert checked.originals.tolist() == [int(NO_NUMBER)] * 2
        assert checked.replayed.tolist() == [False, False]


def test_a_position_that_was_decided_is_checked_like_any_other(tmp_path: Path) -> None:
    row = Row(0, 7)
    with opened(tmp_path) as index:
        index.admit(entries_of([row]), ends_of([row]))
        assert index.check(entries_of([row])).verdicts.tolist() == [Verdict.DUPLICATE]


def test_a_broken_batch_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as index, pytest.raises(ValueError, match="fingerprints must be uint64"):
        index.check(replace(entries_of([Row(0, 7)]), fingerprints=np.zeros((1, 2), np.uint64)))
