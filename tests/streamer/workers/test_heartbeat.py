"""What a worker tells of itself is seen by its supervisor, in another process."""

import multiprocessing
from types import SimpleNamespace

import pytest

from index import HostShare, WatchedHosts
from index.matching.host_sketch import NAME_CHARACTERS_MAX
from streamer.observe.metrics import HOSTS_SHOWN
from streamer.service.state import State
from streamer.workers import heartbeat
from streamer.workers.heartbeat import Heartbeats
from streamer.workers.readiness import GroupSeen


def test_a_worker_that_has_told_nothing_is_stopped() -> None:
    assert [Heartbeats(2).seen(worker).state for worker in range(2)] == [State.STOPPED] * 2


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_told_for_one_worker_and_no_other(state: State) -> None:
    board = Heartbeats(3)
    board.enter(1, state)
    assert [board.seen(worker).state for worker in range(3)] == [State.STOPPED, state, State.STOPPED]


def test_silence_is_counted_per_worker_from_its_last_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 100.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: seconds))
    board = Heartbeats(2)
    board.enter(0, State.RUNNING)
    board.beat(1)
    seconds = 102.5
    assert (board.silent_ms(0), board.silent_ms(1)) == (2_500, 2_500)
    board.beat(0)
    seconds = 103.0
    assert (board.silent_ms(0), board.silent_ms(1)) == (500, 3_000)
    assert board.seen(0).state is State.RUNNING
    board.enter(1, State.DRAINING)
    assert board.silent_ms(1) == 0


def test_another_process_writes_on_the_same_board() -> None:
    context = multiprocessing.get_context("spawn")
    board = Heartbeats(2, context)
    worker = context.Process(target=board.enter, args=(1, State.RUNNING))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert [board.seen(number).state for number in range(2)] == [State.STOPPED, State.RUNNING]


def test_partitions_without_an_owner_are_told_by_any_worker_until_it_finds_none_or_ends() -> None:
    board = Heartbeats(2)
    assert board.group() == GroupSeen()
    board.note_group(0, GroupSeen((0, 3), ("a client",)))
    board.note_group(1, GroupSeen((0, 7), ("another", "a client")))
    assert board.group() == GroupSeen((0, 3, 7), ("a client", "another"))
    assert board.group([1]) == GroupSeen((0, 7), ("another", "a client"))
    board.note_group(0, GroupSeen())
    assert board.group() == GroupSeen((0, 7), ("another", "a client"))
    board.enter(1, State.STOPPED)
    assert board.group() == GroupSeen()


def test_the_worst_hosts_are_shown_as_any_worker_noted_them_last() -> None:
    board = Heartbeats(2)
    assert board.watched_hosts() is None
    board.note_hosts(1, WatchedHosts([HostShare("例え.example", 200, 190, True)], 3))
    board.note_hosts(0, WatchedHosts([], 0))
    assert board.watched_hosts() == WatchedHosts([], 0)
    last = WatchedHosts([HostShare("b.example", 100, 20, False)], 0)
    board.note_hosts(1, last)
    board.enter(1, State.STOPPED)
    assert board.watched_hosts() == last


def test_a_note_of_hosts_that_was_broken_off_is_passed_over() -> None:
    board = Heartbeats(1)
    whole = WatchedHosts([HostShare("a.example", 200, 190, True)], 1)
    board.note_hosts(0, whole)
    assert board.watched_hosts() == whole
    before = board._last[0]
    board.note_hosts(0, WatchedHosts([HostShare("b.example", 300, 290, True)], 1))
    board._memory[0][heartbeat._HEAD.size + 8] ^= 1
    board._last[0] = before
    assert board.watched_hosts() == whole


