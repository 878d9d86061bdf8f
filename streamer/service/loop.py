"""The loop: read, decode, fingerprint, decide, route, commit; and its states.

        +----------------------+
        |                      v
    STARTING --> RESTORING <-> RUNNING --> DRAINING --> STOPPED
        |            |         |                           ^
        +------------+---------+---------------------------+

STARTING   the transport opens, and the first sources are recovered
RESTORING  the index is being restored, by this worker or another: nobody decides before that is done
RUNNING    batches walk the path, each decoded and fingerprinted while the one before is decided and delivered
DRAINING   a stop was asked for: the batch under way is finished, no other is read
STOPPED    every resource is released

An error leaves the loop as an exception. The loop retries nothing: a fresh process replays from the journal.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import structlog

from index import NO_DISTANCE, Decisions, Entries, HostShare, Index, Position, Source, Verdict, minhash
from streamer.errors import DeliveryDoubtful, TrialFailed
from streamer.fingerprint.fingerprints import Fingerprints, hexadecimal
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import Reason, label
from streamer.records.record import Batch, Decision, Outgoing
from streamer.records.route import explain, route
from streamer.service.attempts import PURE_STEPS, Attempts
from streamer.service.pipeline import Ahead, entries_of
from streamer.service.recovery import Plan, Unrecovered
from streamer.service.restoring import RestoringListener
from streamer.service.trial import Trials
from streamer.transports.transport import Assigned, Finished, Transport

log = structlog.get_logger(__name__)

STEPS = ("read", "decode", "fingerprint", "decide", "route", "commit")
"""The six verbs, in order. Metrics, dashboard and documentation use the same words."""


OBJECTS_BETWEEN = 100_000
"""New objects after which the youngest are searched. A batch makes some ten a document; nearly all go by themselves."""

_SEARCHES_BETWEEN = (20, 20)


class State(Enum):
    """State of a service, as drawn above."""

    STARTING = "starting"
    RESTORING = "restoring"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.STARTING: frozenset({State.RESTORING, State.RUNNING, State.STOPPED}),
    State.RESTORING: frozenset({State.RUNNING, State.STOPPED}),
    State.RUNNING: frozenset({State.RESTORING, State.DRAINING, State.STOPPED}),
    State.DRAINING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset(),
}


@dataclass(slots=True)
class Stopwatch:
    """Seconds per step of one batch: wall time of the loop, and CPU time. `entered` is told the name of each step.

    beside_seconds  CPU time that the thread ahead has taken so far, which is none of the step's
    """

    entered: Callable[[str], None]
    beside_seconds: Callable[[], float]
    wall_seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge the time spent inside to the step `name`, one of STEPS."""
        self.entered(name)
        wall, cpu = time.perf_counter(), time.process_time() - self.beside_seconds()
        yield
        self.wall_seconds[name] = time.perf_counter() - wall
        self.cpu_seconds[name] = time.process_time() - self.beside_seconds() - cpu


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Figures of one delivered batch, for metrics, progress bars and tables.

    records           records in the batch
    value_bytes       bytes of their values
    step_seconds      wall time per step of STEPS: how long the loop was at it, or waited for it
    step_cpu_seconds  CPU time per step of STEPS, whichever thread took it
    outcomes          documents by (verdict label, reason label)
    distances         int16 [duplicates], to their originals; empty where the index measures similarity
    similarities      float64 [duplicates], to their originals; empty where the index measures distance
    candidates        int64 [newly decided documents], entries compared with each
    unequal           duplicates that are near but unequal to their originals
    templates         templates that became known
    replayed          documents whose verdict came from the journal
    """

    records: int
    value_bytes: int
    step_seconds: Mapping[str, float]
    step_cpu_seconds: Mapping[str, float]
    outcomes: Mapping[tuple[str, str], int]
    distances: npt.NDArray[np.int16]
    similarities: npt.NDArray[np.float64]
    candidates: npt.NDArray[np.int64]
    unequal: int
    templates: int
    replayed: int


def _nobody(*_: object) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Callables for what happens in the loop; each is called once per turn, step or batch, never per document.

    state      the service entered a state
    step       the loop entered this step of STEPS
    progress   the loop made one turn
    batch      a batch was delivered
    skipped    of this input and partition, a policy skipped this many offsets
    restoring  see RestoringListener
    """

    state: Callable[[State], None] = _nobody
    step: Callable[[str], None] = _nobody
    progress: Callable[[], None] = _nobody
    batch: Callable[[BatchReport], None] = _nobody
    skipped: Callable[[str, int, int], None] = _nobody
    restoring: RestoringListener = field(default_factory=RestoringListener)


