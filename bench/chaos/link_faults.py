"""Faults of the links between service and broker, by the proxy."""

import random
import time

from bench.chaos.proxy import DIRECTIONS, Direction
from bench.chaos.world import World

_MESSAGE_SECONDS = 3.0


def cut(world: World, chance: random.Random) -> None:
    """All connections at once, up to three times in a row."""
    for _ in range(chance.randint(1, 3)):
        world.proxy.cut()
        time.sleep(chance.uniform(0, 0.3))


def cut_inside_a_message(world: World, chance: random.Random) -> None:
    direction = chance.choice(DIRECTIONS)
    world.proxy.cut_inside(direction, chance.choice((chance.randint(0, 60), chance.randint(0, 20_000))))
    deadline = time.monotonic() + _MESSAGE_SECONDS
    while not world.proxy.was_cut_inside(direction) and time.monotonic() < deadline:
        time.sleep(0.02)
    world.proxy.heal()


def stalled(world: World, chance: random.Random) -> None:
    _stalled(world, chance, DIRECTIONS)


def stalled_one_way(world: World, chance: random.Random) -> None:
    _stalled(world, chance, (chance.choice(DIRECTIONS),))


def _stalled(world: World, chance: random.Random, directions: tuple[Direction, ...]) -> None:
    """For a moment, or for longer than a delivery may take."""
    world.proxy.stall(*directions)
    time.sleep(chance.choice((chance.uniform(0.2, 1.5), chance.uniform(0.2, 1.5), chance.uniform(3, 6))))
    world.proxy.heal()


def half_open(world: World, chance: random.Random) -> None:
    """The broker's ends are gone, and the service is not told: it has to find out by silence."""
    world.proxy.halve()
    time.sleep(chance.uniform(0, 1))


def refused(world: World, chance: random.Random) -> None:
    world.proxy.refuse()
    time.sleep(chance.choice((chance.uniform(0.2, 1.5), chance.uniform(2, 5))))
    world.proxy.heal()


def slow(world: World, chance: random.Random) -> None:
    world.proxy.slow_down(chance.uniform(0.05, 0.4), chance.choice((5_000, 50_000, 500_000)))
    time.sleep(chance.uniform(1, 4))
    world.proxy.heal()
