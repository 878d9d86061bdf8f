"""Faults one after another, sometimes two at once, and how long the service takes to be well again after each."""

import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import psutil
from kafka.errors import KafkaError

from bench.chaos.kinds import ANSWERED_ELSEWHERE, KINDS, SECOND_SERVICE, Kind
from bench.chaos.world import Stuck, World
from deploy.local_kafka import LocalKafkaError

AT_ONCE_WEIGHTS = (8, 5, 4, 2)
"""How often one fault, two, three and four strike at once. Faults at once have no part of the world in common."""

_APART_SECONDS = 3.0
"""Faults at once begin at most this long after the first."""

_FAULT_SECONDS_MAX = 180.0

_SECOND_GOES = 0.25
"""Chance that a second service goes with the next fault: two of them start half as fast."""

TROUBLE = (Stuck, KafkaError, LocalKafkaError, OSError, psutil.Error, subprocess.SubprocessError)
"""What may come of a fault, or of looking at its consequences; it ends the run, whose table is still printed."""


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault, or some at once: their kinds, how long they lasted, and the seconds from their end to recovery."""

    kinds: tuple[str, ...]
    fault_seconds: float
    recovery_seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """The fault after which the run came to its end."""

    kinds: tuple[str, ...]
    number: int
    message: str


def choose(world: World, names: Sequence[str], chance: random.Random, left: int) -> tuple[str, ...]:
    """Names of the next faults, by weight: at most `left`. Empty where none of the kinds can be had now."""
    possible = {name: KINDS[name] for name in names if not KINDS[name].obstacle(world)}
    wanted = min(left, chance.choices(range(1, len(AT_ONCE_WEIGHTS) + 1), AT_ONCE_WEIGHTS)[0])
    chosen: list[str] = []
    while possible and len(chosen) < wanted:
        chosen.append(_weighted(possible, chance))
        taken = KINDS[chosen[-1]].parts
        possible = {name: kind for name, kind in possible.items() if not kind.parts & taken}
    return tuple(chosen)


def _weighted(kinds: dict[str, Kind], chance: random.Random) -> str:
    return chance.choices(list(kinds), [kind.weight for kind in kinds.values()])[0]


def strike(world: World, names: Sequence[str], chance: random.Random) -> Struck:
    """Let faults happen, at the same time where there are several, and wait until the service is well. Raises Stuck."""
    with world.readiness.excused() if ANSWERED_ELSEWHERE & set(names) else nullcontext():
        return _strike(world, names, chance)


def _strike(world: World, names: Sequence[str], chance: random.Random) -> Struck:
    begin = time.monotonic()
    # Each has random numbers of its own: threads would take common ones in any order.
    seeds = [chance.randrange(2**32) for _ in names]
    faults = [_Fault(world, name, seed, rank) for rank, (name, seed) in enumerate(zip(names, seeds, strict=True))]
    for fault in faults:
        fault.start()
    while any(fault.is_alive() for fault in faults):
        world.watch()
        if time.monotonic() - begin > _FAULT_SECONDS_MAX:
            raise Stuck(f"the fault itself did not end within {_FAULT_SECONDS_MAX:g} s")
    for fault in faults:
        if fault.error is not None:
            raise fault.error
    ended = time.monotonic()
    return Struck(tuple(names), ended - begin, world.recover())


class _Fault(threading.Thread):
    """One fault on a thread of its own. Daemonic: one that never ends must not keep the run from ending."""

    def __init__(self, world: World, name: str, seed: int, rank: int) -> None:
        super().__init__(name=name, daemon=True)
        self._world, self._kind, self._rank = world, KINDS[name], rank
        self._chance = random.Random(seed)
        self.error: Exception | None = None

    def run(self) -> None:
        if self._rank:
            time.sleep(self._chance.uniform(0, _APART_SECONDS))
        try:
            self._kind.strike(self._world, self._chance)
        except TROUBLE as error:
            self.error = error


def run_faults(
    world: World,
    names: Sequence[str],
    count: int,
    seconds_max: float,
    chance: random.Random,
    told: Callable[[Struck], None],
) -> Failure | None:
    """Strike until `count` faults have happened, the time is over, or the service does not come back.

    Every kind comes once before any comes twice, as far as `count` goes. `told` is called after every recovery.
    """
    deadline = time.monotonic() + seconds_max
    first_round = list(names)
    chance.shuffle(first_round)
    done = 0
    while done < count and time.monotonic() < deadline:
        chosen: tuple[str, ...]
        if world.second is not None and chance.random() < _SECOND_GOES:
            chosen = (SECOND_SERVICE,)
        elif first_round:
            name = first_round.pop()
            chosen = () if KINDS[name].obstacle(world) else (name,)
            if not chosen:
                continue
        else:
            chosen = choose(world, names, chance, count - done)
        if not chosen:
            break
        done += len(chosen)
        try:
            told(strike(world, chosen, chance))
        except TROUBLE as error:
            return Failure(chosen, done, f"{type(error).__name__}: {error}")
    return None
