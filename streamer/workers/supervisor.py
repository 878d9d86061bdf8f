"""Supervisor: restarts dead or hung workers, and serves metrics and health on one port.

The service is crash-only: on any doubt a worker ends, and a fresh one replays what may be undelivered. EX_CONFIG needs a
person, so the whole service stops with that code. After any other end the worker restarts, with growing delays between
failures.

A worker without progress, or without a timely start, is killed: it may hold the index's writer lock and block the others for
ever.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from index import room_of, writer_of
from streamer.errors import NoRoomForMetrics, ProcessRefused
from streamer.observe import definitions, metrics
from streamer.observe.auth import port_auth
from streamer.observe.http import HttpServer
from streamer.observe.process_start import naming_limits
from streamer.observe.service_manager import ServiceManager
from streamer.service.poison.attempts import death_of
from streamer.service.state import State
from streamer.settings.parts import Part, settings_of
from streamer.settings.settings import Settings
from streamer.workers.heartbeat import Heartbeats
from streamer.workers.readiness import WorkerSeen, batch_age_ms_max, readiness
from streamer.workers.worker_process import work

if TYPE_CHECKING:
    from streamer.ask.service import AskService

log = structlog.get_logger(__name__)

CHECK_PERIOD_SECONDS = 0.2

START_TIMEOUT_SECONDS = 300.0
"""Longest time to a process's first report: it imports, compiles and reads the index's newest entries.

A busy machine has taken 14 s to import alone. `workers.progress_timeout_ms` counts from the first report on.
"""


_SIGNALS = {
    signal.SIGBUS: (
        "a mapped file was cut, or its disk is full or fails; look at index.directory and at the folder for temporary files"
    ),
    signal.SIGABRT: (
        "a native library gave up, mostly for lack of memory: raise the container's limits or ulimit -v; nothing is lost"
    ),
    signal.SIGKILL: "the kernel for lack of memory (see the container's memory limit), or a person",
}
"""Probable causes of a worker's death, by signal."""


@dataclass(slots=True)
class Slot:
    """One worker's slot.

    part               its part of the path; None: the whole path
    start_due_seconds  earliest next start, on the monotonic clock
    backoff_ms         wait before the next start; 0 before the first failure
    waits_for          obstacle to its start, or process that blocks its writes; empty without one

    >>> Slot(number=2, part="route").backoff_ms
    0
    """

    number: int
    part: Part | None = None
    process: SpawnProcess | None = None
    start_due_seconds: float = 0.0
    backoff_ms: int = 0
    exit_code: int | None = None
    waits_for: str = ""


