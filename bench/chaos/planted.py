"""Negative control: errors planted into the topics of a finished run, which the checks must find."""

from kafka import KafkaProducer

from bench.chaos.checks import counted_again, said_by_verify, topic_problems
from bench.chaos.ledger import POSITION
from bench.chaos.recount import read
from bench.chaos.world import INPUT, World

_NOWHERE = 0, 10**9
_ANSWER_SECONDS = 30


def missed(world: World) -> list[str]:
    """Plant a copy of an output, an output of no input, an input that nobody reads, and where there is a duplicate, a duplicate
    of it; returns what stays unnoticed.

    The services have stopped, and the checks have found nothing.
    """
    by_ledger, lines = _plant(world)
    in_ledger, again, verified = (
        topic_problems(world),
        "\n".join(counted_again(world)),
        "\n".join(said_by_verify(world)),
    )
    unnoticed = [f"planted, and not found: {line}" for line in by_ledger if line not in in_ledger]
    for name, text in (("the second count", again), ("`streamer verify`", verified)):
        unnoticed += [f"planted, and not found by {name}: {line}" for line in lines if line not in text]
    return unnoticed


def _plant(world: World) -> tuple[list[str], list[str]]:
    """Plant the errors. Returns the lines that the ledger must say of them, and what both other checks must say."""
    place, (destination, _) = next(iter(world.ledger.outputs.items()))
    topic = world.run.topic(destination)
    producer = KafkaProducer(bootstrap_servers=world.run.bootstrap_servers)
    for partition, offset in (place, _NOWHERE):
        headers = [(POSITION, f"{INPUT}/{partition}/{offset}".encode()), *_stream(world)]
        producer.send(topic, b"planted", headers=headers).get(timeout=_ANSWER_SECONDS)
    lost = producer.send(INPUT, b"nobody is there to read this", partition=0).get(timeout=_ANSWER_SECONDS)
    named = _plant_duplicate_of_duplicate(world, producer)
    producer.close()
    by_ledger = [
        f"{place} came out as {destination}, and again as {destination}",
        f"{_NOWHERE} came out and never went in",
        f"{(0, lost.offset)} never came out",
    ]
    return by_ledger, [f"{INPUT}/{place[0]}/{place[1]}", f"{INPUT}/{_NOWHERE[0]}/{_NOWHERE[1]}", *named]


def _stream(world: World) -> list[tuple[str, bytes]]:
    """Header that names the input for good, as every output has it."""
    outputs = read(world.run.bootstrap_servers, world.run.topic("unique"))
    return [header for header in outputs[0].headers if header[0] == "neardup.stream"]


def _plant_duplicate_of_duplicate(world: World, producer: KafkaProducer) -> list[str]:
    """Plant a document whose output names a duplicate as its original. Returns what must be said of it."""
    servers = world.run.bootstrap_servers
    uniques, duplicates = (read(servers, world.run.topic(name)) for name in ("unique", "duplicate"))
    replaced = {each.own.get("neardup.original.position") for each in uniques}
    for each in duplicates:
        if each.own["neardup.original.position"] not in replaced:
            break
    else:
        return []
    sent = producer.send(INPUT, each.value, each.key, partition=0, timestamp_ms=each.timestamp_ms or None)
    planted = f"{INPUT}/0/{sent.get(timeout=_ANSWER_SECONDS).offset}"
    names = {
        POSITION: planted,
        "neardup.original.position": each.own[POSITION],
        "neardup.original.id": each.own["neardup.id"],
    }
    headers = [(name, names[name].encode() if name in names else value) for name, value in each.headers]
    producer.send(world.run.topic("duplicate"), each.value, each.key, headers=headers).get(timeout=_ANSWER_SECONDS)
    return [f"{planted}: names {each.own[POSITION]}"]
