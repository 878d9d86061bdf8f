"""Workers of a supervisor that act a part: in fake processes over a fake clock, or as bodies of real ones."""

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from streamer.observe import definitions, metrics
from streamer.service.state import State
from streamer.settings.settings import Settings

# --- fake processes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Life:
    """What one process does after its start, in seconds.

    It makes its first report at `reports_from`; it `ends` by itself, and `yields` to SIGTERM after so many.
    """

    ends: float = inf
    exit_code: int = os.EX_OK
    reports_from: float = 0.0
    silent_from: float = inf
    yields: float = 0.0


@dataclass
class Stage:
    """A clock, the processes started on it, and what else is to happen at which second.

    lives     by worker the lives of its processes, one after the other; later processes live on until they are ended
    refusals  what the system answers to the next starts, one after the other
    events    called when their second has come
    """

    lives: dict[int, list[Life]] = field(default_factory=lambda: defaultdict(list))
    events: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    refusals: list[OSError] = field(default_factory=list)
    seconds: float = 0.0
    processes: list["FakeProcess"] = field(default_factory=list)
    process_number: int = 0

    def monotonic(self) -> float:
        return self.seconds

    def pass_until(self, seconds: float) -> None:
        """Let time pass, and whatever happens in it; a process that is not silent makes progress all the while."""
        while True:
            due = min((at for at, _ in self.events), default=inf)
            self.seconds = max(self.seconds, min(due, seconds))
            for process in self.processes:
                process.beat()
            if due > seconds:
                return
            happening = [event for at, event in self.events if at == due]
            self.events = [(at, event) for at, event in self.events if at != due]
            for event in happening:
                event()

    def wait(self, sentinels: Sequence["FakeProcess"], timeout: float) -> None:
        """`multiprocessing.connection.wait`."""
        self.pass_until(min([self.seconds + timeout, *(process.end for process in sentinels)]))

    def started(self, number: int) -> list[float]:
        """When the processes of a worker were started."""
        return [process.start_seconds for process in self.processes if process.number == number]

    # What a context of multiprocessing is asked for.

    def Array(self, kind: str, values: Sequence[Any], lock: bool) -> bytearray:  # noqa: N802
        return bytearray(values)

    def Process(self, target: object, args: tuple[Any, ...], name: str) -> "FakeProcess":  # noqa: N802
        return FakeProcess(self, name, args[1], args[2])


class FakeProcess:
    """A process on a stage."""

    def __init__(self, stage: Stage, name: str, number: int, board: Any) -> None:
        self.name, self.number = name, number
        self._stage, self._board = stage, board
        self.start_seconds = self.end = inf
        self.asked_to_end = False
        self.killed = False

    @property
    def sentinel(self) -> "FakeProcess":
        return self

    @property
    def pid(self) -> int:
        return self._stage.process_number

    @property
    def exitcode(self) -> int | None:
        return None if self.is_alive() else self._exit_code

    def start(self) -> None:
        if self._stage.refusals:
            raise self._stage.refusals.pop(0)
        lives = self._stage.lives[self.number]
        self._life = lives.pop(0) if lives else Life()
        self._exit_code = self._life.exit_code
        self.start_seconds = self._stage.seconds
        self.end = self.start_seconds + self._life.ends
        self._stage.processes.append(self)

    def is_alive(self) -> bool:
        return self._stage.seconds < self.end

    def beat(self) -> None:
        age_seconds = self._stage.seconds - self.start_seconds
        if self.is_alive() and self._life.reports_from <= age_seconds < self._life.silent_from:
            self._board.enter(self.number, State.RUNNING)

    def terminate(self) -> None:
        self.asked_to_end = True
        if self._stage.seconds + self._life.yields < self.end:
            self.end, self._exit_code = self._stage.seconds + self._life.yields, os.EX_OK

    def kill(self) -> None:
        self.killed = True
        self.end, self._exit_code = self._stage.seconds, -signal.SIGKILL

    def join(self, timeout: float = inf) -> None:
        self._stage.pass_until(min(self.end, self._stage.seconds + timeout))


# --- bodies of real processes -----------------------------------------------------------------------------------------


def diligent(settings: Settings, number: int, board: Any, metrics_directory: Path, _part: object = None) -> None:
    """Makes progress until SIGTERM, and counts `number` + 1 restored documents, for that can be seen on the port."""
    _run(settings, number, board, metrics_directory, yields=True)


def stubborn(settings: Settings, number: int, board: Any, metrics_directory: Path, _part: object = None) -> None:
    """The same, but SIGTERM is nothing to it."""
    _run(settings, number, board, metrics_directory, yields=False)


def interrupted(settings: Settings, number: int, board: Any, metrics_directory: Path, _part: object = None) -> None:
    """Is reached by Ctrl-C before it could say that it ignores it, then runs as `diligent`."""
    os.kill(os.getpid(), signal.SIGINT)
    _run(settings, number, board, metrics_directory, yields=True)


def process_of(settings: Settings, number: int) -> int | None:
    """The number of the process that runs as this worker; None as long as none came so far."""
    file = settings.index.directory / f"worker-{number}"
    return int(file.read_text()) if file.exists() else None


def _run(settings: Settings, number: int, board: Any, metrics_directory: Path, *, yields: bool) -> None:
    enough = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: enough.set() if yields else None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    metrics.prepare(metrics_directory, worker=number)
    metrics.Metrics().count(definitions.RESTORED, number + 1)
    file = settings.index.directory / f"worker-{number}"
    file.with_suffix(".new").write_text(str(os.getpid()))
    file.with_suffix(".new").replace(file)
    # Last: who sees the worker run asks for its number.
    board.enter(number, State.RUNNING)
    parent = os.getppid()
    while not enough.wait(0.05) and os.getppid() == parent:
        metrics.restore_files()
        board.beat(number)
