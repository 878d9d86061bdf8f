"""Heartbeats of the workers: the state and the last progress of each, in memory shared with the supervisor."""

import multiprocessing
import time
from multiprocessing.context import SpawnContext

from streamer.service.loop import State

_STATES = tuple(State)


class Heartbeats:
    """State and time of the last progress per worker (seconds of the machine's monotonic clock)."""

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._states = chosen.Array("b", [_STATES.index(State.STOPPED)] * count, lock=False)
        self._progress = chosen.Array("d", [0.0] * count, lock=False)

    def enter(self, worker: int, state: State) -> None:
        """Note that worker number `worker` is in `state` now; an entry counts as progress."""
        self._states[worker] = _STATES.index(state)
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Note that worker number `worker` made progress just now."""
        self._progress[worker] = time.monotonic()

    def state(self, worker: int) -> State:
        """State that the worker entered last."""
        number: int = self._states[worker]
        return _STATES[number]

    def silent_ms(self, worker: int) -> float:
        """Milliseconds since the worker last made progress."""
        last_seconds: float = self._progress[worker]
        return (time.monotonic() - last_seconds) * 1000