class Recovering(Protocol):
    """Whoever says where newly assigned sources begin."""

    def recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        """Where each source begins; or why none can begin yet, after a bounded part of what has to be done before."""

    def close(self) -> None:
        """Break off what is under way."""


class Loop:
    """One worker: a transport, recovery, and a path that every batch walks, which subclasses know."""

    def __init__(self, transport: Transport, recoverer: Recovering, listener: Listener) -> None:
        self._transport = transport
        self._recoverer = recoverer
        self._listener = listener
        self._state = State.STARTING
        self._has_begun = False
        self._stop_asked = False

    @property
    def state(self) -> State:
        """Current state."""
        return self._state

    def stop(self) -> None:
        """Ask the loop to end after the batch under way. Safe to call from a signal handler."""
        self._stop_asked = True

    def run(self) -> None:
        """Walk batches until the input ends or `stop` is called. Raises what transport, index and recovery raise."""
        self._listener.state(self._state)
        try:
            with self._resources(), seldom_searched():
                self._transport.open()
                while not self._stop_asked and self._step():
                    self._listener.progress()
            if self._state is State.RUNNING:
                self._enter(State.DRAINING)
        finally:
            self._recoverer.close()
            self._transport.close()
            self._enter(State.STOPPED)

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        """Take a batch that was read through the rest of the path: every subclass says how."""
        raise NotImplementedError

    @contextmanager
    def _resources(self) -> Iterator[None]:
        """What the path needs while the loop runs."""
        yield

    def _pause(self) -> None:
        """Let go of what is being prepared: sources begin anew."""

    def _begun(self, plans: Mapping[Source, Plan]) -> None:
        """Take note of where sources begin."""

    def _beside_seconds(self) -> float:
        """CPU time that threads beside the loop have taken."""
        return 0.0

    def _enter(self, state: State) -> None:
        if state not in TRANSITIONS[self._state]:
            raise AssertionError(f"no way from {self._state} to {state}")
        self._state = state
        self._listener.state(state)

    def _enter_step(self, name: str) -> None:
        self._listener.step(name)

    def _step(self) -> bool:
        stopwatch = Stopwatch(self._enter_step, self._beside_seconds)
        with stopwatch.step("read"):
            event = self._transport.read()
        if isinstance(event, Finished):
            return False
        if isinstance(event, Assigned):
            self._begin(event)
        elif event.records:
            self._walk(event, stopwatch)
        elif event.snapshot is not None:
            self._rest(event)
        return True

    def _rest(self, _idle: Batch) -> None:
        """Nothing was read, by a member of the group."""
        if self._state in (State.STARTING, State.RESTORING):
            # A member without a source stands by for the others, and counts as ready.
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
            # Zero is reported too: Prometheus sees an increase only of a counter that was shown at zero before.
            self._listener.skipped(name, source.partition, plan.skipped)
        if self._state is not State.RUNNING:
            self._enter(State.RUNNING)

    def _wait_for_restoring(self) -> None:
        if self._has_begun:
            # Its sources were begun on an index that was whole: somebody moved offsets, or put an old index in its place.
            raise DeliveryDoubtful("the index is being restored while this worker reads: it begins anew")
        if self._state is not State.RESTORING:
            self._enter(State.RESTORING)

    def _tell_of_lost(self, batch: Batch) -> None:
        """Log and count the records of a delivered batch that cannot be read."""
        for record in batch.records:
            if record.lost is not None:
                log.warning("records skipped that cannot be read", position=record.position, reason=record.lost.why)
                self._listener.skipped(record.topic, record.source.partition, record.lost.offsets)


