import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import NO_NUMBER, Position, Source, Verdict
from index.index import Index
from index.matching.minhash import banding_for
from index.session import Retention
from index.storage.parameters import Parameters
from index.tools import Importer, Original, Record, portions
from tests.support.answers import answers_of
from tests.support.entries import ONE, TWO, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import SMALL, all_records, everything, filled, mixed_rows, opened, wrong
from tests.support.roots import root_rules, with_insert


def take_over(index: Index, found: list[Record], names: dict[str, str], rows_max: int, stop: int = 10**9) -> int:
    """Returns how many records were known already."""
    taking = Importer(index)
    taking.begin(list(names.items()))
    known = 0
    for portion in list(portions(iter(found), rows_max))[:stop]:
        known += taking.add(portion).already_known
    return known


@examples(20)
@given(
    st.integers(0, 2**32),
    st.integers(0, 150),
    st.sampled_from([64, 128]),
    st.sampled_from(["unique", "root"]),
    st.integers(1, 60),
    st.data(),
)
def test_an_index_taken_over_equals_the_one_it_came_from_however_often_it_was_broken_off(
    seed: int, count: int, bits: int, insert: Any, rows_max: int, data: st.DataObject
) -> None:
    parameters = Parameters(bits, 3, insert, root=root_rules(insert, 3, data))
    rows = mixed_rows(seed, count, bits)
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name) / "first", Path(name) / "second"
        filled(first, rows, parameters)
        with opened(first, parameters) as index:
            index.forget([row.id for row in rows[::7]])
            expected, found, names = everything(index), all_records(index), index.stream_names()
            applied = index.applied()
            answers = answers_of(index.admit(entries_of(rows, bits), {})) if rows else []
        for stop in data.draw(st.lists(st.integers(0, 8), max_size=2)):
            with opened(second, parameters) as index:
                take_over(index, found, names, rows_max, stop)
            assert wrong(second) == {}
        with opened(second, parameters) as index:
            take_over(index, found, names, rows_max)
            Importer(index).finish(applied)
            assert everything(index) == expected
            assert take_over(index, found, names, rows_max) == len(found)
            assert everything(index) == expected
            assert all_records(index) == found
            if rows:
                again = index.admit(entries_of(rows, bits), {})
                assert again.replayed.all()
                assert answers_of(again) == answers
        assert wrong(second) == {}


@examples(12)
@given(
    st.integers(0, 2**32),
    st.integers(1, 150),
    st.sampled_from([(64, None), (128, None), (512, banding_for(64, 8, 0.7))]),
    st.sampled_from(["unique", "root"]),
    st.sampled_from([None, 5, 30]),
    st.integers(0, 8),
)
def test_what_has_expired_or_was_forgotten_comes_over_as_what_it_is(
    seed: int, count: int, shape: Any, insert: Any, entries_max: int | None, stop: int
) -> None:
    """Also where it was broken off in between; numbers are given anew, as the source has gaps."""
    bits, banding = shape
    parameters = with_insert(Parameters(bits, 3, banding=banding), insert)
    rows, probes = mixed_rows(seed, count, bits, repeated=0.3), mixed_rows(seed, 2 * count, bits, repeated=0.3)[count:]
    later = [row._replace(offset=10**6 + place) for place, row in enumerate(probes)]
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name) / "first", Path(name) / "second"
        filled(first, rows, parameters, batch_rows=11, sizes=SMALL, retention=Retention(entries_max))
        with opened(first, parameters, sizes=SMALL) as index:
            index.forget({row.id for row in rows[::7]})
            found, names, applied = all_records(index), index.stream_names(), index.applied()
        with opened(second, parameters, sizes=SMALL) as index:
            take_over(index, found, names, 17, stop)
        assert wrong(second) == {}
        with opened(second, parameters, sizes=SMALL) as index:
            take_over(index, found, names, 17)
            Importer(index).finish(applied)
            assert index.applied() == applied
            assert renumbered(all_records(index)) == renumbered(found)
            with opened(first, parameters, sizes=SMALL) as origin:
                expected = origin.admit(entries_of([*rows, *later], bits), ends_of(later))
                again = index.admit(entries_of([*rows, *later], bits), ends_of(later))
            assert again.verdicts.tolist() == expected.verdicts.tolist()
            assert again.distances.tolist() == expected.distances.tolist()
            assert again.original_ids == expected.original_ids
            assert again.original_positions == expected.original_positions
            assert again.replayed.tolist() == expected.replayed.tolist()
        assert wrong(second) == {}


