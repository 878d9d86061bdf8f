"""What a base set or a protected set costs a document: batches decided without it and with it, by turns in one run.

Loads random fingerprints, all unique, into a base and fewer into two live indexes. Then each batch is decided in the live
index that has no base and, as often, in the one above the base. No document resembles another, which is the worst case:
a document that a base drops never enters. With --protected the set is asked before each decision, and is no base.

    python -m bench.base --entries 1000000 --live 100000 --scheme minhash|simhash64|simhash128 [--protected] [--json]
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.conditions import machine
from bench.index import CHOSEN, MAP_BYTES_MAX, SOURCE, Stream, chosen, loaded
from index.index import Index
from index.storage.parameters import Parameters
from index.tools import compile_kernels
from streamer.protected.sets import ProtectedSets


def _opened(directory: Path, parameters: Parameters, bases: tuple[Path, ...] = ()) -> Index:
    return Index.open(directory, parameters, map_bytes_max=MAP_BYTES_MAX, bases=bases)


def _admitted(index: Index, stream: Stream, rows: int, asked: ProtectedSets) -> tuple[float, float]:
    """Seconds for one batch, by the clock and by the processor; `asked` before it is decided."""
    batch = stream.batch(rows)
    began, began_processor = time.perf_counter(), time.process_time()
    asked.matches(batch)
    decisions = index.admit(batch, {SOURCE: int(batch.offsets[-1]) + 1})
    assert not decisions.replayed.any()
    return time.perf_counter() - began, time.process_time() - began_processor


def measured(
    folder: Path, parameters: Parameters, entries: int, live: int, batches: int, rows: int, *, protected: bool = False
) -> dict[str, Any]:
    """Microseconds a document without and with a set, the median of the batches, and what the set adds in each turn.

    protected: the set is a protected one, not a base
    """
    with Progress(console=Console(stderr=True)) as progress:
        for name, count in (("base", entries), ("alone", live), ("above", live)):
            with _opened(folder / name, parameters) as index:
                loaded(index, Stream(parameters), count, progress)
    stream, seconds = Stream(parameters), np.zeros((batches, 2, 2))
    stream.batch(max(entries, live))
    with (
        _opened(folder / "alone", parameters) as alone,
        _opened(folder / "above", parameters, () if protected else (folder / "base",)) as above,
        ExitStack() as sets,
    ):
        base = [sets.enter_context(Index.open(folder / "base", None, read_only=True))] if protected else []
        asked = {False: ProtectedSets({}, {}), True: ProtectedSets(dict(zip("p", base, strict=False)), {})}
        for turn in range(-5, batches):
            order = (alone, above) if turn % 2 else (above, alone)
            pairs = [_admitted(index, stream, rows, asked[index is above]) for index in order]
            if turn >= 0:
                seconds[turn] = pairs if turn % 2 else pairs[::-1]
    micros = 1e6 * seconds / rows
    clock, processor = micros[:, :, 0], micros[:, :, 1]
    added = np.percentile(processor[:, 1] - processor[:, 0], [25, 50, 75])
    return {
        "entries": entries,
        "live_entries": live,
        "rows": rows,
        "without_microseconds": float(np.median(processor[:, 0])),
        "with_microseconds": float(np.median(processor[:, 1])),
        "added_microseconds": [round(float(each), 2) for each in added],
        "added_by_the_clock": round(float(np.median(clock[:, 1] - clock[:, 0])), 2),
    }


@click.command(help=__doc__)
@click.option("--entries", default=1_000_000, show_default=True, type=click.IntRange(1))
@click.option("--live", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--scheme", default="minhash", show_default=True, type=click.Choice(sorted(CHOSEN)))
@click.option("--batches", default=40, show_default=True, type=click.IntRange(1))
@click.option("--rows", default=4_000, show_default=True, type=click.IntRange(1))
@click.option("--protected", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
def main(entries: int, live: int, scheme: str, batches: int, rows: int, *, protected: bool, as_json: bool) -> None:
    compile_kernels()
    parameters = chosen(scheme, None, None, None)
    with tempfile.TemporaryDirectory() as folder:
        sizes = entries, live, batches, rows
        figures = {"scheme": scheme, **measured(Path(folder), parameters, *sizes, protected=protected)}
    if as_json:
        click.echo(orjson.dumps(figures | {"machine": machine()}, option=orjson.OPT_INDENT_2).decode())
        return
    what = "protected set" if protected else "base"
    table = Table(title=f"A {what} of {entries:,} entries, {scheme}: processor time a document")
    for name in ("without (us)", "with (us)", "added, quartiles (us)", "added by the clock (us)"):
        table.add_column(name)
    columns = f"{figures['without_microseconds']:.2f}", f"{figures['with_microseconds']:.2f}"
    table.add_row(*columns, " / ".join(map(str, figures["added_microseconds"])), str(figures["added_by_the_clock"]))
    Console().print(table)


if __name__ == "__main__":
    main()
