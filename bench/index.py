"""Decisions a second of the index alone, and its bytes on disk and in memory, at a size.

Loads random fingerprints into an index, all unique, which is the worst case; opens it anew; and measures batches that
`admit` decides: first while no compaction is under way ("idle"), then, with a frozen memtable, during one ("compacting").
Then it looks up ids, known and unknown ones.
Every batch is synced. After each batch, as many bytes as its entries take are put and synced into a bare LMDB file.
Where others use the machine too, the figures by processor time say more than those by the clock. Peers hold their
indexes in memory, and are measured at `--peer-entries` entries.

    python -m bench.index --entries 1000000 --scheme simhash64|simhash128|minhash [--batches 150] [--json]
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import lmdb
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.conditions import machine
from bench.index_peers import peers_for
from index.entry import Entries, Kind, Source, Verdict
from index.index import Index, internals_of
from index.lsm.compaction import TreeSizes, state
from index.lsm.shape import shape_of
from index.matching.minhash import Banding
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import CompactionState
from index.tools import BulkLoader, compile_kernels
from index.tools.verify import verify_tables
from index.versions.history import newest_versions
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import load

SOURCE = Source("bench", 0)
MAP_BYTES_MAX = 2**40
ID_BYTES = 16
LOADED_BYTES = 2**21
"""Bytes of fingerprints loaded in one transaction: 65,536 rows of up to 32 bytes each, fewer of longer ones."""
FILL_ROWS = 10_000
WARM_UP_BATCHES = 5
CENTRES = 1_000
ID_LOOK_UPS = 1_000
ID_REPEATS = 7
BINS, BIN_BITS = 128, 8
KINDS = ["random", "clustered", "one-block"]
CHOSEN = {
    "simhash64": ["fingerprint.scheme=simhash", "fingerprint.bits=64", "fingerprint.second_look=none"],
    "simhash128": ["fingerprint.scheme=simhash", "fingerprint.bits=128", "fingerprint.second_look=none"],
    "minhash": ["fingerprint.scheme=minhash"],
}


class Stream:
    """Endless source of fingerprints, from one seed; ids of 16 characters.

    Clustered fingerprints lie around 1,000 centres: SimHash with 8 to 24 bits flipped at random, MinHash with half of
    the bins replaced. Few are near-duplicates, but the buckets of the centres are full. Those of one block agree on their
    first 16 bits: with SimHash all of them stand in one bucket.
    """

    def __init__(self, parameters: Parameters, kind: str = "random") -> None:
        """kind: one of KINDS."""
        self._random = np.random.default_rng(1)
        self._parameters = parameters
        self._one_block = kind == "one-block"
        self._centres = self._any(CENTRES) if kind == "clustered" else None
        self._offset = 0

    def batch(self, count: int) -> Entries:
        """The next rows."""
        offsets = np.arange(self._offset, self._offset + count, dtype=np.uint64)
        self._offset += count
        return Entries(
            sources=(SOURCE,),
            source_numbers=np.zeros(count, np.uint32),
            offsets=offsets,
            kinds=np.full(count, Kind.NEAR, np.uint8),
            reasons=np.zeros(count, np.uint8),
            fingerprints=self._any(count) if self._centres is None else self._near(self._centres, count),
            times_ms=offsets.astype(np.int64),
            ids=[f"{offset:016x}" for offset in offsets.tolist()],
        )

    def _any(self, count: int) -> npt.NDArray[np.uint64]:
        # In a signature, 0 stands for an empty bin.
        lowest = 0 if self._parameters.banding is None else 1
        octets = self._random.integers(lowest, 256, (count, self._parameters.bits // 8), dtype=np.uint8)
        if self._one_block:
            # The top of the first word, which is little-endian here.
            octets[:, 6:8] = 1
        return octets.view(np.uint64)

    def _near(self, centres: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint64]:
        chosen = centres[self._random.integers(0, len(centres), count)]
        if self._parameters.banding is not None:
            replaced = self._random.integers(0, 2, (count, self._parameters.bits // 8), dtype=np.bool_)
            octets = np.where(replaced, self._any(count).view(np.uint8), chosen.view(np.uint8))
            return octets.view(np.uint64)
        flips = np.zeros((count, self._parameters.bits), np.uint8)
        places = self._random.integers(0, self._parameters.bits, (count, 24))
        there = np.arange(24) < self._random.integers(8, 25, (count, 1))
        rows = np.broadcast_to(np.arange(count)[:, None], places.shape)
        flips[rows[there], places[there]] = 1
        return chosen ^ np.packbits(flips, axis=1).view(np.uint64)


class Bare:
    """Bytes put and synced into a bare LMDB file: the floor under every figure here."""

    def __init__(self, directory: Path, value_bytes: int) -> None:
        self._environment = lmdb.open(str(directory), map_size=2**34)
        self._value = os.urandom(value_bytes)
        self._count = 0

    def _put(self) -> None:
        with self._environment.begin(write=True) as transaction:
            transaction.put(self._count.to_bytes(8, "big"), self._value, append=True)
        self._count += 1

    def put_seconds(self) -> float:
        """Put once. Returns the seconds that it took."""
        begin = time.perf_counter()
        self._put()
        return time.perf_counter() - begin


def anonymous_mib(process_id: int | None = None) -> float:
    """Anonymous memory of a process (None: this one), which no file backs, in MiB (Linux)."""
    return _field(Path(f"/proc/{process_id or 'self'}/status"), "RssAnon:") / 1024


def resident_peak_mib(process_id: int) -> float:
    """The most memory that a process had at one time, pages of mapped files with it, in MiB (Linux)."""
    return _field(Path(f"/proc/{process_id}/status"), "VmHWM:") / 1024


def written_bytes() -> int:
    """Bytes that this process has handed to the system to write (Linux), each page as often as it was written."""
    return _field(Path("/proc/self/io"), "wchar:")


def device_written_bytes(directory: Path) -> int | None:
    """Bytes that anybody wrote to the device of the directory (Linux); None where the system does not tell."""
    number = directory.stat().st_dev
    device = [str(os.major(number)), str(os.minor(number))]
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return next((int(fields[9]) * 512 for fields in lines if fields[:2] == device), None)


def _field(file: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(name))


def opened(directory: Path, parameters: Parameters, sizes: TreeSizes) -> Index:
    """Open the index in the directory for writing."""
    return Index.open(directory / "index", parameters, map_bytes_max=MAP_BYTES_MAX, sizes=sizes)


def loaded(index: Index, stream: Stream, entries: int, progress: Progress) -> dict[str, float]:
    """Load `entries` fingerprints. Returns the rates, which leave out the making of the fingerprints; and bytes written."""
    task, load = progress.add_task("loading", total=entries), BulkLoader(index)
    rows_max = min(2**16, LOADED_BYTES * 8 // index.parameters.bits)
    clock, processor, written = 0.0, 0.0, written_bytes()
    for begin in range(0, entries, rows_max):
        batch = stream.batch(min(rows_max, entries - begin))
        verdicts, originals = np.full(len(batch), Verdict.UNIQUE, np.uint8), [None] * len(batch)
        began, began_processor = time.perf_counter(), time.process_time()
        load.restore(batch, verdicts, originals, {SOURCE: begin + len(batch)})
        if begin + len(batch) == entries:
            load.finish()
        clock, processor = clock + time.perf_counter() - began, processor + time.process_time() - began_processor
        progress.update(task, completed=begin + len(batch), description=f"loading, {begin / max(clock, 1e-9):,.0f}/s")
    return {
        "load_seconds": clock,
        "load_documents_per_second": entries / clock,
        "load_documents_per_processor_second": entries / processor,
        "load_written_gib": (written_bytes() - written) / 2**30,
    }


def let_in(index: Index, stream: Stream, entries: int) -> None:
    """Let about `entries` fingerprints come in, undecided, into the memtable."""
    for _ in range(0, entries, FILL_ROWS):
        index.restore(stream.batch(FILL_ROWS), np.full(FILL_ROWS, Verdict.UNIQUE, np.uint8), [None] * FILL_ROWS)


class Batches:
    """Measured batches: clock and processor time in seconds, bytes written, and the clock of the bare puts between."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processor: list[float] = []
        self.bare: list[float] = []
        self.written_bytes = 0

    def admit(self, index: Index, batch: Entries, bare: Bare) -> None:
        """Have one batch decided, and measure it."""
        written, began, began_processor = written_bytes(), time.perf_counter(), time.process_time()
        index.admit(batch, {SOURCE: int(batch.offsets[-1]) + 1})
        self.clock.append(time.perf_counter() - began)
        self.processor.append(time.process_time() - began_processor)
        self.written_bytes += written_bytes() - written
        self.bare.append(bare.put_seconds())

    def rates(self, rows: int, name: str) -> dict[str, float]:
        """Decisions a second, by the clock and by processor time."""
        return {
            f"decisions_per_second_{name}": rows / float(np.mean(self.clock)),
            f"decisions_per_processor_second_{name}": rows / float(np.mean(self.processor)),
        }


