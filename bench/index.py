"""Decisions a second of the index alone, and what it takes on disk and in memory, at a size.

Fills an index with random fingerprints, all unique, which is the worst case, and then admits further batches of them:
as long as entries move into chunks ("merging"), and as long as none do ("idle"). Every batch is synced. Beside them, in
turn and in the same run, the bare bytes of a batch are put and synced into an LMDB file of their own. Where others use
the machine, too, the figures by processor time say more than those by the clock.

    python -m bench.index --entries 1000000 --scheme simhash64 [--distance 3] [--batch 1000] [--directory DIR] [--json]
"""

import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import lmdb
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table as Columns

from index.admission import Index
from index.entry import Entries, Kind, Source
from index.layout import Table, log_row
from index.merging import Merging, state
from index.parameters import Parameters

SOURCE = Source("bench", 0)
SCHEMES = {"simhash64": 64, "simhash128": 128}
FILL_ROWS = 2_000
MAP_BYTES_MAX = 2**40
SECONDS_MAX = 600


class Stream:
    """An endless source of batches of random fingerprints, from one seed."""

    def __init__(self, bits: int) -> None:
        self._generator = np.random.default_rng(1)
        self._words = bits // 64
        self.offset = 0

    def batch(self, count: int) -> Entries:
        offsets = np.arange(self.offset, self.offset + count, dtype=np.uint64)
        self.offset += count
        return Entries(
            sources=(SOURCE,),
            source_numbers=np.zeros(count, np.uint32),
            offsets=offsets,
            kinds=np.full(count, Kind.NEAR, np.uint8),
            reasons=np.zeros(count, np.uint8),
            fingerprints=self._generator.integers(0, 2**64, (count, self._words), dtype=np.uint64),
            times_ms=offsets.astype(np.int64),
            ids=[f"{offset:016x}" for offset in offsets.tolist()],
        )


def admitted_seconds(index: Index, entries: Entries) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    index.admit(entries, {SOURCE: int(entries.offsets[-1]) + 1})
    return time.perf_counter() - begin, time.process_time() - begin_processor


def is_merging(index: Index) -> bool:
    now = index._store.read(state)
    return now.frozen_to > now.merged_to


