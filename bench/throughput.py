"""Documents a second: over files, and Kafka to Kafka beside a bare exactly-once copy loop with the same client.

Each Kafka round fills a fresh input topic. Then the copy loop and the filter run over it in turn, with each client, one
worker each, with the same transport, batch size and broker; the ratio is taken within a round. A first round only warms the
broker up, which compiles itself at first. CPU time is this process's, client threads included, charged to the verb
under way.

    python -m bench.throughput files [DOCUMENTS ...] [--json]
    python -m bench.throughput cores [DOCUMENTS ...] [--packed warc.gz|jsonl.gz] [--processes N] [--json]
    python -m bench.throughput kafka [DOCUMENTS ...] [--client NAME ...] [--json]
"""

import gzip
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from bench.documents import document_lines
from deploy.kafka_run import fill
from deploy.local_kafka import LocalKafka
from index.entry import Verdict
from streamer.demo.demo import documents as demo_documents
from streamer.fingerprint.scheme import scheme_for
from streamer.observe.batch_report import BatchReport
from streamer.observe.logs import configure_logging
from streamer.records.record import Decision, Destination, Outgoing
from streamer.service.file_job import filter_files
from streamer.service.loop import Listener
from streamer.service.summary import Totals
from streamer.service.wiring import build_service, open_index
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import create_topics
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned, Finished

CLIENTS = ("kafka-python", "confluent-kafka")


def values_of(files: Sequence[Path], count: int) -> list[bytes]:
    """Documents of the benchmark: from files, else the demo's own. None is repeated: all copies would be duplicates."""
    return list(document_lines(files)) if files else list(demo_documents(count))


def settings_for(directory: Path, name: str, overrides: Sequence[str], broker: LocalKafka | None = None) -> Settings:
    topics = [f"topics.{role}={name}-{role.replace('_', '-')}" for role in ("unique", "duplicate", "dead_letter")]
    kafka = [f"kafka.bootstrap_servers={broker.bootstrap_servers}", f"kafka.group={name}"] if broker else []
    return load(None, [f"index.directory={directory / name}", *topics, *kafka, *overrides], {})


def filter_round(settings: Settings, count: int) -> Totals:
    """Run the service, one worker, over a filled topic. The clock runs from the read of the first batch to the end."""
    totals = Totals()
    fingerprinter = scheme_for(settings)
    with open_index(settings, fingerprinter) as index:
        transport = KafkaTransport(settings, "0")

        begin = 0.0

        class Counting(Listener):
            def batch(self, figures: BatchReport) -> None:
                nonlocal begin
                begin = begin or time.perf_counter() - sum(figures.step_seconds.values())
                totals.add(figures)
                if totals.records >= count:
                    service.stop()

        service = build_service(settings, transport, index, fingerprinter, Counting(), settings.recovery)
        service.run()
        totals.seconds = time.perf_counter() - begin
    return totals


def copy_round(settings: Settings, count: int) -> tuple[float, float]:
    """Run the bare exactly-once copy loop over the same topic, timed alike: seconds, microseconds of CPU a document."""
    transport = KafkaTransport(settings, "0")
    decision = Decision(Verdict.UNIQUE, "copied", None)
    copied = 0
    first: tuple[float, float] | None = None
    transport.open()
    while copied < count:
        now = time.perf_counter(), time.process_time()
        event = transport.read()
        if isinstance(event, Finished):
            raise AssertionError("a topic never ends")
        if isinstance(event, Assigned):
            for source in event.sources:
                transport.commit_start({source: 0})
                transport.seek(source, 0, None)
            continue
        if event.records and first is None:
            first = now
        transport.deliver(
            event, [Outgoing(Destination.UNIQUE, record, record.headers, decision) for record in event.records]
        )
        copied += len(event.records)
    assert first is not None
    seconds, cpu_seconds = time.perf_counter() - first[0], time.process_time() - first[1]
    transport.close()
    return seconds, 1e6 * cpu_seconds / count


@click.group()
def main() -> None:
    """Documents a second: over files, and Kafka to Kafka beside a bare exactly-once copy loop."""
    configure_logging("warning", "console")


