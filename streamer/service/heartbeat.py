"""What workers tell their supervisor without a call: a few numbers in shared memory, one slot a worker."""

import multiprocessing
import time
from multiprocessing.context import SpawnContext

from streamer.service.loop import State

_STATES = tuple(State)


class Board:
    """Per worker its state and when it last made progress (seconds of the machine's monotonic clock)."""

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._states = chosen.Array("b", [_STATES.index(State.STOPPED)] * count, lock=False)
        self._progress = chosen.Array("d", [0.0] * count, lock=False)

    def enter(self, worker: int, state: State) -> None:
        """Worker number `worker` is in `state` now."""
        self._states[worker] = _STATES.index(state)
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Worker number `worker` made progress just now."""
        self._progress[worker] = time.monotonic()

    def state(self, worker: int) -> State:
        """The state that the worker last entered."""
        number: int = self._states[worker]
        return _STATES[number]

    def silent_ms(self, worker: int) -> float:
        """Milliseconds since the worker last made progress."""
        last_seconds: float = self._progress[worker]
        return (time.monotonic() - last_seconds) * 1000
