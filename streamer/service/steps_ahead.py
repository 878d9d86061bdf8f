"""Steps taken ahead: a batch is decoded and fingerprinted, and perhaps decided and routed, during the delivery before it.

`streamer.service.pipeline` has the threads. Records that may have ended processes go on trial in separate ones
(`streamer.service.poison`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Self

from index import Source
from streamer.errors import TrialFailed
from streamer.observe.batch_report import Stopwatch
from streamer.records.first_look import MissingHosts, MissingScopes, OddTimes, WrongInput
from streamer.records.record import Batch
from streamer.service.loop import Listener
from streamer.service.pipeline import Prefetcher, Step, Work
from streamer.service.poison.attempts import PURE_STEPS, Attempts
from streamer.service.poison.trial import Trials
from streamer.service.processes import Processes, RecordsSuspected
from streamer.service.recovery import Plan
from streamer.transports.transport import Transport

AHEAD_STEPS = (*PURE_STEPS, "decide", "route")
"""Steps on the prefetch threads, which note them."""


class StepsAhead:
    """Prepares at most one batch ahead. See `Steps`."""

    def __init__(
        self,
        steps: Mapping[str, Step],
        transport: Transport,
        attempts: Attempts,
        trials: Trials,
        processes: Processes,
        missing_hosts: MissingHosts,
        listener: Listener,
    ) -> None:
        """steps: by name in STEPS, in order, PURE_STEPS among them."""
        self._later_steps = [step for step in steps if step not in PURE_STEPS]
        self._prefetcher = Prefetcher(steps)
        self._transport, self._listener = transport, listener
        self._attempts, self._trials, self._processes = attempts, trials, processes
        self._missing_hosts, self._odd_times, self._wrong_input = missing_hosts, OddTimes(), WrongInput()
        self._missing_scopes = MissingScopes()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._attempts)
        self._resources.callback(self._trials.end)
        self._resources.callback(self._processes.end)
        # First: the thread may wait for a process, and would start others if it were killed.
        self._resources.callback(self._prefetcher.close)
        return self

    def __exit__(self, *error: Any) -> None:
        self._resources.__exit__(*error)

    def stopwatch(self) -> Stopwatch:
        """See `Steps`."""
        return Stopwatch(self._enter_step, self._prefetcher.cpu_seconds)

    def pause(self) -> None:
        """See `Steps`."""
        self._prefetcher.settle()

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """See `Steps`."""
        self._attempts.look({source: plan.begin for source, plan in plans.items()})

    def take(self, batch: Batch, stopwatch: Stopwatch, stop_asked: Callable[[], bool]) -> Iterator[Work]:
        """See `Steps`. Slow trials leave only a batch's first records; after a stop, they may leave none."""
        work = self._prepared(batch, stopwatch, stop_asked)
        if work is None:
            return
        # A partial batch is followed by its own rest.
        if work.batch is batch and not stop_asked():
            self._begin_ahead()
        self._attempts.loop.name(batch)
        self._listener.without_host(self._missing_hosts.see(work.documents))
        self._listener.odd_times(self._odd_times.see(work.documents))
        self._listener.without_scope(self._missing_scopes.see(work.documents))
        self._wrong_input.see(work.documents)
        yield work
        if work.batch is not batch and not stop_asked():
            raise TrialFailed(
                "trying every record of a batch took too long; what was tried is delivered, the rest is read again"
            )

    def finish(self, work: Work, step: str, stopwatch: Stopwatch) -> None:
        """See `Steps`."""
        if step in work.pending:
            with stopwatch.step(step):
                seconds = work.pending[step].result()
            stopwatch.cpu_seconds[step] += seconds + work.elsewhere_seconds.get(step, 0.0)

    def leave(self) -> bool:
        """See `Steps`."""
        return self._prefetcher.leave()

    def end(self) -> None:
        """See `Steps`."""
        self._missing_hosts.end()
        self._wrong_input.end()

    def _enter_step(self, name: str) -> None:
        if name not in AHEAD_STEPS:
            self._attempts.loop.enter(name)
        self._listener.step(name)

    def _prepared(self, batch: Batch, stopwatch: Stopwatch, stop_asked: Callable[[], bool]) -> Work | None:
        """A batch with its pure steps taken; suspect records go on trial."""
        if not self._suspects(batch):
            if not self._prefetcher.has(batch):
                self._processes.begin([batch.records, *(each.records for each in self._upcoming())])
            work = self._prefetcher.take(batch, self._attempts.ahead)
            with suppress(RecordsSuspected):
                for step in PURE_STEPS:
                    self.finish(work, step, stopwatch)
                return work
        return self._tried(batch, stopwatch, stop_asked)

    def _begin_ahead(self) -> None:
        upcoming = self._upcoming()
        self._processes.begin([batch.records for batch in upcoming])
        if upcoming:
            self._prefetcher.begin(upcoming[0], self._attempts.ahead)

    def _upcoming(self) -> list[Batch]:
        """Batches that may be prepared ahead, in order."""
        upcoming: list[Batch] = []
        for place in range(self._processes.batches_ahead):
            batch = self._transport.peek(place)
            if batch is None or self._suspects(batch):
                break
            upcoming.append(batch)
        return upcoming

    def _suspects(self, batch: Batch) -> bool:
        return self._trials.expects_poison or self._attempts.suspects(batch.records)

    def _tried(self, batch: Batch, stopwatch: Stopwatch, stop_asked: Callable[[], bool]) -> Work | None:
        with stopwatch.step("decode"):
            self._prefetcher.settle()
            tried = self._trials.run(batch.records, self._listener.progress, stop_asked)
        with stopwatch.step("fingerprint"):
            if tried is None:
                return None
            work = Work(batch.part(0, len(tried.documents)))
            work.documents, work.fingerprints = tried.documents, tried.fingerprints
            return self._prefetcher.start(work, self._attempts.ahead, self._later_steps)
