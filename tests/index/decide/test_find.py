import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide.find import EntryState
from index.entry import Kind, Position, Source
from index.index import Index, internals_of
from index.lsm.compaction import TreeSizes
from index.matching.root import RootRule
from index.session import ReadSession, Retention
from index.storage import log
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import LOG_KEY
from index.storage.parameters import Parameters
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import looked_at, opened, wrong

SIZES = (TreeSizes(8, 64), TreeSizes(30, 300), TreeSizes(1_000, 2**16))
IDS = ["", "a", "名", "é\ud800", "x" * 31, "x" * 32, "x" * 33, "x" * 100, *(f"page {number}" for number in range(60))]


class Crash(Exception):
    pass


def rows_with_few_ids(generator: np.random.Generator, count: int) -> list[Row]:
    fingerprints = clustered_fingerprints(generator, count, 64, centres=max(2, count // 6))
    return [
        Row(
            offset,
            fingerprint,
            (ONE, TWO)[int(generator.integers(2))],
            Kind(int(generator.choice(4, p=[0.8, 0.1, 0.05, 0.05]))),
            time_ms=1_000 + 10 * offset,
            id=IDS[int(generator.integers(len(IDS)) ** 2 // len(IDS))],
        )
        for offset, fingerprint in enumerate(fingerprints)
    ]


def without_defaults(rows: list[Row]) -> Any:
    """As `entries_of`, but an empty id stays one."""
    entries = entries_of(rows)
    return type(entries)(
        **{**{name: getattr(entries, name) for name in entries.__slots__}, "ids": [row.id for row in rows]}
    )


def positions_by_id(session: ReadSession) -> dict[str, list[tuple[int, int]]]:
    """Row and offset of every row in the log, by its id: what a scan finds."""
    found: dict[str, list[tuple[int, int]]] = {}
    for batch in log.walk(session.transaction, session.words):
        first = LOG_KEY.unpack(batch.key)[1]
        ids = batch.ids(np.arange(len(batch.rows)))
        for row, (id_, offset) in enumerate(zip(ids, batch.rows["offset"].tolist(), strict=True)):
            found.setdefault(id_, []).append((first + row, offset))
    return found


def newest_offsets(session: ReadSession, ids: list[str]) -> list[int | None]:
    """Offset of the last row with each id."""
    newest = session.ids.newest(session.transaction, ids)
    places = session.ids.places(session.transaction, newest.rows)
    offsets: list[int | None] = [None] * len(ids)
    for asked, batch, row in zip(newest.asked.tolist(), places.batches.tolist(), places.rows.tolist(), strict=True):
        offsets[asked] = int(log.read(session.transaction, places.keys[batch], session.words).rows["offset"][row])
    return offsets


def require_found(index: Index) -> None:
    """What is found by ids is what a scan finds, and nothing else."""
    expected = internals_of(index).read(positions_by_id)
    expected.pop("", None)
    for ids in (IDS, IDS[1:2], ["nobody"], []):
        offsets = sorted(place for id_ in ids for place in expected.get(id_, []))
        assert [each.position.offset for each in index.decided(ids)] == [offset for _, offset in offsets]

    asked = [*IDS, "nobody", *IDS[:3]]
    last = [expected[id_][-1][1] if id_ in expected else None for id_ in asked]
    assert internals_of(index).read(lambda session: newest_offsets(session, asked)) == last
    told = index.decided(IDS)
    documents = [each.document for each in told if each.document]
    assert index.find(IDS) == sorted(documents) == documents
    assert index.decided_at([each.position for each in reversed(told)]) == told[::-1]
    assert index.decided_at([Position(ONE, 10**6), Position(Source("nobody", 0), 0)]) == [None, None]
    known = 0
    for each in told:
        assert each.next_number >= known
        known = each.next_number
        if each.document:
            assert each.document.number == known
            known += 1


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(15)
@given(data=st.data())
def test_ids_are_found_whatever_moves_expires_is_forgotten_is_broken_off_or_opened_twice(
    insert: Any, data: st.DataObject
) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(st.sampled_from(SIZES))
    retention = Retention(data.draw(st.sampled_from([None, None, 10, 60])), data.draw(st.sampled_from([None, 700])))
    rows = rows_with_few_ids(generator, data.draw(st.integers(1, 400)))
    parameters = Parameters(insert=insert, root=RootRule(6) if insert == "root" else None)
    crashing = False

    def crash() -> None:
        if crashing:
            raise Crash

    with tempfile.TemporaryDirectory() as name:
        begin, options = 0, {"sizes": sizes, "retention": retention, "hooks": CommitHooks(before_commit=crash)}
        while begin < len(rows):
            with opened(Path(name), parameters, **options) as index:
                for _ in range(int(generator.integers(1, 9))):
                    part = rows[begin : begin + int(generator.integers(1, 40))]
                    if not part:
                        break
                    crashing = generator.random() < 0.2
                    if crashing:
                        with pytest.raises(Crash):
                            index.admit(without_defaults(part), ends_of(part))
                    crashing = False
                    index.admit(without_defaults(part), ends_of(part))
                    begin += len(part)
                    if generator.random() < 0.3:
                        require_found(index)
                    if generator.random() < 0.1:
                        index.forget({IDS[int(generator.integers(1, len(IDS)))] for _ in range(2)})
                require_found(index)
            with looked_at(Path(name)) as index:
                require_found(index)
        assert wrong(Path(name)) == {}


def test_an_entry_counts_until_it_expires_or_is_forgotten(tmp_path: Path) -> None:
    rows = [Row(offset, 0xFFFF << 10 * offset, id=f"page {offset}") for offset in range(5)]
    with opened(tmp_path, retention=Retention(entries_max=3)) as index:
        for row in rows:
            index.admit(entries_of([row]), ends_of([row]))
        index.forget(["page 3"])
        assert index.standings([4, 0, 3, 2]) == [
            EntryState.COUNTS,
            EntryState.EXPIRED,
            EntryState.FORGOTTEN,
            EntryState.COUNTS,
        ]
        assert index.standings([]) == []
        index.admit(entries_of([Row(5, rows[4].fingerprint, id="copy")]), ends_of([Row(5, 0)]))
        # The first one has left the log, the copy never entered.
        states = index.states_at([Position(ONE, offset) for offset in (4, 3, 0, 5, 99)])
        assert states == [EntryState.COUNTS, EntryState.FORGOTTEN, None, EntryState.COUNTS, None]


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_the_newest_unequal_duplicates_come_first_and_those_of_a_host_if_one_is_named(tmp_path: Path, cut: int) -> None:
    rows = [Row(0, 0), Row(1, 0), Row(2, 1), Row(3, 7, kind=Kind.EXACT), Row(4, 7, kind=Kind.EXACT), Row(5, 2)]
    rows += [Row(6, 2**40 - 1), Row(7, 4), Row(8, 8)]
    hosts = ["a.example", "b.example"] * 4 + ["a.example"]
    with opened(tmp_path, Parameters(distance_max=3)) as index:
        for begin in range(0, len(rows), cut):
            some = slice(begin, begin + cut)
            index.admit(replace(entries_of(rows[some]), hosts=hosts[some]), ends_of(rows[some]))

        def offsets(limit: int, host: str = "") -> list[int]:
            return [each.position.offset for each in index.newest_near(limit, host)]

        assert offsets(10) == [8, 7, 5, 2]
        assert offsets(2) == [8, 7]
        assert offsets(10, "a.example") == [8, 2]
        assert offsets(10, "b.example") == [7, 5]
        assert offsets(10, "c.example") == []
