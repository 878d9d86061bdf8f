"""Faults of the broker: killed, killed again while it recovers, suspended, restarted."""

import random
import time
from contextlib import suppress

from bench.chaos.world import World
from deploy.local_kafka import LocalKafkaError


def killed(world: World, chance: random.Random) -> None:
    world.broker.kill()
    time.sleep(chance.uniform(0, 1))
    world.broker.start()


def killed_twice(world: World, chance: random.Random) -> None:
    """Killed, and killed again at any moment of its recovery."""
    world.broker.kill()
    with suppress(LocalKafkaError):
        # What is not ready in time is killed.
        world.broker.start(timeout_seconds=chance.uniform(0.5, 5))
    world.broker.kill()
    world.broker.start()


def suspended(world: World, chance: random.Random) -> None:
    """Connections stay, and nothing answers: for a moment, or for longer than a delivery may take."""
    world.broker.suspend()
    time.sleep(chance.choice((chance.uniform(0.2, 2), chance.uniform(3, 6))))
    world.broker.resume()


def restarted_in_order(world: World, _: random.Random) -> None:
    world.broker.stop()
    world.broker.start()
