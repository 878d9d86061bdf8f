"""The service in a process of its own, with timeouts short enough for a test."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import psutil

from deploy.kafka_run import DESTINATIONS, Outputs, Run, create_topics
from deploy.local_kafka import free_port
from streamer.settings.parts import Part

SHORT_TIMEOUTS = (
    "kafka.request_timeout_ms=2000",
    "kafka.delivery_timeout_ms=4000",
    "workers.progress_timeout_ms=7000",
    "kafka.transaction_timeout_ms=12000",
    "kafka.session_timeout_ms=6000",
    "kafka.max_poll_interval_ms=30000",
    "workers.restart_backoff_ms=100",
    "workers.restart_backoff_max_ms=1000",
    "batch.records_max=10",
)


def make_run(bootstrap_servers: str, directory: Path, *settings: str, partitions: int = 1) -> Run:
    name = f"service-{uuid.uuid4().hex[:8]}"
    run = Run(name, bootstrap_servers, f"{name}-input", directory, free_port(), (*SHORT_TIMEOUTS, *settings))
    create_topics(bootstrap_servers, [run.topic(destination) for destination in DESTINATIONS])
    create_topics(bootstrap_servers, [run.input_topic], partitions)
    return run


def ask(run: Run, path: str) -> tuple[int, str]:
    """Status and body of an answer of the service."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{run.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 240) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


class Started:
    """A running service that is ended at the end of a test, and its log."""

    def __init__(self, run: Run, log: Path, command: Sequence[str] = ()) -> None:
        self.run, self.log, self._command = run, log, command
        self.process = run.start(log, command=command)

    def start_anew(self) -> None:
        self.end()
        self.process = self.run.start(self.log, command=self._command)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def require_every_position_once(outputs: Outputs, count: int) -> None:
    assert outputs.wait_for(count, timeout_seconds=180), f"{len(outputs.by_position)} of {count}"
    outputs.close()
    doubled = {position: seen for position, seen in outputs.by_position.items() if len(seen) != 1}
    assert not doubled
    assert len(outputs.by_position) == count


def verified(run: Run) -> tuple[int, dict[str, Any]]:
    """Exit code and findings of `streamer verify --json`."""
    command = [*run.arguments()[:-1], "verify", "--json"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert done.stdout, done.stderr.decode()
    return done.returncode, orjson.loads(done.stdout)


def wrong(found: dict[str, Any]) -> dict[str, list[str]]:
    return {each["check"]: each["examples"] for each in found["checks"] if each["wrong"]}


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    workers = []
    for child in psutil.Process(process.pid).children():
        # A process that has just died has no command line any more.
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            workers += [child] if "spawn_main" in " ".join(child.cmdline()) else []
    return workers


def kill_a_worker(process: subprocess.Popen[bytes], pick: Callable[..., psutil.Process] = itemgetter(0)) -> None:
    """Kill one worker of the service, once it has one: those killed before may not have followers yet."""
    wait_until(lambda: bool(workers_of(process)))
    pick(workers_of(process)).kill()


def make_parts(bootstrap_servers: str, directory: Path, *settings: str, partitions: int = 1) -> Run:
    """`make_run` for a service in parts."""
    run = make_run(bootstrap_servers, directory, *settings, partitions=partitions)
    between = [f"{run.name}-fingerprints", f"{run.name}-verdicts"]
    create_topics(bootstrap_servers, between, partitions)
    named = (f"topics.fingerprints={between[0]}", f"topics.verdicts={between[1]}")
    return replace(run, settings=(*run.settings, *named))


def start_part(start: Callable[..., Started], run: Run, *parts: Part) -> Started:
    """A process with these parts, behind a port of its own."""
    own = replace(run, port=free_port())
    return start(own, "run", *(word for part in parts for word in ("--part", part)))