@main.command()
@click.argument("documents", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=20_000, show_default=True, help="Made-up documents where no files are given.")
@click.option("--set", "overrides", multiple=True, help="A setting.")
@click.option("--json", "as_json", is_flag=True)
def files(documents: tuple[Path, ...], count: int, overrides: tuple[str, ...], as_json: bool) -> None:
    """Filter JSON Lines into files, with the index on disk."""
    with tempfile.TemporaryDirectory(prefix="throughput-") as name:
        directory = Path(name)
        source = directory / "documents.jsonl"
        source.write_bytes(b"".join(line + b"\n" for line in values_of(documents, count)))
        settings = settings_for(directory, "files", overrides)
        totals, _ = filter_files(settings, [source], directory / "out", Console(stderr=True))
    show(
        {
            "documents": totals.records,
            "documents_per_second": totals.records_per_second,
            "cpu_us_by_verb": totals.cpu_us_by_step(),
            **machine(),
        },
        as_json,
    )


def page(value: bytes, host: str) -> bytes:
    """A document as a record of WARC, on a host of its own."""
    document = orjson.loads(value)
    head = "".join(f'<meta name="property-{number}" content="{number * 7919}">' for number in range(90))
    html = f"<html><head><title>{document.get('title', '')}</title>{head}</head><body>{document['text']}</body></html>"
    block = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}".encode()
    headers = {
        "WARC-Type": "response",
        "WARC-Record-ID": f"<urn:{host}>",
        "WARC-Target-URI": f"https://h{host}.example/",
        "WARC-Date": "2026-11-22T10:00:00Z",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(block)),
    }
    lines = "".join(f"{name}: {content}\r\n" for name, content in headers.items())
    return f"WARC/1.0\r\n{lines}\r\n".encode() + block + b"\r\n\r\n"


def written(folder: Path, values: Sequence[bytes], packed: str | None) -> Path:
    """The documents as one file of lines, or as twenty packed files in a folder: of lines, or of pages with a markup of 4 kB."""
    folder.mkdir()
    if packed is None:
        (folder / "documents.jsonl").write_bytes(b"".join(line + b"\n" for line in values))
        return folder / "documents.jsonl"
    for number in range(20):
        part = values[number::20]
        if packed == "jsonl.gz":
            content = gzip.compress(b"".join(line + b"\n" for line in part))
        else:
            content = b"".join(gzip.compress(page(document, f"{row}-{number}")) for row, document in enumerate(part))
        (folder / f"{number:02}.{packed}").write_bytes(content)
    return folder


