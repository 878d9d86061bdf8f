"""What a service manager hears: on a real socket, and by the protocol that sd_notify(3) and sd_watchdog_enabled(3) tell."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streamer.observe.service_manager import ServiceManager


class Listening:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a file", "an abstract address"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listening]:
    opened = Listening(str(tmp_path / "notify") if request.param == "a file" else f"@neardup-{tmp_path}")
    yield opened
    opened.close()


def test_start_and_end_are_told(listening: Listening) -> None:
    manager = ServiceManager.of_environment({"NOTIFY_SOCKET": listening.address})
    manager.started()
    manager.stopping()

    assert listening.heard() == ["READY=1", "STOPPING=1"]


def test_a_watchdog_hears_twice_in_its_time_and_of_other_words_at_once(listening: Listening) -> None:
    now_seconds = [100.0]
    manager = ServiceManager(listening.address, 8.0, lambda: now_seconds[0])
    told = []
    for tick in range(40):
        now_seconds[0] = 100.0 + tick / 4
        manager.alive("ok" if tick < 18 else "worker 0\nis starting")
        told += [(tick / 4, line) for line in listening.heard()]

    assert told == [
        (0.0, "WATCHDOG=1\nSTATUS=ok"),
        (4.0, "WATCHDOG=1\nSTATUS=ok"),
        (4.5, "WATCHDOG=1\nSTATUS=worker 0 is starting"),
        (8.5, "WATCHDOG=1\nSTATUS=worker 0 is starting"),
    ]


def test_without_a_watchdog_words_are_told_when_they_change(listening: Listening) -> None:
    manager = ServiceManager.of_environment({"NOTIFY_SOCKET": listening.address})
    for words in ("ok", "ok", "stopping", "ok"):
        manager.alive(words)

    assert [told.split("STATUS=")[1] for told in listening.heard()] == ["ok", "stopping", "ok"]


@pytest.mark.parametrize(("further", "told"), [(0, 3), (1, 1)])
def test_the_watchdog_of_another_process_is_none_of_ours(listening: Listening, further: int, told: int) -> None:
    # A microsecond is over at every call.
    watchdog = {"NOTIFY_SOCKET": listening.address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + further)}
    manager = ServiceManager.of_environment(watchdog)
    for _ in range(3):
        manager.alive("ok")

    assert listening.heard() == ["WATCHDOG=1\nSTATUS=ok"] * told


def test_where_nobody_asked_nothing_is_told() -> None:
    manager = ServiceManager.of_environment({})
    with capture_logs() as lines:
        manager.started()
        manager.alive("ok")
        manager.stopping()

    assert lines == []


def test_a_manager_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    manager = ServiceManager(str(tmp_path / "gone"))
    with capture_logs() as lines:
        manager.started()

    assert [line["log_level"] for line in lines] == ["warning"]
