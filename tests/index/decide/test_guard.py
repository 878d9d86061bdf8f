"""Hosts are watched in the transaction that decides: once a position, whatever dies, and in bounded bytes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.entry import Decisions, Entries, HostShare, Kind, Position, Verdict
from index.index import Index
from index.matching.host_sketch import HOSTS_MAX, NAME_CHARACTERS_MAX
from index.matching.root import RootRule
from index.session import Guard
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import HOSTS_KEY, Table
from index.storage.parameters import Parameters
from index.tools import Importer
from tests.support.answers import answers_of
from tests.support.brute_force_index import Answer
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.indexes import all_records, everything, inspected, looked_at, opened, wrong
from tests.support.roots import NEAR_ROOT

PARAMETERS = Parameters(distance_max=3)
NEAR_TO_ZERO = [1 << bit for bit in range(64)]


def batch_of(rows: Sequence[Row], hosts: Sequence[str | None]) -> Entries:
    return replace(entries_of(rows), hosts=hosts)


def admitted(index: Index, rows: Sequence[Row], hosts: Sequence[str | None]) -> Decisions:
    return index.admit(batch_of(rows, hosts), ends_of(rows))


def site(begin: int, count: int) -> list[Row]:
    """An original where `begin` is 0, and pages one bit away from it."""
    return [Row(offset, NEAR_TO_ZERO[offset % 64] if offset else 0) for offset in range(begin, begin + count)]


def test_a_host_whose_pages_are_dropped_is_among_the_worst(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        admitted(index, site(0, 120), ["site.example"] * 120)
        others = [Row(1_000 + place, place * 0x9E3779B97F4A7C15 % 2**64) for place in range(50)]
        admitted(index, others, ["good.example"] * 50)
        seen = index.watched_hosts()
    assert seen.worst == [HostShare("site.example", 119, 119, True)]
    assert seen.beyond == 1


def test_equal_documents_short_ones_and_those_without_a_host_count_as_no_unequal_duplicates(tmp_path: Path) -> None:
    rows = [
        Row(0, 0),
        Row(1, 0),
        Row(2, 7, kind=Kind.EXACT),
        Row(3, 7, kind=Kind.EXACT),
        Row(4, 0, kind=Kind.UNDECIDABLE),
        Row(5, 0, kind=Kind.DEAD_LETTER),
        Row(6, 1),
    ]
    with opened(tmp_path, PARAMETERS) as index:
        admitted(index, rows, ["site.example"] * 6 + [None])
        assert index.watched_hosts().worst == []
        admitted(index, [Row(7, 2), Row(8, 4)], ["site.example", ""])
        assert index.watched_hosts().worst == [HostShare("site.example", 1, 1, False)]


@pytest.mark.parametrize("cut", [1, 5])
def test_a_copy_of_a_duplicate_that_entered_is_equal_to_an_entry(tmp_path: Path, cut: int) -> None:
    rows = [Row(offset, fingerprint) for offset, fingerprint in enumerate([0, 1, 1, 2, 1])]
    with opened(tmp_path, replace(PARAMETERS, insert="root", root=NEAR_ROOT)) as index:
        for begin in range(0, 5, cut):
            part = rows[begin : begin + cut]
            admitted(index, part, ["site.example"] * len(part))
        (share,) = index.watched_hosts().worst
    assert share.unequal == 2


def test_a_position_is_counted_once_however_often_it_is_decided(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        for _ in range(3):
            admitted(index, site(0, 10), ["site.example"] * 10)
        mixed = [*site(5, 5), *site(10, 5)]
        admitted(index, mixed, ["site.example"] * 10)
        assert index.watched_hosts().worst == [HostShare("site.example", 14, 14, False)]


@pytest.mark.parametrize("cut", [1, 7, 150])
def test_crossing_the_limit_is_told_once_however_the_batches_are_cut(tmp_path: Path, cut: int) -> None:
    crossings = []
    with opened(tmp_path, PARAMETERS, guard=Guard(share_max=0.8, documents_min=50)) as index:
        for begin in range(0, 150, cut):
            count = min(cut, 150 - begin)
            crossings += admitted(index, site(begin, count), ["site.example"] * count).crossings
            # The journal answers, and tells nothing again.
            assert not admitted(index, site(begin, count), ["site.example"] * count).crossings
    assert [(share.host, share.beyond) for share in crossings] == [("site.example", True)]


def test_what_is_watched_is_written_with_the_batch_or_not_at_all(tmp_path: Path) -> None:
    armed = []

    def kill() -> None:
        if armed:
            raise InterruptedError("killed before the commit")

    with opened(tmp_path, PARAMETERS, hooks=CommitHooks(before_commit=kill)) as index:
        armed.append(True)
        with pytest.raises(InterruptedError):
            admitted(index, site(0, 10), ["site.example"] * 10)
    with opened(tmp_path, PARAMETERS) as index:
        assert index.watched_hosts().worst == []
        admitted(index, site(0, 10), ["site.example"] * 10)
        assert index.watched_hosts().worst == [HostShare("site.example", 9, 9, False)]


def test_what_is_watched_outlives_the_process_and_the_limits_may_change(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        admitted(index, site(0, 60), ["site.example"] * 60)
        assert index.watched_hosts().beyond == 0
    with opened(tmp_path, PARAMETERS, guard=Guard(documents_min=50)) as index:
        decisions = admitted(index, site(60, 1), ["site.example"])
        assert list(decisions.crossings) == [HostShare("site.example", 60, 60, True)]


def test_a_million_hosts_with_long_names_take_bounded_bytes(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        for begin in range(0, 3 * HOSTS_MAX, 1_000):
            rows = site(begin, 1_000)
            admitted(index, rows, [f"{row.offset}." + "x" * 500 for row in rows])
        value = inspected(index, lambda transaction: bytes(transaction.get(Table.META, HOSTS_KEY) or b""))
    assert len(value) <= 16 + HOSTS_MAX * (24 + NAME_CHARACTERS_MAX + 1)


def test_a_batch_without_hosts_leaves_no_trace(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        index.admit(entries_of(site(0, 10)), ends_of(site(0, 10)))
        assert inspected(index, lambda transaction: transaction.get(Table.META, HOSTS_KEY)) is None


def test_limits_that_could_never_be_reached_are_refused() -> None:
    for limits in ({"share_max": 0.0}, {"share_max": 1.1}, {"documents_min": 0}, {"documents_min": 1_001}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            Guard(**limits)


def test_a_column_of_hosts_of_another_length_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index, pytest.raises(ValueError, match="length"):
        admitted(index, site(0, 2), ["one.example"])


def test_rows_that_are_taken_keep_their_hosts() -> None:
    batch = batch_of(site(0, 3), ["a", None, "c"])
    assert batch.take(np.array([2, 0])).hosts == ["c", "a"]


# --- the guard decides ------------------------------------------------------------------------------------------------

HOLDING = replace(PARAMETERS, insert="root", root=NEAR_ROOT)
HOLDING_MEMBERS = replace(PARAMETERS, insert="root", root=RootRule(distance_max=6, member_distance_min=2))
"""Members are farther apart than the pages of the site."""
PASSING = Guard(share_max=0.8, documents_min=20, suspects=True)
SUSPECTS = [Verdict.UNIQUE] + [Verdict.DUPLICATE] * 20 + [Verdict.SUSPECT] * 39
"""A host is beyond from its twentieth document on, counted from the first duplicate; from the next one on it matters."""


def decided_in(
    directory: Path, rows: Sequence[Row], cut: int, guard: Guard = PASSING, parameters: Parameters = HOLDING
) -> list[Answer]:
    """Verdict, distance and original of each row, and the same again of a replay."""
    found = []
    with opened(directory, parameters, guard=guard) as index:
        for begin in range(0, len(rows), cut):
            part = rows[begin : begin + cut]
            decisions = admitted(index, part, ["site.example"] * len(part))
            again = admitted(index, part, ["site.example"] * len(part))
            assert again.replayed.all()
            assert answers_of(again) == answers_of(decisions)
            found += answers_of(decisions)
    return found


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_beyond_the_limits_unequal_duplicates_are_suspects_however_the_batches_are_cut(
    tmp_path: Path, cut: int
) -> None:
    answers = decided_in(tmp_path, site(0, 60), cut)
    assert [answer[0] for answer in answers] == SUSPECTS
    assert all(answer[2] > 0 for answer in answers[1:])
    # A suspect names the document that was kept, as a duplicate does.
    assert {answer[3] for answer in answers} == {0}
    assert wrong(tmp_path) == {}


def test_without_leave_all_unequal_duplicates_stay_duplicates(tmp_path: Path) -> None:
    answers = decided_in(tmp_path, site(0, 60), 7, Guard(documents_min=20))
    assert {answer[0] for answer in answers[1:]} == {Verdict.DUPLICATE}


@pytest.mark.parametrize("parameters", [HOLDING, HOLDING_MEMBERS], ids=["all members", "far members"])
@pytest.mark.parametrize("cut", [1, 100])
def test_copies_of_what_was_kept_dropped_or_let_pass_stay_duplicates(
    tmp_path: Path, cut: int, parameters: Parameters
) -> None:
    copied = [site(number, 1)[0] for number in (0, 10, 10, 40, 40)]
    copies = [row._replace(offset=100 + place) for place, row in enumerate(copied)]
    answers = decided_in(tmp_path, [*site(0, 60), *copies], cut, parameters=parameters)
    expected = [Verdict.DUPLICATE] * 5
    if parameters is HOLDING_MEMBERS:
        # The page was dropped and did not enter: its first copy passes, and no other.
        expected[1] = Verdict.SUSPECT
    assert [answer[0] for answer in answers] == SUSPECTS + expected


def test_documents_of_other_hosts_and_of_none_stay_duplicates(tmp_path: Path) -> None:
    with opened(tmp_path, HOLDING, guard=PASSING) as index:
        admitted(index, site(0, 40), ["site.example"] * 40)
        decisions = admitted(index, site(40, 3), ["site.example", "other.example", None])
    assert decisions.verdicts.tolist() == [Verdict.SUSPECT, Verdict.DUPLICATE, Verdict.DUPLICATE]


def test_a_suspect_is_an_entry_and_names_its_original_when_that_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path, HOLDING, guard=PASSING) as index:
        admitted(index, site(0, 40), ["site.example"] * 40)
        index.forget(["stream-one/0/0"])
        decisions = admitted(index, site(30, 1), ["site.example"])
        assert index.statistics().journal_rows == 40
    assert decisions.verdicts.tolist() == [Verdict.SUSPECT]
    assert decisions.original_ids == ["stream-one/0/0"]
    assert wrong(tmp_path) == {}


@pytest.mark.parametrize("parameters", [HOLDING, HOLDING_MEMBERS], ids=["all members", "far members"])
def test_suspects_come_back_as_what_they_were(tmp_path: Path, parameters: Parameters) -> None:
    rows = site(0, 60)
    answers = decided_in(tmp_path / "lost", rows, 20, parameters=parameters)
    verdicts = np.array([answer[0] for answer in answers], np.uint8)
    originals = [Position(ONE, 0) if verdict != Verdict.UNIQUE else None for verdict in verdicts]
    with opened(tmp_path / "restored", parameters, guard=PASSING) as index:
        restored = index.restore(batch_of(rows, ["site.example"] * 60), verdicts, originals, ends_of(rows))
        assert restored == (60, 0, 0)
        again = admitted(index, rows, ["site.example"] * 60)
        assert again.verdicts.tolist() == verdicts.tolist()
        assert admitted(index, [Row(60, rows[45].fingerprint)], [None]).verdicts.tolist() == [Verdict.DUPLICATE]
    assert wrong(tmp_path / "restored") == {}


@pytest.mark.parametrize("parameters", [HOLDING, HOLDING_MEMBERS], ids=["all members", "far members"])
def test_suspects_are_exported_and_imported(tmp_path: Path, parameters: Parameters) -> None:
    decided_in(tmp_path / "first", site(0, 60), 20, parameters=parameters)
    with looked_at(tmp_path / "first") as index:
        records, expected = all_records(index), everything(index)
        names = index.stream_names()
        applied = index.applied()
    with opened(tmp_path / "second", parameters) as index:
        taking = Importer(index)
        taking.begin(list(names.items()))
        taking.add(records)
        taking.finish(applied)
        assert all_records(index) == records
        assert everything(index) == expected
    assert wrong(tmp_path / "second") == {}


def test_suspects_are_refused_where_duplicates_do_not_enter(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unique"):
        opened(tmp_path, PARAMETERS, guard=PASSING)


def test_a_suspect_is_found_by_its_id_with_its_original(tmp_path: Path) -> None:
    rows = [row._replace(id=f"page {row.offset}") for row in site(0, 60)]
    with opened(tmp_path, HOLDING, guard=PASSING) as index:
        admitted(index, rows, ["site.example"] * 60)
        (last,) = index.decided(["page 59"])
    assert (last.verdict, last.original_id, last.original_position) == (Verdict.SUSPECT, "page 0", Position(ONE, 0))
    assert last.document is not None
