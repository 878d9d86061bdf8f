"""Workers are started, watched, restarted and ended: on a fake clock where it can be exact, and with real processes."""

import errno
import os
import re
import resource
import shutil
import signal
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from index import HostShare, WatchedHosts, Writer
from streamer.observe import metrics
from streamer.service.state import State
from streamer.settings.settings import Settings
from streamer.workers import heartbeat, supervisor
from streamer.workers.readiness import GroupSeen
from streamer.workers.supervisor import Supervisor
from tests.support.acted_workers import Life, Stage, diligent, interrupted, process_of, stubborn
from tests.support.tiers import first_of

TICK_SECONDS = 0.125
"""Binary fractions throughout, so that fake times are exact."""

DELIVERY_SECONDS, PROGRESS_SECONDS, FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 4.0, 8.0, 0.25, 2.0


def make_settings(count: int = 1, directory: Path = Path("index")) -> Settings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Settings.model_validate(
        {
            "kafka": {
                "group": "newsroom",
                "request_timeout_ms": 2_000,
                "delivery_timeout_ms": int(DELIVERY_SECONDS * 1000),
                "transaction_timeout_ms": 16_000,
            },
            "workers": {
                "count": count,
                "progress_timeout_ms": int(PROGRESS_SECONDS * 1000),
                "restart_backoff_ms": int(FIRST_WAIT_SECONDS * 1000),
                "restart_backoff_max_ms": int(LONGEST_WAIT_SECONDS * 1000),
            },
            "observe": {"port": port},
            "index": {"directory": directory},
            "route": {"shadow": True},
        }
    )