def renumbered(found: list[Record]) -> list[Record]:
    """With numbers from 0 on."""
    numbers = sorted(record.document.number for record in found if record.document)
    places = {number: place for place, number in enumerate(numbers)}
    return [
        record._replace(
            number=None if record.document is None else places[record.document.number],
            original=None if record.original is None else places[record.original],
            document=record.document
            and record.document._replace(number=places[record.document.number], root=places[record.document.root]),
        )
        for record in found
    ]


def test_a_duplicate_keeps_what_its_original_was_when_that_has_left(tmp_path: Path) -> None:
    parameters = Parameters(distance_max=0)
    with opened(tmp_path / "first", parameters, retention=Retention(2)) as index:
        for rows in ([Row(0, 5, id="a")], [Row(1, 6, id="b")], [Row(2, 5), Row(3, 7)], [Row(4, 8)], [Row(5, 9)]):
            index.admit(entries_of(rows), ends_of(rows))
        found, names = all_records(index), index.stream_names()
    assert [(record.offset, record.original) for record in found if record.verdict is Verdict.DUPLICATE] == [(2, None)]
    with opened(tmp_path / "second", parameters) as index:
        take_over(index, found, names, 2)
        (again,) = (record for record in all_records(index) if record.verdict is Verdict.DUPLICATE)
        assert again.origin == Original("a", Position(ONE, 0))
        replayed = index.admit(entries_of([Row(2, 5), Row(7, 9), Row(8, 5)]), {ONE: 9})
        assert replayed.original_ids == ["a", "stream-one/0/5", None]
        assert replayed.replayed.tolist() == [True, False, False]
        assert replayed.originals[0] == NO_NUMBER
    assert wrong(tmp_path / "second") == {}


def test_records_come_in_the_order_of_deciding(tmp_path: Path) -> None:
    rows = mixed_rows(5, 120)
    filled(tmp_path, rows)
    with opened(tmp_path) as index:
        found = all_records(index)
    assert len(found) == 120
    assert all(record.settled for record in found)
    for source in (ONE, TWO):
        offsets = [record.offset for record in found if record.source == source]
        assert offsets == sorted(offsets)
    numbers = [record.document.number for record in found if record.document]
    assert numbers == list(range(len(numbers)))


def test_what_was_restored_out_of_order_is_taken_over_whole(tmp_path: Path) -> None:
    """Offsets 5 and 9 were entered before 2, and a duplicate at 1 names an original that entered after both."""
    parameters = Parameters()
    original = Position(TWO, 4)
    with opened(tmp_path / "first", parameters) as index:
        late = [Row(5, 0xF0F0, id="five"), Row(9, 2**40, id="nine")]
        index.restore(entries_of(late), np.zeros(2, np.uint8), [None, None])
        index.restore(
            entries_of([Row(2, 2**63, id="two"), Row(4, 0xFFFFFF, TWO, id="four")]), np.zeros(2, np.uint8), [None] * 2
        )
        index.restore(entries_of([Row(1, 0xFFFFFE, id="one")]), np.full(1, Verdict.DUPLICATE, np.uint8), [original])
        index.set_applied(ONE, 10)
        index.set_applied(TWO, 5)
        found, names, applied = all_records(index), index.stream_names(), index.applied()
    assert {(record.source, record.offset) for record in found} == {(ONE, 1), (ONE, 2), (ONE, 5), (ONE, 9), (TWO, 4)}
    assert not all(record.settled for record in found)
    with opened(tmp_path / "second", parameters) as index:
        for portion in portions(iter(found), 1):
            taking = Importer(index)
            taking.begin(list(names.items()))
            for earlier in portions(iter(found[: found.index(portion[0]) + 1]), 1):
                taking.add(earlier)
            for source, (offset, _) in index.applied().items():
                known = {record.offset for record in found[: found.index(portion[0]) + 1] if record.source == source}
                assert {
                    record.offset for record in found if record.source == source and record.offset < offset
                } <= known
        taking.finish(applied)
        again = index.admit(entries_of([Row(1, 0xFFFFFE, id="one")]), {})
        assert again.replayed.all()
        assert again.original_positions == [original]
    assert wrong(tmp_path / "second") == {}


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("rows_max", [1, 10])
def test_a_duplicate_that_was_restored_before_its_original_comes_behind_it(
    insert: Any, rows_max: int, tmp_path: Path
) -> None:
    parameters = with_insert(Parameters(), insert)
    rows = [
        Row(1, 0xFF, id="copy"),
        Row(2, 0xFE, id="other copy"),
        Row(3, 0xFF << 32, id="else"),
        Row(4, 0xFF, TWO, id="it"),
    ]
    verdicts = np.array([Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.UNIQUE, Verdict.UNIQUE], np.uint8)
    with opened(tmp_path / "first", parameters) as index:
        index.restore(entries_of(rows), verdicts, [Position(TWO, 4)] * 2 + [None] * 2, ends_of(rows))
        found, names, applied = all_records(index), index.stream_names(), index.applied()
    assert [record.offset for record in found] == [3, 4, 1, 2]
    assert [record.settled for record in found] == [False, True, True, True]
    assert wrong(tmp_path / "first") == {}
    for _ in range(2):
        with opened(tmp_path / "second", parameters) as index:
            take_over(index, found[:3], names, rows_max)
    with opened(tmp_path / "second", parameters) as index:
        take_over(index, found, names, rows_max)
        assert index.applied()[ONE].offset == 3
        Importer(index).finish(applied)
        again = all_records(index)
        assert {(record.source, record.offset, record.origin) for record in again} == {
            (record.source, record.offset, record.origin) for record in found
        }
        replayed = index.admit(entries_of(rows), {})
        assert replayed.original_ids == ["it", "it", None, None]
        assert replayed.originals[0] == replayed.originals[3]
    assert wrong(tmp_path / "second") == {}


