"""What each part of a service takes: processor time a document, and documents a second with one worker and with two.

    python -m bench.parts [--workers 1 --workers 2] [--count 100000] [--set SETTING] [--json]

For each number of workers the parts run one after the other over the same fresh topics, so each has its whole input before it
starts. What counts is the time from a quarter of its input committed to all of it. A first round, of one worker, only warms
the broker up. Broker, part and this program, which waits, share one machine. Microseconds a document are also the share of a
core, in thousandths, that a thousand documents a second take.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.accuracy import machine
from deploy.kafka_run import Run, fill, kill_group
from deploy.local_kafka import LocalKafka, free_port
from deploy.processor_time import processes_in, processes_of_session, processor_seconds
from streamer.demo.demo import documents as demo_documents
from streamer.errors import BrokerUnavailable
from streamer.settings.parts import Part, settings_of
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import claims_of_group, create_topics

PARTS: tuple[Part, ...] = ("fingerprint", "decide", "route")
PARTITIONS = 4
LOOK_SECONDS = 0.4


def measure(broker: LocalKafka, run: Run, settings: Settings, part: Part, count: int) -> dict[str, float]:
    """Run one part until it has committed all `count` documents."""
    own = settings_of(settings, part)

    def until(wanted: int) -> tuple[int, float, float, float]:
        while (done := _committed(own, part)) < wanted:
            if service.poll() is not None:
                raise click.ClickException(log.read_text())
            time.sleep(LOOK_SECONDS)
        of_part = processor_seconds(processes_of_session(service.pid))
        return done, time.perf_counter(), of_part, processor_seconds(processes_in(broker.directory))

    log = run.directory / f"{run.name}-{part}.log"
    service = run.start(log, command=("run", "--part", part))
    try:
        begin, end = until(count // 4), until(count)
    finally:
        kill_group(service)
    documents, seconds, of_part, of_broker = (after - before for before, after in zip(begin, end, strict=True))
    return {
        "documents_per_second": documents / seconds,
        "part_us_per_document": 1e6 * of_part / documents,
        "broker_us_per_document": 1e6 * of_broker / documents,
    }


@click.command(help=__doc__)
@click.option("--workers", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1, PARTITIONS))
@click.option("--count", default=100_000, show_default=True, help="Made-up documents.")
@click.option("--set", "chosen", multiple=True, help="A setting of all parts.")
@click.option("--json", "as_json", is_flag=True)
def main(workers: Sequence[int], count: int, chosen: tuple[str, ...], as_json: bool) -> None:
    found, values = [], list(demo_documents(count))
    with tempfile.TemporaryDirectory(prefix="parts-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LocalKafka(folder / "kafka") as broker:
            for place, each in enumerate((1, *workers)):
                run_name = f"run-{place}"
                between = [f"topics.{topic}={run_name}-{topic}" for topic in ("fingerprints", "verdicts")]
                of_all = (f"workers.count={each}", "fingerprint.key=public", *between, *chosen)
                run = Run(run_name, broker.bootstrap_servers, f"{run_name}-documents", folder, free_port(), of_all)
                settings = load(None, [option for option in run.arguments() if "=" in option], {})
                create_topics(settings, PARTITIONS, 1, parts=True)
                fill(broker.bootstrap_servers, run.input_topic, values)
                for part in PARTS:
                    measured = measure(broker, run, settings, part, count)
                    if place:
                        found.append({"part": part, "workers": each, **measured})
    if as_json:
        click.echo(orjson.dumps({"parts": found, **machine()}))
        return
    table = Table("part", "workers", "documents/s", "us of the part", "us of the broker", box=None)
    for of in found:
        rates = of["documents_per_second"], of["part_us_per_document"], of["broker_us_per_document"]
        table.add_row(str(of["part"]), str(of["workers"]), *(f"{rate:,.0f}" for rate in rates))
    Console().print(table)
    Console().print(", ".join(f"{key} {value}" for key, value in machine().items()))


def _committed(settings: Settings, part: Part) -> int:
    """Documents that the part has committed; `decide` notes them with its offsets, which count batches."""
    try:
        claims = claims_of_group(settings).values()
    except BrokerUnavailable:
        # A new broker has no coordinator for a while.
        return 0
    if part == "decide":
        return sum(claim.place.offset for claim in claims if claim.place is not None)
    return sum(claim.offset for claim in claims)


if __name__ == "__main__":
    main()
