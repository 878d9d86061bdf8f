"""The loop: read, decode, fingerprint, decide, route, commit; and its states.

        +----------------------+
        |                      v
    STARTING --> RESTORING <-> RUNNING --> DRAINING --> STOPPED
        |            |         |                           ^
        +------------+---------+---------------------------+

STARTING   the transport opens, and the first sources are recovered
RESTORING  some worker restores the index: no worker decides before the end
RUNNING    batches walk the path, each prepared up to its routes during the previous delivery
DRAINING   after a stop request: decided batches are delivered, and nothing else is read
STOPPED    every resource is released

Errors leave the loop as exceptions. It retries nothing: a fresh process replays from the journal.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from index import Source
from streamer.errors import DeliveryDoubtful, TrialFailed
from streamer.observe.batch_report import BatchReport, Stopwatch
from streamer.records.first_look import MissingHosts, OddTimes, WrongInput
from streamer.records.record import Batch
from streamer.service.pipeline import Prefetcher, Step, Work
from streamer.service.poison.attempts import PURE_STEPS, Attempts
from streamer.service.poison.trial import Trials
from streamer.service.processes import Processes, RecordsSuspected
from streamer.service.recovery import Plan, Unrecovered
from streamer.service.restoring import RestoringListener
from streamer.service.state import TRANSITIONS, State
from streamer.transports.transport import Assigned, Finished, Transport

log = structlog.get_logger(__name__)

AHEAD_STEPS = (*PURE_STEPS, "decide", "route")
"""Steps on the prefetch thread."""

OBJECTS_BETWEEN = 100_000
"""New objects between garbage searches. A document makes some ten; reference counts free nearly all."""

_SEARCHES_BETWEEN = (20, 20)


class Listener(RestoringListener):
    """Events of a loop, each once per turn, step or batch, never per document; subclasses react to some.

    >>> class Counting(Listener):
    ...     turns = 0
    ...     def progress(self) -> None:
    ...         self.turns += 1
    >>> counting = Counting()
    >>> counting.progress()
    >>> counting.turns
    1
    """

    def state(self, state: State) -> None:
        """The loop entered this state."""

    def step(self, name: str) -> None:
        """A step in STEPS begins."""

    def progress(self) -> None:
        """The loop made one turn."""

    def batch(self, figures: BatchReport) -> None:
        """A batch was delivered."""

    def stories(self, sizes: Sequence[int]) -> None:
        """Values of stories were written, which have so many documents."""

    def skipped(self, input_name: str, partition: int, count: int) -> None:
        """A policy skipped this many offsets."""

    def without_host(self, count: int) -> None:
        """So many of a batch's documents lack the expected host."""

    def odd_times(self, count: int) -> None:
        """So many of a batch's documents have a time that was not understood."""


class StartingOffsets(Protocol):
    """Chooses the starting offsets of newly assigned sources."""

    def recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        """Starting offset per source, or after a bounded part of the preparation why none can begin yet."""

    def close(self) -> None:
        """Interrupt the preparation."""


