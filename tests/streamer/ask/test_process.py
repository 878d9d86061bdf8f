"""The answering process is started, watched and started anew; a question that it does not answer is told so."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from streamer.ask.process import Answerer
from streamer.ask.reply import READY
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


def test_before_it_is_ready_and_after_its_end_nobody_waits(answerer: Answerer) -> None:
    status, body = answerer.ask("echo", b"x")
    assert (status, b"is starting" in body) == (503, True)
    attend_until(answerer, lambda: answers(answerer))
    answerer.end()
    assert not answerer.is_started
    assert answerer.ask("echo", b"x")[0] == 503


def asked_elsewhere(answerer: Answerer, question: str) -> tuple[int, bytes]:
    """The answer to a question, which another thread waits for while this one attends to the process."""
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(answerer.ask, question, b"")
        attend_until(answerer, answer.done)
    return answer.result()


def test_a_question_that_ends_it_or_keeps_it_busy_costs_one_answer(answerer: Answerer) -> None:
    for question in ("die", "hang"):
        attend_until(answerer, lambda: answers(answerer))
        status, body = asked_elsewhere(answerer, question)
        assert status == 503
        assert b"ask.timeout_ms" in body
    attend_until(answerer, lambda: answers(answerer))
