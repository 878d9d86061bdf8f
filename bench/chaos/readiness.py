"""Readiness against the outputs: how long services said that they were ready while a partition stood still."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from bench.chaos.ledger import Ledger, Place

UNTRUE_SECONDS_MAX = 10.0
_PAUSE_SECONDS = 0.25
_SHOWN = 5


class Answering(Protocol):
    """What answers whether it is ready."""

    def ready(self) -> bool:
        """True where the service says that it is ready; False too where it does not answer."""
        ...


class Readiness:
    """Longest time for which every service was ready and nothing came out of a partition that had documents.

    A thread asks the services; `compare` sets their answers against the ledger. A context manager.
    """

    def __init__(
        self,
        services: Callable[[], Sequence[Answering]],
        clock: Callable[[], float] = time.monotonic,
        allowed_seconds: float = UNTRUE_SECONDS_MAX,
    ) -> None:
        """`services`: those that ought to be ready now; faults add and remove some. A longer time is a problem."""
        self._services = services
        self._allowed_seconds = allowed_seconds
        self._clock = clock
        self._ready_since: float | None = None
        self._judged_since = clock()
        self._is_excused = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="readiness", daemon=True)
        self.untrue: dict[Place, tuple[float, str]] = {}
        """Seconds, and the time of day in UTC at their end, by the first waiting place of the partition that stood still."""

    def __enter__(self) -> "Readiness":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _ask_on(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            self.ask()

    def ask(self) -> None:
        """Ask every service once."""
        began = self._clock()
        if not all(service.ready() for service in list(self._services())):
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = began

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Judge nothing for a while: documents wait for something else than these services."""
        self._is_excused = True
        yield
        self._is_excused, self._judged_since = False, self._clock()

    def compare(self, ledger: Ledger) -> None:
        """Note for how long all services have been ready, and a partition with waiting documents has stood still, up to now."""
        if self._is_excused:
            return
        ready_since, waiting = self._ready_since, ledger.oldest_waiting()
        if ready_since is None or waiting is None:
            return
        place, since = waiting
        seconds = self._clock() - max(ready_since, since, self._judged_since)
        if seconds > self.untrue.get(place, (0.0, ""))[0]:
            self.untrue[place] = seconds, time.strftime("%H:%M:%S", time.gmtime())

    @property
    def untrue_seconds_max(self) -> float:
        """The longest of these times."""
        return max((seconds for seconds, _ in self.untrue.values()), default=0.0)

    def problems(self) -> list[str]:
        """What is wrong with what the services said of themselves."""
        worst = sorted(((*untrue, place) for place, untrue in self.untrue.items()), reverse=True)[:_SHOWN]
        return [
            f"all services were ready for {seconds:.1f} s until {until} while partition {partition} stood still at {offset}"
            for seconds, until, (partition, offset) in worst
            if seconds > self._allowed_seconds
        ]