def test_an_index_that_holds_others_keeps_them_and_gives_new_numbers(tmp_path: Path) -> None:
    filled(tmp_path / "first", mixed_rows(6, 100))
    with opened(tmp_path / "first") as index:
        found, names = all_records(index), index.stream_names()
    other = Source("another", 0)
    with opened(tmp_path / "second") as index:
        rows = [Row(offset, offset << 40, other, id=f"other {offset}") for offset in range(30)]
        first = index.admit(entries_of(rows), ends_of(rows))
        take_over(index, found, names, 50)
        assert answers_of(index.admit(entries_of(rows), {})) == answers_of(first)
        mixed = mixed_rows(6, 100)
        again = index.admit(entries_of(mixed), {})
        assert again.replayed.all()
        with opened(tmp_path / "first") as origin:
            expected = origin.admit(entries_of(mixed), {})
        assert again.original_ids == expected.original_ids
        assert again.verdicts.tolist() == expected.verdicts.tolist()
    assert wrong(tmp_path / "second") == {}


def test_records_with_an_original_missing_are_refused_and_change_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "first", mixed_rows(7, 60))
    with opened(tmp_path / "first") as index:
        found = all_records(index)
    number = next(record.original for record in found if record.verdict is Verdict.DUPLICATE)
    without = [record for record in found if record.document is None or record.document.number != number]
    assert len(without) == len(found) - 1
    with opened(tmp_path / "second") as index:
        with pytest.raises(ValueError, match=f"original {number} does not stand before it"):
            take_over(index, without, {}, 1_000)
        assert index.statistics().journal_rows == 0


@pytest.mark.parametrize("part", ["document", "origin"])
def test_records_without_a_part_that_their_verdict_asks_for_are_refused(part: str, tmp_path: Path) -> None:
    filled(tmp_path / "first", mixed_rows(7, 60))
    with opened(tmp_path / "first") as index:
        found = all_records(index)
    broken = [record._replace(**{part: None}) for record in found]
    with opened(tmp_path / "second") as index:
        with pytest.raises(ValueError, match=f"without its {part}"):
            take_over(index, broken, {}, 1_000)
        assert index.statistics().journal_rows == 0


def test_portions_keep_the_order_and_the_bound() -> None:
    def record(source: Source, offset: int) -> Record:
        return Record(source, offset, Verdict.UNDECIDABLE, 0, None, None, None, None, False, True, "")

    def found() -> Iterator[Record]:
        yield from (record(ONE, 3), record(TWO, 1), record(ONE, 2), record(ONE, 5), record(ONE, 6), record(ONE, 7))

    assert [[each.offset for each in portion] for portion in portions(found(), 3)] == [[3, 1], [2, 5, 6], [7]]