def _compaction(index: Index) -> CompactionState:
    """How far the entries have moved into segments."""
    return internals_of(index).read(lambda session: state(session.transaction, shape_of(session.parameters)))


def freeze(index: Index, stream: Stream) -> None:
    """Let new entries come in, undecided, until the memtable freezes."""
    while not _compaction(index).is_moving:
        let_in(index, stream, FILL_ROWS)


def _warm_up(index: Index, stream: Stream, rows: int) -> None:
    """Decide some batches without measuring: the first ones meet pages and tables that are not in memory yet."""
    for _ in range(WARM_UP_BATCHES):
        index.admit(stream.batch(rows), {})


def measured(index: Index, stream: Stream, rows: int, batches: int, bare: Bare, directory: Path) -> dict[str, Any]:
    """Measure up to `batches` batches of `rows` between compactions, and as many during one."""
    idle, compacting = Batches(), Batches()
    _warm_up(index, stream, rows)
    for _ in range(batches):
        if not _compaction(index).is_moving:
            idle.admit(index, stream.batch(rows), bare)
    freeze(index, stream)
    _warm_up(index, stream, rows)
    device = device_written_bytes(directory)
    for _ in range(batches):
        if _compaction(index).is_moving:
            compacting.admit(index, stream.batch(rows), bare)
    device_after, count = device_written_bytes(directory), len(compacting.clock) * rows
    found = idle.rates(rows, "idle") | compacting.rates(rows, "compacting")
    found |= {f"batch_ms_p{quantile}": 1000 * float(np.percentile(compacting.clock, quantile)) for quantile in (50, 99)}
    found["batch_ms_max"] = 1000 * max(compacting.clock)
    found["batch_processor_ms_p50"] = 1000 * float(np.median(compacting.processor))
    found["bare_put_ms_p50"] = 1000 * float(np.median(compacting.bare))
    found["written_mib_per_1000"] = compacting.written_bytes / 2**20 / count * 1000
    if device is not None and device_after is not None:
        found["device_written_mib_per_1000_by_anybody"] = (device_after - device) / 2**20 / count * 1000
    return found | {"anonymous_mib": anonymous_mib(), "entries_in_the_end": index.statistics().entries}