class PreparingLoop(Loop):
    """A loop whose path begins with decode and fingerprint, one batch ahead."""

    def __init__(
        self,
        transport: Transport,
        decoder: Decoder,
        fingerprinter: Scheme,
        recoverer: Recovering,
        attempts: Attempts,
        trials: Trials,
        listener: Listener,
    ) -> None:
        super().__init__(transport, recoverer, listener)
        self._ahead = Ahead(decoder, fingerprinter)
        self._attempts = attempts
        self._trials = trials

    @contextmanager
    def _resources(self) -> Iterator[None]:
        with self._attempts:
            try:
                yield
            finally:
                self._ahead.close()

    def _pause(self) -> None:
        self._ahead.settle()

    def _begun(self, plans: Mapping[Source, Plan]) -> None:
        self._attempts.look({source: plan.begin for source, plan in plans.items()})

    def _beside_seconds(self) -> float:
        return self._ahead.cpu_seconds()

    def _enter_step(self, name: str) -> None:
        if name not in PURE_STEPS:
            # Those are noted by the thread that takes them.
            self._attempts.loop.enter(name)
        super()._enter_step(name)

    def _prepared(
        self, whole: Batch, stopwatch: Stopwatch
    ) -> tuple[Batch, list[Document | DeadLetter], Fingerprints] | None:
        """A batch, or its first records, with documents and fingerprints; None where a stop was asked for first.

        Begins with the batch that comes next, if it is at hand. What may end a process is left to a trial.
        """
        found = self._prepare(whole, stopwatch)
        if found is None:
            return None
        documents, fingerprints = found
        upcoming = None if self._stop_asked else self._transport.peek()
        if upcoming is not None and not self._attempts.suspects(upcoming.records):
            self._ahead.begin(upcoming, self._attempts.ahead)
        self._attempts.loop.name(whole)
        return whole.first(len(documents)), documents, fingerprints

    def _prepare(self, whole: Batch, stopwatch: Stopwatch) -> tuple[list[Document | DeadLetter], Fingerprints] | None:
        """Documents and fingerprints of a batch, or of its first records; None as `_prepared`."""
        if self._attempts.suspects(whole.records):
            with stopwatch.step("decode"):
                self._ahead.settle()
                tried = self._trials.run(whole.records, self._listener.progress, lambda: self._stop_asked)
            with stopwatch.step("fingerprint"):
                return None if tried is None else (tried.documents, tried.fingerprints)
        prepared = self._ahead.take(whole, self._attempts.ahead)
        with stopwatch.step("decode"):
            documents, decode_seconds = prepared.documents.result()
        with stopwatch.step("fingerprint"):
            fingerprints, fingerprint_seconds = prepared.fingerprints.result()
        stopwatch.cpu_seconds["decode"] += decode_seconds
        stopwatch.cpu_seconds["fingerprint"] += fingerprint_seconds
        return documents, fingerprints

    def _require_whole(self, delivered: Batch, whole: Batch) -> None:
        """Raise TrialFailed where trials took so long that only the first records of a batch are delivered."""
        if delivered is not whole and not self._stop_asked:
            raise TrialFailed(
                "trying every record of a batch took too long; what was tried is delivered, the rest is read again"
            )


