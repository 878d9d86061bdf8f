"""Microseconds of processor a record in decide, of pages that were given back, beside pages that were not.

    python -m bench.given_back [--pages 1000] [--entries 20000] [--rounds 5] [--json]

Each line is a batch with a record of every page, decided under recrawl = "update":

equal    the page's text as before
changed  a text unlike every earlier one

Usual pages were unique. Given-back pages were dropped as copies, and given back.
"""

import tempfile
import time
from itertools import count
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from index import Entries, Index, Kind, Source
from index.session import Recrawl
from index.storage.parameters import Parameters

SOURCE = Source("stream", 0)
_KINDS = ("usual, equal", "usual, changed", "given back, equal", "given back, changed")


class Pages:
    """An index that has decided usual pages, others, and copies that were given back."""

    def __init__(self, directory: Path, entries: int, pages: int) -> None:
        self._offsets, self._rng = count(), np.random.default_rng(7)
        recrawl = Recrawl("update")
        self._index = Index.open(directory, Parameters(), map_bytes_max=2**32, recrawl=recrawl)
        usual = self._batch([f"usual-{number}" for number in range(pages)], self._random(pages))
        others = self._random(max(entries, pages))
        self._admit(usual)
        for begin in range(0, len(others), 1_000):
            some = others[begin : begin + 1_000]
            self._admit(self._batch([f"other-{begin + row}" for row in range(len(some))], some))
        copies = self._batch([f"copy-{number}" for number in range(pages)], others[:pages] ^ np.uint64(1))
        self._admit(copies)
        assert self._index.give_back(copies, delivered=True).all()
        self.last = {"usual": usual, "given back": copies}

    def decided(self, before: Entries, *, changed: bool) -> tuple[Entries, float]:
        """Decide one record of each page; these records, and the seconds."""
        fingerprints = self._random(len(before)) if changed else before.fingerprints
        entries = self._batch(before.ids, fingerprints)
        begin = time.process_time()
        self._admit(entries)
        return entries, time.process_time() - begin

    def _random(self, rows: int) -> npt.NDArray[np.uint64]:
        return self._rng.integers(0, 2**64, (rows, 1), np.uint64)

    def _batch(self, ids: list[str], fingerprints: npt.NDArray[np.uint64]) -> Entries:
        rows = len(ids)
        zeros = np.zeros(rows, np.uint32)
        return Entries(
            sources=(SOURCE,),
            source_numbers=zeros,
            offsets=np.fromiter((next(self._offsets) for _ in range(rows)), np.uint64, rows),
            kinds=np.full(rows, Kind.NEAR, np.uint8),
            reasons=zeros.astype(np.uint8),
            fingerprints=fingerprints,
            times_ms=zeros.astype(np.int64),
            ids=ids,
        )

    def _admit(self, entries: Entries) -> None:
        self._index.admit(entries, {SOURCE: int(entries.offsets[-1]) + 1})

    def close(self) -> None:
        self._index.close()


@click.command()
@click.option("--pages", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--entries", default=20_000, show_default=True, type=click.IntRange(1), help="Other documents.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(pages: int, entries: int, rounds: int, as_json: bool) -> None:
    """Microseconds a record of pages that were given back."""
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with tempfile.TemporaryDirectory(prefix="given-back-") as name:
        made = Pages(Path(name), entries, pages)
        try:
            for _ in range(rounds + 1):
                for kind in _KINDS:
                    whose, _, how = kind.partition(", ")
                    made.last[whose], seconds = made.decided(made.last[whose], changed=how == "changed")
                    found[kind].append(seconds)
        finally:
            made.close()
    # The first round compiles and reads from disk.
    medians = {kind: 1e6 * float(np.median(seconds[1:])) / pages for kind, seconds in found.items()}
    if as_json:
        click.echo(orjson.dumps({"pages": pages, "entries": entries, "rounds": rounds, "us": medians}).decode())
        return
    table = Table("record", "us", "of the usual one", box=None)
    for kind, us in medians.items():
        table.add_row(kind, f"{us:,.1f}", f"{us / medians[kind.replace('given back', 'usual')]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