def found_by_id(index: Index, entries: int) -> dict[str, float]:
    """Milliseconds of processor time for ID_LOOK_UPS ids at once, the best of several times."""
    opened, random = internals_of(index), np.random.default_rng(1)
    asked = {
        "unknown": [f"nobody {place}" for place in range(ID_LOOK_UPS)],
        "known": [f"{offset:016x}" for offset in random.integers(0, entries, ID_LOOK_UPS).tolist()],
    }
    found = {}
    for name, ids in asked.items():
        taken = []
        for _ in range(ID_REPEATS):
            began = time.process_time()
            _, there = opened.read(partial(newest_versions, keys=[(id_, 0) for id_ in ids]))
            taken.append(time.process_time() - began)
            assert there.all() == (name == "known")
        found[f"ids_{name}_processor_ms_per_1000"] = 1000 * min(taken) * 1000 / ID_LOOK_UPS
    return found


def figures(
    directory: Path,
    parameters: Parameters,
    sizes: TreeSizes,
    entries: int,
    rows: int,
    batches: int,
    *,
    kind: str,
    in_memory: int,
    verify: bool,
) -> Iterator[dict[str, Any]]:
    """Figures of the index itself."""
    compile_kernels()
    stream = Stream(parameters, kind)
    with Progress(console=Console(stderr=True)) as progress:
        with opened(directory, parameters, sizes) as index:
            yield loaded(index, stream, entries, progress)
            statistics, merged = index.statistics(), _compaction(index).merged_to
            used = statistics.used_bytes / statistics.journal_rows
            yield {
                "entries": statistics.entries,
                "used_gib": statistics.used_bytes / 2**30,
                "bytes_per_document": used - ID_BYTES,
                "bytes_per_document_blocks": statistics.table_bytes["segments"] / merged,
                "table_bytes": dict(statistics.table_bytes),
            }
        began = time.perf_counter()
        with opened(directory, parameters, sizes) as index:
            yield {"open_seconds": time.perf_counter() - began}
            bare = Bare(directory / "bare", int(used * rows))
            let_in(index, stream, in_memory)
            progress.update(progress.add_task("deciding", total=None))
            yield measured(index, stream, rows, batches, bare, directory)
            yield found_by_id(index, entries)
            if verify:
                began = time.perf_counter()
                found = internals_of(index).read(verify_tables)
                yield {"verify_seconds": time.perf_counter() - began}
                yield {"verify_wrong": {finding.check: finding.wrong for finding in found}}


