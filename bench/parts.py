"""What each part of a service takes: processor time a document, and documents a second with one worker and with two.

    python -m bench.parts [--workers 1 --workers 2] [--count 100000] [--set SETTING] [--json]

For each number of workers the parts run one after the other over the same fresh topics, so each has its whole input before it
starts. What counts is the time from a quarter of its input committed to all of it. A first round, of one worker, only warms
the broker up. Broker, part and this program, which waits, share one machine. Microseconds a document are also the share of a
core, in thousandths, that a thousand documents a second take.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from bench.workers import measure
from deploy.kafka_run import Run, fill
from deploy.local_kafka import LocalKafka, free_port
from streamer.demo.demo import documents as demo_documents
from streamer.errors import BrokerUnavailable
from streamer.settings.parts import Part, settings_of
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import claims_of_group, create_topics

PARTS: tuple[Part, ...] = ("fingerprint", "decide", "route")
PARTITIONS = 4

LOOK_SECONDS = 0.4
"""A look at committed offsets is work for the broker, and counts with its own."""


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
                    done = partial(_committed, settings_of(settings, part), part)
                    measured = measure(broker, run, count, done, LOOK_SECONDS, ("run", "--part", part), f"-{part}")
                    if place:
                        found.append({"part": part, "workers": each, **measured})
    if as_json:
        click.echo(orjson.dumps({"parts": found, **machine()}))
        return
    table = Table("part", "workers", "documents/s", "us of the part", "us of the broker", box=None)
    for of in found:
        rates = of["documents_per_second"], of["service_us_per_document"], of["broker_us_per_document"]
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
