"""Run the service for long with retention on, and watch the memory, disk and open files that it holds.

Documents of new words never end; every tenth is a copy of a recent one with one word changed. The index may hold
`--entries` of them, the output topics a bounded number of bytes. Every position must come out exactly once. The resources
held are printed for each tenth of the time, so that a leak shows as a column that grows to its end.

    python -m bench.soak [--minutes 30] [--entries 50000] [--set SETTING] [--json]
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
import psutil
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.conditions import machine
from bench.index import anonymous_mib
from bench.ready import wait_until_ready
from deploy.kafka_run import DESTINATIONS, Run, stop
from deploy.local_kafka import LocalKafka

INPUT = "documents"
PARTS = 10
BEHIND_RECORDS_MAX = 5_000
SAMPLE_SECONDS = 2.0
DRAIN_SECONDS = 60
_RECENT = 500
_WORDS = 150
_LETTERS = np.array([*map(chr, range(0x4E00, 0x9FA6)), *"abcdefghijklmnopqrstuvwxyz" * 400])


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources that the service, supervisor and workers together, holds at one moment.

    memory_mib  what no file stands behind: the kernel may drop what is mapped from files, the index above all, at any time
    """

    documents: int
    memory_mib: float
    index_mib: float
    open_files: int
    threads: int


def documents(seed: int) -> Iterator[bytes]:
    """Endless JSON documents, the same for the same seed."""
    random = np.random.default_rng(seed)
    recent: list[list[str]] = []
    for number in count():
        if recent and number % 10 == 9:
            words = list(recent[random.integers(len(recent))])
            words[random.integers(_WORDS)] = "changed"
        else:
            letters = "".join(random.choice(_LETTERS, 4 * _WORDS))
            words = [letters[4 * at : 4 * at + 1 + at % 4] for at in range(_WORDS)]
            recent = [*recent[-_RECENT:], words]
        yield orjson.dumps({"id": f"soak-{number}", "text": " ".join(words)})


class Exactly:
    """Read-committed reader that counts how often each input position came out."""

    def __init__(self, run: Run) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=run.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=None,
        )
        self._consumer.assign([TopicPartition(run.topic(destination), 0) for destination in DESTINATIONS])
        self._times = bytearray()
        self.seen = 0

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=50, max_records=20_000).values():
            for record in records:
                position = dict(record.headers)["neardup.position"]
                offset = int(position.rsplit(b"/", 1)[1])
                self._times.extend(bytes(max(0, offset + 1 - len(self._times))))
                self._times[offset] = min(255, self._times[offset] + 1)
                self.seen += 1

    def doubled(self) -> int:
        return sum(times > 1 for times in self._times)

    def lost(self, produced: int) -> int:
        return produced - sum(times > 0 for times in self._times)


def sample(run: Run, process: psutil.Process, seen: int) -> Sample:
    everyone = [process, *process.children(recursive=True)]
    index = sum(file.stat().st_blocks * 512 for file in (run.directory / run.name).rglob("*") if file.is_file())
    return Sample(
        seen,
        sum(anonymous_mib(one.pid) for one in everyone),
        index / 2**20,
        sum(one.num_fds() for one in everyone),
        sum(one.num_threads() for one in everyone),
    )


def watch(
    run: Run, process: psutil.Process, seconds: float, seed: int, bar: Progress
) -> tuple[list[Sample], int, Exactly]:
    """Produce, read and sample until the time is over. The producer never runs far ahead of the outputs."""
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, linger_ms=20, acks="all", compression_type="lz4")
    exactly, samples, produced = Exactly(run), [], 0
    stream = documents(seed)
    task = bar.add_task("soaking", total=seconds)
    begin = now = time.monotonic()
    sampled = begin
    while now < begin + seconds:
        if produced - exactly.seen < BEHIND_RECORDS_MAX:
            for _ in range(500):
                producer.send(INPUT, value=next(stream))
            produced += 500
        exactly.poll()
        now = time.monotonic()
        if now >= sampled + SAMPLE_SECONDS:
            sampled = now
            samples.append(sample(run, process, exactly.seen))
            bar.update(task, completed=now - begin)
    producer.flush(timeout=DRAIN_SECONDS)
    producer.close()
    while exactly.seen < produced and time.monotonic() < now + DRAIN_SECONDS:
        exactly.poll()
    return samples, produced, exactly


def by_part(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """Median of each resource held, for each of PARTS equal stretches of time."""
    stretches = [samples[len(samples) * part // PARTS : len(samples) * (part + 1) // PARTS] for part in range(PARTS)]
    return [
        {field.name: statistics.median(getattr(one, field.name) for one in stretch) for field in fields(Sample)}
        for stretch in stretches
        if stretch
    ]


def show(result: dict[str, Any], parts: Sequence[dict[str, float]]) -> None:
    table = Table("part", *(field.name for field in fields(Sample)))
    for column in table.columns:
        column.justify = "right"
    for number, part in enumerate(parts, 1):
        table.add_row(str(number), *(f"{value:,.0f}" for value in part.values()))
    console = Console()
    console.print(table)
    for key, value in result.items():
        console.print(f"{key}: {value}")


@click.command()
@click.option("--minutes", default=30.0, show_default=True, type=click.FloatRange(min=0.2))
@click.option("--entries", default=50_000, show_default=True, help="How many documents the index may hold.")
@click.option("--set", "settings", multiple=True, help="A setting.")
@click.option("--seed", default=2026, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(minutes: float, entries: int, settings: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Run the service for long with retention on, and watch the resources that it holds."""
    errors = Console(stderr=True)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True)))
        broker = stack.enter_context(LocalKafka(directory / "kafka"))
        run = Run(
            "soak", broker.bootstrap_servers, INPUT, directory, 19_466, (f"index.entries_max={entries}", *settings)
        )
        create_bounded(run)
        process = run.start(directory / "soak.log")
        wait_until_ready(run, process)
        bar = stack.enter_context(Progress(console=errors))
        samples, produced, exactly = watch(run, psutil.Process(process.pid), 60 * minutes, seed, bar)
        exit_code = stop(process)
    parts = by_part(samples)
    result = {
        "minutes": minutes,
        "documents": produced,
        "lost": exactly.lost(produced),
        "doubled": exactly.doubled(),
        "exit_code": exit_code,
        **machine(),
    }
    if as_json:
        click.echo(orjson.dumps({**result, "parts": parts, "samples": [asdict(one) for one in samples]}))
    else:
        show(result, parts)
    if result["lost"] or result["doubled"] or exit_code:
        raise click.ClickException("not every document came out exactly once, or the service did not end well")


def create_bounded(run: Run) -> None:
    """Create topics whose old segments are deleted, so that the broker's disk stays bounded too."""
    admin = KafkaAdminClient(bootstrap_servers=run.bootstrap_servers)
    configs = {"retention.bytes": str(2**27), "segment.bytes": str(2**25)}
    topics = [INPUT, *(run.topic(destination) for destination in DESTINATIONS)]
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs} for topic in topics})
    admin.close()


if __name__ == "__main__":
    main()
