"""Workers' heartbeats in memory shared with the supervisor: state, step, progress and observations."""

import multiprocessing
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from multiprocessing.context import SpawnContext
from typing import Any

import orjson

from index import HostShare, WatchedHosts
from streamer.observe.batch_report import STEPS
from streamer.service.loop import State
from streamer.service.readiness import GroupSeen

_STATES = tuple(State)
_NEVER = -1.0
_READ = 0

NOTE_BYTES = 2**13
"""Room for ten hosts with names of 80 characters and their numbers, or some hundred partitions."""

STRANGERS_NAMED_MAX = 5
_STRANGER_CHARACTERS_MAX = 160
PARTITIONS_NAMED_MAX = 256
"""Most group members and partitions that a worker names."""

_HEAD = struct.Struct("<dII")


class SharedNote:
    """JSON value in shared memory, with time and checksum. One process writes, others read."""

    def __init__(self, context: SpawnContext) -> None:
        self._memory = context.Array("B", [0] * NOTE_BYTES, lock=False)

    def write(self, value: Any) -> None:
        """Replace the value. Raises ValueError if it does not fit."""
        content = orjson.dumps(value)
        if len(content) > NOTE_BYTES - _HEAD.size:
            raise ValueError(f"a note of {len(content)} bytes does not fit into {NOTE_BYTES}")
        head = _HEAD.pack(time.monotonic(), zlib.crc32(content), len(content))
        self._memory[:] = (head + content).ljust(NOTE_BYTES, b"\0")

    def read(self) -> tuple[float, Any] | None:
        """Monotonic time and value; None before the first, and during or after an interrupted write."""
        noted = bytes(self._memory)
        seconds, checksum, length = _HEAD.unpack_from(noted)
        content = noted[_HEAD.size : _HEAD.size + length]
        return (seconds, orjson.loads(content)) if length and zlib.crc32(content) == checksum else None


