"""The sample next to the index: exact similarities, bounds, several processes, damage."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamer.audit import store as module
from streamer.audit.store import FILE_NAME, Audited, AuditStore

MANY = 2**30


def document(place: str, features: range, *, least: int = 7, original: str = "", dropped: bool = False) -> Audited:
    held = np.array(features, np.uint32)
    return Audited(place, f"{place}.", f"id {place}", "a.example", least, held, dropped, dropped, original)


def test_a_document_is_compared_with_those_before_it_of_its_group_alone(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    store.add([document("1", range(100)), document("2", range(100), least=8)], 5.0)
    store.add([document("3", range(20, 110), original="1", dropped=True), document("4", range(25, 110))], 6.0)
    first, other, dropped, kept = store.judged()
    assert (first.kept, other.kept, first.original) == (0, 0, None)
    assert (dropped.kept, dropped.near, dropped.original) == (pytest.approx(80 / 110),) * 3
    assert dropped.new_share == pytest.approx(10 / 90)
    # The nearest is the dropped one; of those that were kept, the first.
    assert (kept.kept, kept.kept_position, kept.near) == (pytest.approx(75 / 110), "1.", pytest.approx(85 / 90))
    assert [each.seconds for each in store.judged(since_seconds=6.0)] == [6.0, 6.0]


def test_a_document_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    store.add([document("1", range(100)), document("2", range(90), original="1", dropped=True)], 5.0)
    before = store.judged()
    AuditStore(tmp_path, MANY).add([document("1", range(3)), document("2", range(3))], 9.0)
    assert store.judged() == before


def test_a_replaced_version_counts_as_kept_no_longer(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    update = replace(document("2", range(50, 150), original="1"), named=True, replaces=True)
    store.add([document("1", range(100)), update, document("3", range(100))], 5.0)
    assert store.judged()[2].kept == pytest.approx(50 / 150)


def test_a_reprint_on_many_sites_finds_its_original_and_takes_little_room(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    copies = [document(str(number), range(1_000), original="0", dropped=True) for number in range(1, 300)]
    store.add([document("0", range(1_000)), *copies], 5.0)
    assert all(each.original == 1 and each.new_share == 0 for each in store.judged()[1:])
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("SELECT count(*) FROM sample WHERE length(features) > 0").fetchone() == (1,)


def test_a_copy_is_compared_by_its_own_features_though_only_its_difference_is_kept(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    copy = document("2", range(5, 100), original="1", dropped=True)
    later = document("3", range(5, 120), original="1", dropped=True)
    store.add([document("1", range(100)), copy, later], 5.0)
    assert store.judged()[1].original == pytest.approx(95 / 100)
    found = store.judged()[2]
    assert (found.near, found.original) == (pytest.approx(95 / 115), pytest.approx(95 / 120))
    # The copy has all that the later one and the original have in common.
    assert found.nearer_chance == 1


def test_a_nearer_document_has_the_chance_that_it_shares_the_least_feature_too(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    nearer = document("2", range(20, 120), original="1", dropped=True)
    store.add([document("1", range(100)), nearer, document("3", range(10, 130), original="1", dropped=True)], 5.0)
    found = store.judged()[2]
    assert (found.original, found.near) == (pytest.approx(90 / 130), pytest.approx(100 / 120))
    # Of 10 to 99, shared with the original, the nearer one has 20 to 99.
    assert found.nearer_chance == pytest.approx(80 / 90)


def test_a_dropped_document_is_compared_with_its_original_in_whatever_group_that_is(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    nearer = document("2", range(50, 150), least=8)
    store.add(
        [document("1", range(100)), nearer, document("3", range(40, 140), least=8, original="1", dropped=True)], 5.0
    )
    found = store.judged()[2]
    assert found.original == pytest.approx(60 / 140)
    # Of its group there is one document: for recall the original of another group does not count.
    assert (found.kept, found.kept_position, found.near) == (pytest.approx(90 / 110), "2.", pytest.approx(90 / 110))
    assert found.nearer_chance == pytest.approx(90 / 110)


def test_a_document_that_no_longer_counts_in_the_index_is_no_original_to_find(tmp_path: Path) -> None:
    left = {"1"}
    store = AuditStore(tmp_path, MANY, lambda places: [place not in left for place in places])
    store.add([document("1", range(100)), document("2", range(30, 100)), document("3", range(100))], 5.0)
    found = store.judged()[2]
    assert (found.kept, found.kept_position, found.near) == (pytest.approx(0.7), "2.", 1)


def test_the_index_is_asked_about_the_nearest_document_alone_while_that_counts(tmp_path: Path) -> None:
    asked: list[str] = []
    store = AuditStore(tmp_path, MANY, lambda places: [not asked.append(place) for place in places])
    store.add([document(str(number), range(number, 100)) for number in range(30)], 5.0)
    assert asked == [str(number) for number in range(29)]
    assert [each.kept_position for each in store.judged()[1:]] == [f"{number}." for number in range(29)]


def test_the_original_is_compared_however_many_came_between(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    between = [document(str(number), range(number * 1_000, number * 1_000 + 50)) for number in range(1, 200)]
    store.add([document("0", range(100)), *between, document("end", range(90), original="0", dropped=True)], 5.0)
    assert store.judged()[-1].original == pytest.approx(0.9)


def test_the_oldest_go_first_and_the_file_stays_within_its_bound(tmp_path: Path) -> None:
    bytes_max = 2**21
    store = AuditStore(tmp_path, bytes_max)
    for number in range(60):
        store.add(
            [document(f"{number}/{row}", range(row, row + 1_000), least=number * 100 + row) for row in range(20)],
            number,
        )
    places = [each.position for each in store.judged()]
    assert places[-1] == "59/19."
    assert "0/0." not in places
    assert len(places) > 300
    assert (tmp_path / FILE_NAME).stat().st_size < 1.2 * bytes_max


def test_a_damaged_file_is_replaced_and_no_verdict_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1_000)
    store = AuditStore(tmp_path, MANY)
    with pytest.raises(OSError, match="audit"):
        store.judged()
    store.add([document("1", range(9))], 5.0)
    store.add([document("2", range(9))], 6.0)
    assert [each.position for each in store.judged()] == ["1.", "2."]


def test_what_cannot_be_written_waits_for_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.01)
    store, other = AuditStore(tmp_path, MANY), AuditStore(tmp_path, MANY)
    other.add([document("0", range(9))], 4.0)
    with sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        store.add([document("1", range(9))], 5.0)
        holder.execute("ROLLBACK")
    assert [each.position for each in store.judged()] == ["0."]
    store.add([], 6.0)
    assert [(each.position, each.seconds) for each in store.judged()] == [("0.", 4.0), ("1.", 5.0)]


def test_no_file_means_no_documents(tmp_path: Path) -> None:
    assert AuditStore(tmp_path, MANY).judged() == []


def test_a_sample_of_an_earlier_build_is_read_and_goes_on_with_the_rate_of_each_document(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, MANY)
    store.add([replace(document("1", range(100)), one_in=16)], 5.0)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.executescript("ALTER TABLE sample DROP COLUMN one_in; PRAGMA user_version = 0")
    assert [each.one_in for each in store.judged()] == [0]
    store.add([replace(document("2", range(90)), one_in=4)], 6.0)
    assert [each.one_in for each in store.judged()] == [0, 4]