class Supervisor:
    """Starts, watches, restarts and stops workers."""

    def __init__(self, settings: Settings, parts: Sequence[Part] = ()) -> None:
        """parts: `workers.count` workers for each; none: the whole path in each worker."""
        self._settings = settings
        self._context = multiprocessing.get_context("spawn")
        count = settings.workers.count
        chosen = enumerate(parts or (None,))
        self._slots = [Slot(number * count + worker, part) for number, part in chosen for worker in range(count)]
        self._heartbeats = Heartbeats(len(self._slots), self._context)
        self._stop = threading.Event()
        self._exit_code = os.EX_OK
        self._metrics_lack = ""
        self._begun_seconds = time.time()
        self._manager = ServiceManager.of_environment()

    def stop(self) -> None:
        """Ask for an orderly end. Repeatable, and safe in a signal handler."""
        self._stop.set()

    def health(self) -> tuple[bool, str]:
        """Whether no stop was requested, in words too."""
        return (False, "stopping") if self._stop.is_set() else (True, "ok")

    def ready(self) -> tuple[bool, str]:
        """Whether the service is ready, and the problem; see `readiness`."""
        for part in dict.fromkeys(slot.part for slot in self._slots):
            slots = [slot for slot in self._slots if slot.part == part]
            settings = self._settings if part is None else settings_of(self._settings, part)
            group = self._heartbeats.group([slot.number for slot in slots])
            is_ready, words = readiness(settings, [self._seen(slot) for slot in slots], group)
            if not is_ready:
                return False, words if part is None else f"{part}: {words}"
        return not self._metrics_lack, self._metrics_lack or "ok"

    def _seen(self, slot: Slot) -> WorkerSeen:
        process = slot.process
        return replace(
            self._heartbeats.seen(slot.number),
            started=process is not None,
            alive=process is not None and process.is_alive(),
            exit_code=slot.exit_code,
            waits_for=slot.waits_for,
        )

    def run(self) -> int:
        """Run until a signal, `stop`, or a worker that needs a person. Returns the service's exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())
        http = self._settings.observe
        with tempfile.TemporaryDirectory(prefix="streamer-metrics-") as directory:
            metrics.prepare(Path(directory), worker=None)
            measures = metrics.Metrics()
            measures.set(definitions.SHADOW, self._settings.route.shadow)
            if self._settings.route.shadow:
                log.warning("shadow mode: near-duplicates go to the unique topic too", setting="route.shadow")
            auth = port_auth(http)
            ask_service = self._ask_service(measures)
            routes = () if ask_service is None else ask_service.routes
            server = HttpServer(http.host, http.port, measures.exposition, self.health, self.ready, auth, routes)
            with server:
                log.info("serving metrics", url=f"{auth.scheme}://{http.host}:{server.port}/metrics")
                # Before readiness: the service waits for absent brokers as long as necessary.
                self._manager.started()
                try:
                    self._watch(Path(directory), measures, ask_service)
                finally:
                    self._manager.stopping()
                    if ask_service is not None:
                        ask_service.end()
                    self._end_workers()
        return self._exit_code

    def _ask_service(self, measures: metrics.Metrics) -> "AskService | None":
        ask = self._settings.ask
        if not ask.enabled:
            return None
        from streamer.ask.service import AskService
        from streamer.ask.status import Status

        scopes = self._settings.decode.scope is not None
        status = Status(measures, self.ready, self._heartbeats.watched_hosts, texts=ask.texts, scopes=scopes)
        return AskService(self._settings, status)

    def _watch(self, directory: Path, measures: metrics.Metrics, ask_service: "AskService | None") -> None:
        while not self._stop.is_set():
            self._keep_metrics(directory)
            for slot in self._slots:
                self._attend(slot, directory, measures)
            self._show(measures)
            if ask_service is not None:
                ask_service.attend([self._heartbeats.of(slot.number).state for slot in self._slots])
            self._manager.alive(self.ready()[1])
            alive = [slot.process.sentinel for slot in self._slots if slot.process is not None]
            multiprocessing.connection.wait(alive, timeout=CHECK_PERIOD_SECONDS)

    def _keep_metrics(self, directory: Path) -> None:
        """Recreate removed metrics files; `ready` reports a failure."""
        try:
            if metrics.restore_files():
                log.warning(
                    "metrics folder made again: its files were removed", folder=str(directory), setting="TMPDIR"
                )
            self._metrics_lack = ""
        except NoRoomForMetrics as problem:
            if not self._metrics_lack:
                log.error("metrics are not shown", reason=str(problem))
            self._metrics_lack = str(problem)

    def _attend(self, slot: Slot, directory: Path, measures: metrics.Metrics) -> None:
        if slot.process is None:
            if time.monotonic() >= slot.start_due_seconds:
                self._start(slot, directory)
        elif not slot.process.is_alive():
            self._note_end(slot, measures, cause=metrics.restart_cause(slot.process.exitcode or 0))
        elif reason := self._reason_to_kill(slot.number):
            log.error("worker killed", worker=slot.number, reason=reason, holder=slot.waits_for or None)
            slot.process.kill()
            slot.process.join()
            self._note_end(slot, measures, cause="no-progress")
        else:
            self._look_for_the_writer(slot)

    def _look_for_the_writer(self, slot: Slot) -> None:
        """Name the process that blocks a stuck worker's writes, unless it is a worker."""
        if self._heartbeats.silent_ms(slot.number) <= batch_age_ms_max(self._settings):
            slot.waits_for = ""
        elif not slot.waits_for and (writer := writer_of(self._settings.index.directory)):
            workers = {each.process.pid for each in self._slots if each.process is not None}
            if writer.stopped or writer.process not in workers:
                slot.waits_for = str(writer)
                log.error("a worker may wait for the index's writer lock", worker=slot.number, reason=slot.waits_for)

    def _reason_to_kill(self, worker: int) -> str:
        """Reason to kill a live worker, or ""."""
        silent_ms, timeout_ms = self._heartbeats.silent_ms(worker), self._settings.workers.progress_timeout_ms
        if self._heartbeats.reported(worker):
            return "no progress within workers.progress_timeout_ms" if silent_ms > timeout_ms else ""
        start_ms = max(timeout_ms, START_TIMEOUT_SECONDS * 1000)
        return f"not started within {start_ms / 1000:g} seconds" if silent_ms > start_ms else ""

    def _start(self, slot: Slot, directory: Path) -> None:
        self._heartbeats.launch(slot.number)
        arguments = (self._settings, slot.number, self._heartbeats, directory, slot.part)
        process = self._context.Process(target=work, args=arguments, name=f"worker-{slot.number}")
        try:
            with naming_limits(), _shielded_from_interrupts():
                process.start()
        except ProcessRefused as refusal:
            self._heartbeats.enter(slot.number, State.STOPPED)
            slot.waits_for = str(refusal)
            self._put_off(slot, steady=False)
            log.error("worker not started", worker=slot.number, reason=slot.waits_for, start_in_ms=slot.backoff_ms)
        else:
            slot.process, slot.waits_for = process, ""

    def _put_off(self, slot: Slot, *, steady: bool) -> None:
        workers = self._settings.workers
        longer_ms = 0 if steady else 2 * slot.backoff_ms
        slot.backoff_ms = min(max(workers.restart_backoff_ms, longer_ms), workers.restart_backoff_max_ms)
        slot.start_due_seconds = time.monotonic() + slot.backoff_ms / 1000

    def _note_end(self, slot: Slot, measures: metrics.Metrics, cause: str) -> None:
        assert slot.process is not None
        process, exit_code, before = slot.process.pid, slot.process.exitcode, slot.exit_code
        slot.exit_code = exit_code
        slot.process, slot.waits_for = None, ""
        # A life of starting or hanging promises nothing for the next one.
        steady = self._heartbeats.steady_ms(slot.number) > 2 * self._settings.workers.restart_backoff_max_ms
        self._heartbeats.enter(slot.number, State.STOPPED)
        metrics.forget_gauges(slot.number)
        # A failed write looks like damage once, and reopening the index mends it. Damage on disk stays.
        still_damaged = exit_code == before == os.EX_DATAERR and not steady
        if exit_code == os.EX_CONFIG or still_damaged:
            log.error("stopping", worker=slot.number, reason="the worker's error needs a person; see its last line")
            self._exit_code = os.EX_DATAERR if still_damaged else os.EX_CONFIG
            self.stop()
            return
        self._put_off(slot, steady=steady)
        measures.count(definitions.WORKER_RESTARTS, 1, cause)
        log.warning(
            "worker ended",
            worker=slot.number,
            exit_code=exit_code,
            restart_in_ms=slot.backoff_ms,
            **self._what_is_known(process, exit_code),
        )

    def _what_is_known(self, process: int | None, exit_code: int | None) -> dict[str, str]:
        details: dict[str, str] = {}
        if exit_code is not None and exit_code < 0:
            number = signal.Signals(-exit_code)
            details["signal"] = number.name
            if number in _SIGNALS:
                details["reason"] = f"killed by {number.name}: {_SIGNALS[number]}"
        # Unreadable files, for example with too many open, are no reason to end the service.
        with suppress(OSError):
            if process is not None and (death := death_of(self._settings.index.directory, process)):
                details |= {"step": death.step, "batch": ", ".join(map(str, death.ranges))}
        return details

    def _show(self, measures: metrics.Metrics) -> None:
        seen = [self._seen(slot) for slot in self._slots]
        states = [worker.state for worker in seen]
        if (watched := self._heartbeats.watched_hosts()) is not None:
            measures.show_hosts(watched)
        measures.show_workers({state.value: states.count(state) for state in State})
        if any(slot.part in (None, "decide") for slot in self._slots):
            self._show_room(measures)
        for worker in seen:
            age_seconds = worker.contact_age_seconds
            contact_seconds = self._begun_seconds if age_seconds is None else time.time() - age_seconds
            measures.set(definitions.BROKER_CONTACT, contact_seconds, worker.number)
            measures.set(definitions.BATCH_AGE, worker.batch_age_seconds, worker.number)

    def _show_room(self, measures: metrics.Metrics) -> None:
        index = self._settings.index
        # A disk that does not answer is the workers' to report.
        with suppress(OSError):
            room = room_of(index.directory, index.map_bytes_max)
            measures.set(definitions.INDEX_BYTES_MAX, room.bytes_max)
            measures.set(definitions.INDEX_DISK_FREE_BYTES, room.free_bytes)

    def _end_workers(self) -> None:
        """Ask the workers to end, wait for a batch's duration, then kill. A kill costs only a replay."""
        running = [slot.process for slot in self._slots if slot.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + self._settings.kafka.delivery_timeout_ms / 1000
        for process in running:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                log.warning("worker killed", worker=process.name, reason="did not end within the delivery timeout")
                process.kill()
                process.join()


@contextmanager
def _shielded_from_interrupts() -> Iterator[None]:
    """Block SIGINT in this thread meanwhile, and for good in a process started meanwhile.

    Ctrl-C reaches the whole foreground group, even a worker without its own handler yet.
    """
    # Started along with the first process, the resource tracker would remove the shield.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