class Service(PreparingLoop):
    """One worker of the whole service: a transport, an index, and the path between them."""

    def __init__(
        self,
        transport: Transport,
        index: Index,
        decoder: Decoder,
        fingerprinter: Scheme,
        recoverer: Recovering,
        attempts: Attempts,
        trials: Trials,
        listener: Listener,
        *,
        connector_name: str,
        task_id: str,
        shadow: bool,
    ) -> None:
        """`connector_name` and `task_id` go into the headers of dead letters, as Kafka Connect writes them.

        `shadow`: see `destination_of`. The journal knows nothing of it: a batch that is delivered again goes where this service
        sends it.
        """
        super().__init__(transport, decoder, fingerprinter, recoverer, attempts, trials, listener)
        self._index = index
        self._by_similarity = index.parameters.by_similarity
        self._names = StreamNames(index)
        self._connector_name = connector_name
        self._task_id = task_id
        self._shadow = shadow

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        found = self._prepared(whole, stopwatch)
        if found is None:
            return
        batch, documents, fingerprints = found
        with stopwatch.step("decide"):
            entries = entries_of(batch.records, documents, fingerprints)
            decisions = self._index.admit(entries, batch.ends, batch.marks)
            tell(decisions)
        with stopwatch.step("route"):
            outgoing = self._route(batch, documents, entries, decisions)
        with stopwatch.step("commit"):
            self._transport.deliver(batch, outgoing)
        self._tell_of_lost(batch)
        self._listener.batch(report(batch, decisions, stopwatch, by_similarity=self._by_similarity))
        self._require_whole(batch, whole)

    def _route(
        self, batch: Batch, documents: list[Document | DeadLetter], entries: Entries, decisions: Decisions
    ) -> list[Outgoing]:
        fingerprints = hexadecimal(entries.kinds, entries.fingerprints)
        explained: list[Decision] = explain(
            batch.records,
            documents,
            fingerprints,
            decisions,
            self._names.of(decisions.original_positions),
            by_similarity=self._by_similarity,
        )
        return route(
            batch.records,
            explained,
            connector_name=self._connector_name,
            task_id=self._task_id,
            with_headers=self._transport.takes_headers,
            shadow=self._shadow,
        )


class StreamNames:
    """Names of streams that originals come from."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, str] = {}

    def of(self, positions: Sequence[Position | None]) -> dict[str, str]:
        """Names of at least the streams of these positions.

        The index may know many streams, so names are read again only for a new stream.
        """
        named = {position.source.stream for position in positions if position is not None}
        if not named <= self._known.keys():
            self._known = self._index.stream_names()
        return self._known


def tell(decisions: Decisions) -> None:
    """Log what is new of hosts and templates with a batch."""
    _tell(decisions.crossings)
    for head in decisions.templates:
        log.info("template found", first_page=head)


def _tell(crossings: Sequence[HostShare]) -> None:
    """Log the hosts that a batch took beyond the limits of the guard, and those that came back."""
    for host, documents, unequal, beyond in crossings:
        if beyond:
            log.warning("host beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
        else:
            log.info("host no longer beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)


def report(batch: Batch, decisions: Decisions, stopwatch: Stopwatch, *, by_similarity: bool) -> BatchReport:
    """Figures of a delivered batch. `by_similarity`: see `Parameters.by_similarity`."""
    distances = decisions.distances[(decisions.verdicts == Verdict.DUPLICATE) & (decisions.distances != NO_DISTANCE)]
    # Each pair is packed into one number: numpy sorts pairs many times as slowly.
    pairs, counts = np.unique(decisions.verdicts.astype(np.int64) << 8 | decisions.reasons, return_counts=True)
    return BatchReport(
        records=len(batch.records),
        value_bytes=sum(len(record.value or b"") for record in batch.records),
        step_seconds=stopwatch.wall_seconds,
        step_cpu_seconds=stopwatch.cpu_seconds,
        outcomes={
            (Verdict(pair >> 8).label, label(Verdict(pair >> 8), Reason(pair & 0xFF))): count
            for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)
        },
        distances=distances[:0] if by_similarity else distances,
        similarities=minhash.similarities_of(distances if by_similarity else distances[:0]),
        candidates=decisions.candidates[~decisions.replayed],
        unequal=int(np.count_nonzero(distances > 0)),
        templates=len(decisions.templates),
        replayed=int(decisions.replayed.sum()),
    )


@contextmanager
def seldom_searched() -> Iterator[None]:
    """Search for garbage a hundredth as often as usual.

    As shipped, Python searches all that a batch holds again and again before it lets go of it: some 9 % of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN, *_SEARCHES_BETWEEN)
    try:
        yield
    finally:
        gc.set_threshold(*before)
