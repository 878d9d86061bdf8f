"""What `streamer verify` takes for a folder of small records: seconds, processor time, and the most memory at one time.

    python -m bench.verify [--count 1000000 ...] [--folder FOLDER] [--duplicates 0.2] [--json]

For each count it makes a file of records (an id, a host, some fourteen made-up words), lets `streamer filter` deliver them,
and runs `streamer verify` over the folder, each in a process of its own. A share of the records repeats one of the thousand
before it, with another last word. `anonymous` is memory that the process holds itself. `resident` counts pages of mapped files
too, those of the index, which the system takes back when it needs them. `--folder` puts the files elsewhere than in the
system's folder for temporary ones: 10 million records need some 12 GB.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from bench.index import anonymous_mib, resident_peak_mib

WORDS, WORDS_A_RECORD, HOSTS, RECENT = 50_000, 14, 5_000, 1_000
_LOOK_SECONDS = 0.2


def records(count: int, duplicates: float, seed: int = 7) -> Iterator[bytes]:
    """Lines of so many records, the same ones for the same seed."""
    dice = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(dice.choice(letters, dice.integers(4, 10))) for _ in range(WORDS)]
    recent: deque[list[str]] = deque(maxlen=RECENT)
    for begin in range(0, count, RECENT):
        rows = min(RECENT, count - begin)
        drawn = dice.integers(0, WORDS, (rows, WORDS_A_RECORD))
        repeats, hosts = dice.random(rows) < duplicates, dice.integers(0, HOSTS, rows)
        for row in range(rows):
            text = [words[each] for each in drawn[row].tolist()]
            if repeats[row] and recent:
                text = [*recent[int(drawn[row, 0]) % len(recent)][:-1], text[0]]
            recent.append(text)
            url = f"https://host-{hosts[row]}.example/{begin + row}"
            yield orjson.dumps({"id": url, "host": f"host-{hosts[row]}.example", "text": " ".join(text)}) + b"\n"


def observed(*command: object) -> dict[str, Any]:
    """Run the program. Returns its seconds, its most memory in MiB, and what it prints as JSON."""
    begin, cpu_before, anonymous, resident_peak = time.monotonic(), _children_cpu_seconds(), 0.0, 0.0
    with subprocess.Popen(
        [sys.executable, "-m", "streamer", *map(str, command), "--json"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        while process.poll() is None:
            try:
                anonymous = max(anonymous, anonymous_mib(process.pid))
                resident_peak = max(resident_peak, resident_peak_mib(process.pid))
            except (OSError, StopIteration):
                break
            time.sleep(_LOOK_SECONDS)
        printed = process.stdout.read()
    if process.returncode:
        raise click.ClickException(f"streamer {command[0]}: exit code {process.returncode}: {printed[:2_000]!r}")
    return {
        "seconds": time.monotonic() - begin,
        "cpu_seconds": _children_cpu_seconds() - cpu_before,
        "anonymous_mib": anonymous,
        "resident_mib": resident_peak,
        "printed": orjson.loads(printed),
    }


def _children_cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def measure(count: int, duplicates: float, folder: Path) -> dict[str, Any]:
    """Make, filter and verify a folder."""
    file, out, index = folder / "in.jsonl", folder / "out", folder / "index"
    with file.open("wb") as lines:
        lines.writelines(records(count, duplicates))
    filtered = observed("filter", file, "--out", out, "--index", index, "--set", "audit.one_in=0")
    found = observed("verify", "--out", out, "--index", index)
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    return {
        "records": count,
        "duplicates": filtered["printed"]["duplicate"],
        "disk_bytes": size,
        "filter_seconds": filtered["seconds"],
        "verify_seconds": found["seconds"],
        "verify_cpu_seconds": found["cpu_seconds"],
        "anonymous_mib": found["anonymous_mib"],
        "resident_mib": found["resident_mib"],
    }


def show(results: Sequence[dict[str, Any]]) -> None:
    """A row for each count."""
    table = Table(*(name.replace("_", " ") for name in results[0]), box=None)
    for result in results:
        table.add_row(*(f"{value:,.0f}" for value in result.values()))
    Console(width=120).print(table)


@click.command(help=__doc__)
@click.option("--count", "counts", multiple=True, default=(1_000_000,), show_default=True, type=click.IntRange(1))
@click.option("--duplicates", default=0.2, show_default=True, type=click.FloatRange(0, 1), help="Their share.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where to make the files.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of a table.")
def main(counts: tuple[int, ...], duplicates: float, folder: Path | None, as_json: bool) -> None:
    results = []
    for count in counts:
        made = Path(tempfile.mkdtemp(prefix="verify-", dir=folder))
        try:
            results.append(measure(count, duplicates, made))
        finally:
            shutil.rmtree(made)
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "results": results}, option=orjson.OPT_INDENT_2))
    else:
        show(results)


if __name__ == "__main__":
    main()