class Loop(ABC):
    """One worker: a transport, recovery, and the path of a batch, which subclasses define."""

    def __init__(self, transport: Transport, recoverer: StartingOffsets, listener: Listener) -> None:
        self._transport, self._recoverer, self._listener = transport, recoverer, listener
        self.state = State.STARTING
        self._has_begun = False
        self._stop_asked = False

    def stop(self) -> None:
        """Ask the loop to end after the current batch. Safe in a signal handler."""
        self._stop_asked = True

    def run(self) -> None:
        """Walk batches until the input ends or `stop`. Raises the errors of transport, index and recovery."""
        self._listener.state(self.state)
        try:
            with self._resources(), gc_less_often():
                self._transport.open()
                while not self._stop_asked and self._step():
                    self._listener.progress()
                if self._stop_asked and self._owes():
                    self._step()
            if self.state is State.RUNNING:
                self._enter(State.DRAINING)
        finally:
            self._recoverer.close()
            self._transport.close()
            self._enter(State.STOPPED)

    @abstractmethod
    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        """Take a batch through the rest of the path."""

    @contextmanager
    def _resources(self) -> Iterator[None]:
        """The path's resources while the loop runs."""
        yield

    def _owes(self) -> bool:
        """Whether a decided batch is undelivered at a stop request."""
        return False

    def _ended(self) -> None:  # noqa: B027 - most paths need not know
        """React to the input's end."""

    def _pause(self) -> None:  # noqa: B027 - most paths prepare nothing
        """Release preparations: sources begin again."""

    def _begun(self, plans: Mapping[Source, Plan]) -> None:  # noqa: B027 - most paths need not know
        """React to sources' starting offsets."""

    def _beside_seconds(self) -> float:
        """CPU time of all other threads."""
        return 0.0

    def _enter(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"no way from {self.state} to {state}")
        self.state = state
        self._listener.state(state)

    def _enter_step(self, name: str) -> None:
        self._listener.step(name)

    def _step(self) -> bool:
        stopwatch = Stopwatch(self._enter_step, self._beside_seconds)
        with stopwatch.step("read"):
            event = self._transport.read()
        if isinstance(event, Finished):
            self._ended()
            return False
        if isinstance(event, Assigned):
            self._begin(event)
        elif event.records:
            self._walk(event, stopwatch)
        elif event.snapshot is not None:
            self._rest(event)
        return True

    def _rest(self, _idle: Batch) -> None:
        if self.state in (State.STARTING, State.RESTORING):
            # A member without a source is a spare, and counts as ready.
            self._enter(State.RUNNING)

    def _begin(self, assigned: Assigned) -> None:
        self._pause()
        plans = self._recoverer.recover(assigned)
        if isinstance(plans, Unrecovered):
            if plans is Unrecovered.RESTORING:
                self._wait_for_restoring()
            return
        self._has_begun = True
        self._begun(plans)
        for source, plan in plans.items():
            name = assigned.names[source.stream]
            log.info("reading", input=name, partition=source.partition, offset=plan.begin)
            if plan.skipped:
                log.warning("offsets skipped", input=name, partition=source.partition, count=plan.skipped)
            # Zero too: Prometheus sees an increase only of a counter shown at zero before.
            self._listener.skipped(name, source.partition, plan.skipped)
        if self.state is not State.RUNNING:
            self._enter(State.RUNNING)

    def _wait_for_restoring(self) -> None:
        if self._has_begun:
            # Its sources began on a whole index: a person moved offsets, or replaced the index by an old one.
            raise DeliveryDoubtful("the index is being restored while this worker reads: it starts over")
        if self.state is not State.RESTORING:
            self._enter(State.RESTORING)

    def _report_lost(self, batch: Batch) -> None:
        for record in batch.records:
            if record.lost is not None:
                log.warning("records skipped that cannot be read", position=record.position, reason=record.lost.why)
                self._listener.skipped(record.topic, record.source.partition, record.lost.offsets)


@dataclass(frozen=True, slots=True)
class Preparation:
    """Steps that a loop takes ahead, by name, and the care for what may go wrong."""

    steps: Mapping[str, Step]
    attempts: Attempts
    trials: Trials
    missing_hosts: MissingHosts
    processes: Processes


