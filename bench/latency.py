"""Latency from the append of a document to its verdict, while documents come at an even rate.

    python -m bench.latency [--rate 2000] [--seconds 20] [--set SETTING] [--json]

One service over a real broker, both beside this program. A document carries the time at which it is produced, which its
output keeps. A reader of committed records takes the time at which the output arrives. So the figures hold the way of a
producer, which waits LINGER_MS for more, to the broker, the wait for a batch, all six verbs, the transaction, and the way to
a reader.

Take half of what `bench.throughput kafka` finds as rate. With more, batches grow; beyond the whole of it, lag does.
"""

import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from deploy.kafka_run import DESTINATIONS, Run, create_topics, kill_group
from deploy.local_kafka import LocalKafka, free_port
from streamer.demo.demo import documents as demo_documents

TICK_SECONDS = 0.01
LINGER_MS = 5
"""The default of confluent-kafka. With a request for every document a producer of Python reaches some hundred a second."""
WARM_UP_SECONDS = 5.0
"""At the begin, that are not counted: the service compiles and joins its group."""


def produce(servers: str, topic: str, documents: Sequence[bytes], rate: int) -> None:
    """Produce documents at an even rate, each with the time of its own."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": LINGER_MS, "acks": 1})
    values, begin, sent = iter(documents), time.time(), 0
    while sent < len(documents):
        for value in islice(values, int(rate * (time.time() - begin)) - sent):
            producer.produce(topic, value, timestamp=int(time.time() * 1000))
            sent += 1
        producer.poll(0)
        time.sleep(TICK_SECONDS)
    if left := producer.flush(60):
        raise click.ClickException(f"the broker did not take {left} documents")


def arrivals(run: Run, stop: threading.Event, found: list[tuple[float, float]]) -> None:
    """Note of every output when it was produced and when it arrived, in seconds, until `stop`."""
    consumer = KafkaConsumer(
        bootstrap_servers=run.bootstrap_servers, isolation_level="read_committed", group_id=None, fetch_max_wait_ms=20
    )
    consumer.assign([TopicPartition(run.topic(destination), 0) for destination in DESTINATIONS])
    consumer.seek_to_beginning()
    while not stop.is_set():
        for records in consumer.poll(timeout_ms=100, max_records=10_000).values():
            now = time.time()
            found += [(record.timestamp / 1000, now) for record in records]
    consumer.close()


def measure(directory: Path, rate: int, seconds: float, settings: tuple[str, ...]) -> dict[str, Any]:
    """Run broker, service, producer and reader; latencies in milliseconds."""
    documents = list(demo_documents(int(rate * (WARM_UP_SECONDS + seconds))))
    count = len(documents)
    with LocalKafka(directory / "kafka") as broker:
        run = Run("latency", broker.bootstrap_servers, "documents", directory, free_port(), settings)
        create_topics(broker.bootstrap_servers, ["documents"], 4)
        create_topics(broker.bootstrap_servers, [run.topic(each) for each in ("unique", "duplicate", "dead-letter")])
        service = run.start(directory / "service.log")
        stop, found = threading.Event(), list[tuple[float, float]]()
        reader = threading.Thread(target=arrivals, args=(run, stop, found))
        try:
            while not run.ready():
                if service.poll() is not None:
                    raise click.ClickException((directory / "service.log").read_text())
                time.sleep(0.2)
            reader.start()
            begin = time.time()
            produce(broker.bootstrap_servers, "documents", documents, rate)
            deadline = time.monotonic() + 60
            while len(found) < count and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            stop.set()
            if reader.is_alive():
                reader.join()
            kill_group(service)
    if len(found) < count:
        raise click.ClickException(f"{count - len(found)} of {count} documents have no verdict: the rate is too high")
    steady = [(arrived - produced) * 1000 for produced, arrived in found if produced >= begin + WARM_UP_SECONDS]
    p50, p90, p99 = np.percentile(steady, [50, 90, 99]).tolist()
    return {
        "documents": len(steady),
        "documents_per_second": len(steady) / seconds,
        "p50_ms": p50,
        "p90_ms": p90,
        "p99_ms": p99,
        "max_ms": max(steady),
        **machine(),
    }


@click.command(help=__doc__)
@click.option("--rate", default=2000, show_default=True, help="Documents a second.")
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--set", "settings", multiple=True, help="A setting of the service.")
@click.option("--json", "as_json", is_flag=True)
def main(rate: int, seconds: float, settings: tuple[str, ...], as_json: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="latency-", ignore_cleanup_errors=True) as name:
        found = measure(Path(name), rate, seconds, settings)
    if as_json:
        click.echo(orjson.dumps(found))
        return
    table = Table(show_header=False, box=None)
    for key, value in found.items():
        table.add_row(key, f"{value:,.1f}" if isinstance(value, float) else str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
