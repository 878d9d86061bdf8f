"""The job on a real cluster, between the topics of a real broker: its verdicts are those of one index, whatever ends.

Jobs of both schemes run at once, so that one kill strikes both.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import yaml
from kafka import KafkaConsumer, TopicPartition

from deploy.dashboard_check import dashboard_queries
from deploy.flink_service import set_options
from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.planted_fingerprints import (
    PARTITIONS,
    BatchVerdicts,
    Feeder,
    Verdicts,
    batches_of,
    create_topics,
    decide_here,
    documents_in,
    mismatches,
    planted,
    put_on_hosts,
    sequential,
)
from index import Index, Verdict
from streamer.fingerprint.scheme import longer_of, parameters_for, retention_of, scheme_for
from streamer.flink.batches import arrival
from streamer.flink.forget import forget
from streamer.flink.seed import seed
from streamer.flink.taking_in import ASKED_AGAIN_SECONDS, taken_in
from streamer.parts.envelope import stamp_text
from streamer.records.reason import EQUAL_REASONS, recrawl_by
from streamer.settings.settings import load
from tests.support.paths import ROOT
from tests.support.series import series_of, without_series

DOCUMENTS = int(os.environ.get("FLINK_DOCUMENTS", "6000"))
RATE = float(os.environ.get("FLINK_RATE", "4000"))
TIMEOUT_SECONDS = 120 + DOCUMENTS / 500

CARRIED = ["fingerprint.key=public"]
SCHEMES = {
    "simhash": ["fingerprint.scheme=simhash", "fingerprint.second_look=none", "index.insert=unique"],
    "minhash": ["fingerprint.scheme=minhash", "index.insert=root"],
}

EPOCHS = ["--epoch-minutes", "0.02"]

Found = TypeVar("Found")


class World:
    """A job of one scheme between two topics of its own."""

    def __init__(self, kafka: SimpleNamespace, flink: LocalFlink, scheme: str, name: str, *chosen: str) -> None:
        self.flink, self.bootstrap_servers, self.scheme = flink, kafka.bootstrap_servers, scheme
        self.topics = [f"{name}-{scheme}-fingerprints", f"{name}-{scheme}-verdicts"]
        self.chosen = [*SCHEMES[scheme], *CARRIED, *chosen, f"kafka.bootstrap_servers={kafka.bootstrap_servers}"]
        self.chosen += [f"topics.fingerprints={self.topics[0]}", f"topics.verdicts={self.topics[1]}"]
        self.chosen += [f"kafka.group={name}-{scheme}"]
        self.settings = load(None, self.chosen, {})
        self.parameters = parameters_for(self.settings, scheme_for(self.settings).stamp())
        create_topics(self.bootstrap_servers, *self.topics)
        stamp = stamp_text(self.parameters.fingerprint)
        fingerprints = planted(self.parameters, DOCUMENTS, seed=1)
        hosts = None if self.parameters.frames is None else put_on_hosts(fingerprints, seed=3)
        self.updates = self.settings.index.recrawl == "update"
        self.contents = list(batches_of(fingerprints, 2, stamp, hosts, again=self.updates))
        self.feeder = Feeder(self.bootstrap_servers, self.topics[0])
        self.verdicts = Verdicts(self.bootstrap_servers, self.topics[1])
        self.job = ""

    @property
    def deciding(self) -> dict[str, Any]:
        """How an index decides the same, as in `Index.open`."""
        index = self.settings.index
        options: dict[str, Any] = {"longer": longer_of(index), "retention": retention_of(index)}
        if self.updates:
            options |= {"recrawl": recrawl_by("update"), "equal_reasons": EQUAL_REASONS}
        return options

    @property
    def options(self) -> list[str]:
        """Its settings, as the job takes them."""
        return set_options(self.chosen)

    def submit(self, *options: str, parallelism: int = 2, since: str | None = None, seeded: bool = False) -> None:
        self.job = self.flink.submit(*self.options, *options, parallelism=parallelism, since=since, seeded=seeded)

    def feed(self, contents: Sequence[bytes]) -> None:
        self.feeder.feed(contents, RATE)

    def forget(self, numbers: Iterable[int]) -> None:
        """Tell the job to forget made-up documents, by their ids."""
        self.commanded = forget(self.settings, [f"made-up-{number}" for number in numbers])

    def stop(self) -> str:
        """Path of the savepoint with which the job stopped."""
        return self.flink.stop_with_savepoint(self.job)

    def wait_for_checkpoints(self, count: int = 2) -> None:
        """Until so many more are complete, so that the last one holds all that was told before."""
        wanted = self.flink.checkpoints_completed(self.job) + count
        self.flink.wait(
            lambda: self.flink.checkpoints_completed(self.job) >= wanted, f"{count} checkpoints", TIMEOUT_SECONDS
        )

    def part(self, number: int, of: int) -> list[bytes]:
        """One of so many parts of the batches."""
        count = len(self.contents)
        return self.contents[count * number // of : count * (number + 1) // of]

    def assert_told_as_by_one_index(self, documents: int, index: Path | None = None) -> None:
        """Documents were told of, as by one index; `index`: of the one that goes on."""
        self.verdicts.wait_for(documents, TIMEOUT_SECONDS, self.require_alive)
        expected = self.expected(index)
        duplicates, longer = (sum(told.verdicts.count(verdict) for told in expected.values()) for verdict in (1, 8))
        assert documents / 20 < duplicates < documents / 2
        assert longer > documents / 200
        assert mismatches(expected, self.verdicts.by_batch) == 0, self.scheme
        assert self.verdicts.changed == 0

    def expected(self, index: Path | None = None) -> dict[tuple[int, int], BatchVerdicts]:
        """What one index says."""
        return sequential(self.bootstrap_servers, self.topics[0], self.parameters, index, **self.deciding)

    def require_alive(self) -> None:
        if self.flink.get(f"/jobs/{self.job}")["state"] == "FAILED":
            raise LocalFlinkError(self.flink.failures(self.job))


@contextmanager
def of_both_schemes(kafka: SimpleNamespace, flink: LocalFlink, name: str, *chosen: str) -> Iterator[list[World]]:
    worlds = [World(kafka, flink, scheme, name, *chosen) for scheme in sorted(SCHEMES)]
    with ExitStack() as stack:
        for world in worlds:
            stack.enter_context(world.feeder)
            stack.enter_context(world.verdicts)
        yield worlds


def each(worlds: Sequence[World], step: Callable[[World], Found]) -> list[Found]:
    """What a step returns that all take at once."""
    with ThreadPoolExecutor(len(worlds)) as pool:
        return list(pool.map(step, worlds))


@pytest.mark.timeout(900)
def test_kills_and_a_rescale_change_no_verdict(kafka: SimpleNamespace, flink: LocalFlink) -> None:
    """Only the newest half of the entries counts, and the state forgets the others second by second."""
    with of_both_schemes(kafka, flink, "struck", f"index.entries_max={DOCUMENTS // 2}") as worlds:
        each(worlds, lambda world: world.submit(*EPOCHS))
        each(worlds, lambda world: world.feed(world.part(0, 4)))
        each(worlds, World.wait_for_checkpoints)
        each(worlds, lambda world: world.feed(world.part(1, 4)))
        each(worlds, lambda world: world.forget(range(0, DOCUMENTS // 2, 5)))
        flink.kill_task_manager()
        flink.start_task_manager()
        each(worlds, lambda world: world.feed(world.part(2, 4)))
        each(worlds, World.wait_for_checkpoints)
        assert all(flink.times_restored(world.job) for world in worlds), "the kill struck both jobs"
        flink.kill_job_manager()
        flink.start_job_manager()
        flink.wait_for_task_managers(2)
        each(worlds, lambda world: world.submit(*EPOCHS, since=flink.latest_checkpoint(world.job)))
        each(worlds, lambda world: world.feed(world.part(3, 4)[:-2]))
        each(worlds, lambda world: world.submit(*EPOCHS, since=world.stop(), parallelism=4))
        each(worlds, lambda world: world.feed(world.part(3, 4)[-2:]))
        each(worlds, lambda world: world.assert_told_as_by_one_index(DOCUMENTS))
        (framed,) = (world for world in worlds if world.scheme == "minhash")
        told = [verdict for batch in framed.verdicts.by_batch.values() for verdict in batch.verdicts]
        assert told.count(Verdict.TEMPLATE), "frames make a difference"
        assert told.count(Verdict.UPDATE) > DOCUMENTS / 50, "pages were crawled again"
        assert all(floors_in(world) for world in worlds), "the state forgets"
        assert all(taken_in(world.settings, world.commanded) for world in worlds), "commands are heard of"
        assert not without_series(queries(), series_of(flink.metrics()))
        each(worlds, lambda world: flink.cancel(world.job))


def floors_in(world: World) -> int:
    """How often the job wrote which epochs are over."""
    topic = world.topics[0]
    with KafkaConsumer(bootstrap_servers=world.bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(partitions), 0
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=500).values():
                found += sum(arrival(record.value, 0, topic).floor is not None for record in records)
    return found


def queries() -> list[str]:
    """Of the dashboard and the alerts that watch Flink."""
    folder = ROOT / "deploy" / "flink"
    dashboard = json.loads((folder / "dashboard.json").read_text())
    rules = yaml.safe_load((folder / "rules.yml").read_text())["groups"][0]["rules"]
    return [*(query.expression for query in dashboard_queries(dashboard)), *(rule["expr"] for rule in rules)]


@pytest.mark.timeout(900)
def test_a_job_that_an_index_seeds_goes_on_as_the_index_would(
    kafka: SimpleNamespace, flink: LocalFlink, tmp_path: Path
) -> None:
    """Half of the documents are decided by an index, which loses some of them; a copy of it says what comes next."""
    with of_both_schemes(kafka, flink, "seeded", f"index.entries_max={DOCUMENTS // 3}") as worlds:
        each(worlds, lambda world: seed_from_half(world, tmp_path / world.scheme))
        each(worlds, lambda world: world.submit(*EPOCHS, since=world.stop(), seeded=True))
        # What the index has decided comes once more: nobody hears of it.
        each(worlds, lambda world: world.feed([*world.part(0, 2)[-4:], *world.part(1, 2)]))
        for world in worlds:
            world.assert_told_as_by_one_index(documents_in(world.part(1, 2)), tmp_path / world.scheme / "copy")
            unseeded = world.expected()
            told = world.verdicts.by_batch
            assert mismatches({key: unseeded[key] for key in told}, told) > DOCUMENTS / 100, (
                "the seed makes a difference"
            )
        savepoints = dict(zip((world.scheme for world in worlds), each(worlds, World.stop), strict=True))
        (struck,) = (world for world in worlds if world.scheme == "simhash")
        require_refused_by_name(struck, savepoints["simhash"])


def seed_from_half(world: World, folder: Path) -> None:
    """Let an index decide the first half and forget some of it, and the job take in what it has then."""
    here = folder / "index"
    decide_here(world.parameters, here, world.part(0, 2), **world.deciding)
    with Index.open(here, world.parameters, map_bytes_max=2**36, **world.deciding) as index:
        forgotten = index.forget([f"made-up-{number}" for number in range(0, DOCUMENTS // 2, 7)])
        assert len(forgotten) > DOCUMENTS / 30
        written = seed(world.settings, index, lambda _: None)
    shutil.copytree(here, folder / "copy")
    world.submit(*EPOCHS, "--seed")
    while not taken_in(world.settings, written):
        world.require_alive()
        time.sleep(ASKED_AGAIN_SECONDS)


def require_refused_by_name(world: World, savepoint: str) -> None:
    """The state is of one distance, and a job with another one stops at the first sign of life."""
    world.chosen.append("index.distance_max=2")
    job = world.flink.hand_in(*world.options, *EPOCHS, parallelism=2, since=savepoint)
    why = world.flink.wait(lambda: world.flink.failures(job), "a refusal", TIMEOUT_SECONDS)
    world.flink.cancel(job)
    assert "distance_max: stored 4, asked 2. Go on with the stored ones" in why
