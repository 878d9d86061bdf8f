"""Faults from outside: rivals in the group, more partitions, and transactions that others leave open."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kafka import KafkaProducer
from kafka.errors import KafkaError

from bench.chaos.world import INPUT, PARTITIONS_MAX, Service, World

_PATIENCE_SECONDS = 60.0
_FINISH_SECONDS = 3.0
_ARRIVAL_SECONDS = 30.0
_RUNNING = "state=running"


def rival_of_the_same_name(world: World, chance: random.Random) -> None:
    """A service that somebody starts twice: each fences the other until one of them goes."""
    chosen = world.chosen_service(chance)
    _visit(world.service(chosen.instance, chosen.part), chance)


def rival_of_another_name(world: World, chance: random.Random) -> None:
    """A service that joins the group, takes some partitions, and leaves them behind."""
    _visit(world.service(f"guest-{chance.randrange(1_000)}", world.chosen_service(chance).part), chance)


def _visit(rival: Service, chance: random.Random) -> None:
    # A log of its own: another life under the same name would look like its arrival.
    rival.log = rival.log.with_name(f"rival-{rival.name}-{time.time_ns()}.log")
    rival.start()
    try:
        deadline = time.monotonic() + _ARRIVAL_SECONDS
        # Two of the same name may never be ready at once: they fence each other. But the rival runs for a moment.
        while _RUNNING not in rival.log_tail() and rival.supervisor.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 4))
        if chance.random() < 0.5 and rival.supervisor.poll() is None:
            rival.stop()
    finally:
        rival.kill()


def second_service_comes_or_goes(world: World, chance: random.Random) -> None:
    """A second service, or part, over the same index: it stays for the faults to come, until the next fault of this kind."""
    if world.second is None:
        world.second = world.service("10", chance.choice(world.parts))
        world.second.start()
        world.services.append(world.second)
        return
    second, world.second = world.second, None
    world.services.remove(second)
    if chance.random() < 0.5:
        second.stop()
    second.kill()


def why_no_partition_can_be_added(world: World) -> str:
    if world.partitions == 1:
        return "the run is to keep one partition"
    return "" if world.traffic.partitions < PARTITIONS_MAX else f"there are {PARTITIONS_MAX} already"


def partition_added(world: World, _: random.Random) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            world.add_partition()
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def transaction_left_open_in_input(world: World, chance: random.Random) -> None:
    """A crawler's transaction that stays open for a while; its records count only if it commits."""
    _leave_open(world, INPUT, chance.randrange(world.traffic.partitions), chance, ("commit", "abort", "forget"))


def transaction_left_open_in_output(world: World, chance: random.Random) -> None:
    """Somebody writes to an output and dies: nobody reads past it until the broker aborts what is open."""
    _leave_open(world, chance.choice(world.outputs), 0, chance, ("abort", "forget"))


def _leave_open(world: World, topic: str, partition: int, chance: random.Random, ends: tuple[str, ...]) -> None:
    try:
        producer = KafkaProducer(
            bootstrap_servers=world.servers,
            transactional_id=f"stranger-{chance.randrange(2**32)}",
            transaction_timeout_ms=3_000,
            max_block_ms=3_000,
            request_timeout_ms=2_000,
            delivery_timeout_ms=3_000,
        )
    except KafkaError:
        # The broker is away as well: then there is nobody to leave a transaction to.
        return
    try:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(3):
            producer.send(
                topic, value=f'{{"id": "open-{number}", "text": "of a stranger"}}'.encode(), partition=partition
            )
        producer.flush(timeout=3)
        time.sleep(chance.uniform(0.2, 2))
        end = chance.choice(ends)
        if end != "forget":
            finish = producer.commit_transaction if end == "commit" else producer.abort_transaction
            # On a thread of its own: the client may wait for ever where the broker goes away meanwhile.
            attempt = threading.Thread(target=_finish, args=(finish,), daemon=True)
            attempt.start()
            attempt.join(_FINISH_SECONDS)
    except KafkaError:
        # The broker is away as well: then the transaction is left to it.
        return
    finally:
        world.strangers.append(producer)
        producer._sender.force_close()


def _finish(finish: Callable[[], None]) -> None:
    with suppress(KafkaError):
        finish()
