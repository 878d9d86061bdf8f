"""The job on a real cluster, between the topics of a real broker: its verdicts are those of one index, whatever ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.planted_fingerprints import Feeder, Verdicts, batches_of, create_topics, mismatches, planted, sequential
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import load

DOCUMENTS = int(os.environ.get("FLINK_DOCUMENTS", "12000"))
RATE = float(os.environ.get("FLINK_RATE", "4000"))
TIMEOUT_SECONDS = 120 + DOCUMENTS / 500

CARRIED = ["index.recrawl=duplicate", "index.templates=false"]
SCHEMES = {
    "simhash": ["fingerprint.scheme=simhash", "fingerprint.second_look=none", "index.insert=unique"],
    "minhash": ["fingerprint.scheme=minhash", "index.insert=root"],
}


class World:
    """The job of one scheme between two topics of its own."""

    def __init__(self, kafka: SimpleNamespace, flink: LocalFlink, scheme: str, name: str) -> None:
        self.flink, self.bootstrap_servers = flink, kafka.bootstrap_servers
        self.topics = [f"{name}-{scheme}-fingerprints", f"{name}-{scheme}-verdicts"]
        chosen = [*SCHEMES[scheme], *CARRIED, f"kafka.bootstrap_servers={kafka.bootstrap_servers}"]
        chosen += [f"topics.fingerprints={self.topics[0]}", f"topics.verdicts={self.topics[1]}"]
        self.parameters = parameters_for(load(None, chosen, {}), {})
        self.options = [part for each in chosen for part in ("--set", each)]
        create_topics(self.bootstrap_servers, *self.topics)
        self.contents = list(batches_of(planted(self.parameters, DOCUMENTS, seed=1), seed=2))
        self.job = self.submit()

    def submit(self, parallelism: int = 2, since: str | None = None) -> str:
        self.job = self.flink.submit(*self.options, parallelism=parallelism, since=since)
        return self.job

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

    def assert_told_as_by_one_index(self, verdicts: Verdicts) -> None:
        verdicts.wait_for(DOCUMENTS, TIMEOUT_SECONDS, self.require_alive)
        expected = sequential(self.bootstrap_servers, self.topics[0], self.parameters)
        duplicates = sum(told.verdicts.count(1) for told in expected.values())
        assert DOCUMENTS / 8 < duplicates < DOCUMENTS / 2
        assert mismatches(expected, verdicts.told) == 0
        assert verdicts.changed == 0

    def require_alive(self) -> None:
        if self.flink.get(f"/jobs/{self.job}")["state"] == "FAILED":
            raise LocalFlinkError(str(self.flink.get(f"/jobs/{self.job}/exceptions")))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.timeout(900)
def test_verdicts_are_those_of_one_index_that_is_fed_in_the_order_of_the_log(
    kafka: SimpleNamespace, flink: LocalFlink, scheme: str
) -> None:
    world = World(kafka, flink, scheme, "quiet")
    with world.fed() as (feeder, verdicts):
        feeder.feed(world.contents)
        world.assert_told_as_by_one_index(verdicts)
    flink.cancel(world.job)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.timeout(900)
def test_kills_and_a_rescale_change_no_verdict(kafka: SimpleNamespace, flink: LocalFlink, scheme: str) -> None:
    world = World(kafka, flink, scheme, "struck")
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
        world.assert_told_as_by_one_index(verdicts)
    flink.cancel(world.job)
    for _ in range(2):
        flink.kill_task_manager()
