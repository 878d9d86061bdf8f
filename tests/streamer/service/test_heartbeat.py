"""What a worker tells of itself is seen by its supervisor, in another process."""

import multiprocessing
from types import SimpleNamespace

import pytest

from streamer.service import heartbeat
from streamer.service.heartbeat import Heartbeats
from streamer.service.loop import State


def test_a_worker_that_has_told_nothing_is_stopped() -> None:
    assert [Heartbeats(2).state(worker) for worker in range(2)] == [State.STOPPED] * 2


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_told_for_one_worker_and_no_other(state: State) -> None:
    board = Heartbeats(3)
    board.enter(1, state)
    assert [board.state(worker) for worker in range(3)] == [State.STOPPED, state, State.STOPPED]


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
    assert board.state(0) is State.RUNNING
    board.enter(1, State.DRAINING)
    assert board.silent_ms(1) == 0


def test_another_process_writes_on_the_same_board() -> None:
    context = multiprocessing.get_context("spawn")
    board = Heartbeats(2, context)
    worker = context.Process(target=board.enter, args=(1, State.RUNNING))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert [board.state(number) for number in range(2)] == [State.STOPPED, State.RUNNING]
