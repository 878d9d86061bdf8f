"""A cluster of very many pages of one template: what deciding on one more page costs, as the cluster grows.

    python -m bench.template_cluster [--pages 100000] [--own-share 0.18] [--json]

Signatures are drawn, not texts: every page has the template's values but in a share of its bins. As the bare baseline as many
signatures that resemble nothing are decided in an index of their own, in turns. `compared` counts what each decision looked at;
times are the processor's, which other load does not lengthen much.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from index import Entries, Index, Kind, Source, Verdict, minhash
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import Settings

BATCH = 1_000
SOURCE = Source("template-cluster", 0)
MAP_BYTES = 2**35


@dataclass(frozen=True, slots=True)
class Step:
    """A tenth of the pages.

    pages     pages decided so far
    per_second, baseline_per_second  documents decided a second in this step, of the cluster and of what resembles nothing
    processor_us, baseline_processor_us  microseconds of processor time a document
    compared  documents looked at for a page of the cluster, on average
    dropped   pages that were duplicates
    """

    pages: int
    per_second: float
    baseline_per_second: float
    processor_us: float
    baseline_processor_us: float
    compared: float
    dropped: int


def steps(pages: int, own_share: float) -> Iterator[Step]:
    """Decide the pages of a cluster, and as many strangers, in turns."""
    parameters = parameters_for(Settings(), {"bench": "template cluster"})
    assert parameters.banding is not None, "the default scheme is MinHash"
    bins, generator = parameters.banding.bins, np.random.default_rng(1)
    template = generator.integers(1, 256, bins).astype(np.uint8)
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(Path(folder) / "cluster", parameters, map_bytes_max=MAP_BYTES) as cluster,
        Index.open(Path(folder) / "strangers", parameters, map_bytes_max=MAP_BYTES) as strangers,
    ):
        seconds, processor, compared, dropped = np.zeros(2), np.zeros(2), 0.0, 0
        step = max(BATCH, pages // 10 // BATCH * BATCH)
        for begin in range(0, pages, BATCH):
            values = np.repeat(template[None], BATCH, axis=0)
            for page in values:
                places = generator.choice(bins, round(own_share * bins), replace=False)
                page[places] = generator.integers(1, 256, len(places))
            others = generator.integers(1, 256, (BATCH, bins)).astype(np.uint8)
            for turn, (index, drawn) in enumerate(((cluster, values), (strangers, others))):
                host = "site" if index is cluster else None
                entries = _entries(minhash.pack_bins(drawn, parameters.banding.bin_bits), begin, host)
                began, processor_began = time.perf_counter(), time.process_time()
                decided = index.admit(entries, {SOURCE: begin + BATCH})
                seconds[turn] += time.perf_counter() - began
                processor[turn] += time.process_time() - processor_began
                if index is cluster:
                    compared += float(decided.candidates.sum())
                    dropped += int(np.count_nonzero(decided.verdicts == Verdict.DUPLICATE))
            if (begin + BATCH) % step == 0:
                columns = *(step / seconds).tolist(), *(1e6 * processor / step).tolist()
                yield Step(begin + BATCH, *columns, compared / step, dropped)
                seconds, processor, compared, dropped = np.zeros(2), np.zeros(2), 0.0, 0


def _entries(signatures: npt.NDArray[np.uint64], begin: int, host: str | None) -> Entries:
    count = len(signatures)
    return Entries(
        (SOURCE,),
        np.zeros(count, np.uint32),
        np.arange(begin, begin + count, dtype=np.uint64),
        np.full(count, Kind.NEAR, np.uint8),
        np.zeros(count, np.uint8),
        signatures,
        np.zeros(count, np.int64),
        [str(begin + row) for row in range(count)],
        hosts=[host] * count,
    )


@click.command(help=__doc__)
@click.option("--pages", default=100_000, show_default=True, type=click.IntRange(BATCH))
@click.option("--own-share", default=0.18, show_default=True, type=click.FloatRange(0.05, 0.5))
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(pages: int, own_share: float, as_json: bool) -> None:
    found = []
    console = Console(stderr=True)
    for each in steps(pages, own_share):
        found.append(each)
        console.print(f"{each.pages:,} pages", highlight=False)
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "steps": [asdict(each) for each in found]}))
        return
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("pages", "decided/s", "strangers/s", "us a page", "us a stranger", "compared", "dropped"):
        rows.add_column(heading, justify="right")
    for each in found:
        rates = (f"{rate:,.0f}" for rate in (each.per_second, each.baseline_per_second))
        times = (f"{time_us:.1f}" for time_us in (each.processor_us, each.baseline_processor_us))
        rows.add_row(f"{each.pages:,}", *rates, *times, f"{each.compared:,.0f}", f"{each.dropped:,}")
    Console().print(rows)
    Console().print(" | ".join(f"{name}: {value}" for name, value in machine().items()))


if __name__ == "__main__":
    main()
