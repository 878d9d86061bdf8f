"""Cost and benefit of MinHash shapes: bytes a document against F1, over documents with known truth.

    python -m bench.curve SET [SET ...] [--shingles characters|words] [--similarity-min 0.7] [--bands N ...]
                          [--insert unique|all|both] [--json]

A set is a folder as `bench.accuracy` reads it, and every decision passes through the product's own MinHasher and Index.
The shapes are all signatures of 64, 128 or 256 bins of 4 or 8 bits. Each has the bands that the product derives; it also
has as many bands of these rows as `--bands` names, where they fit.
Bytes are those needed to find and verify a document: the signature, and in every band a hash and the document's number.
What the layout on disk adds is measured by `bench.index`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import click
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.accuracy import Result, open_sets
from bench.conditions import PROGRESS, machine
from bench.named_settings import Policy, Setting, parse
from index.matching.minhash import BIN_BITS, BINS, Banding
from streamer.settings.settings import Minhash

HASH_BYTES = 4
"""A block key holds a 32-bit hash of a band's values; its place tells the band."""

NUMBER_BYTES = 5
"""Bytes of a document's number: 2^40 documents."""


@dataclass(frozen=True, slots=True)
class Point:
    """One set decided in one shape."""

    banding: Banding
    insert: Policy
    result: Result

    def as_dict(self) -> dict[str, Any]:
        """Shape, bytes, and all figures of the accuracy bench."""
        shape = {name: getattr(self.banding, name) for name in Banding.__slots__}
        return shape | {"bytes_per_document": bytes_per_document(self.banding)} | self.result.as_dict()


def bytes_per_document(banding: Banding) -> int:
    """Bytes kept of a document: its signature, and its entry in every band."""
    return banding.bits // 8 + banding.bands * (HASH_BYTES + NUMBER_BYTES)


def settings_for(
    shingles: Literal["characters", "words"], similarity_min: float, bands: Sequence[int], inserts: Sequence[Policy]
) -> list[tuple[Banding, Setting]]:
    """Every shape under every policy, the one of fewest bytes first."""
    found: list[tuple[Banding, Setting]] = []
    chosen = f"minhash minhash.shingles={shingles} minhash.similarity_min={similarity_min}"
    for bins, bin_bits, insert in product(BINS, BIN_BITS, inserts):
        derived = parse(f"{chosen} minhash.bins={bins} minhash.bin_bits={bin_bits}").entering(insert)
        banding = _banding(derived)
        others = [count for count in bands if count != banding.bands and count * banding.rows <= bins]
        tried = [derived, *(replace(derived, name=f"{derived.name}, {count} bands", bands=count) for count in others)]
        found += [(_banding(setting), setting) for setting in tried]
    return sorted(found, key=lambda shape: bytes_per_document(shape[0]))


def _banding(setting: Setting) -> Banding:
    banding = setting.parameters.banding
    assert banding is not None
    return banding


def show(points: Sequence[Point], conditions: dict[str, Any]) -> None:
    """One table a policy: a row a shape, a column a set."""
    console = Console(width=None if sys.stdout.isatty() else 170)
    names = list(dict.fromkeys(point.result.set_name for point in points))
    for insert in dict.fromkeys(point.insert for point in points):
        table = Table(title=f"insert = {insert}: F1 (false / missed)", title_justify="left")
        for column in ("bytes", "bins x bits", "bands of rows", *names, "mean F1"):
            table.add_column(column, justify="right", no_wrap=column not in names)
        chosen = [point for point in points if point.insert == insert]
        for banding in dict.fromkeys(point.banding for point in chosen):
            row = {point.result.set_name: point.result.scores for point in chosen if point.banding == banding}
            table.add_row(
                str(bytes_per_document(banding)),
                f"{banding.bins} x {banding.bin_bits}",
                f"{banding.bands} of {banding.rows}",
                *(f"{row[name].f1.value:.4f} ({row[name].false_duplicates} / {row[name].missed})" for name in names),
                f"{sum(score.f1.value for score in row.values()) / len(row):.4f}",
            )
        console.print(table)
    console.print(" | ".join(f"{name}: {value}" for name, value in conditions.items()))


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--shingles", type=click.Choice(["characters", "words"]), default="characters", show_default=True)
@click.option("--similarity-min", type=click.FloatRange(0.3, 1.0), default=Minhash().similarity_min)
@click.option("--bands", multiple=True, type=click.IntRange(min=1), help="Try so many bands, too; may be repeated.")
@click.option("--insert", type=click.Choice(["unique", "all", "both"]), default="unique", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of tables.")
def main(
    folders: tuple[Path, ...],
    shingles: Literal["characters", "words"],
    similarity_min: float,
    bands: tuple[int, ...],
    insert: Literal["unique", "all", "both"],
    as_json: bool,
) -> None:
    policies: tuple[Policy, ...] = ("unique", "all") if insert == "both" else (insert,)
    shapes = settings_for(shingles, similarity_min, bands, policies)
    points = [
        Point(banding, setting.insert, each.run(setting))
        for folder in folders
        for each in open_sets(folder)
        for banding, setting in track(shapes, description=each.name, console=PROGRESS)
    ]
    if as_json:
        answer = {"conditions": machine(), "results": [point.as_dict() for point in points]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    else:
        show(points, machine())


if __name__ == "__main__":
    main()
