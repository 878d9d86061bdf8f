"""Faults of one of the brokers: killed, killed again while it recovers, suspended, restarted, relieved of its leaders."""

import random
import time
from contextlib import suppress

from kafka import TopicPartition
from kafka.errors import KafkaError

from bench.chaos.world import INPUT, World
from deploy.local_kafka import LocalKafkaError


def killed(world: World, chance: random.Random) -> None:
    broker = chance.choice(world.brokers)
    broker.kill()
    time.sleep(chance.uniform(0, 1) if len(world.brokers) == 1 else chance.uniform(0, 8))
    broker.start()


def killed_twice(world: World, chance: random.Random) -> None:
    """Killed, and killed again at any moment of its recovery."""
    broker = chance.choice(world.brokers)
    broker.kill()
    with suppress(LocalKafkaError):
        # What is not ready in time is killed.
        broker.start(timeout_seconds=chance.uniform(0.5, 5))
    broker.kill()
    broker.start()


def suspended(world: World, chance: random.Random) -> None:
    """Connections stay, and nothing answers: for a moment, or for longer than a delivery may take."""
    broker = chance.choice(world.brokers)
    broker.suspend()
    time.sleep(chance.choice((chance.uniform(0.2, 2), chance.uniform(3, 6))))
    broker.resume()


def restarted_in_order(world: World, chance: random.Random) -> None:
    broker = chance.choice(world.brokers)
    broker.stop()
    broker.start()


def why_no_leaders_can_be_moved(world: World) -> str:
    return "" if world.broker_count > 1 else "there is one broker: run with --brokers 3"


def leaders_moved(world: World, chance: random.Random) -> None:
    """The input, the outputs and the topics of groups and transactions get other leaders, all at once."""
    topics = [INPUT, *world.outputs, "__consumer_offsets", "__transaction_state"]
    with suppress(KafkaError), world.admin() as admin:
        described = [topic for topic in admin.describe_topics(list(dict.fromkeys(topics))) if topic["error_code"] == 0]
        # A change of the replicas' order makes the first the preferred leader.
        admin.alter_partition_reassignments(
            {
                TopicPartition(topic["name"], partition["partition_index"]): _shuffled(
                    partition["replica_nodes"], chance
                )
                for topic in described
                for partition in topic["partitions"]
            }
        )
        # Preferred leaders, where they are not yet.
        admin.elect_leaders(0, raise_errors=False)


def _shuffled(nodes: list[int], chance: random.Random) -> list[int]:
    return chance.sample(nodes, len(nodes))
