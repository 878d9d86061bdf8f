"""Decisions a second of the index alone, and what it takes on disk and in memory, at a size.

Fills an index with random fingerprints, all unique, which is the worst case, and then measures further batches. Every
batch is synced. Beside each, in turn and in the same run, as many bytes as its entries take are put and synced into a
bare LMDB file. Where others use the machine, too, the figures by processor time say more than those by the clock.

    python -m bench.index --entries 100000 --scheme simhash64|simhash128|minhash [--batch 1000] [--json]
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import lmdb
import numpy as np
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.accuracy import machine
from index.admission import Index
from index.entry import Entries, Kind, Source
from index.parameters import Parameters
from streamer import config
from streamer.scheme import parameters_for

SOURCE = Source("bench", 0)
MAP_BYTES_MAX = 2**40
CHOSEN = {
    "simhash64": ["fingerprint.bits=64"],
    "simhash128": ["fingerprint.bits=128"],
    "minhash": ["fingerprint.scheme=minhash"],
}


class Stream:
    """An endless source of random fingerprints, from one seed; ids of 16 characters."""

    def __init__(self, words: int) -> None:
        self._random = np.random.default_rng(1)
        self._words = words
        self._offset = 0

    def batch(self, count: int) -> Entries:
        offsets = np.arange(self._offset, self._offset + count, dtype=np.uint64)
        self._offset += count
        # Bytes from 1 on: in a signature 0 says that a bin is empty.
        fingerprints = self._random.integers(1, 256, (count, 8 * self._words), dtype=np.uint8).view(np.uint64)
        return Entries(
            sources=(SOURCE,),
            source_numbers=np.zeros(count, np.uint32),
            offsets=offsets,
            kinds=np.full(count, Kind.NEAR, np.uint8),
            reasons=np.zeros(count, np.uint8),
            fingerprints=fingerprints,
            times_ms=offsets.astype(np.int64),
            ids=[f"{offset:016x}" for offset in offsets.tolist()],
        )


class Bare:
    """Bytes put and synced without anything else: the floor under every figure here."""

    def __init__(self, directory: Path, value_bytes: int) -> None:
        self._environment = lmdb.open(str(directory), map_size=2**34)
        self._value = os.urandom(value_bytes)
        self._count = 0

    def put_seconds(self) -> float:
        begin = time.perf_counter()
        with self._environment.begin(write=True) as transaction:
            transaction.put(self._count.to_bytes(8, "big"), self._value, append=True)
        self._count += 1
        return time.perf_counter() - begin


def anonymous_mib() -> float:
    """Memory of this process that no file stands behind (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


def measure(directory: Path, parameters: Parameters, entries: int, rows: int, batches: int) -> dict[str, Any]:
    """Fill, then time `batches` batches of `rows`, each beside a bare put of the bytes that its entries take."""
    stream = Stream(parameters.words)
    seconds: list[float] = []
    processor_seconds: list[float] = []
    bare_seconds: list[float] = []
    with Index.open(directory / "index", parameters, map_bytes_max=MAP_BYTES_MAX) as index:
        for _ in track(range(0, entries, rows), "filling", console=Console(stderr=True)):
            index.admit(stream.batch(rows), {})
        statistics = index.statistics()
        used = statistics.used_bytes / statistics.entries
        blocks = statistics.table_bytes["buckets"] / statistics.entries
        bare = Bare(directory / "bare", int(used * rows))
        for _ in range(batches):
            batch = stream.batch(rows)
            begin, begin_processor = time.perf_counter(), time.process_time()
            index.admit(batch, {})
            seconds.append(time.perf_counter() - begin)
            processor_seconds.append(time.process_time() - begin_processor)
            bare_seconds.append(bare.put_seconds())
    return {
        "entries": statistics.entries,
        "decisions_per_second": rows * batches / sum(seconds),
        "decisions_per_processor_second": rows * batches / sum(processor_seconds),
        "ratio_to_bare_put": sum(seconds) / sum(bare_seconds),
        "batch_ms_p50": 1000 * float(np.quantile(seconds, 0.5)),
        "batch_ms_p99": 1000 * float(np.quantile(seconds, 0.99)),
        "batch_ms_max": 1000 * max(seconds),
        "bytes_per_document_blocks": blocks,
        "bytes_per_document": used,
        "anonymous_mib": anonymous_mib(),
    }


@click.command(help=__doc__)
@click.option("--entries", default=100_000, show_default=True, type=click.IntRange(1_000))
@click.option("--scheme", default="simhash64", show_default=True, type=click.Choice(list(CHOSEN)))
@click.option("--distance", default=None, type=click.IntRange(0, 7), help="SimHash: the shipped one if not given.")
@click.option("--batch", "rows", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--batches", default=50, show_default=True, type=click.IntRange(1), help="Batches measured.")
@click.option("--json", "as_json", is_flag=True)
def main(entries: int, scheme: str, distance: int | None, rows: int, batches: int, as_json: bool) -> None:
    overrides = [*CHOSEN[scheme], *([f"index.distance_max={distance}"] if distance is not None else [])]
    parameters = parameters_for(config.load(None, overrides, {}), {})
    with tempfile.TemporaryDirectory(prefix="index-bench-") as name:
        found = {"scheme": scheme, "distance_max": parameters.distance_max}
        found |= measure(Path(name), parameters, entries, rows, batches)
    found |= machine()
    if as_json:
        click.echo(orjson.dumps(found))
        return
    table = Table("", "", show_header=False, box=None)
    for key, value in found.items():
        table.add_row(key, f"{value:,.2f}" if isinstance(value, float) else str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