def test_ten_hosts_with_the_longest_names_fit_with_all_that_is_named_of_the_group() -> None:
    worst = [
        HostShare(chr(ord("一") + host) * NAME_CHARACTERS_MAX, 10**6, 10**6, True) for host in range(HOSTS_SHOWN * 8)
    ]
    shown = WatchedHosts(worst[:HOSTS_SHOWN], 1_000)
    partitions, strangers = tuple(range(10**6, 10**6 + 1_000)), tuple(letter * 1_000 for letter in "例子文本字")
    board = Heartbeats(1)
    board.note_hosts(0, shown)
    board.note_owed(0, partitions)
    board.note_group(0, GroupSeen(partitions, strangers))
    assert board.watched_hosts() == shown
    with pytest.raises(ValueError, match="does not fit"):
        board.note_hosts(0, WatchedHosts(worst, 1_000))


def test_of_many_partitions_without_an_owner_the_first_are_named() -> None:
    board = Heartbeats(1)
    board.note_group(0, GroupSeen(tuple(range(10**6, 10**6 + 1_000)), ("例" * 1_000,) * 20))
    seen = board.group()
    assert seen.unowned == tuple(range(10**6, 10**6 + heartbeat.PARTITIONS_NAMED_MAX))
    assert [len(words) for words in seen.strangers] == [160]


def test_a_batch_is_as_old_as_its_first_step_after_the_read_until_the_next_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 100.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: seconds))
    board = Heartbeats(2)
    assert board.seen(0).batch_age_seconds == 0
    for step in ("read", "decode", "fingerprint", "decide"):
        board.enter_step(0, step)
        seconds += 10
    assert (board.seen(0).step, board.seen(0).batch_age_seconds) == ("decide", 30)
    assert (board.seen(1).step, board.seen(1).batch_age_seconds) == ("read", 0)
    board.enter_step(0, "read")
    assert board.seen(0).batch_age_seconds == 0


@pytest.mark.parametrize("gone", ["launched", "stopped"])
def test_the_batch_of_a_process_that_is_gone_is_no_batch_of_its_successor(gone: str) -> None:
    board = Heartbeats(1)
    board.enter_step(0, "decide")
    board.launch(0) if gone == "launched" else board.enter(0, State.STOPPED)
    assert (board.seen(0).step, board.seen(0).batch_age_seconds) == ("read", 0)


def test_the_silence_of_the_brokers_goes_on_over_the_restarts_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 100.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: seconds))
    board = Heartbeats(2)
    assert board.seen(0).contact_age_seconds is None
    board.note_contact(0, 99.0)
    board.launch(0)
    board.note_contact(0, None)
    seconds = 150.0
    assert (board.seen(0).contact_age_seconds, board.seen(1).contact_age_seconds) == (51, None)


def test_a_worker_owes_from_the_first_note_on_until_it_delivers_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 100.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: seconds))
    board = Heartbeats(2)
    assert board.seen(1).owing_seconds == 0
    board.note_owed(1, [3, 0])
    seconds = 104.0
    board.note_owed(1, [5])
    assert (board.seen(1).owed, board.seen(1).owing_seconds, board.seen(0).owing_seconds) == ((5,), 4.0, 0)
    board.note_owed(1, None)
    assert (board.seen(1).owed, board.seen(1).owing_seconds) == ((5,), 4.0)
    board.note_owed(1, [])
    assert (board.seen(1).owed, board.seen(1).owing_seconds) == ((), 0)
    board.note_owed(1, [5])
    board.enter(1, State.STOPPED)
    assert (board.seen(1).owed, board.seen(1).owing_seconds) == ((), 0)


@pytest.mark.parametrize(("heard", "owing"), [(None, 10), (93.0, 17)])
def test_a_batch_is_owed_since_the_last_answer_before_it_until_its_delivery(
    monkeypatch: pytest.MonkeyPatch, heard: float | None, owing: float
) -> None:
    seconds = 100.0
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: seconds))
    board = Heartbeats(1)
    board.note_contact(0, heard)
    board.enter_step(0, "decode")
    board.note_contact(0, 100.0)
    seconds = 110.0
    board.enter_step(0, "fingerprint")
    assert board.seen(0).owing_seconds == owing
    board.enter_step(0, "read")
    board.note_owed(0, None)
    assert board.seen(0).owing_seconds == owing
    board.note_owed(0, [])
    assert board.seen(0).owing_seconds == 0
