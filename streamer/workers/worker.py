"""Worker process: builds its clients after the spawn, runs the service, and turns errors into exit codes."""

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog

from index import Index, errors
from index.kernels.jit import compilations
from streamer.audit.report import gauges
from streamer.errors import FILE_LIMITS, TOO_MANY_FILES, StreamerError
from streamer.fingerprint.in_place import as_in_place
from streamer.fingerprint.scheme import key_for, scheme_for
from streamer.observe import definitions, metrics
from streamer.observe.batch_report import BatchReport
from streamer.observe.definitions import Definition
from streamer.observe.logs import configure_logging
from streamer.observe.process_start import die_with_starter, end_with_parent
from streamer.parts.wiring import decide_part, fingerprint_part, route_part
from streamer.protected.sets import open_sets
from streamer.service.loop import Listener, Loop
from streamer.service.processes import Processes
from streamer.service.state import State
from streamer.service.wiring import build_service, exit_code_of, open_with_scheme
from streamer.settings.parts import Part
from streamer.settings.settings import Settings
from streamer.transports.kafka.transport import KafkaTransport
from streamer.workers.heartbeat import Heartbeats
from streamer.workers.readiness import GroupSeen

log = structlog.get_logger(__name__)

_TOO_LITTLE_MEMORY = "not enough memory for data or threads: raise the container's limits or ulimit -v; nothing is lost"

STATISTICS_PERIOD_SECONDS = 5.0
AUDIT_PERIOD_SECONDS = 60.0
OWED_PERIOD_SECONDS = 1.0


class MetricsListener(Listener):
    """Counts events in a worker's metrics, and sends heartbeats to the supervisor."""

    def __init__(self, measures: metrics.Metrics, heartbeats: Heartbeats, number: int) -> None:
        self._measures, self._heartbeats, self._number = measures, heartbeats, number
        self._statistics_due = 0.0
        self._owed_due = 0.0
        self._audit_due = 0.0
        self._kernels = self._kernels_said = 0
        self.audit: Callable[[], Mapping[tuple[Definition, tuple[str, ...]], float]] = dict
        """Values of the audit's metrics."""
        self.transport: KafkaTransport | None = None
        self.waiting: Callable[[], int] | None = None
        """Counts read records without a verdict, in a part that waits for some."""
        self.index: Index | None = None

    def state(self, state: State) -> None:
        """See `Listener`."""
        self._heartbeats.enter(self._number, state)
        if state is State.RUNNING:
            # A service without anything to restore shows it too.
            self._measures.set(definitions.RESTORING_OFFSETS, 0)
        log.info("state", state=state.value)

    def step(self, name: str) -> None:
        """See `Listener`."""
        self._heartbeats.enter_step(self._number, name)

    def progress(self) -> None:
        """See `Listener`."""
        self._beat()
        if time.monotonic() >= self._owed_due and self.transport is not None:
            self._owed_due = time.monotonic() + OWED_PERIOD_SECONDS
            self._heartbeats.note_owed(self._number, self.transport.owed())
        metrics.restore_files()
        if time.monotonic() >= self._statistics_due:
            self._statistics_due = time.monotonic() + STATISTICS_PERIOD_SECONDS
            self._publish_statistics()

    def _beat(self) -> None:
        self._heartbeats.beat(self._number)
        if self.transport is not None:
            self._heartbeats.note_contact(self._number, self.transport.last_contact_seconds())

    def _publish_statistics(self) -> None:
        if self.transport is None:
            return
        names, lags = self.transport.input_names(), self.transport.lags()
        self._measures.observe_lags(
            {(names.get(source.stream, source.stream), source.partition): lag for source, lag in lags.items()}
        )
        unowned = tuple(source.partition for source in self.transport.unowned())
        self._measures.set(definitions.PARTITIONS_UNOWNED, len(unowned))
        self._heartbeats.note_group(self._number, GroupSeen(unowned, self.transport.strangers()))
        if self.waiting is not None:
            self._measures.set(definitions.WAITING_RECORDS, self.waiting())
        if self.index is None:
            return
        if time.monotonic() >= self._audit_due:
            self._audit_due = time.monotonic() + AUDIT_PERIOD_SECONDS
            for (definition, labels), value in self.audit().items():
                self._measures.set(definition, value, *labels)
        self._heartbeats.note_hosts(self._number, self.index.watched_hosts(metrics.HOSTS_SHOWN))
        statistics = self.index.statistics()
        self._measures.set(definitions.INDEX_ENTRIES, statistics.entries)
        self._measures.set(definitions.INDEX_BYTES, statistics.used_bytes)
        self._measures.set(definitions.STORIES, statistics.stories)

    def compiling(self, kernel: int, cache: Path) -> None:
        """Say that a kernel is compiled, this process's first, second, ...; its code goes to this folder."""
        if kernel == 1:
            log.info("compiling machine code, once for this processor", cache=str(cache))
        self._kernels = kernel

    def batch(self, figures: BatchReport) -> None:
        """See `Listener`."""
        if self._kernels > self._kernels_said:
            log.info("machine code compiled", kernels=self._kernels)
            self._kernels_said = self._kernels
        self._heartbeats.note_owed(self._number, [])
        self._owed_due = time.monotonic() + OWED_PERIOD_SECONDS
        self._measures.observe_batch(figures)

    def stories(self, sizes: Sequence[int]) -> None:
        """See `Listener`."""
        self._measures.observe(definitions.STORY_DOCUMENTS, sizes)

    def protected(self, counts: Mapping[str, int]) -> None:
        """See `Listener`."""
        for name, count in counts.items():
            self._measures.count(definitions.PROTECTED, count, name)

    def skipped(self, input_name: str, partition: int, count: int) -> None:
        """See `Listener`."""
        self._measures.count(definitions.OFFSETS_SKIPPED, count, input_name, partition)

    def without_host(self, count: int) -> None:
        """See `Listener`."""
        self._measures.count(definitions.WITHOUT_HOST, count)

    def odd_times(self, count: int) -> None:
        """See `Listener`."""
        self._measures.count(definitions.ODD_TIMES, count)

    def without_scope(self, count: int) -> None:
        """See `Listener`."""
        self._measures.count(definitions.WITHOUT_SCOPE, count)

    def restored(self, count: int) -> None:
        """See `RestoringListener`."""
        self._beat()
        self._measures.count(definitions.RESTORED, count)

    def behind(self, offsets: int) -> None:
        """See `RestoringListener`."""
        self._measures.set(definitions.RESTORING_OFFSETS, offsets)

    def gaps(self, parts: int) -> None:
        """See `RestoringListener`."""
        self._measures.count(definitions.RESTORE_GAPS, parts)


