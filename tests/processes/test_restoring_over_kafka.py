"""A lost index over a real broker: no worker decides before all of it is restored, whoever dies meanwhile."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from kafka import KafkaProducer

from deploy.kafka_run import Outputs, Run, kill_group, stop
from deploy.local_kafka import free_port
from tests.support.memory_service import document
from tests.support.services import Started, make_run, require_every_position_once, wait_until

HISTORY = 300
"""Documents delivered in each of two partitions before the index is lost."""


PATIENCE_SECONDS = 180.0
"""Longest wait: a busy machine takes half a minute to start a worker, and longer than its group waits for it."""


def texts(partition: int) -> list[str]:
    """HISTORY texts of which no two resemble each other."""
    return [
        " ".join(f"{(number + 1) * (word + 7) * 2654435761 % 2**32:x}{partition}" for word in range(12))
        for number in range(HISTORY)
    ]


def documents(name: str, *, swapped: bool = False) -> list[tuple[int, bytes]]:
    """A document of each text, with its partition; `swapped`: with the other one."""
    return [
        (1 - partition if swapped else partition, document(f"{name}-{partition}-{number}", text))
        for partition in (0, 1)
        for number, text in enumerate(texts(partition))
    ]


def write(run: Run, values: Iterable[tuple[int, bytes]]) -> None:
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers)
    sent = [producer.send(run.input_topic, value=value, partition=partition) for partition, value in values]
    producer.flush(timeout=60)
    for future in sent:
        future.get(timeout=0)
    producer.close()


def events(log: Path) -> list[dict[str, Any]]:
    """Lines of a log in JSON, from the last start of the service on."""
    found: list[dict[str, Any]] = []
    for line in log.read_text().splitlines():
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    begins = [number for number, each in enumerate(found) if each["event"] == "serving metrics"]
    return found[begins[-1] :] if begins else []


def named(log: Path, event: str) -> list[dict[str, Any]]:
    return [each for each in events(log) if each["event"] == event]


def lost_index(kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], workers: int) -> Run:
    """A run whose two workers delivered HISTORY of each partition and were killed; the index is gone. Reposts of each
    partition's documents wait in the other one."""
    run = make_run(
        kafka.bootstrap_servers,
        tmp_path,
        "workers.count=2",
        "batch.records_max=200",
        "observe.log_format=json",
        partitions=2,
    )
    service = start(run)
    wait_until(run.ready, PATIENCE_SECONDS)
    write(run, documents("first"))
    outputs = Outputs(run)
    assert outputs.wait_for(2 * HISTORY, timeout_seconds=180)
    outputs.close()
    kill_group(service.process)
    shutil.rmtree(run.directory / run.name)
    write(run, documents("again", swapped=True))
    # Small batches make restoring slow enough to be disturbed.
    settings = (*run.settings, f"workers.count={workers}", "batch.records_max=2")
    return Run(run.name, run.bootstrap_servers, run.input_topic, run.directory, run.port, settings)


def require_every_repost_to_be_a_duplicate(run: Run) -> None:
    outputs = Outputs(run)
    outputs.wait_for(4 * HISTORY, PATIENCE_SECONDS)
    require_every_position_once(outputs, 4 * HISTORY)
    destinations = {position: seen[0][0] for position, seen in outputs.by_position.items()}
    late = {position for position in destinations if int(position.rpartition("/")[2]) >= HISTORY}
    assert {destinations[position] for position in late} == {"duplicate"}
    assert {destinations[position] for position in destinations.keys() - late} == {"unique"}


@pytest.mark.parametrize("workers", [2, 1], ids=["both workers come back", "one worker comes back"])
def test_nobody_decides_before_what_everybody_delivered_is_restored(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], workers: int
) -> None:
    run = lost_index(kafka, tmp_path, start, workers)
    service = start(run)
    wait_until(lambda: bool(named(service.log, "restored")), PATIENCE_SECONDS)
    assert sum(each["restored"] for each in named(service.log, "restored")) == 2 * HISTORY
    require_every_repost_to_be_a_duplicate(run)
    wait_until(run.ready, PATIENCE_SECONDS)
    assert stop(service.process) == 0


def test_workers_that_are_killed_while_they_restore_or_wait_are_followed_by_others_that_go_on(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = lost_index(kafka, tmp_path, start, workers=2)
    service = start(run)
    pids: dict[int, int] = {}
    seen: set[int] = set()
    disturbed = 0
    for victim in ("restores", "waits", "restores"):
        missing = [number for number in (0, 1) if number not in pids]
        await_workers(service, seen, len(missing), disturbed)
        # Workers are started in order; later, the one process that is new took the place of the one that was killed.
        new = sorted(workers_of(service) - seen)
        pids |= dict(zip(missing, new, strict=True))
        seen.update(new)
        restorer = beginnings(service.log)[-1]
        number = restorer if victim == "restores" else 1 - restorer
        disturbed = len(beginnings(service.log)) if victim == "restores" else disturbed
        time.sleep(0.3)
        psutil.Process(pids.pop(number)).kill()
        assert not named(service.log, "restored"), "the restoration was over before it was disturbed"
    require_every_repost_to_be_a_duplicate(run)
    assert len(beginnings(service.log)) >= 3
    wait_until(run.ready, PATIENCE_SECONDS)
    assert stop(service.process) == 0


def await_workers(service: Started, seen: set[int], new: int, restorations: int) -> None:
    """Wait for new processes, and for one more restoration than there were."""
    wait_until(
        lambda: len(workers_of(service) - seen) == new and len(beginnings(service.log)) > restorations, PATIENCE_SECONDS
    )


def beginnings(log: Path) -> list[int]:
    """Worker that began a restoration, for each that was begun."""
    return [each["worker"] for each in named(log, "restoring the index from the outputs")]


def workers_of(service: Started) -> set[int]:
    """Process ids of the workers that live."""
    found = set()
    for child in psutil.Process(service.process.pid).children():
        # A process that has just died has no command line any more.
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            found |= {child.pid} if "spawn_main" in " ".join(child.cmdline()) else set()
    return found


# --- two indexes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [True, False], ids=["the first goes on delivering", "the first is idle"])
def test_a_second_service_with_an_index_of_its_own_is_refused_and_the_first_goes_on(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], busy: bool
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "batch.records_max=100", partitions=2)
    first = start(run)
    wait_until(run.ready, PATIENCE_SECONDS)
    write(run, documents("first"))
    outputs = Outputs(run)
    assert outputs.wait_for(2 * HISTORY, timeout_seconds=180)
    other = (*run.settings, "kafka.instance=1", f"index.directory={tmp_path / 'other'}", "observe.log_format=json")
    second = start(Run(run.name, run.bootstrap_servers, run.input_topic, run.directory, free_port(), other))
    written = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while second.process.poll() is None:
        assert time.monotonic() < deadline, "the second service was never refused"
        if busy:
            write(run, [(part, document(f"again-{part}-{written}", texts(part)[written % HISTORY])) for part in (0, 1)])
            written += 1
        time.sleep(0.3)
    assert second.process.returncode == os.EX_CONFIG
    assert "index.directory holds index" in second.log.read_text()
    write(run, documents("late", swapped=True))
    require_every_position_once(outputs, 4 * HISTORY + 2 * written)
    destinations = [seen[0][0] for seen in outputs.by_position.values()]
    assert destinations.count("unique") == 2 * HISTORY, "the indexes did not know of each other's documents"
    assert first.process.poll() is None
    assert stop(first.process) == 0
