import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide.restore import Restored
from index.entry import Decisions, Entries, Kind, Position, Verdict
from index.index import Index
from index.storage.parameters import Parameters
from tests.support.answers import answers_of
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import wrong
from tests.support.roots import NEAR_ROOT, root_rules, with_insert


def opened(directory: Path, parameters: Parameters | None = None, **options: Any) -> Index:
    return Index.open(directory, parameters or Parameters(), map_bytes_max=2**30, **options)


def rows_of(seed: int, count: int, bits: int) -> list[Row]:
    generator = np.random.default_rng(seed)
    fingerprints = clustered_fingerprints(generator, count, bits, centres=5)
    kinds = generator.choice(3, size=count, p=[0.7, 0.2, 0.1])
    return [
        Row(
            offset,
            offset % 4 if kind == Kind.EXACT else fingerprint,
            (ONE, TWO)[offset % 2],
            Kind(int(kind)),
            reason=offset % 5,
            time_ms=offset,
            id=f"id {offset}",
        )
        for offset, (fingerprint, kind) in enumerate(zip(fingerprints, kinds, strict=True))
    ]


def known_verdicts(decisions: Decisions) -> np.ndarray:
    """As they come back: what was not a duplicate came out with the unique ones."""
    duplicate = decisions.verdicts == Verdict.DUPLICATE
    return np.where(duplicate, Verdict.DUPLICATE, Verdict.UNIQUE).astype(np.uint8)


def everything(index: Index) -> tuple[object, ...]:
    statistics = index.statistics()
    entries = statistics.entries + statistics.exact_entries
    return (entries, statistics.exact_entries, statistics.journal_rows, index.documents(range(entries)))


@examples(10)
@given(st.integers(0, 2**32), st.sampled_from([64, 128]), st.sampled_from(["unique", "root"]), st.integers(1, 50))
def test_a_restored_index_equals_the_one_that_was_lost(seed: int, bits: int, insert: Any, batch_rows: int) -> None:
    parameters = with_insert(Parameters(bits, 3), insert)
    rows = rows_of(seed, 80, bits)
    with tempfile.TemporaryDirectory() as directory:
        with opened(Path(directory) / "first", parameters) as index:
            first = index.admit(entries_of(rows, bits), ends_of(rows))
            expected, answers = everything(index), answers_of(index.admit(entries_of(rows, bits), {}))
        verdicts = known_verdicts(first)
        with opened(Path(directory) / "second", parameters) as index:
            for start in range(0, 80, batch_rows):
                part = slice(start, start + batch_rows)
                restored = index.restore(entries_of(rows[part], bits), verdicts[part], first.original_positions[part])
                assert restored == Restored(len(rows[part]), 0, 0)
            assert everything(index) == expected
            assert index.applied() == {}
            replayed = index.admit(entries_of(rows, bits), {})
            assert replayed.replayed.all()
            assert answers_of(replayed) == answers
            following = [Row(1_000 + row.offset, row.fingerprint, row.source, row.kind) for row in rows]
            again = answers_of(index.admit(entries_of(following, bits), {}))
        with opened(Path(directory) / "first", parameters) as index:
            assert answers_of(index.admit(entries_of(following, bits), {})) == again


@examples(15)
@given(st.integers(0, 2**32), st.sampled_from([64, 128]), st.integers(1, 50), st.data())
def test_an_index_restored_with_its_members_drops_all_that_was_dropped_and_keeps_what_was_kept(
    seed: int, bits: int, batch_rows: int, data: st.DataObject
) -> None:
    rule = root_rules("root", 3, data)
    parameters = Parameters(bits, 3, "root", root=rule)
    rows = rows_of(seed, 120, bits)
    with tempfile.TemporaryDirectory() as directory:
        with opened(Path(directory) / "first", parameters) as index:
            first = index.admit(entries_of(rows, bits), ends_of(rows))
            entries = index.statistics().entries
        verdicts = known_verdicts(first)
        with opened(Path(directory) / "second", parameters) as index:
            for verdict in (Verdict.UNIQUE, Verdict.DUPLICATE):
                chosen = np.flatnonzero(verdicts == verdict)
                for start in range(0, len(chosen), batch_rows):
                    places = chosen[start : start + batch_rows]
                    origins = [first.original_positions[place] for place in places.tolist()]
                    index.restore(entries_of(rows, bits).take(places), verdicts[places], origins)
            replayed = answers_of(index.admit(entries_of(rows, bits), {}))
            assert [each[:3] + each[4:] for each in replayed] == [each[:3] + each[4:] for each in answers_of(first)]
            if rule is not None and rule.member_distance_min == 0:
                assert index.statistics().entries <= entries
            following = [Row(1_000 + row.offset, row.fingerprint, row.source, row.kind) for row in rows]
            again = index.admit(entries_of(following, bits), ends_of(following))
        decided = np.isin(again.verdicts, (Verdict.UNIQUE, Verdict.DUPLICATE))
        assert (again.verdicts[decided] == Verdict.DUPLICATE).all()
        assert wrong(Path(directory) / "second") == {}


