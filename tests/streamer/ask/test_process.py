"""The answering process is started, watched and started anew; a question that it does not answer is told so."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest

from streamer.ask.process import READY, Answerer
from streamer.settings.settings import Settings

SETTINGS = Settings.model_validate(
    {"ask": {"timeout_ms": 300}, "workers": {"restart_backoff_ms": 50, "restart_backoff_max_ms": 100}}
)


def acted(_: Settings, connection: Connection) -> None:
    """Answers what it is asked, but for three questions."""
    connection.send_bytes(READY)
    while True:
        question, asked = connection.recv()
        if question == "die":
            os._exit(3)
        if question == "hang":
            time.sleep(60)
        connection.send((200, asked.upper()))


@pytest.fixture
def answerer() -> Iterator[Answerer]:
    started = Answerer(SETTINGS, acted)
    yield started
    started.end()


def attend_until(answerer: Answerer, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        answerer.attend()
        time.sleep(0.01)


def answers(answerer: Answerer) -> bool:
    return answerer.ask("echo", b"x") == (200, b"X")


def test_before_it_is_ready_nobody_waits_and_afterwards_it_answers(answerer: Answerer) -> None:
    status, body = answerer.ask("echo", b"x")
    assert (status, b"is starting" in body) == (503, True)
    attend_until(answerer, lambda: answers(answerer))


@pytest.mark.parametrize("question", ["die", "hang"])
def test_a_question_that_ends_it_or_keeps_it_busy_costs_one_answer(answerer: Answerer, question: str) -> None:
    attend_until(answerer, lambda: answers(answerer))
    told: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: told.append(answerer.ask(question, b"")))
    asking.start()
    attend_until(answerer, lambda: not asking.is_alive())
    assert told[0][0] == 503
    assert b"ask.timeout_ms" in told[0][1]
    attend_until(answerer, lambda: answers(answerer))


def test_after_its_end_there_is_no_process(answerer: Answerer) -> None:
    attend_until(answerer, lambda: answers(answerer))
    answerer.end()
    assert not answerer.is_started
    assert answerer.ask("echo", b"x")[0] == 503