def run_to_end(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Run a command. Returns seconds by the clock, processor seconds with all its processes, and those of its first one alone."""
    begin = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - begin
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu_seconds, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@main.command()
@click.argument("documents", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=200_000, show_default=True, help="Made-up documents where no files are given.")
@click.option(
    "--packed", type=click.Choice(["warc.gz", "jsonl.gz"]), help="Twenty packed files in place of one of lines."
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--processes", default=len(os.sched_getaffinity(0)), show_default=True)
@click.option("--set", "overrides", multiple=True, help="A setting.")
@click.option("--json", "as_json", is_flag=True)
def cores(
    documents: tuple[Path, ...],
    count: int,
    packed: str | None,
    rounds: int,
    processes: int,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Filter files by the whole command, in turn with one process and with several; a first round warms up."""
    pages = ["decode.preset=warc", "fingerprint.markup=html"] if packed == "warc.gz" else []
    chosen = [word for override in (*pages, *overrides) for word in ("--set", override)]
    with tempfile.TemporaryDirectory(prefix="throughput-") as name:
        directory = Path(name)
        values = [value for value in values_of(documents, count) if packed is None or is_document(value)]
        source = written(directory / "documents", values, packed)
        found: dict[int, list[tuple[float, float, float]]] = {1: [], processes: []}
        for number in range(rounds + 1):
            for each, runs in found.items():
                place = str(directory / f"{number}-{each}")
                named = ["--out", place, "--index", f"{place}.index", "--processes", str(each)]
                run = run_to_end([sys.executable, "-m", "streamer", *chosen, "filter", str(source), *named])
                if number:
                    runs.append(run)
        ratios = sorted(one[0] / several[0] for one, several in zip(found[1], found[processes], strict=True))
    medians = {
        str(each): [statistics.median(column) for column in zip(*runs, strict=True)] for each, runs in found.items()
    }
    show(
        {
            "documents": len(values),
            "bytes_per_document": sum(map(len, values)) / len(values),
            "seconds": {each: median[0] for each, median in medians.items()},
            "cpu_seconds": {each: median[1] for each, median in medians.items()},
            "cpu_seconds_first_process": {each: median[2] for each, median in medians.items()},
            "ratio": statistics.median(ratios),
            "ratio_min": ratios[0],
            "ratio_max": ratios[-1],
            **machine(),
        },
        as_json,
    )


def is_document(value: bytes) -> bool:
    """Whether a made-up line is no dead letter."""
    try:
        return bool(orjson.loads(value).get("text"))
    except (orjson.JSONDecodeError, AttributeError):
        return False


@dataclass
class Rounds:
    """What was measured with one client, by round; `copied` documents a second, `copy_cpu` microseconds a document."""

    copied: list[float] = field(default_factory=list)
    copy_cpu: list[float] = field(default_factory=list)
    filtered: list[Totals] = field(default_factory=list)

    def add(self, copy: Settings, real: Settings, count: int) -> None:
        """One round more: the copy loop, then the filter."""
        seconds, cpu_us = copy_round(copy, count)
        self.copied.append(count / seconds)
        self.copy_cpu.append(cpu_us)
        self.filtered.append(filter_round(real, count))

    def result(self) -> dict[str, Any]:
        ratios = [totals.records_per_second / copied for totals, copied in zip(self.filtered, self.copied, strict=True)]
        by_step = self.filtered[ratios.index(statistics.median_low(ratios))].cpu_us_by_step()
        return {
            "documents_per_second": statistics.median(totals.records_per_second for totals in self.filtered),
            "copy_documents_per_second": statistics.median(self.copied),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "cpu_us": sum(by_step.values()),
            "copy_cpu_us": statistics.median(self.copy_cpu),
            "cpu_us_by_verb": by_step,
        }


@main.command()
@click.argument("documents", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=60_000, show_default=True, help="Made-up documents where no files are given.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--partitions", default=4, show_default=True)
@click.option(
    "--client", "clients", multiple=True, type=click.Choice(CLIENTS), default=CLIENTS, show_default=True, help="Client."
)
@click.option("--set", "overrides", multiple=True, help="A setting.")
@click.option("--json", "as_json", is_flag=True)
def kafka(
    documents: tuple[Path, ...],
    count: int,
    rounds: int,
    partitions: int,
    clients: tuple[str, ...],
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Filter from Kafka to Kafka on one worker, next to the bare copy loop, with each client."""
    if any(override.startswith("kafka.client=") for override in overrides):
        raise click.UsageError("name clients by --client, which may be repeated; --set kafka.client has no effect")
    values = values_of(documents, count)
    by_client = {client: Rounds() for client in clients}
    with tempfile.TemporaryDirectory(prefix="throughput-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with LocalKafka(directory / "kafka") as broker:
            for number in range(rounds + 1):
                source = f"topics.input=documents-{number}"
                for client, found in by_client.items():
                    # The client comes last: no override puts another one into its row.
                    chosen = [source, *overrides, f"kafka.client={client}"]
                    copy = settings_for(directory, f"copy-{client}-{number}", chosen, broker)
                    real = settings_for(directory, f"filter-{client}-{number}", chosen, broker)
                    if create_topics(copy, partitions, 1)[copy.topics.input] == "created":
                        fill(broker.bootstrap_servers, copy.topics.input, values)
                    create_topics(real, partitions, 1)
                    measured = found if number else Rounds()
                    measured.add(copy, real, len(values))
    show(
        {
            "documents": len(values),
            "bytes_per_document": sum(map(len, values)) / len(values),
            "rounds": rounds,
            **{client: found.result() for client, found in by_client.items()},
            **machine(),
        },
        as_json,
    )


def show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(result))
        return
    table = Table("", "", show_header=False, box=None)
    for key, value in flat(result):
        table.add_row(key, f"{value:,.2f}" if isinstance(value, float) else str(value))
    Console().print(table)


def flat(result: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """All figures, each under the names that lead to it."""
    for key, value in result.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key} ")
        else:
            yield f"{before}{key}", value


if __name__ == "__main__":
    main()
