"""Heartbeats of the workers: state, step, last progress and findings of each, in memory shared with the supervisor."""

import multiprocessing
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from multiprocessing.context import SpawnContext
from typing import Any

import orjson

from index import HostShare, WatchedHosts
from streamer.service.loop import STEPS, State

_STATES = tuple(State)
_NEVER = -1.0
_READ = 0

PARTITIONS_NAMED_MAX = 32
"""Most partitions that a worker can name, of those without an owner and of those that it owes."""

HOSTS_BYTES = 2**13
"""Room for the hosts that a worker notes: ten names of 80 characters, and their numbers."""

_HOSTS = struct.Struct("<dII")


class Heartbeats:
    """State and time of the last progress per worker (seconds of the machine's monotonic clock)."""

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._states = chosen.Array("b", [_STATES.index(State.STOPPED)] * count, lock=False)
        self._progress = chosen.Array("d", [0.0] * count, lock=False)
        self._first_report = chosen.Array("d", [_NEVER] * count, lock=False)
        self._steps = chosen.Array("b", [_READ] * count, lock=False)
        self._batch_read = chosen.Array("d", [_NEVER] * count, lock=False)
        self._contact = chosen.Array("d", [_NEVER] * count, lock=False)
        # Time of the note, its checksum and length, and the hosts as JSON.
        self._hosts = [chosen.Array("B", [0] * HOSTS_BYTES, lock=False) for _ in range(count)]
        self._hosts_read: tuple[float, WatchedHosts | None] = (_NEVER, None)
        # One more than each partition's number; 0 is an empty place.
        self._unowned, self._owed = (
            [chosen.Array("l", [0] * PARTITIONS_NAMED_MAX, lock=False) for _ in range(count)] for _ in range(2)
        )
        self._owing = chosen.Array("d", [_NEVER] * count, lock=False)

    def launch(self, worker: int) -> None:
        """Note that a process of worker number `worker` is started now, which has reported nothing yet."""
        self._states[worker] = _STATES.index(State.STARTING)
        self._first_report[worker] = _NEVER
        self._progress[worker] = time.monotonic()
        self.enter_step(worker, STEPS[_READ])
        self.note_unowned(worker, [])
        self.note_owed(worker, [])

    def enter(self, worker: int, state: State) -> None:
        """Note that worker number `worker` is in `state` now; an entry counts as progress.

        What the worker found is over where it does not run.
        """
        self._states[worker] = _STATES.index(state)
        if state is not State.RUNNING:
            self.enter_step(worker, STEPS[_READ])
            self.note_unowned(worker, [])
            self.note_owed(worker, [])
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Note that worker number `worker` made progress just now."""
        now_seconds = time.monotonic()
        self._progress[worker] = now_seconds
        if self._first_report[worker] == _NEVER:
            self._first_report[worker] = now_seconds

    def enter_step(self, worker: int, step: str) -> None:
        """Note that worker number `worker` begins `step` of STEPS; a batch is under way in all but the first, read."""
        number = STEPS.index(step)
        self._steps[worker] = number
        if number == _READ:
            self._batch_read[worker] = _NEVER
        elif self._batch_read[worker] == _NEVER:
            self._batch_read[worker] = time.monotonic()

    def note_contact(self, worker: int, seconds: float | None) -> None:
        """Note when worker number `worker` last had an answer from the brokers, on the monotonic clock; None changes nothing."""
        if seconds is not None:
            self._contact[worker] = seconds

    def note_unowned(self, worker: int, partitions: Sequence[int]) -> None:
        """Note that worker number `worker` finds these partitions of the input without an owner; the first few are kept."""
        _write_partitions(self._unowned[worker], partitions)

    def note_owed(self, worker: int, partitions: Sequence[int]) -> None:
        """Note that worker number `worker` has records of these partitions to deliver; the first few are kept.

        No partitions: it has none, or has just delivered some.
        """
        if not partitions:
            self._owing[worker] = _NEVER
        elif self._owing[worker] == _NEVER:
            self._owing[worker] = time.monotonic()
        _write_partitions(self._owed[worker], partitions)

    def owed(self, worker: int) -> list[int]:
        """Partitions that the worker owes, ascending."""
        return _partitions_in(self._owed[worker])

    def owing_seconds(self, worker: int) -> float:
        """Seconds in which the worker had records to deliver and delivered none; 0 where it owes none."""
        return self._age_seconds(self._owing[worker]) or 0.0

    def unowned(self, workers: Iterable[int] | None = None) -> list[int]:
        """Partitions that some worker, or one of these, finds without an owner, ascending."""
        chosen = self._unowned if workers is None else [self._unowned[worker] for worker in workers]
        return sorted({partition for each in chosen for partition in _partitions_in(each)})

    def note_hosts(self, worker: int, watched: WatchedHosts) -> None:
        """Note the worst hosts, as worker number `worker` finds them in the index."""
        content = orjson.dumps([watched.beyond, [tuple(share) for share in watched.worst]])
        if len(content) > HOSTS_BYTES - _HOSTS.size:
            raise ValueError(f"{len(watched.worst)} hosts do not fit into {HOSTS_BYTES} bytes")
        head = _HOSTS.pack(time.monotonic(), zlib.crc32(content), len(content))
        self._hosts[worker][:] = (head + content).ljust(HOSTS_BYTES, b"\0")

    def watched_hosts(self) -> WatchedHosts | None:
        """The worst hosts as noted last by any worker, alive or not; None before the first note.

        A note that is just being written, or was broken off, is passed over.
        """
        for each in self._hosts:
            noted = bytes(each)
            seconds, checksum, length = _HOSTS.unpack_from(noted)
            content = noted[_HOSTS.size : _HOSTS.size + length]
            if length and seconds > self._hosts_read[0] and zlib.crc32(content) == checksum:
                beyond, worst = orjson.loads(content)
                self._hosts_read = (seconds, WatchedHosts([HostShare(*share) for share in worst], beyond))
        return self._hosts_read[1]

    def state(self, worker: int) -> State:
        """State that the worker entered last."""
        number: int = self._states[worker]
        return _STATES[number]

    def step(self, worker: int) -> str:
        """Step that the worker entered last."""
        number: int = self._steps[worker]
        return STEPS[number]

    def batch_age_seconds(self, worker: int) -> float:
        """Seconds since the batch under way was read; 0 where none is under way."""
        return self._age_seconds(self._batch_read[worker]) or 0.0

    def contact_age_seconds(self, worker: int) -> float | None:
        """Seconds since the worker, or the one before it, last had an answer from the brokers; None if none ever had."""
        return self._age_seconds(self._contact[worker])

    @staticmethod
    def _age_seconds(since_seconds: float) -> float | None:
        return None if since_seconds == _NEVER else max(0.0, time.monotonic() - since_seconds)

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


def _write_partitions(board: Any, partitions: Sequence[int]) -> None:
    named = [partition + 1 for partition in partitions[:PARTITIONS_NAMED_MAX]]
    board[:] = named + [0] * (PARTITIONS_NAMED_MAX - len(named))


def _partitions_in(board: Any) -> list[int]:
    return sorted(number - 1 for number in board[:] if number)
