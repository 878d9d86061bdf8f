"""Faults of the service's own processes: killed, suspended, stopped, and with a clock that jumps."""

import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
from kafka.errors import KafkaError

from bench.chaos.traffic import PatientProducer, Sent
from bench.chaos.world import INPUT, Service, Stuck, World
from streamer.settings.settings import Workers

_SESSION_SECONDS = 5.0
_NEW_WORKER_SECONDS = 20.0


def everything_killed(world: World, chance: random.Random) -> None:
    service = world.chosen_service(chance)
    service.kill()
    service.start()


def supervisor_killed(world: World, chance: random.Random) -> None:
    """kill -9 the supervisor alone: its workers must notice, and a new service starts beside them meanwhile."""
    service = world.chosen_service(chance)
    service.supervisor.kill()
    service.supervisor.wait()
    service.start()


def worker_killed(world: World, chance: random.Random) -> None:
    kill_one(world.chosen_service(chance), chance)


def kill_one(service: Service, chance: random.Random) -> None:
    """kill -9 one worker, if any lives."""
    if workers := service.workers():
        chance.choice(workers).kill()


def killed_while_starting(world: World, chance: random.Random) -> None:
    service = world.chosen_service(chance)
    for _ in range(chance.randint(1, 2)):
        service.kill()
        service.start()
        time.sleep(chance.uniform(0, 4))
    service.kill()
    service.start()


def worker_killed_while_starting(world: World, chance: random.Random) -> None:
    service = world.chosen_service(chance)
    before = {worker.pid for worker in service.workers()}
    kill_one(service, chance)
    deadline = time.monotonic() + _NEW_WORKER_SECONDS
    while not (young := [worker for worker in service.workers() if worker.pid not in before]):
        if time.monotonic() > deadline:
            raise Stuck(f"no worker was started within {_NEW_WORKER_SECONDS:g} s:\n{service.log_tail()}")
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 4))
    for worker in young:
        if worker.is_running():
            worker.kill()


def suspend(processes: list[psutil.Process], seconds: float) -> None:
    """Freeze processes for a while. One that somebody kills meanwhile stays dead."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in processes:
            if process.is_running():
                process.send_signal(number)
        if number is signal.SIGSTOP:
            time.sleep(seconds)


def worker_suspended(world: World, chance: random.Random) -> None:
    workers = world.chosen_service(chance).workers()
    suspend(chance.sample(workers, min(1, len(workers))), chance.uniform(0.2, 3))


def worker_suspended_past_session(world: World, chance: random.Random) -> None:
    """Longer than the session: the group gives its partitions to others. Or so long that the supervisor kills it."""
    workers = world.chosen_service(chance).workers()
    suspend(chance.sample(workers, min(1, len(workers))), chance.uniform(_SESSION_SECONDS + 1, _SESSION_SECONDS + 4))


def supervisor_suspended(world: World, chance: random.Random) -> None:
    suspend([psutil.Process(world.chosen_service(chance).supervisor.pid)], chance.uniform(0.2, 3))


def everything_suspended(world: World, chance: random.Random) -> None:
    """As when a virtual machine is paused."""
    service = world.chosen_service(chance)
    suspend([psutil.Process(service.supervisor.pid), *service.workers()], chance.uniform(0.5, _SESSION_SECONDS + 3))


def orphan_suspended(world: World, chance: random.Random) -> None:
    """A worker stands still, perhaps with the index's lock, while its supervisor is killed and a new service starts."""
    service = world.chosen_service(chance)
    workers = service.workers()
    orphans = chance.sample(workers, min(1, len(workers)))
    for orphan in orphans:
        orphan.suspend()
    service.supervisor.kill()
    service.supervisor.wait()
    service.start()
    time.sleep(chance.uniform(1, 6))
    for orphan in orphans:
        if orphan.is_running():
            orphan.resume()


def stopped_in_order(world: World, chance: random.Random) -> None:
    service = world.chosen_service(chance)
    service.stop()
    service.start()


def clock_jump(world: World, chance: random.Random) -> None:
    """The service wakes in another time, and its clock is put right while it runs. The clock that only runs stays true."""
    service = world.chosen_service(chance)
    offset = world.directory / f"clock-{service.name}"
    set_clock(offset, chance.choice((-1, 1)) * chance.choice((90, 3_000, 90_000, 40_000_000)))
    service.kill()
    service.start({"CHAOS_CLOCK": str(offset)})
    time.sleep(chance.uniform(4, 9))
    set_clock(offset, 0)


def set_clock(file: Path, offset_seconds: int) -> None:
    """Let the clocks that read this file go wrong by so many seconds, all at once."""
    new = file.with_suffix(".new")
    new.write_text(str(offset_seconds))
    new.replace(file)


def why_no_poison_can_be_given(_: World) -> str:
    return "" if "document_timeout_ms" in Workers.model_fields else "this service does not isolate deadly documents"


def poison(world: World, chance: random.Random) -> None:
    """A document that ends every process that decodes it: it must become a dead letter, and the others go on."""
    deadly = chance.choice(("abort", "segfault", "endless"))
    producer = PatientProducer(world.servers)
    document = Sent(f'{{"id": "deadly", "text": "chaos-deadly-{deadly} {chance.random()}"}}'.encode())
    with suppress(KafkaError):
        # Where the broker is away, it comes as late as never.
        producer.send(INPUT, {chance.randrange(world.traffic.partitions): [document]}, timeout_seconds=6)
    producer.close()
