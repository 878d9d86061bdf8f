"""Documents a second of the whole service by its workers and their processes, and processor time of service and broker.

    python -m bench.workers [DOCUMENTS ...] [--workers 1 --workers 2] [--processes 1] [--count 200000] [--set SETTING] [--json]

For each number of workers, and of processes a worker, a fresh topic of 4 partitions is filled, and then the service starts.
What counts is the time from a quarter of the documents delivered to all of them: workers that join one after the other share
the partitions out anew, and each time deliver nothing for a while. A first run, of one worker, only warms the broker up, which
compiles itself at first. Broker, service and this program, which waits, share one machine.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from bench.throughput import values_of
from deploy.kafka_run import Run, create_topics, fill, kill_group
from deploy.local_kafka import LocalKafka, free_port
from deploy.processor_time import processes_in, processes_of_session, processor_seconds

PARTITIONS = 4
LOOK_SECONDS = 0.1


def measure(
    broker: LocalKafka,
    run: Run,
    count: int,
    done: Callable[[], int],
    look_seconds: float = LOOK_SECONDS,
    command: Sequence[str] = (),
    name: str = "",
) -> dict[str, Any]:
    """Run the service, or a command under another name, until it is done with all documents; `done`: with how many it is."""

    def until(wanted: int) -> tuple[int, float, float, float]:
        while (found := done()) < wanted:
            if service.poll() is not None:
                raise click.ClickException(log.read_text())
            time.sleep(look_seconds)
        of_service = processor_seconds(processes_of_session(service.pid))
        return found, time.perf_counter(), of_service, processor_seconds(processes_in(broker.directory))

    log = run.directory / f"{run.name}{name}.log"
    service = run.start(log, command=command)
    try:
        begin, end = until(count // 4), until(count)
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
@click.argument("documents", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--workers", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1, PARTITIONS))
@click.option("--processes", multiple=True, default=(1,), show_default=True, help="Processes of a worker.")
@click.option("--count", default=200_000, show_default=True, help="Made-up documents where no files are given.")
@click.option("--set", "settings", multiple=True, help="A setting of the service.")
@click.option("--json", "as_json", is_flag=True)
def main(
    documents: tuple[Path, ...],
    workers: Sequence[int],
    processes: Sequence[int],
    count: int,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    found, values = {}, values_of(documents, count)
    wanted = list(product(workers, processes))
    with tempfile.TemporaryDirectory(prefix="workers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LocalKafka(folder / "kafka") as broker:
            for place, (each, shares) in enumerate([(1, 1), *wanted]):
                run_name = f"run-{place}"
                chosen = (f"workers.count={each}", f"workers.processes={shares}", *settings)
                run = Run(run_name, broker.bootstrap_servers, f"{run_name}-documents", folder, free_port(), chosen)
                create_topics(broker.bootstrap_servers, [run.input_topic], PARTITIONS)
                create_topics(broker.bootstrap_servers, map(run.topic, ("unique", "duplicate", "dead-letter")))
                fill(broker.bootstrap_servers, run.input_topic, values)
                measured = measure(broker, run, len(values), run.delivered)
                if place:
                    found[each, shares] = measured
    if as_json:
        rows = [{"workers": each, "processes": shares, **of} for (each, shares), of in found.items()]
        click.echo(orjson.dumps({"runs": rows, **machine()}))
        return
    table = Table(
        "workers", "processes of each", "documents/s", "us of the service", "us of the broker", "cores busy", box=None
    )
    for (each, shares), of in found.items():
        service, broker_us = of["service_us_per_document"], of["broker_us_per_document"]
        table.add_row(
            str(each),
            str(shares),
            f"{of['documents_per_second']:,.0f}",
            f"{service:.0f}",
            f"{broker_us:.0f}",
            f"{of['cores_busy']:.2f}",
        )
    Console().print(table)
    Console().print(", ".join(f"{key} {value}" for key, value in machine().items()))


if __name__ == "__main__":
    main()
