"""Every story's last value against a plain recount of the verdicts, with workers killed by kill -9 amid the stream.

Two workers read three partitions of a local broker. Stories of 2 to 5,000 documents are planted among unique ones. The sizes are
those at which a value is written, so a last value has all documents of its story. Also counts values written, and the bytes of
the topic against those of the outputs.

    python -m bench.story_kills [--scale 1.0] [--kills 5] [--client kafka-python] [--json]
"""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import psutil
from kafka.consumer.fetcher import ConsumerRecord

from bench.conditions import machine
from bench.index import show
from deploy.kafka_run import DESTINATIONS, Run, create_topics, fill, stop
from deploy.local_kafka import LocalKafka, free_port
from deploy.planted_stories import committed_records, documents, latest, problems, recount

DOCUMENTS = 50_000
STORIES = {
    5_000: 2, 2_000: 3, 1_000: 4, 500: 6, 200: 10, 100: 20, 50: 40, 20: 50, 10: 100, 5: 200, 3: 400, 2: 1_000,
}  # fmt: skip
"""Stories by size: 35,200 documents of the 50,000."""

TIMEOUT_SECONDS = 900


def wait_until(condition: Callable[[], bool], pause_seconds: float = 0.5) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("not in time")
        time.sleep(pause_seconds)


def run_for(kafka: LocalKafka, directory: Path, client: str) -> Run:
    name = "stories"
    settings = (
        f"kafka.client={client}",
        "workers.count=2",
        f"topics.stories={name}-stories",
        "workers.restart_backoff_ms=100",
    )
    run = Run(name, kafka.bootstrap_servers, f"{name}-input", directory, free_port(), settings)
    create_topics(kafka.bootstrap_servers, [run.topic(each) for each in (*DESTINATIONS, "stories")], 3)
    create_topics(kafka.bootstrap_servers, [run.input_topic], 3)
    return run


def read(run: Run, *outputs: str) -> list[ConsumerRecord]:
    return list(committed_records(run.bootstrap_servers, [run.topic(each) for each in outputs]))


def measured(run: Run, directory: Path, sizes: list[int], uniques: int, kills: int) -> dict[str, Any]:
    planted, dice = documents(sizes, uniques), random.Random(1)
    fill(run.bootstrap_servers, run.input_topic, planted)
    service = run.start(directory / "service.log")
    began = time.monotonic()
    for kill in range(kills):
        wait_until(lambda kill=kill: run.delivered() > (kill + 1) * len(planted) // (kills + 2))
        workers = [each for each in psutil.Process(service.pid).children() if "spawn_main" in " ".join(each.cmdline())]
        dice.choice(workers).kill()
    wait_until(lambda: len(read(run, *DESTINATIONS)) >= len(planted), 5)
    wait_until(lambda: not problems(recount(read(run, *DESTINATIONS)), latest(read(run, "stories"))), 5)
    seconds = time.monotonic() - began
    stop(service)
    outputs, stories = read(run, *DESTINATIONS), read(run, "stories")
    counted = recount(outputs)
    return {
        "documents": len(planted),
        "outputs": len(outputs),
        "kills": kills,
        "stories": len(counted),
        "planted_stories": len(sizes),
        "largest": max(len(each.ids) for each in counted.values()),
        "wrong_missing_or_doubled": len(problems(counted, latest(stories))),
        "values_written": len(stories),
        "bytes_of_values": sum(len(each.value or b"") + len(each.key) for each in stories),
        "bytes_of_outputs": sum(len(each.value or b"") for each in outputs),
        "seconds": seconds,
    }


@click.command(help=__doc__)
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.01, 1), help="Share of the documents.")
@click.option("--kills", default=5, show_default=True, type=click.IntRange(0))
@click.option(
    "--client", default="kafka-python", show_default=True, type=click.Choice(["kafka-python", "confluent-kafka"])
)
@click.option("--json", "as_json", is_flag=True)
def main(scale: float, kills: int, client: str, *, as_json: bool) -> None:
    sizes = [size for size, count in STORIES.items() for _ in range(round(scale * count)) if size <= scale * 5_000]
    uniques = round(scale * DOCUMENTS) - sum(sizes)
    with tempfile.TemporaryDirectory(prefix="story-kills-") as name:
        directory = Path(name)
        with LocalKafka(directory / "kafka") as kafka:
            run = run_for(kafka, directory, client)
            show(measured(run, directory, sizes, uniques, kills) | machine(), as_json=as_json)


if __name__ == "__main__":
    main()
