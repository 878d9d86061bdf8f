"""Workers' heartbeats in memory shared with the supervisor: state, step, progress and observations."""

import multiprocessing
import pickle
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.context import SpawnContext
from typing import Any

from index import WatchedHosts
from streamer.observe.batch_report import STEPS
from streamer.service.state import State
from streamer.workers.readiness import GroupSeen, WorkerSeen

BEAT_BYTES = 2**14
"""Room for ten hosts with names of 80 characters and their numbers, and some hundred partitions."""

STRANGERS_NAMED_MAX = 5
_STRANGER_CHARACTERS_MAX = 160
PARTITIONS_NAMED_MAX = 256
"""Most group members and partitions that a worker names."""

_HEAD = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker's state and observations; seconds on the monotonic clock, None before the first event.

    progress      last progress or launch
    first_report  of this process
    batch_read    start of the current batch; None without one
    contact       last answer from the brokers to the worker or its predecessor
    owing         last time at which no records were owed, as far as seen; None if none are owed
    owed          their partitions, ascending
    hosts_noted   time of `hosts`, the index's worst ones

    >>> Beat().state.value
    'stopped'
    """

    state: State = State.STOPPED
    step: str = STEPS[0]
    progress: float = 0.0
    first_report: float | None = None
    batch_read: float | None = None
    contact: float | None = None
    owing: float | None = None
    owed: tuple[int, ...] = ()
    group: GroupSeen = field(default_factory=GroupSeen)
    hosts: WatchedHosts | None = None
    hosts_noted: float = 0.0


_IDLE: dict[str, Any] = {"step": STEPS[0], "batch_read": None, "owing": None, "owed": (), "group": GroupSeen()}
"""Observations of a process that does not run."""


class Heartbeats:
    """The last beat of each worker. One process at a time writes a worker's.

    >>> heartbeats = Heartbeats(2)
    >>> heartbeats.enter(1, State.RUNNING)
    >>> [heartbeats.of(worker).state.value for worker in range(2)]
    ['stopped', 'running']
    """

    def __init__(self, count: int, context: SpawnContext | None = None) -> None:
        chosen = context or multiprocessing.get_context("spawn")
        self._memory = [chosen.Array("B", bytes(BEAT_BYTES), lock=False) for _ in range(count)]
        self._last = [(bytes(_HEAD.size), Beat())] * count

    def of(self, worker: int) -> Beat:
        """Last beat; an earlier one during or after an interrupted write."""
        memory = memoryview(self._memory[worker]).cast("B")
        head = bytes(memory[: _HEAD.size])
        if head != self._last[worker][0]:
            checksum, length = _HEAD.unpack(head)
            content = bytes(memory[_HEAD.size : _HEAD.size + length])
            if zlib.crc32(content) == checksum:
                self._last[worker] = head, pickle.loads(content)
        return self._last[worker][1]

    def launch(self, worker: int) -> None:
        """Record the start of a worker's process, which has reported nothing yet."""
        self._change(worker, state=State.STARTING, progress=time.monotonic(), first_report=None, **_IDLE)

    def enter(self, worker: int, state: State) -> None:
        """Record a worker's new state as progress. Its observations end unless it runs."""
        self._change(worker, state=state, **({} if state is State.RUNNING else _IDLE))
        self.beat(worker)

    def beat(self, worker: int) -> None:
        """Record progress."""
        now_seconds = time.monotonic()
        self._change(worker, progress=now_seconds, first_report=self.of(worker).first_report or now_seconds)

    def enter_step(self, worker: int, step: str) -> None:
        """Record the next step in STEPS; in all but the first, read, a batch is under way.

        Its records are owed since the last answer before it: while brokers are silent, records can wait unseen.
        """
        beat = self.of(worker)
        if step == STEPS[0]:
            self._change(worker, step=step, batch_read=None)
        else:
            begin = beat.batch_read or time.monotonic()
            self._change(worker, step=step, batch_read=begin, owing=beat.owing or beat.contact or begin)

    def note_contact(self, worker: int, seconds: float | None) -> None:
        """Record the brokers' last answer in monotonic seconds; None changes nothing."""
        if seconds is not None:
            self._change(worker, contact=seconds)

    def note_owed(self, worker: int, partitions: Sequence[int] | None) -> None:
        """Record partitions that the worker has yet to deliver, the first few; none after a delivery.

        None changes nothing: who owed before a rebalance, or before a silence, still does.
        """
        if partitions is not None:
            since = (self.of(worker).owing or time.monotonic()) if partitions else None
            self._change(worker, owing=since, owed=tuple(sorted(partitions)[:PARTITIONS_NAMED_MAX]))

    def note_group(self, worker: int, seen: GroupSeen) -> None:
        """Record the first few problems of each kind."""
        strangers = [words[:_STRANGER_CHARACTERS_MAX] for words in seen.strangers[:STRANGERS_NAMED_MAX]]
        self._change(worker, group=GroupSeen(seen.unowned[:PARTITIONS_NAMED_MAX], tuple(strangers)))

    def note_hosts(self, worker: int, watched: WatchedHosts) -> None:
        """Record the index's worst hosts. Raises ValueError if they do not fit."""
        self._change(worker, hosts=watched, hosts_noted=time.monotonic())

    def group(self, workers: Iterable[int] | None = None) -> GroupSeen:
        """Group problems that any of these workers has observed; None: any worker."""
        seen = [self.of(worker).group for worker in (range(len(self._last)) if workers is None else workers)]
        return GroupSeen(
            tuple(sorted({partition for each in seen for partition in each.unowned})),
            tuple(dict.fromkeys(words for each in seen for words in each.strangers)),
        )

    def watched_hosts(self) -> WatchedHosts | None:
        """Latest worst hosts from any worker, alive or not; None before the first."""
        return max(map(self.of, range(len(self._last))), key=lambda beat: beat.hosts_noted).hosts

    def seen(self, worker: int) -> WorkerSeen:
        """A worker's beat, without facts on its process."""
        beat = self.of(worker)
        return WorkerSeen(
            number=worker,
            state=beat.state,
            step=beat.step,
            batch_age_seconds=_age_seconds(beat.batch_read) or 0.0,
            contact_age_seconds=_age_seconds(beat.contact),
            owed=beat.owed,
            owing_seconds=_age_seconds(beat.owing) or 0.0,
        )

    def reported(self, worker: int) -> bool:
        """Whether the worker has reported anything since its launch."""
        return self.of(worker).first_report is not None

    def steady_ms(self, worker: int) -> float:
        """Milliseconds from first report to last progress; 0 before the first."""
        beat = self.of(worker)
        return 0.0 if beat.first_report is None else (beat.progress - beat.first_report) * 1000

    def silent_ms(self, worker: int) -> float:
        """Milliseconds since the last progress or launch."""
        return (time.monotonic() - self.of(worker).progress) * 1000

    def _change(self, worker: int, **fields: Any) -> None:
        beat = replace(self.of(worker), **fields)
        content = pickle.dumps(beat)
        if len(content) > BEAT_BYTES - _HEAD.size:
            raise ValueError(f"a beat of {len(content)} bytes does not fit into {BEAT_BYTES}")
        head = _HEAD.pack(zlib.crc32(content), len(content))
        memoryview(self._memory[worker]).cast("B")[: _HEAD.size + len(content)] = head + content
        self._last[worker] = head, beat


def _age_seconds(since_seconds: float | None) -> float | None:
    return None if since_seconds is None else max(0.0, time.monotonic() - since_seconds)
