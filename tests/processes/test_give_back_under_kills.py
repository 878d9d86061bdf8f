"""`streamer give-back` and the service beside it die at random moments: every record comes back once, and comes out once."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from deploy.kafka_run import DESTINATIONS, Outputs, Run, fill, stop
from index import Index, Position
from streamer.demo.demo import documents
from streamer.flink.batches import arrival
from streamer.settings.parts import PARTS
from tests.support.services import Started, make_parts, make_run, start_part, verified, wait_until, workers_of, wrong

Start = Callable[..., Started]

COUNT, ROUNDS, KILLED_AMID_MIN = 600, 8, 2
GIVE_BACK = ("give-back", "--since", "1h")
GIVEN_BACK = ("neardup.verdict", b"given-back")
PATIENCE_SECONDS = 180.0


class Seen:
    """How often each position of the input came out, and was given back."""

    def __init__(self, run: Run) -> None:
        self._outputs = Outputs(run)

    def close(self) -> None:
        self._outputs.close()

    def counts(self) -> tuple[Counter[str], Counter[str], set[str]]:
        """By position, after half a second of silence: ordinary outputs, records given back, and the positions of duplicates."""
        seen = -1
        while seen != (seen := self._outputs.poll(500)):
            pass
        return self._counted()

    def given_back(self) -> int:
        """How many records have come back, after one look: a command in full work never lets the outputs fall silent."""
        self._outputs.poll(20)
        return sum(self._counted()[1].values())

    def _counted(self) -> tuple[Counter[str], Counter[str], set[str]]:
        ordinary, back, dropped = Counter[str](), Counter[str](), set[str]()
        for position, outputs in self._outputs.by_position.items():
            for destination, _, headers in outputs:
                (back if GIVEN_BACK in headers else ordinary)[position] += 1
                if destination == "duplicate":
                    dropped.add(position)
        return ordinary, back, dropped

    def problems(self, count: int) -> list[str]:
        """What did not come out once, or did not come back once."""
        ordinary, back, dropped = self.counts()
        found = [f"{position} came out {times} times" for position, times in ordinary.items() if times != 1]
        found += [f"{position} came back {back[position]} times" for position in dropped if back[position] != 1]
        found += [f"{position} came back and was never dropped" for position in back.keys() - dropped]
        return found if len(ordinary) == count else [*found, f"{len(ordinary)} of {count} came out"]


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def strike(service: Started, chance: random.Random) -> None:
    """Kill the service, all of it or a worker, or leave it alone."""
    choice = chance.choice(("all", "worker", "nothing"))
    if choice == "all":
        service.start_anew()
    elif choice == "worker":
        for worker in workers_of(service.process)[:1]:
            worker.kill()


def give_back_under_kills(
    run: Run, service: Started, seen: Seen, log: Path, chance: random.Random, *options: str, rounds: int = ROUNDS
) -> int:
    """Kill the command so many times, and the service now and then. Returns how often the command died amid its work."""
    amid, before = 0, 0
    # So small batches that many moments lie between the first and the last.
    slow = replace(run, settings=(*run.settings, "batch.records_max=2"))
    for _ in range(rounds):
        command = slow.start(log, command=(*GIVE_BACK, *options))
        # It begins to send when it has imported, opened the index and read the outputs; then every moment counts.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while command.poll() is None and seen.given_back() == before and time.monotonic() < deadline:
            pass
        strike(service, chance)
        time.sleep(chance.uniform(0, 0.2))
        kill(command)
        _, back, dropped = seen.counts()
        amid += before < sum(back.values()) < len(dropped)
        before = sum(back.values())
    return amid


@pytest.fixture
def run(kafka: SimpleNamespace, tmp_path: Path) -> Run:
    return make_run(kafka.bootstrap_servers, tmp_path, partitions=3)


@pytest.fixture
def seen(run: Run) -> Iterator[Seen]:
    seen = Seen(run)
    yield seen
    seen.close()


def test_each_record_comes_back_once_however_often_command_and_service_are_killed(
    tmp_path: Path, start: Start, run: Run, seen: Seen
) -> None:
    chance = random.Random(20)
    values = list(documents(COUNT))
    fill(run.bootstrap_servers, run.input_topic, values[: COUNT // 2])
    service = start(run)
    wait_until(lambda: len(seen.counts()[0]) == COUNT // 2, timeout_seconds=PATIENCE_SECONDS)
    # What the service still has to decide comes in meanwhile.
    fill(run.bootstrap_servers, run.input_topic, values[COUNT // 2 :])
    amid = give_back_under_kills(run, service, seen, tmp_path / "give-back.log", chance)
    assert amid >= KILLED_AMID_MIN, "the kills came too early or too late to show anything"
    wait_until(lambda: len(seen.counts()[0]) == COUNT, timeout_seconds=PATIENCE_SECONDS)
    wait_until(run.ready, timeout_seconds=PATIENCE_SECONDS)
    done = subprocess.run(run.arguments(*GIVE_BACK), capture_output=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr.decode()
    assert stop(service.process) == 0
    assert seen.problems(COUNT) == []
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    require_that_a_second_copy_would_be_seen(run, seen)


def test_what_the_log_notes_comes_back_once_and_an_index_that_decides_later_takes_it_from_there(
    kafka: SimpleNamespace, tmp_path: Path, start: Start
) -> None:
    """With `--flink` the command needs no index, and no job to be killed. `decide` reads the log in the job's place."""
    run = make_parts(kafka.bootstrap_servers, tmp_path, "fingerprint.key=public")
    seen = Seen(run)
    values = list(documents(COUNT))
    fill(run.bootstrap_servers, run.input_topic, values[: COUNT // 2])
    parts = {part: start_part(start, run, part) for part in PARTS}
    wait_until(lambda: len(seen.counts()[0]) == COUNT // 2, timeout_seconds=PATIENCE_SECONDS)
    log = tmp_path / "give-back.log"
    amid = give_back_under_kills(run, parts["decide"], seen, log, random.Random(7), "--flink", rounds=4)
    assert amid >= KILLED_AMID_MIN, "the kills came too early or too late to show anything"
    command = run.start(log, command=(*GIVE_BACK, "--flink"))
    wait_until(lambda: seen.problems(COUNT // 2) == [], timeout_seconds=PATIENCE_SECONDS)
    # No job takes the rest in.
    kill(command)
    fill(run.bootstrap_servers, run.input_topic, values[COUNT // 2 :])
    wait_until(lambda: len(seen.counts()[0]) == COUNT, timeout_seconds=PATIENCE_SECONDS)
    for part in parts.values():
        assert stop(part.process) == 0
    noted = given_back_in(run)
    assert len(noted) == len(set(noted)) == len(seen.counts()[1]) > 0
    with Index.open(run.directory / run.name, None, map_bytes_max=2**30, read_only=True) as index:
        assert index.are_given_back(noted).all()
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    seen.close()


def given_back_in(run: Run) -> list[Position]:
    """Positions of the documents that the fingerprint topic notes as given back."""
    topic, found = f"{run.name}-fingerprints", list[Position]()
    with KafkaConsumer(bootstrap_servers=run.bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=500).values():
                for content in (arrival(record.value, record.timestamp, topic) for record in records):
                    offsets = content.entries.offsets.tolist() if content.given_back else []
                    found += [Position(content.source, offset) for offset in offsets]
    return found


def require_that_a_second_copy_would_be_seen(run: Run, seen: Seen) -> None:
    """Negative control: a record given back twice, and an output that comes twice."""
    position = next(iter(seen.counts()[1]))
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers)
    named = ("neardup.position", position.encode())
    producer.send(run.topic(DESTINATIONS[0]), b"again", headers=[named, GIVEN_BACK])
    producer.send(run.topic(DESTINATIONS[1]), b"again", headers=[named])
    producer.flush()
    producer.close()
    assert seen.problems(COUNT) == [f"{position} came out 2 times", f"{position} came back 2 times"]