class Heartbeats:
    """State and monotonic time of the last progress, per worker."""

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._states = chosen.Array("b", [_STATES.index(State.STOPPED)] * count, lock=False)
        self._progress = chosen.Array("d", [0.0] * count, lock=False)
        self._first_report = chosen.Array("d", [_NEVER] * count, lock=False)
        self._steps = chosen.Array("b", [_READ] * count, lock=False)
        self._batch_read = chosen.Array("d", [_NEVER] * count, lock=False)
        self._contact = chosen.Array("d", [_NEVER] * count, lock=False)
        self._hosts = [SharedNote(chosen) for _ in range(count)]
        self._hosts_read: tuple[float, WatchedHosts | None] = (_NEVER, None)
        self._group = [SharedNote(chosen) for _ in range(count)]
        self._group_read = [GroupSeen()] * count
        self._owed = [SharedNote(chosen) for _ in range(count)]
        self._owing = chosen.Array("d", [_NEVER] * count, lock=False)

    def launch(self, worker: int) -> None:
        """Record the start of a worker's process, which has reported nothing yet."""
        self._states[worker] = _STATES.index(State.STARTING)
        self._first_report[worker] = _NEVER
        self._progress[worker] = time.monotonic()
        self.enter_step(worker, STEPS[_READ])
        self.note_group(worker, GroupSeen())
        self.note_owed(worker, [])

    def enter(self, worker: int, state: State) -> None:
        """Record a worker's new state as progress. Its observations end unless it runs."""
        self._states[worker] = _STATES.index(state)
        if state is not State.RUNNING:
            self.enter_step(worker, STEPS[_READ])
            self.note_group(worker, GroupSeen())
            self.note_owed(worker, [])
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Record progress."""
        now_seconds = time.monotonic()
        self._progress[worker] = now_seconds
        if self._first_report[worker] == _NEVER:
            self._first_report[worker] = now_seconds

    def enter_step(self, worker: int, step: str) -> None:
        """Record the next step in STEPS; in all but the first, read, a batch is under way."""
        number = STEPS.index(step)
        self._steps[worker] = number
        if number == _READ:
            self._batch_read[worker] = _NEVER
        elif self._batch_read[worker] == _NEVER:
            self._batch_read[worker] = time.monotonic()

    def note_contact(self, worker: int, seconds: float | None) -> None:
        """Record the brokers' last answer in monotonic seconds; None changes nothing."""
        if seconds is not None:
            self._contact[worker] = seconds

    def note_owed(self, worker: int, partitions: Sequence[int]) -> None:
        """Record partitions that the worker has yet to deliver, the first few; none after a delivery."""
        if not partitions:
            self._owing[worker] = _NEVER
        elif self._owing[worker] == _NEVER:
            self._owing[worker] = time.monotonic()
        self._owed[worker].write(sorted(partitions)[:PARTITIONS_NAMED_MAX])

    def owed(self, worker: int) -> list[int]:
        """Owed partitions, ascending."""
        noted = self._owed[worker].read()
        return [] if noted is None else list(noted[1])

    def owing_seconds(self, worker: int) -> float:
        """Seconds with owed records and without a delivery; 0 if the worker owes none."""
        return self._age_seconds(self._owing[worker]) or 0.0

    def note_group(self, worker: int, seen: GroupSeen) -> None:
        """Record problems with the group; keeps the first few of each kind."""
        strangers = [words[:_STRANGER_CHARACTERS_MAX] for words in seen.strangers[:STRANGERS_NAMED_MAX]]
        self._group[worker].write([seen.unowned[:PARTITIONS_NAMED_MAX], strangers])

    def group(self, workers: Iterable[int] | None = None) -> GroupSeen:
        """Group problems that any of these workers has observed; None: any worker."""
        chosen = range(len(self._group)) if workers is None else list(workers)
        for worker in chosen:
            if (noted := self._group[worker].read()) is not None:
                self._group_read[worker] = GroupSeen(*map(tuple, noted[1]))
        seen = [self._group_read[worker] for worker in chosen]
        return GroupSeen(
            tuple(sorted({partition for each in seen for partition in each.unowned})),
            tuple(dict.fromkeys(words for each in seen for words in each.strangers)),
        )

    def note_hosts(self, worker: int, watched: WatchedHosts) -> None:
        """Record the index's worst hosts."""
        self._hosts[worker].write([watched.beyond, [tuple(share) for share in watched.worst]])

    def watched_hosts(self) -> WatchedHosts | None:
        """Latest worst hosts from any worker, alive or not; None before the first."""
        for each in self._hosts:
            if (noted := each.read()) is not None and noted[0] > self._hosts_read[0]:
                beyond, worst = noted[1]
                self._hosts_read = (noted[0], WatchedHosts([HostShare(*share) for share in worst], beyond))
        return self._hosts_read[1]

    def state(self, worker: int) -> State:
        """Last state."""
        number: int = self._states[worker]
        return _STATES[number]

    def step(self, worker: int) -> str:
        """Last step."""
        number: int = self._steps[worker]
        return STEPS[number]

    def batch_age_seconds(self, worker: int) -> float:
        """Seconds since the current batch was read; 0 without one."""
        return self._age_seconds(self._batch_read[worker]) or 0.0

    def contact_age_seconds(self, worker: int) -> float | None:
        """Seconds since the brokers' last answer to the worker or its predecessor; None without any."""
        return self._age_seconds(self._contact[worker])

    @staticmethod
    def _age_seconds(since_seconds: float) -> float | None:
        return None if since_seconds == _NEVER else max(0.0, time.monotonic() - since_seconds)

    def reported(self, worker: int) -> bool:
        """Whether the worker has reported anything since its launch."""
        first_seconds: float = self._first_report[worker]
        return first_seconds != _NEVER

    def steady_ms(self, worker: int) -> float:
        """Milliseconds from first report to last progress; 0 before the first."""
        first_seconds: float = self._first_report[worker]
        last_seconds: float = self._progress[worker]
        return (last_seconds - first_seconds) * 1000 if first_seconds != _NEVER else 0.0

    def silent_ms(self, worker: int) -> float:
        """Milliseconds since the last progress or launch."""
        last_seconds: float = self._progress[worker]
        return (time.monotonic() - last_seconds) * 1000
