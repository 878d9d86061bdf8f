"""Base sets: an index above them decides as one index would that had admitted their documents first."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide import prepare
from index.entry import Decisions, Insert, Position, Source, Verdict
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.matching.root import RootRule
from index.session import Longer
from index.storage.bases import BaseName, position_above
from index.storage.parameters import Parameters
from tests.support.crawls import SCHEMES, UPDATES, crawled, entries
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import made, opened, wrong
from tests.support.roots import with_insert

SIZES = TreeSizes(8, 64)

Told = tuple[Verdict, int, int, str | None, Position | None, int]


def renamed(rows: Sequence[Row], name: str) -> list[Row]:
    """Rows of a base: from sources of its own, and with ids that no other set has."""
    return [row._replace(source=Source(f"{name} {row.source.stream}", 0), id=f"{name}/{row.id}") for row in rows]


def told(decisions: Decisions) -> list[Told]:
    """What decisions say, but for numbers."""
    columns = (decisions.verdicts, decisions.reasons, decisions.distances, decisions.ratios)
    verdicts, reasons, distances, ratios = (column.tolist() for column in columns)
    verdict_column = map(Verdict, verdicts)
    originals = decisions.original_ids, decisions.original_positions
    return list(zip(verdict_column, reasons, distances, *originals, ratios, strict=True))


def above(answers: Sequence[Told], names: dict[str, BaseName]) -> list[Told]:
    """Answers of one index with positions as an index above the bases names them; names by the beginning of a stream."""

    def position(at: Position | None) -> Position | None:
        name = None if at is None else at.source.stream.partition(" ")[0]
        return at if at is None or name not in names else position_above(names[name], at)

    return [(*answer[:4], position(answer[4]), answer[5]) for answer in answers]


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(5)
@given(data=st.data())
def test_an_index_above_base_sets_decides_as_one_index_that_had_admitted_them_first(
    scheme: str, insert: Insert, data: st.DataObject
) -> None:
    """However rows are batched, whatever is forgotten, given back or compacted. Checks, replays and restorations alike."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parameters = with_insert(SCHEMES[scheme], insert)
    count = data.draw(st.integers(20, 150))
    rows = crawled(generator, count, parameters, digests=data.draw(st.booleans()), lengths=True)
    longer = data.draw(st.sampled_from([None, Longer(1_000)]))
    options: dict[str, Any] = {"sizes": SIZES, "recrawl": UPDATES, "longer": longer}
    edge = int(generator.integers(1, count))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "ROWS_AT_ONCE", data.draw(st.sampled_from([7, 4_096])))
        folder = Path(name)
        with opened(folder / "one", parameters, **options) as one:
            with opened(folder / "base", parameters, **options) as base:
                first_rows = renamed(rows[:edge], "base")
                assert told(admitted(base, first_rows, parameters)) == told(admitted(one, first_rows, parameters))
                names = {"base": BaseName(base.identity, "base")}
            live = rows[edge:]
            begin = 0
            while begin < len(live):
                with opened(folder / "live", parameters, bases=[folder / "base"], **options) as index:
                    for _ in range(int(generator.integers(1, 4))):
                        part = live[begin : begin + int(generator.integers(1, 50))]
                        if not part:
                            break
                        checked = told(index.check(entries(part[:1], parameters)))[0]
                        expected = above(told(admitted(one, part, parameters)), names)
                        answers = admitted(index, part, parameters)
                        assert told(answers) == expected
                        assert checked == expected[0]
                        assert told(admitted(index, part, parameters)) == expected
                        begin += len(part)
                        if generator.random() < 0.2:
                            ids = {live[int(generator.integers(begin))].id for _ in range(2)}
                            assert [each.id for each in index.forget(ids)] == [each.id for each in one.forget(ids)]
                        drops = [
                            row for row, answer in zip(part, expected, strict=True) if answer[0] is Verdict.DUPLICATE
                        ]
                        if chosen := [row for row in drops if generator.random() < 0.2]:
                            given_back = entries(chosen, parameters)
                            returned = index.give_back(given_back, delivered=True)
                            assert returned.tolist() == one.give_back(given_back, delivered=True).tolist()
        assert wrong(folder / "live") == {}
        assert wrong(folder / "base") == {}


def admitted(index: Index, rows: Sequence[Row], parameters: Parameters) -> Decisions:
    return index.admit(entries(list(rows), parameters), ends_of(rows))


DEFAULT = Parameters()
NEWS, COPY, OTHER = 0b1011, 0b1001, 0xFFFF << 40