def anonymous_mib() -> float:
    """Memory of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def device_bytes_written(directory: Path) -> int | None:
    """Bytes written so far to the device that holds the directory, by anybody; None where that cannot be told."""
    number = directory.stat().st_dev
    wanted = [str(os.major(number)), str(os.minor(number))]
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[:2] == wanted:
            return int(fields[9]) * 512
    return None


class Bare:
    """The bytes of a batch, put and synced without anything else: the floor under every figure here."""

    def __init__(self, directory: Path, bytes_each: int) -> None:
        self._environment = lmdb.open(str(directory), map_size=2**34)
        self._value = os.urandom(bytes_each)
        self._count = 0

    def seconds(self) -> float:
        begin = time.perf_counter()
        with self._environment.begin(write=True) as transaction:
            transaction.put(self._count.to_bytes(8, "big"), self._value, append=True)
        self._count += 1
        return time.perf_counter() - begin


def filled(index: Index, stream: Stream, entries: int) -> float:
    begin = time.perf_counter()
    while stream.offset < entries:
        index.admit(stream.batch(min(FILL_ROWS, entries - stream.offset)), {})
    return time.perf_counter() - begin


def measured(index: Index, stream: Stream, rows: int, batches: int, bare: Bare) -> dict[str, list[float]]:
    """Seconds of `batches` batches in each of both states, and of the bare puts beside them."""
    seconds: dict[str, list[float]] = {
        "idle": [],
        "merging": [],
        "idle_processor": [],
        "merging_processor": [],
        "bare": [],
    }
    deadline = time.monotonic() + SECONDS_MAX
    while min(len(seconds["idle"]), len(seconds["merging"])) < batches and time.monotonic() < deadline:
        now = "merging" if is_merging(index) else "idle"
        if len(seconds[now]) >= batches:
            # On to the other state, as fast as may be.
            index.admit(stream.batch(FILL_ROWS), {})
            continue
        by_clock, of_processor = admitted_seconds(index, stream.batch(rows))
        seconds[now].append(by_clock)
        seconds[f"{now}_processor"].append(of_processor)
        seconds["bare"].append(bare.seconds())
    return seconds


def milliseconds(seconds: list[float], quantile: float) -> float:
    return float(np.quantile(seconds, quantile)) * 1000


def figures(
    directory: Path, bits: int, distance: int, entries: int, rows: int, batches: int, run_entries: int
) -> Iterator[tuple[str, Any]]:
    stream = Stream(bits)
    parameters, merging = Parameters(bits, distance), Merging(run_entries)
    with Index.open(directory / "index", parameters, map_bytes_max=MAP_BYTES_MAX, merging=merging) as index:
        yield "entries", entries
        fill_seconds = filled(index, stream, entries)
        yield "fill_documents_per_second", entries / fill_seconds
        yield "log_bytes_per_row", log_row(bits // 64).itemsize
        (directory / "bare").mkdir()
        bare = Bare(directory / "bare", rows * (log_row(bits // 64).itemsize + 16))
        written, first = device_bytes_written(directory), stream.offset
        seconds = measured(index, stream, rows, batches, bare)
        after = device_bytes_written(directory)
        statistics = index.statistics()
        merged = index._store.read(state).merged_to
        if seconds["idle"]:
            yield "decisions_per_second_idle", rows / float(np.mean(seconds["idle"]))
        if seconds["merging"]:
            yield "decisions_per_second_merging", rows / float(np.mean(seconds["merging"]))
            yield "batch_ms_p50", milliseconds(seconds["merging"], 0.5)
            yield "batch_ms_p99", milliseconds(seconds["merging"], 0.99)
        for name in ("idle", "merging"):
            if seconds[f"{name}_processor"]:
                yield f"decisions_per_processor_second_{name}", rows / float(np.mean(seconds[f"{name}_processor"]))
        yield "batch_ms_max", milliseconds(seconds["idle"] + seconds["merging"], 1)
        yield "bare_put_ms_p50", milliseconds(seconds["bare"], 0.5)
        yield "bare_put_ms_p99", milliseconds(seconds["bare"], 0.99)
        if merged:
            yield "bytes_per_document_blocks", statistics.table_bytes[Table.CHUNKS.value.decode()] / merged
        ids_bytes = 16 * statistics.entries
        yield "bytes_per_document", (statistics.used_bytes - ids_bytes) / statistics.entries
        yield "table_bytes", dict(statistics.table_bytes)
        yield "used_bytes", statistics.used_bytes
        yield "anonymous_mib", anonymous_mib()
        if written is not None and after is not None:
            yield "written_mib_per_1000", (after - written) / 2**20 / (stream.offset - first) * 1000
    begin = time.perf_counter()
    with Index.open(directory / "index", parameters, map_bytes_max=MAP_BYTES_MAX, merging=merging):
        yield "open_seconds", time.perf_counter() - begin


@click.command()
@click.option("--entries", default=1_000_000, show_default=True)
@click.option("--scheme", type=click.Choice(sorted(SCHEMES)), default="simhash64", show_default=True)
@click.option("--distance", default=3, show_default=True)
@click.option("--batch", "rows", default=1_000, show_default=True, help="Rows in a measured batch.")
@click.option("--batches", default=300, show_default=True, help="Measured batches, while merging and while idle.")
@click.option(
    "--run-entries", default=Merging().run_entries, show_default=True, help="As `index.merging.Merging` has it."
)
@click.option("--directory", type=click.Path(path_type=Path), help="Where to build; a temporary one if not given.")
@click.option("--json", "as_json", is_flag=True)
def main(
    entries: int,
    scheme: str,
    distance: int,
    rows: int,
    batches: int,
    run_entries: int,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Measure the index at a size."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        found = dict(figures(Path(place), SCHEMES[scheme], distance, entries, rows, batches, run_entries))
    found = {
        "scheme": scheme,
        "distance": distance,
        "batch_rows": rows,
        **found,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "machine": platform.platform(),
    }
    if as_json:
        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    columns = Columns("figure", "value")
    for name, value in found.items():
        columns.add_row(name, f"{value:,.2f}" if isinstance(value, float) else str(value))
    Console().print(columns)


if __name__ == "__main__":
    main()
