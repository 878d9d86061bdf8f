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

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import structlog

from index import Source
from streamer.errors import DeliveryDoubtful
from streamer.observe.batch_report import BatchReport, Stopwatch, report
from streamer.observe.garbage import searched_seldom
from streamer.records.record import Batch
from streamer.records.relation import IN_BITS, Measure
from streamer.service.pipeline import Work
from streamer.service.recovery import Plan, Unrecovered
from streamer.service.restoring import RestoringListener
from streamer.service.state import TRANSITIONS, State
from streamer.transports.transport import Assigned, Finished, Transport

log = structlog.get_logger(__name__)


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

    def protected(self, counts: Mapping[str, int]) -> None:
        """A batch was delivered, in which so many documents resemble an entry in each protected set."""

    def skipped(self, input_name: str, partition: int, count: int) -> None:
        """A policy skipped this many offsets."""

    def without_host(self, count: int) -> None:
        """So many of a batch's documents lack the expected host."""

    def odd_times(self, count: int) -> None:
        """So many of a batch's documents have a time that was not understood."""

    def without_scope(self, count: int) -> None:
        """So many of a batch's documents are in the empty scope, with decode.scope set."""


class StartingOffsets(Protocol):
    """Chooses the starting offsets of newly assigned sources."""

    def recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        """Starting offset per source, or after a bounded part of the preparation why none can begin yet."""

    def close(self) -> None:
        """Interrupt the preparation."""


class Steps(AbstractContextManager[Any], Protocol):
    """The steps between read and commit, as far as a worker takes them; a context with their resources.

    `StepsAhead` takes them on other threads, and cares for poison. Parts without texts take theirs in turn.
    """

    def stopwatch(self) -> Stopwatch:
        """Stopwatch for the next batch."""

    def pause(self) -> None:
        """Wait until decoder, fingerprinter and index are free: sources begin again."""

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """Sources begin at these offsets."""

    def take(self, batch: Batch, stopwatch: Stopwatch, stop_asked: Callable[[], bool]) -> Iterable[Work]:
        """A batch with documents and fingerprints, in a worker that makes them; perhaps cut up, or cut off by a stop."""

    def finish(self, work: Work, step: str, stopwatch: Stopwatch) -> None:
        """Take a later step, or wait for its end; nothing in a worker without that step."""

    def leave(self) -> bool:
        """Cancel a batch that was begun; True if it is decided, and has to be delivered."""

    def end(self) -> None:
        """The input has ended."""


class Delivery(Protocol):
    """What a worker writes: outputs, or batches for the next part."""

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """Sources begin at these offsets."""

    def commit(self, work: Work) -> None:
        """Deliver a batch and commit its offsets, atomically. Raises as `Transport.deliver`."""

    def idle(self, batch: Batch) -> None:
        """A read brought no record, and proof of membership in the group."""


class Loop:
    """One worker: it takes batches along the path until the input ends or somebody stops it."""

    def __init__(
        self,
        transport: Transport,
        recoverer: StartingOffsets,
        steps: Steps,
        delivery: Delivery,
        listener: Listener,
        measure: Measure = IN_BITS,
    ) -> None:
        """measure: of the index, for the reports on batches."""
        self._transport, self._recoverer, self._steps = transport, recoverer, steps
        self._delivery, self._listener, self._measure = delivery, listener, measure
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
            with self._steps, searched_seldom():
                self._transport.open()
                while not self._stop_asked and self._walk():
                    self._listener.progress()
                if self._stop_asked and self._steps.leave():
                    self._walk()
            if self.state is State.RUNNING:
                self._enter(State.DRAINING)
        finally:
            self._recoverer.close()
            self._transport.close()
            self._enter(State.STOPPED)

    def _walk(self) -> bool:
        """Take the next batch along the whole path; returns False at the end of the input.

        In most workers, another batch's steps 2 to 5 happen during step 6. In a service in parts, each worker takes some steps.
        """
        stopwatch = self._steps.stopwatch()
        # 1. Read records, or learn which sources this worker owns.
        with stopwatch.step("read"):
            event = self._transport.read()
        if not isinstance(event, Batch) or not event.records:
            return self._follow(event)
        # 2. Decode and 3. fingerprint them; what may be poison goes on trial.
        for work in self._steps.take(event, stopwatch, lambda: self._stop_asked):
            # 4. Decide in one index transaction. From here on, verdicts are final.
            self._steps.finish(work, "decide", stopwatch)
            # 5. Route each record to an output, with headers that explain its verdict.
            self._steps.finish(work, "route", stopwatch)
            # 6. Commit outputs and input offsets together.
            with stopwatch.step("commit"):
                self._delivery.commit(work)
            self._report(work, stopwatch)
        return True

    def _follow(self, event: Batch | Assigned | Finished) -> bool:
        """React to a read without records; returns False at the end of the input."""
        if isinstance(event, Finished):
            self._steps.end()
            return False
        if isinstance(event, Assigned):
            self._begin(event)
        elif event.snapshot is not None:
            if self.state in (State.STARTING, State.RESTORING):
                # A member without a source is a spare, and counts as ready.
                self._enter(State.RUNNING)
            self._delivery.idle(event)
        return True

    def _begin(self, assigned: Assigned) -> None:
        self._steps.pause()
        plans = self._recoverer.recover(assigned)
        if isinstance(plans, Unrecovered):
            if plans is Unrecovered.RESTORING:
                self._wait_for_restoring()
            return
        self._has_begun = True
        self._steps.begun(plans)
        self._delivery.begun(plans)
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

    def _enter(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"no way from {self.state} to {state}")
        self.state = state
        self._listener.state(state)

    def _report(self, work: Work, stopwatch: Stopwatch) -> None:
        for record in work.batch.records:
            if record.lost is not None:
                log.warning("records skipped that cannot be read", position=record.position, reason=record.lost.why)
                self._listener.skipped(record.topic, record.source.partition, record.lost.offsets)
        self._listener.batch(report(work.batch, stopwatch, work.decisions, self._measure))
