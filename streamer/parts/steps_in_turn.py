"""Steps in a part without texts: one after the other, on the loop's thread."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from index import Source
from streamer.observe.batch_report import Stopwatch
from streamer.records.record import Batch
from streamer.service.loop import Listener
from streamer.service.pipeline import Step, Work
from streamer.service.recovery import Plan


@dataclass
class StepsInTurn(AbstractContextManager["StepsInTurn"]):
    """Takes steps only when they are due. See `Steps`.

    steps  by name in STEPS
    cut    cuts up a read batch

    >>> taken = []
    >>> steps = StepsInTurn(Listener(), {"route": lambda work: taken.append(work.batch)})
    >>> for work in steps.take(Batch([]), steps.stopwatch(), lambda: False):
    ...     steps.finish(work, "decide", steps.stopwatch())
    ...     steps.finish(work, "route", steps.stopwatch())
    >>> len(taken)
    1
    """

    _listener: Listener
    steps: Mapping[str, Step]
    cut: Callable[[Batch, Stopwatch], Iterable[Work]] = lambda batch, _: [Work(batch)]

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""

    def stopwatch(self) -> Stopwatch:
        """See `Steps`."""
        return Stopwatch(self._listener.step, lambda: 0.0)

    def pause(self) -> None:
        """See `Steps`."""

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """See `Steps`."""

    def take(self, batch: Batch, stopwatch: Stopwatch, _stop_asked: Callable[[], bool]) -> Iterable[Work]:
        """See `Steps`."""
        return self.cut(batch, stopwatch)

    def finish(self, work: Work, step: str, stopwatch: Stopwatch) -> None:
        """See `Steps`."""
        if step in self.steps:
            with stopwatch.step(step):
                self.steps[step](work)

    def leave(self) -> bool:
        """See `Steps`."""
        return False

    def end(self) -> None:
        """See `Steps`."""
