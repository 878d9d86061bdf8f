"""Calls that may never return: their errors come out, a silent one is given up, and none stands in the way of the next."""

import threading
from collections.abc import Callable

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from streamer.errors import DeliveryDoubtful
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import Attempt, within_timeout
from tests.support.transport_worlds import impatient, make_settings


@pytest.fixture
def settings() -> Settings:
    return impatient(make_settings(), delivery_timeout_ms=200)


def make(settings: Settings, call: Callable[[], None]) -> None:
    within_timeout(settings.kafka, call, "commit")


def assert_returns(in_time: object) -> None:
    assert in_time


def test_a_call_that_is_answered_is_over_when_it_has_been_made(settings: Settings) -> None:
    made: list[str] = []
    for name in ("one", "two"):
        make(settings, lambda name=name: made.append(name))  # type: ignore[misc]
    assert made == ["one", "two"]


def test_an_error_of_the_client_comes_out(settings: Settings) -> None:
    def fail() -> None:
        raise KafkaTimeoutError("too long")

    with pytest.raises(KafkaError, match="too long"):
        make(settings, fail)


def test_a_call_that_never_returns_is_given_up_and_the_next_is_made(settings: Settings) -> None:
    may_return = threading.Event()
    with pytest.raises(DeliveryDoubtful, match="the commit of the transaction was not answered within 200 ms"):
        make(settings, lambda: assert_returns(may_return.wait(60)))
    made: list[str] = []
    make(settings, lambda: made.append("next"))
    assert made == ["next"]
    may_return.set()


def test_a_call_that_breaks_off_is_told_and_the_next_is_made(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: logged.set())

    def break_off() -> None:
        raise SystemError("what nobody foresaw")

    with pytest.raises(DeliveryDoubtful, match="the commit of the transaction broke off"):
        make(settings, break_off)
    assert logged.wait(60)
    make(settings, lambda: None)


def test_two_calls_are_under_way_at_the_same_time(settings: Settings) -> None:
    both = threading.Barrier(2)
    attempts = [Attempt(lambda: assert_returns(both.wait(60) in range(2)), "offsets") for _ in range(2)]
    for attempt in attempts:
        attempt.wait(settings.kafka)


def test_many_calls_take_few_threads(settings: Settings) -> None:
    before = threading.active_count()
    for _ in range(200):
        make(settings, lambda: None)
    assert threading.active_count() <= before + 3
