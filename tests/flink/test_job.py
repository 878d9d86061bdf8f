"""The job on a real cluster, between the topics of a real broker: its verdicts are those of one index, whatever ends."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.planted_fingerprints import (
    Feeder,
    Verdicts,
    batches_of,
    create_topics,
    decide_here,
    documents_in,
    mismatches,
    planted,
    sequential,
)
from index import Index
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.index_admin.seed import seed, wait_until_taken_in
from streamer.records.envelope import stamp_text
from streamer.settings.settings import load

DOCUMENTS = int(os.environ.get("FLINK_DOCUMENTS", "6000"))
RATE = float(os.environ.get("FLINK_RATE", "4000"))
TIMEOUT_SECONDS = 120 + DOCUMENTS / 500

CARRIED = ["index.recrawl=duplicate", "index.templates=false"]
SCHEMES = {
    "simhash": ["fingerprint.scheme=simhash", "fingerprint.second_look=none", "index.insert=unique"],
    "minhash": ["fingerprint.scheme=minhash", "index.insert=root"],
}


class World:
    """A job of one scheme between two topics of its own."""

    def __init__(self, kafka: SimpleNamespace, flink: LocalFlink, scheme: str, name: str) -> None:
        self.flink, self.bootstrap_servers = flink, kafka.bootstrap_servers
        self.topics = [f"{name}-{scheme}-fingerprints", f"{name}-{scheme}-verdicts"]
        self.chosen = [*SCHEMES[scheme], *CARRIED, f"kafka.bootstrap_servers={kafka.bootstrap_servers}"]
        self.chosen += [f"topics.fingerprints={self.topics[0]}", f"topics.verdicts={self.topics[1]}"]
        self.chosen += [f"kafka.group={name}-{scheme}"]
        self.settings = load(None, self.chosen, {})
        self.parameters = parameters_for(self.settings, scheme_for(self.settings).stamp())
        create_topics(self.bootstrap_servers, *self.topics)
        stamp = stamp_text(self.parameters.fingerprint)
        self.contents = list(batches_of(planted(self.parameters, DOCUMENTS, seed=1), seed=2, stamp=stamp))
        self.job = ""

    def submit(self, *options: str, parallelism: int = 2, since: str | None = None, seeded: bool = False) -> "World":
        chosen = [part for each in self.chosen for part in ("--set", each)]
        self.job = self.flink.submit(*chosen, *options, parallelism=parallelism, since=since, seeded=seeded)
        return self

    def wait_for_checkpoints(self, count: int = 2) -> None:
        """Until so many more are complete, so that the last one holds all that was told before."""
        wanted = self.flink.checkpoints_completed(self.job) + count
        self.flink.wait(
            lambda: self.flink.checkpoints_completed(self.job) >= wanted, f"{count} checkpoints", TIMEOUT_SECONDS
        )

    @contextmanager
    def fed(self) -> Iterator[tuple[Feeder, Verdicts]]:
        with (
            Feeder(self.bootstrap_servers, self.topics[0]) as feeder,
            Verdicts(self.bootstrap_servers, self.topics[1]) as verdicts,
        ):
            yield feeder, verdicts

    def part(self, number: int, of: int) -> list[bytes]:
        """One of so many parts of the batches."""
        count = len(self.contents)
        return self.contents[count * number // of : count * (number + 1) // of]

    def assert_told_as_by_one_index(self, verdicts: Verdicts, documents: int, index: Path | None = None) -> None:
        """Documents were told of, as by one index; `index`: of the one that goes on."""
        verdicts.wait_for(documents, TIMEOUT_SECONDS, self.require_alive)
        expected = sequential(self.bootstrap_servers, self.topics[0], self.parameters, index)
        duplicates = sum(told.verdicts.count(1) for told in expected.values())
        assert documents / 8 < duplicates < documents / 2
        assert mismatches(expected, verdicts.told) == 0
        assert verdicts.changed == 0

    def require_alive(self) -> None:
        if self.flink.get(f"/jobs/{self.job}")["state"] == "FAILED":
            raise LocalFlinkError(str(self.flink.get(f"/jobs/{self.job}/exceptions")))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.timeout(900)
def test_kills_and_a_rescale_change_no_verdict(kafka: SimpleNamespace, flink: LocalFlink, scheme: str) -> None:
    world = World(kafka, flink, scheme, "struck").submit()
    with world.fed() as (feeder, verdicts):
        feeder.feed(world.part(0, 4), RATE)
        world.wait_for_checkpoints()
        feeder.feed(world.part(1, 4), RATE)
        flink.kill_task_manager()
        flink.start_task_manager()
        feeder.feed(world.part(2, 4), RATE)
        flink.wait_until_running(world.job)
        world.wait_for_checkpoints()
        lost = world.job
        flink.kill_job_manager()
        flink.start_job_manager()
        flink.wait_for_slots(2)
        world.submit(since=flink.latest_checkpoint(lost))
        feeder.feed(world.part(3, 4)[:-2], RATE)
        savepoint = flink.stop_with_savepoint(world.job)
        for _ in range(2):
            flink.start_task_manager()
        flink.wait_for_slots(4)
        world.submit(parallelism=4, since=savepoint)
        feeder.feed(world.part(3, 4)[-2:], RATE)
        world.assert_told_as_by_one_index(verdicts, DOCUMENTS)
    flink.cancel(world.job)
    for _ in range(2):
        flink.kill_task_manager()


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.timeout(900)
def test_a_job_that_an_index_seeds_goes_on_as_the_index_would(
    kafka: SimpleNamespace, flink: LocalFlink, tmp_path: Path, scheme: str
) -> None:
    """Half of the documents are decided by an index, which loses some of them; a copy of it says what comes next."""
    world = World(kafka, flink, scheme, "seeded")
    here, copy = tmp_path / "index", tmp_path / "copy"
    decide_here(world.parameters, here, world.part(0, 2))
    with Index.open(here, world.parameters, map_bytes_max=2**36) as index:
        forgotten = index.forget([f"made-up-{number}" for number in range(0, DOCUMENTS // 2, 7)])
        assert len(forgotten) > DOCUMENTS / 20
        written = seed(world.settings, index, lambda _: None)
    shutil.copytree(here, copy)
    world.submit("--seed")
    wait_until_taken_in(world.settings, written)
    savepoint = flink.stop_with_savepoint(world.job)
    world.submit(since=savepoint, seeded=True)
    with world.fed() as (feeder, verdicts):
        # What the index has decided comes once more: nobody hears of it.
        feeder.feed([*world.part(0, 2)[-4:], *world.part(1, 2)], RATE)
        world.assert_told_as_by_one_index(verdicts, documents_in(world.part(1, 2)), copy)
    savepoint = flink.stop_with_savepoint(world.job)
    if scheme == "simhash":
        _require_refused_by_name(world, savepoint)


def _require_refused_by_name(world: World, savepoint: str) -> None:
    """The state is of one distance, and a job with another one stops at the first sign of life."""
    world.chosen.append("index.distance_max=2")
    with pytest.raises(LocalFlinkError, match=r"distance_max: stored 4, asked 2\. Go on with the stored ones"):
        world.submit(since=savepoint)