def ask(settings: Settings, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{settings.observe.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """A supervisor takes the signals and counts in files: neither outlives its test."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    metrics.release()


class Play:
    """A supervisor whose processes and clock are fake."""

    def __init__(self, stage: Stage, count: int) -> None:
        self.stage = stage
        self.settings = make_settings(count)
        self.supervisor = Supervisor(self.settings)

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        self.stage.events.append((seconds, event))

    def run(self, stop_at: float) -> int:
        """Run until it ends by itself, at `stop_at` at the latest; returns the exit code."""
        self.at(stop_at, self.supervisor.stop)
        return self.supervisor.run()

    def shown(self) -> str:
        return ask(self.settings, "/metrics")[1]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Play]:
    """Makes a supervisor of workers that live as given, worker after worker, life after life."""

    def make(*lives: list[Life]) -> Play:
        stage = Stage()
        stage.lives.update(dict(enumerate(lives)))
        clock = SimpleNamespace(monotonic=stage.monotonic, time=stage.monotonic)
        fake = SimpleNamespace(get_context=lambda kind: stage, connection=SimpleNamespace(wait=stage.wait))
        monkeypatch.setattr(supervisor, "multiprocessing", fake)
        monkeypatch.setattr(supervisor, "time", clock)
        monkeypatch.setattr(heartbeat, "time", clock)
        monkeypatch.setattr(supervisor, "CHECK_PERIOD_SECONDS", TICK_SECONDS)
        return Play(stage, len(lives))

    return make


def test_all_workers_are_started_at_once_and_left_alone_while_they_run(play: Callable[..., Play]) -> None:
    steady = play([], [], [])
    assert steady.run(stop_at=60) == os.EX_OK
    assert [steady.stage.started(number) for number in range(3)] == [[0.0]] * 3
    assert not any(process.killed for process in steady.stage.processes)


def test_a_service_manager_hears_of_start_life_and_end(
    play: Callable[..., Play], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        steady = play([])
        steady.run(stop_at=2)
        heard = []
        while not heard or heard[-1] != "STOPPING=1":
            heard.append(manager.recv(4096).decode())

    assert heard[0] == "READY=1"
    assert heard[1].startswith("WATCHDOG=1\nSTATUS=worker 0 ")


def test_a_worker_that_goes_on_failing_is_started_later_and_later_up_to_the_longest_wait(
    play: Callable[..., Play],
) -> None:
    failing = play([Life(ends=1.0, exit_code=os.EX_TEMPFAIL)] * 7)
    assert failing.run(stop_at=30) == os.EX_OK
    waits = [after - before - 1.0 for before, after in pairwise(failing.stage.started(0))]
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    # The first and the last report lie a tick within a life.
    ("steady_seconds", "wait"),
    [(2 * LONGEST_WAIT_SECONDS + 2 * TICK_SECONDS, 1.0), (2 * LONGEST_WAIT_SECONDS + 3 * TICK_SECONDS, 0.25)],
)
def test_after_progress_for_more_than_twice_the_longest_wait_a_failure_counts_as_the_first(
    play: Callable[..., Play], steady_seconds: float, wait: float
) -> None:
    failing = play([Life(ends=1.0, exit_code=1), Life(ends=1.0, exit_code=1), Life(ends=steady_seconds, exit_code=1)])
    failing.run(stop_at=30)
    started = failing.stage.started(0)
    assert len(started) == 4
    assert started[3] - started[2] - steady_seconds == wait


def test_a_failing_worker_is_no_matter_to_the_others(play: Callable[..., Play]) -> None:
    mixed = play([Life(ends=0.5, exit_code=1)] * 20, [])
    mixed.run(stop_at=20)
    assert len(mixed.stage.started(0)) > 5
    assert mixed.stage.started(1) == [0.0]


@pytest.mark.parametrize("silent_from", [1.0, 3.0])
def test_a_worker_that_stands_still_is_killed_in_time_and_started_anew(
    play: Callable[..., Play], silent_from: float
) -> None:
    still = play([Life(silent_from=silent_from)], [])
    counted: list[str] = []
    still.at(29, lambda: counted.append(still.shown()))
    still.run(stop_at=30)
    first, second, third = sorted(still.stage.processes, key=lambda process: process.number)
    assert (first.killed, second.killed, third.killed) == (True, False, False)
    # The last progress was made just before it fell silent; it is seen at the first check beyond the timeout.
    assert PROGRESS_SECONDS < first.end - (silent_from - TICK_SECONDS) <= PROGRESS_SECONDS + 2 * TICK_SECONDS
    assert second.start_seconds - first.end == FIRST_WAIT_SECONDS
    assert 'neardup_worker_restarts_total{cause="no-progress"} 1.0' in counted[0]
    assert 'neardup_worker_restarts_total{cause="killed"} 0.0' in counted[0]


def test_a_worker_that_is_slow_to_start_is_left_alone_and_watched_from_its_first_report(
    play: Callable[..., Play],
) -> None:
    begin = 4 * PROGRESS_SECONDS
    slow = play([Life(reports_from=begin, silent_from=begin + 3.0)])
    slow.run(stop_at=begin + 2 * PROGRESS_SECONDS)
    first = slow.stage.processes[0]
    assert first.killed
    assert begin + 3.0 < first.end <= begin + 3.0 + PROGRESS_SECONDS + TICK_SECONDS


def test_a_worker_that_never_reports_is_killed_when_its_time_to_start_is_over(play: Callable[..., Play]) -> None:
    stuck = play([Life(silent_from=0.0)])
    stuck.run(stop_at=supervisor.START_TIMEOUT_SECONDS + PROGRESS_SECONDS)
    first = stuck.stage.processes[0]
    assert first.killed
    assert supervisor.START_TIMEOUT_SECONDS < first.end <= supervisor.START_TIMEOUT_SECONDS + 2 * TICK_SECONDS


@pytest.mark.parametrize(
    "life",
    [
        Life(reports_from=20.0, ends=20.5, exit_code=os.EX_TEMPFAIL),
        Life(silent_from=0.0, ends=20.0, exit_code=os.EX_TEMPFAIL),
        Life(silent_from=1.0),
    ],
)
def test_a_long_life_without_progress_is_a_failure_like_the_one_before(play: Callable[..., Play], life: Life) -> None:
    failing = play([life] * 5)
    failing.run(stop_at=120)
    first, *_ = failing.stage.processes
    waits = [
        after.start_seconds - before.end for before, after in pairwise(failing.stage.processes) if before.end < 120
    ]
    assert waits[:4] == [0.25, 0.5, 1.0, 2.0]
    assert first.end > 2 * LONGEST_WAIT_SECONDS


def test_a_worker_whose_error_needs_a_person_stops_the_service_with_its_exit_code(play: Callable[..., Play]) -> None:
    lost = play([Life(ends=3.0, exit_code=os.EX_CONFIG)], [Life(yields=0.5)])
    assert lost.run(stop_at=1_000) == os.EX_CONFIG
    assert lost.stage.started(0) == [0.0]
    (other,) = (process for process in lost.stage.processes if process.number == 1)
    assert (other.asked_to_end, other.killed) == (True, False)
    assert lost.stage.seconds == other.end <= 3.5 + TICK_SECONDS


def test_an_index_that_is_found_damaged_twice_in_a_row_stops_the_service(play: Callable[..., Play]) -> None:
    damaged = play([Life(ends=3.0, exit_code=os.EX_DATAERR)] * 2)
    assert damaged.run(stop_at=1_000) == os.EX_DATAERR
    assert len(damaged.stage.started(0)) == 2


def test_an_index_that_opening_it_anew_mends_is_worked_with_again(play: Callable[..., Play]) -> None:
    mended = play([Life(ends=3.0, exit_code=os.EX_DATAERR), Life(ends=6.0, exit_code=os.EX_TEMPFAIL)] * 3)
    assert mended.run(stop_at=100) == os.EX_OK
    assert len(mended.stage.started(0)) > 4


@pytest.mark.parametrize(
    ("exit_code", "cause"),
    [
        (os.EX_TEMPFAIL, "transport"),
        (os.EX_PROTOCOL, "hanging-transaction"),
        (-signal.SIGKILL, "killed"),
        (1, "error"),
        (os.EX_OK, "error"),
    ],
)
def test_every_restart_is_counted_by_its_cause(play: Callable[..., Play], exit_code: int, cause: str) -> None:
    failing = play([Life(ends=1.0, exit_code=exit_code)] * 2)
    counted: list[str] = []
    failing.at(9, lambda: counted.append(failing.shown()))
    failing.run(stop_at=10)
    for other in metrics.RESTART_CAUSES:
        assert f'neardup_worker_restarts_total{{cause="{other}"}} {2.0 if other == cause else 0.0}' in counted[0]


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (-signal.SIGBUS, "killed by SIGBUS: a mapped file.*index.directory"),
        (-signal.SIGABRT, "killed by SIGABRT: .*lack of memory.*nothing is lost"),
        (-signal.SIGKILL, "killed by SIGKILL: .*memory limit.*or a person"),
        (-signal.SIGSEGV, "^$"),
        (os.EX_TEMPFAIL, "^$"),
    ],
)
def test_a_worker_that_a_signal_ended_is_logged_with_where_to_look(
    play: Callable[..., Play], exit_code: int, words: str
) -> None:
    failing = play([Life(ends=1.0, exit_code=exit_code)])
    with capture_logs() as logged:
        failing.run(stop_at=2)
    (reason,) = [each.get("reason", "") for each in logged if each["event"] == "worker ended"]
    assert re.search(words, reason)


def test_at_a_stop_workers_have_the_delivery_timeout_together_and_are_killed_after_it(
    play: Callable[..., Play],
) -> None:
    stopped = play([Life(yields=1.0)], [Life(yields=60.0)], [Life(yields=3.75)], [Life(yields=60.0)])
    assert stopped.run(stop_at=10.0) == os.EX_OK
    assert all(process.asked_to_end for process in stopped.stage.processes)
    assert [process.killed for process in stopped.stage.processes] == [False, True, False, True]
    # Noticed at the first check after it was asked for.
    assert 10.0 + DELIVERY_SECONDS <= stopped.stage.seconds <= 10.0 + DELIVERY_SECONDS + TICK_SECONDS


def test_a_stop_does_not_wait_for_a_worker_that_waits_for_its_restart(play: Callable[..., Play]) -> None:
    waiting = play([Life(ends=1.0, exit_code=1)] * 20)
    # The wait from 8.75 on is one of the longest.
    assert waiting.run(stop_at=9.0) == os.EX_OK
    assert waiting.stage.started(0)[-1] < 8.0
    assert waiting.stage.seconds <= 9.0 + TICK_SECONDS


def test_ready_is_who_runs_and_says_who_does_not(play: Callable[..., Play]) -> None:
    told: list[tuple[bool, str]] = []
    shown: list[str] = []
    one = play([Life(ends=4.0, exit_code=1)], [Life(ends=10.0, exit_code=os.EX_PROTOCOL)])
    told.append(one.supervisor.ready())
    for seconds in (2.0, 4.125, 5.0, 10.125, 12.0):
        one.at(seconds, lambda: told.append(one.supervisor.ready()))
    one.at(4.125, lambda: shown.append(one.shown()))
    one.run(stop_at=20)
    assert told[0] == (False, "worker 0 is waiting to be restarted")
    assert told[1] == (True, "ok")
    assert told[2] == (False, "worker 0 is waiting to be restarted")
    assert told[3] == (True, "ok")
    assert told[4][0] is False
    assert told[4][1].startswith("worker 1 is waiting to be restarted; group 'newsroom' stands still")
    assert "docs/runbook.md" in told[4][1]
    assert told[5] == (True, "ok")
    assert 'neardup_workers{state="running"} 1.0' in shown[0]
    assert 'neardup_workers{state="stopped"} 1.0' in shown[0]


def test_a_service_is_not_ready_while_nobody_reads_a_partition_and_names_it(play: Callable[..., Play]) -> None:
    told: list[tuple[bool, str]] = []
    one = play([Life(ends=20.0, exit_code=1)])
    for seconds, partitions in ((2.0, (2, 3)), (3.0, ())):
        one.at(seconds, partial(one.supervisor._heartbeats.note_group, 0, GroupSeen(partitions)))
        one.at(seconds + 0.5, lambda: told.append(one.supervisor.ready()))
    one.run(stop_at=5.0)
    assert told == [(False, "no worker reads partitions 2, 3 of 'documents'; the workers rejoin"), (True, "ok")]


def test_the_worst_hosts_of_any_worker_and_the_room_of_the_index_are_shown(play: Callable[..., Play]) -> None:
    shown: list[str] = []
    one = play([])
    worst = WatchedHosts([HostShare("site.example", 200, 190, True)], 1)
    for seconds, event in (
        (1.0, lambda: shown.append(one.shown())),
        (2.0, lambda: one.supervisor._heartbeats.note_hosts(0, worst)),
        (3.0, lambda: shown.append(one.shown())),
    ):
        one.at(seconds, event)
    one.run(stop_at=4.0)
    assert ['neardup_host_documents{host="site.example"} 200.0' in each for each in shown] == [False, True]
    for name in ("neardup_index_disk_free_bytes", "neardup_index_bytes_max"):
        (value,) = re.findall(rf"^{name} (\S+)$", shown[1], re.MULTILINE)
        assert float(value) == pytest.approx(shutil.disk_usage(Path.cwd()).free, rel=0.1)


def test_a_worker_that_hears_nothing_is_not_ready_and_its_silence_is_shown_over_its_restarts(
    play: Callable[..., Play],
) -> None:
    told: list[str] = []
    shown: list[str] = []
    one = play([Life(ends=300.0, exit_code=os.EX_TEMPFAIL), Life(reports_from=50.0)])
    one.at(100.0, lambda: one.supervisor._heartbeats.note_contact(0, 100.0))
    for seconds in (101.0, 250.0, 310.0):
        one.at(seconds, lambda: told.append(one.supervisor.ready()[1]))
        one.at(seconds, lambda: shown.append(one.shown()))
    one.run(stop_at=320)
    assert told[0] == "ok"
    assert told[1].startswith("worker 0 has heard nothing from the broker for 150 s")
    assert told[2].startswith("worker 0 is starting and has heard nothing from the broker for 210 s")
    assert ['neardup_broker_contact_timestamp_seconds{worker="0"} 100.0' in each for each in shown] == [True] * 3


def test_who_holds_the_writer_lock_is_told_when_a_worker_makes_no_progress_unless_it_is_a_worker_at_work(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = iter([Writer(4_711, "worker", stopped=False), Writer(4_712, "orphan", stopped=True)])
    monkeypatch.setattr(supervisor, "writer_of", lambda _: next(writers, None))
    one = play([Life(silent_from=4.0)])
    one.stage.process_number = 4_711
    told: list[str] = []
    for seconds in (5.0, 11.0):
        one.at(seconds, lambda: told.append(one.supervisor._slots[0].waits_for))
    with capture_logs() as logged:
        one.run(stop_at=12.5)
    assert told[0] == ""
    assert told[1].startswith("process 4712 (orphan) is stopped")
    assert [each["holder"] for each in logged if each["event"] == "worker killed"] == [told[1]]


def test_a_worker_that_is_gone_is_not_ready_even_before_that_is_noticed(play: Callable[..., Play]) -> None:
    one = play([Life(ends=4.0, exit_code=1)])
    told: list[tuple[bool, str]] = []
    for seconds in (3.875, 4.0):
        one.at(seconds, lambda: told.append(one.supervisor.ready()))
    one.run(stop_at=5.0)
    assert told == [(True, "ok"), (False, "worker 0 has just ended and will be restarted")]


def test_a_worker_that_has_not_said_that_it_runs_is_starting(play: Callable[..., Play]) -> None:
    one = play([Life(silent_from=0.0)])
    told: list[tuple[bool, str]] = []
    one.at(1.0, lambda: told.append(one.supervisor.ready()))
    one.run(stop_at=2.0)
    assert told == [(False, f"worker 0 is {State.STARTING.value}")]


def test_health_is_good_until_the_service_is_on_its_way_out(play: Callable[..., Play]) -> None:
    one = play([Life(yields=1.0)])
    told: list[tuple[int, str]] = []
    one.at(1.0, lambda: told.append(ask(one.settings, "/healthz")))
    one.at(2.5, lambda: told.append(ask(one.settings, "/healthz")))
    one.run(stop_at=2.0)
    assert told == [(200, "ok\n"), (503, "stopping\n")]


@pytest.mark.parametrize(
    ("refusal", "limit"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files in system"), "fs.file-max"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory is short"),
    ],
)
def test_a_process_that_the_system_refuses_is_started_later_and_later_and_the_limit_is_named(
    play: Callable[..., Play], refusal: OSError, limit: str
) -> None:
    refused = play([], [])
    refused.stage.refusals = [refusal] * 9
    told: list[tuple[bool, str]] = []
    for seconds in (1.0, 20.0):
        refused.at(seconds, lambda: told.append(refused.supervisor.ready()))
    with capture_logs() as logged:
        assert refused.run(stop_at=21.0) == os.EX_OK
    waits = [each["start_in_ms"] for each in logged if each["event"] == "worker not started" and each["worker"] == 0]
    assert waits == [250, 500, 1000, 2000, 2000]
    is_ready, words = told[0]
    assert not is_ready
    assert words.startswith("worker 0 is waiting to be restarted; the system starts no further process")
    assert limit in words
    assert told[1] == (True, "ok")
    assert [len(refused.stage.started(number)) for number in range(2)] == [1, 1]


# --- real processes ---------------------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def run_beside(settings: Settings, conduct: Callable[[], None], supervised: Supervisor | None = None) -> int:
    """Run a supervisor in this thread and `conduct` in another one, which has to end it by a signal."""
    supervised = supervised or Supervisor(settings)
    failures: list[BaseException] = []

    def conducted() -> None:
        try:
            conduct()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failures.append(error)
            supervised.stop()

    thread = threading.Thread(target=conducted)
    thread.start()
    exit_code = supervised.run()
    thread.join()
    if failures:
        raise failures[0]
    return exit_code


def answers(settings: Settings, path: str, text: str) -> bool:
    with suppress(OSError):
        status, body = ask(settings, path)
        return status == 200 and text in body
    return False


def test_one_port_shows_all_workers_a_killed_one_comes_back_and_sigterm_ends_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "work", diligent)
    settings = make_settings(2, tmp_path)
    seen: list[int] = []

    def conduct() -> None:
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        assert answers(settings, "/metrics", "neardup_restored_total 3.0")
        assert answers(settings, "/metrics", "neardup_shadow 1.0")
        former = process_of(settings, 0)
        other = process_of(settings, 1)
        assert former is not None
        os.kill(former, signal.SIGKILL)
        wait_for(lambda: process_of(settings, 0) != former)
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        assert process_of(settings, 1) == other
        assert answers(settings, "/metrics", 'neardup_worker_restarts_total{cause="killed"} 1.0')
        # A fresh process goes on counting where the killed one was.
        assert answers(settings, "/metrics", "neardup_restored_total 4.0")
        seen.extend(process_of(settings, number) or 0 for number in range(2))
        os.kill(os.getpid(), signal.SIGTERM)

    assert run_beside(settings, conduct) == os.EX_OK
    for process in seen:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.parametrize("with_folder", first_of(True, False))
def test_metrics_whose_files_are_removed_come_back_with_all_counts_and_so_does_a_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_folder: bool
) -> None:
    monkeypatch.setattr(supervisor, "work", diligent)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = make_settings(2, tmp_path)

    def conduct() -> None:
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        (folder,) = tmp_path.glob("streamer-metrics-*")
        if with_folder:
            shutil.rmtree(folder)
        else:
            for file in folder.iterdir():
                file.unlink()
        wait_for(lambda: answers(settings, "/metrics", "neardup_restored_total 3.0"))
        wait_for(lambda: answers(settings, "/metrics", "neardup_shadow 1.0"))
        former = process_of(settings, 0)
        assert former is not None
        os.kill(former, signal.SIGKILL)
        wait_for(lambda: process_of(settings, 0) != former)
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        wait_for(lambda: answers(settings, "/metrics", "neardup_restored_total 4.0"))
        os.kill(os.getpid(), signal.SIGTERM)

    with capture_logs() as logged:
        assert run_beside(settings, conduct) == os.EX_OK
    assert [each["setting"] for each in logged if "metrics folder made again" in each["event"]] == ["TMPDIR"]
    assert not list(tmp_path.glob("streamer-metrics-*"))


def test_a_supervisor_at_its_limit_of_open_files_waits_until_it_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "work", diligent)
    settings = make_settings(1, tmp_path)
    supervised = Supervisor(settings)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def conduct() -> None:
        wait_for(lambda: supervised.ready()[0])
        former = process_of(settings, 0)
        assert former is not None
        try:
            # What is open stays open.
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, limits[1]))
            os.kill(former, signal.SIGKILL)
            wait_for(lambda: "ulimit -n" in supervised.ready()[1])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        wait_for(lambda: supervised.ready()[0])
        assert process_of(settings, 0) != former
        os.kill(os.getpid(), signal.SIGTERM)

    assert run_beside(settings, conduct, supervised) == os.EX_OK


def test_a_worker_that_does_not_heed_sigterm_is_killed_when_the_delivery_timeout_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "work", stubborn)
    settings = make_settings(1, tmp_path)
    asked: list[float] = []

    def conduct() -> None:
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        asked.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    assert run_beside(settings, conduct) == os.EX_OK
    assert time.monotonic() - asked[0] >= DELIVERY_SECONDS
    process = process_of(settings, 0)
    assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_ctrl_c_is_nothing_to_a_worker_that_has_just_been_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "work", interrupted)
    settings = make_settings(1, tmp_path)

    def conduct() -> None:
        wait_for(lambda: answers(settings, "/readyz", "ok"))
        assert answers(settings, "/metrics", 'neardup_worker_restarts_total{cause="error"} 0.0')
        os.kill(os.getpid(), signal.SIGINT)

    assert run_beside(settings, conduct) == os.EX_OK
    assert "Traceback" not in capfd.readouterr().err


def test_each_part_has_workers_of_its_own_and_readiness_names_the_part_that_lacks_something(
    play: Callable[..., Play],
) -> None:
    one = play([])
    one.stage.lives[1] = [Life(ends=1.0, exit_code=os.EX_TEMPFAIL)]
    one.supervisor = Supervisor(one.settings, ["fingerprint", "decide"])
    told: list[tuple[bool, str]] = []
    for seconds in (0.9, 1.1):
        one.at(seconds, lambda: told.append(one.supervisor.ready()))
    one.run(stop_at=3.0)
    assert len(one.stage.started(0)) == 1
    assert len(one.stage.started(1)) == 2
    assert told[0] == (True, "ok")
    assert told[1][0] is False
    assert told[1][1].startswith("decide: worker 1 ")
