"""Documents a second of the whole service with one worker and with more, and the processor time of service and broker.

    python -m bench.workers [--workers 1 --workers 2] [--count 60000] [--set SETTING] [--json]

For each number of workers a fresh topic of 4 partitions is filled, and then the service starts. What counts is the time from
a tenth of the documents delivered to all of them. Broker, service and this program, which waits, share one machine.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.accuracy import machine
from deploy.kafka_run import Run, create_topics, fill, kill_group
from deploy.local_kafka import LocalKafka, free_port
from streamer.demo.demo import documents as demo_documents

PARTITIONS = 4
LOOK_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(wanted: Callable[[Path, int], bool]) -> float:
    """Processor time so far of all processes that `wanted` takes, by folder in /proc and session; of their dead children too."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may hold anything: fields 3 and on, as proc_pid_stat(5) counts them.
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            if wanted(folder, int(fields[3])):
                total += sum(map(int, fields[11:15]))
        except OSError:
            continue
    return total / TICKS


def measure(broker: LocalKafka, run: Run, count: int) -> dict[str, Any]:
    """Run the service until all is delivered."""

    def of_service(_: Path, session: int) -> bool:
        return session == service.pid

    def of_broker(folder: Path, _: int) -> bool:
        return (folder / "cwd").readlink() == broker.directory

    def until(delivered: int) -> tuple[int, float, float, float]:
        while (found := run.delivered()) < delivered:
            if service.poll() is not None:
                raise click.ClickException(log.read_text())
            time.sleep(LOOK_SECONDS)
        return found, time.perf_counter(), processor_seconds(of_service), processor_seconds(of_broker)

    log = run.directory / f"{run.name}.log"
    service = run.start(log)
    try:
        begin, end = until(count // 10), until(count)
    finally:
        kill_group(service)
    documents, seconds, of_all_workers, of_the_broker = (
        after - before for before, after in zip(begin, end, strict=True)
    )
    return {
        "documents_per_second": documents / seconds,
        "service_us_per_document": 1e6 * of_all_workers / documents,
        "broker_us_per_document": 1e6 * of_the_broker / documents,
        "cores_busy": (of_all_workers + of_the_broker) / seconds,
    }


@click.command(help=__doc__)
@click.option("--workers", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1, PARTITIONS))
@click.option("--count", default=60_000, show_default=True, help="Made-up documents.")
@click.option("--set", "settings", multiple=True, help="A setting of the service.")
@click.option("--json", "as_json", is_flag=True)
def main(workers: Sequence[int], count: int, settings: tuple[str, ...], as_json: bool) -> None:
    found = {}
    with tempfile.TemporaryDirectory(prefix="workers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LocalKafka(folder / "kafka") as broker:
            for place, each in enumerate(workers):
                run_name = f"run-{place}"
                chosen = (f"workers.count={each}", *settings)
                run = Run(run_name, broker.bootstrap_servers, f"{run_name}-documents", folder, free_port(), chosen)
                create_topics(broker.bootstrap_servers, [run.input_topic], PARTITIONS)
                create_topics(broker.bootstrap_servers, map(run.topic, ("unique", "duplicate", "dead-letter")))
                fill(broker.bootstrap_servers, run.input_topic, demo_documents(count))
                found[each] = measure(broker, run, count)
    if as_json:
        click.echo(orjson.dumps({"workers": {str(each): of for each, of in found.items()}, **machine()}))
        return
    table = Table("workers", "documents/s", "us of the service", "us of the broker", "cores busy", box=None)
    for each, of in found.items():
        service, broker_us = of["service_us_per_document"], of["broker_us_per_document"]
        table.add_row(
            str(each),
            f"{of['documents_per_second']:,.0f}",
            f"{service:.0f}",
            f"{broker_us:.0f}",
            f"{of['cores_busy']:.2f}",
        )
    Console().print(table)
    Console().print(", ".join(f"{key} {value}" for key, value in machine().items()))


if __name__ == "__main__":
    main()
