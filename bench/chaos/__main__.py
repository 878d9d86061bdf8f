"""Command line of the run."""

import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from bench.chaos.checks import finish
from bench.chaos.kinds import KINDS, obstacles
from bench.chaos.ledger import totals
from bench.chaos.planted import missed
from bench.chaos.readiness import UNTRUE_SECONDS_MAX
from bench.chaos.report import by_kind, table
from bench.chaos.sequence import TROUBLE, Failure, Struck, run_faults
from bench.chaos.world import RECOVERY_SECONDS_MAX, World
from streamer.settings.parts import PARTS


def chosen_kinds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str]:
    names = value.split(",") if value else list(KINDS)
    if unknown := [name for name in names if name not in KINDS]:
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(KINDS)}")
    return names


@dataclass
class Outcome:
    """What came of a run.

    found    what is wrong, in words
    flowed   documents that went in, and that came out by destination
    planted  what became of the planted errors
    """

    struck: list[Struck] = field(default_factory=list)
    failure: Failure | None = None
    found: list[str] = field(default_factory=list)
    flowed: dict[str, int] = field(default_factory=dict)
    planted: str = "not planted"

    @property
    def faults(self) -> int:
        return sum(len(each.kinds) for each in self.struck) + (len(self.failure.kinds) if self.failure else 0)


def conduct(
    world: World,
    kinds: list[str],
    faults: int,
    seconds_max: float,
    chance: random.Random,
    told: Callable[[Struck], None],
) -> Outcome:
    """Strike, check, and where nothing is wrong see that errors would have been found. `told` hears of every recovery."""
    outcome = Outcome()

    def note(struck: Struck) -> None:
        outcome.struck.append(struck)
        told(struck)

    try:
        world.recover()
        outcome.failure = run_faults(world, kinds, faults, seconds_max, chance, note)
        outcome.found = [outcome.failure.message] if outcome.failure else finish(world)
        outcome.flowed = {"documents": world.ledger.inputs, **totals(world.ledger)}
        if not outcome.found:
            outcome.found = missed(world)
            outcome.planted = f"{'not all ' if outcome.found else ''}found"
    except TROUBLE as error:
        outcome.found.append(f"{type(error).__name__}: {error}")
    return outcome


@click.command()
@click.option("--faults", default=100, show_default=True, type=click.IntRange(1))
@click.option("--kinds", callback=chosen_kinds, help="Names, separated by commas.  [default: all]")
@click.option("--seed", default=None, type=int, help="Seed of the kinds, moments and documents; printed.")
@click.option(
    "--minutes",
    default=180.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Begin no fault later.",
)
@click.option(
    "--partitions", default=3, show_default=True, type=click.IntRange(1, 8), help="1: compare with an undisturbed run."
)
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1))
@click.option("--rate", default=40.0, show_default=True, type=click.FloatRange(1), help="Documents a second.")
@click.option(
    "--recovery-seconds",
    default=RECOVERY_SECONDS_MAX,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="A slower recovery fails.",
)
@click.option(
    "--untrue-seconds",
    default=UNTRUE_SECONDS_MAX,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Services that say so long that they are ready, and deliver nothing, fail.",
)
@click.option(
    "--client",
    default="kafka-python",
    show_default=True,
    type=click.Choice(["kafka-python", "confluent-kafka"]),
    help="Client of the services.",
)
@click.option("--brokers", default="1", show_default=True, type=click.Choice(["1", "3"]), help="3: a cluster.")
@click.option("--parts", "in_parts", is_flag=True, help="Run the path in parts, a service each.")
@click.option("--set", "settings", multiple=True, help="A setting of the service.")
@click.option(
    "--directory", default=None, type=click.Path(path_type=Path), help="Where logs and data stay, also after success."
)
@click.option("--json", "as_json", is_flag=True)
def main(
    faults: int,
    kinds: list[str],
    seed: int | None,
    minutes: float,
    partitions: int,
    workers: int,
    rate: float,
    recovery_seconds: float,
    untrue_seconds: float,
    client: str,
    brokers: str,
    in_parts: bool,
    settings: tuple[str, ...],
    directory: Path | None,
    as_json: bool,
) -> None:
    """Strike a running service with faults of every kind; nothing may be lost, doubled, stuck or silent."""
    errors = Console(stderr=True)
    seed = seed if seed is not None else random.SystemRandom().randrange(2**32)
    place = (directory or Path(tempfile.mkdtemp(prefix="chaos-"))).resolve()
    errors.print(f"{faults} faults, seed {seed}; logs and data: {place}")
    # Asked to end in any way, it ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The service's timeouts here are shorter than compiling takes, which a fresh checkout would do in its first batch.
    subprocess.run([sys.executable, "-m", "streamer.fingerprint.warm_up"], check=True)
    begin = time.monotonic()
    chosen = (f"kafka.client={client}", *settings)
    parts = PARTS if in_parts else (None,)
    limits = (recovery_seconds, untrue_seconds)
    world = World(place, seed, partitions, workers, rate, *limits, chosen, parts, int(brokers))
    with world, Progress(console=errors) as bar:
        skipped = obstacles(world, kinds)
        for name, why in skipped.items():
            errors.print(f"not struck: {name}: {why}")
        task = bar.add_task("faults", total=faults)

        def told(struck: Struck) -> None:
            bar.update(task, advance=len(struck.kinds))
            errors.print(
                f"{(time.monotonic() - begin) / 60:.1f} min: {' + '.join(struck.kinds)} for {struck.fault_seconds:.1f} s, "
                f"recovered in {struck.recovery_seconds:.1f} s",
                highlight=False,
                soft_wrap=True,
            )

        outcome = conduct(world, kinds, faults, minutes * 60, random.Random(seed), told)
        if outcome.found:
            world.keep_index()
        result: dict[str, Any] = {
            "faults": outcome.faults,
            **outcome.flowed,
            "client": client,
            "parts": in_parts,
            "brokers": len(world.brokers),
            "partitions": world.traffic.partitions,
            "problems": len(outcome.found),
            "broker_restarts_by_hand": world.broker_restarts,
            "ready_untrue_seconds_max": round(world.readiness.untrue_seconds_max, 1),
            "planted_errors": outcome.planted,
            "not_struck": skipped,
            "minutes": round((time.monotonic() - begin) / 60, 1),
            "seed": seed,
            "command": shlex.join(["python", "-m", "bench.chaos", *sys.argv[1:]]),
        }
    rows = by_kind(outcome.struck, outcome.failure)
    if as_json:
        click.echo(orjson.dumps({**result, "kinds": rows}))
    else:
        Console().print(table(rows, result))
    for line in outcome.found[:20]:
        errors.print(line, markup=False, highlight=False, soft_wrap=True)
    if outcome.found:
        words = f"after {' + '.join(outcome.failure.kinds)}" if outcome.failure else "at the end"
        raise click.ClickException(f"not all is well {words}; logs, topics and index stay in {place}")
    if directory is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
