"""Heartbeats of the workers: the state and the last progress of each, in memory shared with the supervisor."""

import multiprocessing
import time
from multiprocessing.context import SpawnContext

from streamer.service.loop import State

_STATES = tuple(State)
_NEVER = -1.0


class Heartbeats:
    """State and time of the last progress per worker (seconds of the machine's monotonic clock)."""

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._states = chosen.Array("b", [_STATES.index(State.STOPPED)] * count, lock=False)
        self._progress = chosen.Array("d", [0.0] * count, lock=False)
        self._first_report = chosen.Array("d", [_NEVER] * count, lock=False)

    def launch(self, worker: int) -> None:
        """Note that a process of worker number `worker` is started now, which has reported nothing yet."""
        self._states[worker] = _STATES.index(State.STARTING)
        self._first_report[worker] = _NEVER
        self._progress[worker] = time.monotonic()

    def enter(self, worker: int, state: State) -> None:
        """Note that worker number `worker` is in `state` now; an entry counts as progress."""
        self._states[worker] = _STATES.index(state)
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Note that worker number `worker` made progress just now."""
        now_seconds = time.monotonic()
        self._progress[worker] = now_seconds
        if self._first_report[worker] == _NEVER:
            self._first_report[worker] = now_seconds

    def state(self, worker: int) -> State:
        """State that the worker entered last."""
        number: int = self._states[worker]
        return _STATES[number]

    def reported(self, worker: int) -> bool:
        """Whether the worker has reported anything since its launch."""
        first_seconds: float = self._first_report[worker]
        return first_seconds != _NEVER

    def steady_ms(self, worker: int) -> float:
        """Milliseconds from the worker's first report to its last progress; 0 before the first."""
        first_seconds: float = self._first_report[worker]
        last_seconds: float = self._progress[worker]
        return (last_seconds - first_seconds) * 1000 if first_seconds != _NEVER else 0.0

    def silent_ms(self, worker: int) -> float:
        """Milliseconds since the worker last made progress, or since its launch."""
        last_seconds: float = self._progress[worker]
        return (time.monotonic() - last_seconds) * 1000