def work(
    settings: Settings, number: int, heartbeats: Heartbeats, metrics_directory: Path, part: Part | None = None
) -> None:
    """Run a worker process. SIGTERM asks it to stop; an error leaves as SystemExit with its exit code.

    part  its part of the path; None: the whole path
    """
    configure_logging(settings.observe.log_level, settings.observe.log_format, worker=number, part=part)
    die_with_starter()
    # A fatal signal leaves the stack on standard error.
    faulthandler.enable()
    # Ctrl-C reaches the whole foreground group; the supervisor turns it into one orderly SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Members of one part's group are numbered from 0 on, independent of other parts.
    instance = f"{settings.kafka.instance}-{number % settings.workers.count}"
    try:
        metrics.prepare(metrics_directory, worker=number)
        _run(settings, part, instance, MetricsListener(metrics.Metrics(), heartbeats, number))
    except (StreamerError, errors.NeardupIndexError) as error:
        log.error("worker ends", error=type(error).__name__, reason=str(error))
        raise SystemExit(exit_code_of(error)) from None
    except (OSError, MemoryError, RuntimeError) as error:
        # A thread that the system refuses has no error class of its own.
        is_of_memory = isinstance(error, MemoryError) or str(error) == "can't start new thread"
        if not is_of_memory and getattr(error, "errno", None) not in FILE_LIMITS:
            raise
        reason = _TOO_LITTLE_MEMORY if is_of_memory else TOO_MANY_FILES
        log.error("worker ends", error=type(error).__name__, reason=reason)
        raise SystemExit(os.EX_OSERR) from None


def _run(settings: Settings, part: Part | None, instance: str, listener: MetricsListener) -> None:
    loop: Loop
    settings = as_in_place(settings)
    with ExitStack() as resources:
        resources.enter_context(compilations(listener.compiling))
        processes = resources.enter_context(Processes(settings, settings.workers.processes, shared=True))
        if part in (None, "fingerprint"):
            processes.start()
        # Only now: it begins a thread, which no copy of this process may have.
        end_with_parent()
        if part in (None, "decide"):
            index, fingerprinter = open_with_scheme(settings)
            listener.index = resources.enter_context(index)
            listener.audit = partial(gauges, settings)
            if part is None:
                listener.transport = transport = KafkaTransport(settings, instance, index.identity)
                policy, protected = settings.recovery, resources.enter_context(open_sets(settings, fingerprinter))
                loop = build_service(
                    settings,
                    transport,
                    index,
                    fingerprinter,
                    listener,
                    policy,
                    task_id=instance,
                    processes=processes,
                    protected=protected,
                )
            else:
                deciding, loop = decide_part(settings, instance, index, fingerprinter, listener)
                listener.transport = deciding.kafka
        else:
            fingerprinter = scheme_for(settings, key_for(settings, None))
            if part == "fingerprint":
                listener.transport, loop = fingerprint_part(settings, instance, fingerprinter, listener, processes)
            else:
                routing, loop = route_part(settings, instance, fingerprinter, listener)
                listener.transport, listener.waiting = routing.kafka, routing.waiting
        signal.signal(signal.SIGTERM, lambda *_: loop.stop())
        loop.run()