def chosen(scheme: str, distance_max: int | None, bands: int | None, rows: int | None) -> Parameters:
    """Parameters by the settings of a scheme, except for the values given."""
    overrides = [*CHOSEN[scheme], *([f"index.distance_max={distance_max}"] if distance_max is not None else [])]
    parameters = parameters_for(load(None, overrides, {}), {})
    if bands is None or rows is None:
        return parameters
    banding = Banding(BINS, BIN_BITS, bands, rows)
    return replace(parameters, bits=banding.bits, banding=banding)


@click.command(help=__doc__)
@click.option("--entries", default=100_000, show_default=True, type=click.IntRange(1_000))
@click.option("--scheme", default="simhash64", show_default=True, type=click.Choice(list(CHOSEN)))
@click.option("--fingerprints", default="random", show_default=True, type=click.Choice(KINDS))
@click.option("--distance-max", default=None, type=click.IntRange(0, 7), help="SimHash: the shipped one if not given.")
@click.option("--bands", default=None, type=click.IntRange(1), help="MinHash: the shipped ones if not given.")
@click.option("--rows", default=None, type=click.IntRange(1), help="MinHash: bins in a band.")
@click.option("--batch", "batch_rows", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--batches", default=150, show_default=True, type=click.IntRange(1), help="Measured in each state.")
@click.option("--peer-entries", default=20_000, show_default=True, type=click.IntRange(0), help="0: no peers.")
@click.option(
    "--memtable-entries", default=None, type=click.IntRange(1), help="As `index.lsm.compaction.TreeSizes` has it."
)
@click.option(
    "--directory",
    default=None,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder for temporary files; the system's if not given.",
)
@click.option(
    "--in-memory",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Entries more in the memtable when measured.",
)
@click.option("--verify", is_flag=True, help="Verify the index in the end.")
@click.option("--json", "as_json", is_flag=True)
def main(
    entries: int,
    scheme: str,
    fingerprints: str,
    distance_max: int | None,
    bands: int | None,
    rows: int | None,
    batch_rows: int,
    batches: int,
    peer_entries: int,
    memtable_entries: int | None,
    directory: Path | None,
    *,
    in_memory: int,
    verify: bool,
    as_json: bool,
) -> None:
    if (bands is None) != (rows is None):
        raise click.UsageError("--bands and --rows go together")
    parameters = chosen(scheme, distance_max, bands, rows)
    found: dict[str, Any] = {"scheme": scheme, "fingerprints": fingerprints, "distance_max": parameters.distance_max}
    if parameters.banding is not None:
        found["bands_rows"] = [parameters.banding.bands, parameters.banding.rows]
    with tempfile.TemporaryDirectory(prefix="index-bench-", dir=directory) as name:
        made = figures(
            Path(name),
            parameters,
            TreeSizes(memtable_entries),
            entries,
            batch_rows,
            batches,
            kind=fingerprints,
            in_memory=in_memory,
            verify=verify,
        )
        for some in made:
            # What a long run has measured is told even if the rest of it fails.
            click.echo(orjson.dumps(some), err=True)
            found |= some
    if peer_entries:
        found["peer_entries"] = peer_entries
        found |= peers_for(parameters, peer_entries)
    show(found | machine(), as_json=as_json)


def show(found: dict[str, Any], *, as_json: bool) -> None:
    """A table, or one line of JSON."""
    if as_json:
        click.echo(orjson.dumps(found))
        return
    table = Table("", "", show_header=False, box=None)
    for key, value in found.items():
        table.add_row(key, f"{value:,.2f}" if isinstance(value, float) else str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
