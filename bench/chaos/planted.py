"""Negative control: errors planted into the topics of a finished run, which the checks must find."""

from kafka import KafkaProducer

from bench.chaos.checks import said_by_verify, topic_problems
from bench.chaos.ledger import POSITION
from bench.chaos.world import INPUT, World

_NOWHERE = 0, 10**9
_ANSWER_SECONDS = 30


def missed(world: World) -> list[str]:
    """Plant a copy of an output, an output of no input and an input that nobody reads; returns what stays unnoticed.

    The services have stopped, and the checks have found nothing.
    """
    expected = _plant(world)
    found = topic_problems(world)
    unnoticed = [f"planted, and not found: {line}" for line in expected if line not in found]
    if not said_by_verify(world):
        unnoticed.append("errors were planted, and `streamer verify` finds everything sound")
    return unnoticed


def _plant(world: World) -> list[str]:
    """Plant the three errors. Returns the lines that the checks must say of them."""
    place, (destination, _) = next(iter(world.ledger.outputs.items()))
    topic = world.run.topic(destination)
    producer = KafkaProducer(bootstrap_servers=world.run.bootstrap_servers)
    for partition, offset in (place, _NOWHERE):
        headers = [(POSITION, f"{INPUT}/{partition}/{offset}".encode())]
        producer.send(topic, b"planted", headers=headers).get(timeout=_ANSWER_SECONDS)
    lost = producer.send(INPUT, b"nobody is there to read this", partition=0).get(timeout=_ANSWER_SECONDS)
    producer.close()
    return [
        f"{place} came out as {destination}, and again as {destination}",
        f"{_NOWHERE} came out and never went in",
        f"{(0, lost.offset)} never came out",
    ]
