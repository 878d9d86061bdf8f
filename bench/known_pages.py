"""Microseconds of processor a record in decide, of new pages and of known ones.

    python -m bench.known_pages [--scheme minhash] [--pages 1000] [--entries 20000] [--rounds 5] [--json]

Each line is a batch with a record of every page, decided under recrawl = "update":

new      pages with unknown ids, and texts unlike all others
equal    the page's text as before
edited   a text near the one before, an update
changed  a text unlike every earlier one, an update

Known pages were unique. Given-back pages were dropped as copies, and given back.
"""

import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine
from bench.index import CHOSEN, chosen
from index import Entries, Index, Kind, Source
from index.session import Longer, Recrawl
from index.tools import compile_kernels

SOURCE = Source("stream", 0)
_KINDS = ("new", *(f"{whose}, {how}" for whose in ("known", "given back") for how in ("equal", "edited", "changed")))


class Pages:
    """An index that has decided known pages, others, and copies that were given back."""

    def __init__(self, directory: Path, scheme: str, entries: int, pages: int) -> None:
        self._offsets, self._rng, parameters = count(), np.random.default_rng(7), chosen(scheme, None, None, None)
        self._words = parameters.words
        self._index = Index.open(directory, parameters, map_bytes_max=2**32, recrawl=Recrawl("update"), longer=Longer())
        known = self._batch([f"known-{number}" for number in range(pages)], self._random(pages))
        others = self._random(max(entries, pages))
        self._admit(known)
        for begin in range(0, len(others), 1_000):
            some = others[begin : begin + 1_000]
            self._admit(self._batch([f"other-{begin + row}" for row in range(len(some))], some))
        copies = self._batch([f"copy-{number}" for number in range(pages)], others[:pages] ^ np.uint64(1))
        self._admit(copies)
        assert self._index.give_back(copies, delivered=True).all()
        self._last = {"known": known, "given back": copies}

    def seconds(self, kind: str) -> float:
        """Processor time for deciding one record of each page."""
        whose, _, how = kind.partition(", ")
        before = self._last.get(whose, self._last["known"])
        rows, prints = len(before), before.fingerprints.copy()
        if how == "edited":
            prints[:, 0] ^= np.uint64(1) << self._rng.integers(0, 64, rows, np.uint64)
        elif how != "equal":
            prints = self._random(rows)
        first = next(self._offsets)
        entries = self._batch(before.ids if how else [f"new-{first + row}" for row in range(rows)], prints)
        begin = time.process_time()
        self._admit(entries)
        seconds = time.process_time() - begin
        if how:
            self._last[whose] = entries
        return seconds

    def _random(self, rows: int) -> npt.NDArray[np.uint64]:
        # In a signature, 0 stands for an empty bin.
        return self._rng.integers(1, 256, (rows, 8 * self._words), np.uint8).view(np.uint64)

    def _batch(self, ids: Sequence[str], fingerprints: npt.NDArray[np.uint64]) -> Entries:
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
            lengths=zeros + np.uint32(1_000),
        )

    def _admit(self, entries: Entries) -> None:
        self._index.admit(entries, {SOURCE: int(entries.offsets[-1]) + 1})

    def close(self) -> None:
        self._index.close()


@click.command(help=__doc__)
@click.option("--scheme", default="minhash", show_default=True, type=click.Choice(list(CHOSEN)))
@click.option("--pages", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--entries", default=20_000, show_default=True, type=click.IntRange(1), help="Other documents.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(scheme: str, pages: int, entries: int, rounds: int, as_json: bool) -> None:
    taken: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    compile_kernels()
    with tempfile.TemporaryDirectory(prefix="known-pages-") as name:
        made = Pages(Path(name), scheme, entries, pages)
        try:
            for _ in range(rounds + 1):
                for kind in _KINDS:
                    taken[kind].append(made.seconds(kind))
        finally:
            made.close()
    # The first round reads from disk.
    medians = {kind: 1e6 * float(np.median(seconds[1:])) / pages for kind, seconds in taken.items()}
    if as_json:
        sizes = {"scheme": scheme, "pages": pages, "entries": entries, "rounds": rounds}
        click.echo(orjson.dumps({**sizes, "us": medians, **machine()}).decode())
        return
    table = Table("record", "us", "of a new one", box=None)
    for kind, us in medians.items():
        table.add_row(kind, f"{us:,.1f}", f"{us / medians['new']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