def test_of_two_sets_the_one_that_was_named_first_wins_a_tie(tmp_path: Path) -> None:
    first, _ = made(tmp_path / "first", [Row(0, NEWS, id="a")]), made(tmp_path / "second", [Row(0, NEWS, id="b")])
    folders = [tmp_path / "first", tmp_path / "second"]
    with opened(tmp_path / "live", bases=folders) as index:
        (answer,) = told(admitted(index, [Row(0, COPY, id="c")], Parameters()))
        assert answer[:4] == (Verdict.DUPLICATE, 0, 1, "a")
        assert answer[4] == position_above(BaseName(first, "first"), Position(ONE, 0))
        assert index.stream_names()[answer[4].source.stream] == "first:pages.jsonl"


def test_an_entry_of_the_index_loses_a_tie_against_one_of_a_base(tmp_path: Path) -> None:
    base = made(tmp_path / "base", [Row(0, NEWS, id="a")])
    made(tmp_path / "live", [Row(0, NEWS, id="b")])
    with opened(tmp_path / "live", bases=[tmp_path / "base"]) as index:
        (answer,) = told(admitted(index, [Row(1, COPY, id="c")], Parameters()))
        assert answer[3:5] == ("a", position_above(BaseName(base, "base"), Position(ONE, 0)))


def test_what_a_base_was_named_for_stays_named_when_another_takes_its_place(tmp_path: Path) -> None:
    """Members of what it held no longer count, as if it had been forgotten. Decided positions answer as they did."""
    parameters = Parameters(64, 3, insert="root", root=RootRule(6, 1))
    old = made(tmp_path / "old", [Row(0, 0, id="a")], parameters)
    made(tmp_path / "new", [Row(0, OTHER, id="z")], parameters)
    member, copy = Row(0, 0b111, id="member"), Row(1, 0b11111, id="copy of the member")
    with opened(tmp_path / "live", parameters, bases=[tmp_path / "old"]) as index:
        before = told(admitted(index, [member], parameters))
        assert before[0][:4] == (Verdict.DUPLICATE, 0, 3, "a")
        assert before[0][4] == position_above(BaseName(old, "old"), Position(ONE, 0))
        assert told(index.check(entries_of([copy])))[0][3] == "a"
    with opened(tmp_path / "live", parameters, bases=[tmp_path / "new"]) as index:
        assert told(index.check(entries_of([copy])))[0][0] is Verdict.UNIQUE
        assert told(admitted(index, [member], parameters)) == before
        assert told(admitted(index, [Row(1, OTHER + 1, id="c")], parameters))[0][3] == "z"
    assert wrong(tmp_path / "live") == {}


def test_an_open_index_may_be_a_base_and_grows_meanwhile(tmp_path: Path) -> None:
    """Processes share it: what one writes, the other one sees in its next batch."""
    made(tmp_path / "base", [Row(0, OTHER, id="z")])
    written = (
        "import sys; from pathlib import Path; from tests.support.entries import Row; from tests.support.indexes import made; "
        "made(Path(sys.argv[1]), [Row(1, 0b1011, id='a')])"
    )
    with opened(tmp_path / "live", bases=[tmp_path / "base"]) as index:
        subprocess.run([sys.executable, "-c", written, str(tmp_path / "base")], check=True, timeout=120)
        assert told(admitted(index, [Row(0, NEWS, id="b")], Parameters()))[0][3] == "a"


def test_a_base_is_never_written(tmp_path: Path) -> None:
    made(tmp_path / "base", [Row(offset, OTHER + offset * 64) for offset in range(30)])
    before = (tmp_path / "base" / "data.mdb").read_bytes()
    with opened(tmp_path / "live", bases=[tmp_path / "base"], recrawl=UPDATES, sizes=SIZES) as index:
        admitted(index, [Row(offset, OTHER + offset * 64, id=f"{offset}") for offset in range(60)], Parameters())
        index.forget({f"{ONE.stream}/0/3"})
    assert (tmp_path / "base" / "data.mdb").read_bytes() == before


def test_restored_documents_name_the_base_again(tmp_path: Path) -> None:
    parameters = Parameters(64, 3, insert="root", root=RootRule(6, 1))
    made(tmp_path / "base", [Row(0, 0, id="a")], parameters)
    live = entries_of([Row(0, 0b111, id="member"), Row(1, OTHER, id="other")])
    copy = entries_of([Row(2, 0b11111, id="copy of the member")])
    with opened(tmp_path / "live", parameters, bases=[tmp_path / "base"]) as index:
        decisions = index.admit(live, {ONE: 2})
        expected = told(index.check(copy))
    with opened(tmp_path / "again", parameters, bases=[tmp_path / "base"]) as index:
        restored = index.restore(live, decisions.verdicts, decisions.original_positions, {ONE: 2})
        assert restored == (2, 0, 0)
        assert told(index.admit(live, {ONE: 2})) == told(decisions)
        assert told(index.check(copy)) == expected
    assert wrong(tmp_path / "again") == {}
