"""Stories over a real broker: workers are killed amid planted stories, and every last value equals a recount."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import DESTINATIONS, Run, create_topics, fill, stop
from deploy.planted_stories import Counted, committed_records, documents, latest, problems, recount
from tests.support.services import Started, kill_a_worker, make_run, wait_until

SIZES = (50, 20, 10, *[5] * 4, *[3] * 6, *[2] * 10)


def recounted(run: Run) -> dict[str, Counted]:
    outputs = [run.topic(destination) for destination in DESTINATIONS]
    return recount(committed_records(run.bootstrap_servers, outputs))


def values(run: Run) -> dict[tuple[str, str], dict]:
    return latest(committed_records(run.bootstrap_servers, [run.topic("stories")]))


@pytest.mark.parametrize(("client", "kills"), [("kafka-python", 5), ("confluent-kafka", 1)])
def test_every_last_value_equals_a_recount_of_the_verdicts_whatever_kills_the_workers(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], client: str, kills: int
) -> None:
    run = make_run(
        kafka.bootstrap_servers,
        tmp_path,
        f"kafka.client={client}",
        "workers.count=2",
        "batch.records_max=15",
        partitions=3,
    )
    stories = run.topic("stories")
    create_topics(kafka.bootstrap_servers, [stories], 3)
    run, planted = replace(run, settings=(*run.settings, f"topics.stories={stories}")), documents(SIZES, 60)
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, planted)
    dice = random.Random(1)
    for kill in range(kills):
        wait_until(lambda kill=kill: run.delivered() > (kill + 1) * len(planted) // 8)
        kill_a_worker(service.process, dice.choice)
    # No input is left in the end: an idle worker writes the last values.
    wait_until(lambda: sum(len(each.ids) for each in recounted(run).values()) == sum(SIZES))
    wait_until(lambda: not problems(recounted(run), values(run)))
    assert stop(service.process) == 0
    counted = recounted(run)
    assert sorted(len(each.ids) for each in counted.values()) == sorted(SIZES)
    # The negative control: one document less is another recount.
    counted.popitem()[1].ids.pop()
    assert problems(counted, values(run))
