"""Kill -9 the running service again and again; its outputs must equal those of an undisturbed run.

Documents are produced in order to one partition of a real broker. The service filters them twice, into different
topics, under different groups and indexes. The first run is undisturbed. The second is killed at random moments (its
whole process group, its worker alone, or its supervisor alone), and started anew each time. Then every input position
must stand in exactly one output topic, once, with the same bytes and verdict headers as in the undisturbed run.

    python -m bench.chaos [--kills 100] [--documents FILE ...] [--json]
"""

import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson
import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.documents import document_lines
from deploy.kafka_run import DESTINATIONS, Outputs, Run, create_topics, fill, kill_group, stop
from deploy.local_kafka import LocalKafka
from streamer.demo.demo import documents as demo_documents

RUN_TIMEOUT_SECONDS = 600


@dataclass
class Chaos:
    """Disturbances of the second run: kills by target, and starts."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0


def undisturbed(run: Run, count: int, log: Path) -> tuple[Outputs, float]:
    """Filter all documents undisturbed. Returns the outputs, and the seconds from ready to the last output."""
    outputs = Outputs(run)
    process = run.start(log)
    wait_until_ready(run, process)
    begin = time.monotonic()
    if not outputs.wait_for(count, RUN_TIMEOUT_SECONDS):
        raise click.ClickException(f"the undisturbed run delivered {len(outputs.by_position)} of {count}; see {log}")
    seconds = time.monotonic() - begin
    stop(process)
    return outputs, seconds


def wait_until_ready(run: Run, process: subprocess.Popen[bytes], timeout_seconds: float = 60) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not run.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException(f"{run.name}: the service did not become ready (exit code {process.returncode})")
        time.sleep(0.02)


def strike(process: subprocess.Popen[bytes], chance: random.Random) -> str:
    """kill -9 a part of the service, and return which. The supervisor restarts a killed worker."""
    target = chance.choice(("everything", "everything", "supervisor", "worker"))
    if target == "everything":
        kill_group(process)
        return target
    if target == "supervisor":
        process.send_signal(signal.SIGKILL)
        process.wait()
        return target
    workers = [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]
    for worker in workers:
        worker.kill()
    return target if workers else "nothing"


def disturbed(
    run: Run, count: int, kills: int, peace_seconds: float, log: Path, chance: random.Random, bar: Progress
) -> tuple[Outputs, Chaos]:
    """Filter all documents while being killed `kills` times at random moments."""
    outputs, chaos = Outputs(run), Chaos()
    task = bar.add_task("kills", total=kills)
    process = run.start(log)
    chaos.starts += 1
    while chaos.kills.total() < kills:
        left = max(0.02, peace_seconds * (1 - len(outputs.by_position) / count))
        # One strike in four hits a service that is still starting: recovery must survive an interruption too.
        if chance.random() < 0.75:
            wait_until_ready(run, process)
            time.sleep(chance.uniform(0, 2 * left / (kills - chaos.kills.total())))
        else:
            time.sleep(chance.uniform(0, 1.5))
        struck = strike(process, chance)
        if struck != "nothing":
            chaos.kills[struck] += 1
            bar.update(task, completed=chaos.kills.total())
        if process.poll() is not None:
            process = run.start(log)
            chaos.starts += 1
        outputs.poll(timeout_ms=20)
    outputs.wait_for(count, RUN_TIMEOUT_SECONDS)
    stop(process)
    return outputs, chaos


def differences(peace: Outputs, war: Outputs, topic: str, count: int) -> list[str]:
    """Differences of the disturbed outputs from the undisturbed ones; empty where all is well."""
    found = []
    for position in (f"{topic}/0/{offset}" for offset in range(count)):
        expected, got = peace.by_position.get(position, []), war.by_position.get(position, [])
        if len(expected) != 1 or len(got) != 1:
            found.append(f"{position}: {len(expected)} times undisturbed, {len(got)} times disturbed")
        elif expected != got:
            found.append(f"{position}: {expected[0][0]} undisturbed, {got[0][0]} disturbed, or other headers")
    strangers = [position for position in war.by_position if position not in peace.by_position]
    return found + [f"{position}: never an input" for position in strangers]


def report(peace: Outputs, chaos: Chaos, found: list[str], count: int) -> dict[str, Any]:
    destinations = Counter(seen[0][0] for seen in peace.by_position.values())
    return {
        "documents": count,
        **{destination.replace("-", "_"): destinations[destination] for destination in DESTINATIONS},
        "kills": chaos.kills.total(),
        "kills_by_target": dict(chaos.kills),
        "starts": chaos.starts,
        "differences": len(found),
    }


@click.command()
@click.option("--kills", default=100, show_default=True, type=click.IntRange(1))
@click.option("--documents", "files", multiple=True, type=click.Path(path_type=Path, exists=True), help="JSON Lines.")
@click.option("--records-max", default=20, show_default=True, help="Records in a batch: small, so that kills hit many.")
@click.option("--set", "settings", multiple=True, help="A setting for both runs.")
@click.option("--seed", default=None, type=int, help="Seed of the moments and targets; printed.")
@click.option("--json", "as_json", is_flag=True)
def main(
    kills: int, files: tuple[Path, ...], records_max: int, settings: tuple[str, ...], seed: int | None, as_json: bool
) -> None:
    """Kill -9 the running service again and again; its outputs must equal those of an undisturbed run."""
    errors = Console(stderr=True)
    seed = seed if seed is not None else random.SystemRandom().randrange(2**32)
    values = list(document_lines(files)) if files else list(demo_documents(4_000))
    chosen = (f"batch.records_max={records_max}", "workers.restart_backoff_ms=50", *settings)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True)))
        broker = stack.enter_context(LocalKafka(directory / "kafka"))
        bar = stack.enter_context(Progress(console=errors))
        runs = [
            Run(name, broker.bootstrap_servers, "documents", directory, port, chosen)
            for name, port in (("undisturbed", 19_464), ("disturbed", 19_465))
        ]
        create_topics(broker.bootstrap_servers, ["documents", *(run.topic(d) for run in runs for d in DESTINATIONS)])
        count = fill(broker.bootstrap_servers, "documents", values)
        errors.print(f"{count:,} documents, {kills} kills, seed {seed}")
        peace, peace_seconds = undisturbed(runs[0], count, directory / "undisturbed.log")
        errors.print(f"undisturbed: {peace_seconds:.1f} s")
        war, chaos = disturbed(
            runs[1], count, kills, peace_seconds, directory / "disturbed.log", random.Random(seed), bar
        )
        found = differences(peace, war, "documents", count)
        result = {**report(peace, chaos, found, count), "seed": seed}
    for line in found[:20]:
        errors.print(line)
    if as_json:
        click.echo(orjson.dumps(result))
    else:
        table = Table("", "", show_header=False, box=None)
        for key, value in result.items():
            table.add_row(key, str(value))
        Console().print(table)
    if found:
        raise click.ClickException("the disturbed run differs from the undisturbed one")


if __name__ == "__main__":
    main()