def restorable(rows: list[Row]) -> tuple[Entries, np.ndarray, list[Position | None]]:
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory)) as index:
        decisions = index.admit(entries_of(rows), {})
    return entries_of(rows), known_verdicts(decisions), decisions.original_positions


def test_restoring_again_changes_nothing(tmp_path: Path) -> None:
    entries, verdicts, originals = restorable(rows_of(1, 60, 64))
    with opened(tmp_path) as index:
        assert index.restore(entries, verdicts, originals) == Restored(60, 0, 0)
        before = everything(index)
        assert index.restore(entries, verdicts, originals) == Restored(0, 60, 0)
        assert everything(index) == before


def test_what_was_decided_already_is_left_alone(tmp_path: Path) -> None:
    rows = [Row(0, 1), Row(1, 2, reason=7)]
    with opened(tmp_path) as index:
        index.admit(entries_of(rows[:1]), {})
        lie = np.array([Verdict.DUPLICATE, Verdict.UNIQUE], np.uint8)
        assert index.restore(entries_of(rows), lie, [Position(TWO, 9), None]) == Restored(1, 1, 0)
        decisions = index.admit(entries_of(rows), {})
    assert decisions.verdicts.tolist() == [Verdict.UNIQUE, Verdict.UNIQUE]
    assert decisions.reasons.tolist() == [0, 7]


def test_an_original_may_follow_its_duplicate_in_the_batch_and_stand_in_another_source(tmp_path: Path) -> None:
    rows = [Row(5, 3, TWO), Row(2, 1, ONE)]
    verdicts = np.array([Verdict.DUPLICATE, Verdict.UNIQUE], np.uint8)
    with opened(tmp_path) as index:
        assert index.restore(entries_of(rows), verdicts, [Position(ONE, 2), None]) == Restored(2, 0, 0)
        decisions = index.admit(entries_of(rows), {})
    assert decisions.original_positions == [Position(ONE, 2), None]
    assert decisions.distances.tolist() == [1, -1]


def test_a_duplicate_whose_original_is_unknown_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [Row(0, 0xFF), Row(1, 0xFE), Row(2, 0xFD), Row(3, 0xFC), Row(4, 0, kind=Kind.UNDECIDABLE), Row(5, 1)]
    verdicts = np.array([0, 1, 1, 1, 0, 1], np.uint8)
    originals = [None, Position(ONE, 0), Position(ONE, 77), Position(TWO, 0), None, Position(ONE, 4)]
    for root in (None, NEAR_ROOT):
        parameters = Parameters(insert="unique" if root is None else "root", root=root)
        with opened(tmp_path / parameters.insert, parameters) as index:
            assert index.restore(entries_of(rows), verdicts, originals) == Restored(3, 0, 3)
            assert index.statistics().entries == (1 if root is None else 2)
            decisions = index.admit(entries_of(rows), {})
        assert decisions.replayed.tolist() == [True, True, False, False, True, False]
        assert decisions.verdicts[4] == Verdict.UNDECIDABLE


def test_a_restoration_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    entries = entries_of([Row(0, 1)])
    with opened(tmp_path / "one") as index:
        with pytest.raises(ValueError, match="one item per row"):
            index.restore(entries, np.zeros(2, np.uint8), [None])
        with pytest.raises(ValueError, match="UNIQUE, TEMPLATE, UPDATE, EXTENDS, ADDS, DUPLICATE and SUSPECT"):
            index.restore(entries, np.array([Verdict.DEAD_LETTER], np.uint8), [None])