class PreparingLoop(Loop):
    """Loop that decodes and fingerprints, and perhaps decides and routes, one batch ahead."""

    def __init__(
        self, transport: Transport, recoverer: StartingOffsets, preparation: Preparation, listener: Listener
    ) -> None:
        super().__init__(transport, recoverer, listener)
        self._steps = list(preparation.steps)
        self._ahead = Prefetcher(preparation.steps)
        self._attempts = preparation.attempts
        self._trials = preparation.trials
        self._processes = preparation.processes
        self._missing_hosts = preparation.missing_hosts
        self._wrong_input = WrongInput()
        self._odd_times = OddTimes()

    @contextmanager
    def _resources(self) -> Iterator[None]:
        with self._attempts:
            try:
                yield
            finally:
                # The thread may wait for a process, and would start others if it were killed.
                self._ahead.close()
                self._processes.end()
                self._trials.end()

    def _owes(self) -> bool:
        return self._ahead.leave()

    def _pause(self) -> None:
        self._ahead.settle()

    def _ended(self) -> None:
        self._missing_hosts.end()
        self._wrong_input.end()

    def _begun(self, plans: Mapping[Source, Plan]) -> None:
        self._attempts.look({source: plan.begin for source, plan in plans.items()})

    def _beside_seconds(self) -> float:
        return self._ahead.cpu_seconds()

    def _enter_step(self, name: str) -> None:
        if name not in AHEAD_STEPS:
            # The thread that takes those steps notes them.
            self._attempts.loop.enter(name)
        super()._enter_step(name)

    def _prepared(self, whole: Batch, stopwatch: Stopwatch) -> Work | None:
        """A batch's documents and fingerprints, or those for its first records; None after an early stop request.

        Starts to prepare the next available batch. Suspect records go on trial.
        """
        if self._suspects(whole):
            work = self._tried(whole, stopwatch)
        else:
            if not self._ahead.has(whole):
                self._processes.begin([whole.records, *(batch.records for batch in self._upcoming())])
            work = self._ahead.take(whole, self._attempts.ahead)
        try:
            if work is not None:
                self._await(PURE_STEPS, work, stopwatch)
        except RecordsSuspected:
            work = self._tried(whole, stopwatch)
        if work is None:
            return None
        # A partial batch is followed by its own rest.
        if work.batch is whole and not self._stop_asked:
            self._begin_ahead()
        self._attempts.loop.name(whole)
        self._listener.without_host(self._missing_hosts.see(work.documents))
        self._listener.odd_times(self._odd_times.see(work.documents))
        self._wrong_input.see(work.documents)
        return work

    def _begin_ahead(self) -> None:
        upcoming = self._upcoming()
        self._processes.begin([batch.records for batch in upcoming])
        if upcoming:
            self._ahead.begin(upcoming[0], self._attempts.ahead)

    def _upcoming(self) -> list[Batch]:
        """Batches that may be prepared ahead, in order."""
        upcoming: list[Batch] = []
        for place in range(self._processes.batches_ahead):
            batch = self._transport.peek(place)
            if batch is None or self._suspects(batch):
                break
            upcoming.append(batch)
        return upcoming

    def _await(self, steps: Sequence[str], work: Work, stopwatch: Stopwatch) -> None:
        """Wait for a batch's pending steps among these."""
        for step in steps:
            if step in work.pending:
                with stopwatch.step(step):
                    seconds = work.pending[step].result()
                stopwatch.cpu_seconds[step] += seconds

    def _suspects(self, batch: Batch) -> bool:
        return self._trials.expects_poison or self._attempts.suspects(batch.records)

    def _tried(self, whole: Batch, stopwatch: Stopwatch) -> Work | None:
        with stopwatch.step("decode"):
            self._ahead.settle()
            tried = self._trials.run(whole.records, self._listener.progress, lambda: self._stop_asked)
        with stopwatch.step("fingerprint"):
            if tried is None:
                return None
            work = Work(whole.part(0, len(tried.documents)))
            work.documents, work.fingerprints = tried.documents, tried.fingerprints
            return self._ahead.start(work, self._attempts.ahead, self._steps[len(PURE_STEPS) :])

    def _require_whole(self, delivered: Batch, whole: Batch) -> None:
        """Raise TrialFailed if slow trials left only a batch's first records."""
        if delivered is not whole and not self._stop_asked:
            raise TrialFailed(
                "trying every record of a batch took too long; what was tried is delivered, the rest is read again"
            )


@contextmanager
def gc_less_often() -> Iterator[None]:
    """Search for garbage a hundredth as often as usual.

    Python's default searches a batch's objects repeatedly before their release: some 9 % of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN, *_SEARCHES_BETWEEN)
    try:
        yield
    finally:
        gc.set_threshold(*before)
