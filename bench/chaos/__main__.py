"""Command line of the run."""

import random
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from bench.chaos.checks import finish
from bench.chaos.kinds import KINDS, obstacles
from bench.chaos.ledger import totals
from bench.chaos.report import by_kind, table
from bench.chaos.sequence import TROUBLE, Struck, run_faults
from bench.chaos.world import World


def chosen_kinds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str]:
    names = value.split(",") if value else list(KINDS)
    if unknown := [name for name in names if name not in KINDS]:
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(KINDS)}")
    return names


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
    settings: tuple[str, ...],
    directory: Path | None,
    as_json: bool,
) -> None:
    """Strike a running service with faults of every kind; nothing may be lost, doubled, stuck or silent."""
    errors = Console(stderr=True)
    seed = seed if seed is not None else random.SystemRandom().randrange(2**32)
    place = (directory or Path(tempfile.mkdtemp(prefix="chaos-"))).resolve()
    errors.print(f"{faults} faults, seed {seed}; logs and data: {place}")
    begin = time.monotonic()
    world = World(place, seed, partitions, workers, rate, settings)
    with world, Progress(console=errors) as bar:
        skipped = obstacles(world, kinds)
        for name, why in skipped.items():
            errors.print(f"not struck: {name}: {why}")
        task = bar.add_task("faults", total=faults)

        def told(struck: Struck) -> None:
            bar.update(task, advance=len(struck.kinds))
            errors.print(
                f"{' + '.join(struck.kinds)}: recovered in {struck.recovery_seconds:.1f} s",
                highlight=False,
                soft_wrap=True,
            )

        try:
            world.recover()
            struck, failure = run_faults(world, kinds, faults, minutes * 60, random.Random(seed), told)
            found = [failure.message] if failure else finish(world)
        except TROUBLE as error:
            struck, failure, found = [], None, [f"before the first fault: {error}"]
        if found:
            world.keep_index()
        result: dict[str, Any] = {
            "faults": sum(len(each.kinds) for each in struck) + (len(failure.kinds) if failure else 0),
            "documents": world.ledger.inputs,
            **totals(world.ledger),
            "partitions": world.traffic.partitions,
            "problems": len(found),
            "not_struck": skipped,
            "minutes": round((time.monotonic() - begin) / 60, 1),
            "seed": seed,
            "command": shlex.join(["python", "-m", "bench.chaos", *sys.argv[1:]]),
        }
    rows = by_kind(struck, failure)
    if as_json:
        click.echo(orjson.dumps({**result, "kinds": rows}))
    else:
        Console().print(table(rows, result))
    for line in found[:20]:
        errors.print(line, markup=False, highlight=False, soft_wrap=True)
    if found:
        words = f"after {' + '.join(failure.kinds)}" if failure else "at the end"
        raise click.ClickException(f"not all is well {words}; logs, topics and index stay in {place}")
    if directory is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
