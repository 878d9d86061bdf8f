"""What stories cost an index: processor time a unique and a duplicate, with and without them, in one run.

Two indexes admit the same batches, in turns: random signatures, of which a share repeats one of the last documents, some
bins changed. Both are synced, so the clock says little; the processor time of this process does. The cost of a duplicate is
what batches of duplicates cost more with stories than without, and of a unique likewise.

    python -m bench.stories [--documents 60000] [--share 0.5] [--json]
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.conditions import machine
from bench.index import MAP_BYTES_MAX, SOURCE, Stream, chosen, show
from index import Index, Source
from index.entry import Entries
from index.tools import compile_kernels

ROWS = 1_000
HOSTS = 2_000


class Copies:
    """Batches of uniques with hosts, and of copies of documents before: each of one of the `recent` last, or of `one`."""

    def __init__(self) -> None:
        self._stream = Stream(chosen("minhash", None, None, None))
        self._random = np.random.default_rng(2)
        self._kept: list[Entries] = []

    def uniques(self) -> Entries:
        batch = self._with_hosts(self._stream.batch(ROWS))
        self._kept = [*self._kept[-19:], batch]
        return batch

    def duplicates(self, roots: int) -> Entries:
        """Copies of `roots` documents of the last 20 batches, each with one bin changed."""
        batch = self._stream.batch(ROWS)
        before = np.concatenate([each.fingerprints for each in self._kept])
        of = self._random.choice(len(before), min(roots, len(before)), replace=False)
        octets = before[self._random.choice(of, ROWS)].view(np.uint8).reshape(ROWS, -1).copy()
        octets[np.arange(ROWS), self._random.integers(0, octets.shape[1], ROWS)] ^= 1
        octets[octets == 0] = 1
        return self._with_hosts(replace(batch, fingerprints=octets.view(np.uint64)))

    def _with_hosts(self, batch: Entries) -> Entries:
        hosts = [f"host-{number}.example" for number in self._random.integers(0, HOSTS, ROWS).tolist()]
        return replace(batch, hosts=hosts, lengths=self._random.integers(900, 1_000, ROWS).astype(np.uint32))


def microseconds(indexes: dict[str, Index], batch: Entries) -> dict[str, float]:
    """Processor time a row of one batch, by index."""
    ends: dict[Source, int] = {SOURCE: int(batch.offsets[-1]) + 1}
    taken = {}
    for name, index in indexes.items():
        began = time.process_time()
        index.admit(batch, ends)
        taken[name] = 1e6 * (time.process_time() - began) / ROWS
    return taken


def measured(directory: Path, batches: int) -> dict[str, Any]:
    """Medians by kind of batch, and the difference."""
    parameters, copies = replace(chosen("minhash", None, None, None), frames=None), Copies()
    taken: dict[str, dict[str, list[float]]] = {}
    indexes = {
        name: Index.open(directory / name, parameters, map_bytes_max=MAP_BYTES_MAX, stories=name == "with")
        for name in ("without", "with")
    }
    for number in range(batches):
        kinds = {"unique": copies.uniques()}
        kinds |= {f"duplicate_of_{roots}": copies.duplicates(roots) for roots in (ROWS, 30)}
        for kind, batch in kinds.items():
            order = list(indexes)[:: -1 if number % 2 else 1]
            for name, each in microseconds({name: indexes[name] for name in order}, batch).items():
                taken.setdefault(kind, {}).setdefault(name, []).append(each)
    found: dict[str, Any] = {}
    for kind, by_index in taken.items():
        found |= {f"{kind}_us_{name}": float(np.median(values[3:])) for name, values in by_index.items()}
        differences = np.array(by_index["with"][3:]) - np.array(by_index["without"][3:])
        found[f"{kind}_us_of_stories"] = float(np.median(differences))
    statistics = indexes["with"].statistics()
    found |= {"stories": statistics.stories, "bytes_per_story": statistics.table_bytes["stories"] / statistics.stories}
    for index in indexes.values():
        index.close()
    return found


@click.command(help=__doc__)
@click.option(
    "--batches", default=40, show_default=True, type=click.IntRange(8), help="Batches of 1,000, of each kind."
)
@click.option("--json", "as_json", is_flag=True)
def main(batches: int, *, as_json: bool) -> None:
    compile_kernels()
    with tempfile.TemporaryDirectory(prefix="stories-bench-") as name:
        show(measured(Path(name), batches) | machine(), as_json=as_json)


if __name__ == "__main__":
    main()
