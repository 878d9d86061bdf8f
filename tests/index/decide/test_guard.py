"""Hosts are watched in the transaction that decides: once a position, whatever dies, and in bounded bytes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.entry import Decisions, Entries, HostShare, Kind
from index.index import Index
from index.matching.host_sketch import HOSTS_MAX, NAME_CHARACTERS_MAX
from index.session import Guard
from index.storage.layout import HOSTS_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import CommitHooks
from tests.support.entries import Row, ends_of, entries_of
from tests.support.indexes import inspected, opened

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
    assert seen.worst == [HostShare("site.example", 120, 119, True)]
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
    with opened(tmp_path, replace(PARAMETERS, insert="all")) as index:
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
        assert index.watched_hosts().worst == [HostShare("site.example", 15, 14, False)]


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
        assert index.watched_hosts().worst == [HostShare("site.example", 10, 9, False)]


def test_what_is_watched_outlives_the_process_and_the_limits_may_change(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        admitted(index, site(0, 60), ["site.example"] * 60)
        assert index.watched_hosts().beyond == 0
    with opened(tmp_path, PARAMETERS, guard=Guard(documents_min=50)) as index:
        decisions = admitted(index, site(60, 1), ["site.example"])
        assert list(decisions.crossings) == [HostShare("site.example", 61, 60, True)]


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
    for wrong in ({"share_max": 0.0}, {"share_max": 1.1}, {"documents_min": 0}, {"documents_min": 1_001}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Guard(**wrong)


def test_a_column_of_hosts_of_another_length_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index, pytest.raises(ValueError, match="length"):
        admitted(index, site(0, 2), ["one.example"])


def test_rows_that_are_taken_keep_their_hosts() -> None:
    batch = batch_of(site(0, 3), ["a", None, "c"])
    assert batch.take(np.array([2, 0])).hosts == ["c", "a"]
