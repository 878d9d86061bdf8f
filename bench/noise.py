"""Recall of noisy copies by setting, kind of noise, and level.

    python -m bench.noise SET [SET ...] [--kind misread|words|letters] [--letters N] [--setting NAME ...] [--json]

A set is a folder with `docs.jsonl.xz` (`text`, perhaps `op`: then only "base" counts). Every document gets a copy at every
level, by a generator with a fixed seed:

    misread  letters that a machine misread (OCR): 6 of 10 become a like one, 2 go, 2 get a stranger after them
    words    words replaced by other words of the set, as a rewriter does
    letters  letters replaced by other letters of the set

With `--letters` a document is a piece of so many letters, blanks and punctuation apart. A copy counts where an index that
holds the document alone would call it a duplicate. Others are pairs of different documents that the setting also flags.
"""

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.conditions import machine, read_lines
from bench.named_settings import NAMED, Setting
from streamer.evaluation.scores import near_pairs, pairs_flagged
from streamer.fingerprint.scheme import scheme_for

Kind = Literal["misread", "words", "letters"]

LEVELS = (3, 5, 8, 10, 12, 15)
"""Percent of the letters or words that change."""

SEED = 2026
_LIKE = dict(zip("eaotilnuhsrgcmw1", "coaflIuub8vqe" + "nvl", strict=True))


def noisy(text: str, kind: Kind, share: float, stock: Sequence[str], generator: random.Random) -> str:
    """A copy of the text in which this share of its letters or words has changed.

    stock  the words, or the letters, of the set
    """
    if kind == "words":
        words = text.split(" ")
        return " ".join(generator.choice(stock) if generator.random() < share else word for word in words)
    copied = []
    for letter in text:
        if not letter.isalnum() or generator.random() >= share:
            copied.append(letter)
        elif kind == "letters":
            copied.append(generator.choice(stock))
        else:
            like, stranger = _LIKE.get(letter, generator.choice(stock)), generator.choice(stock)
            copied.append(generator.choices([like, "", letter + stranger], [6, 2, 2])[0])
    return "".join(copied)


def documents(folder: Path, count: int, letters: int | None) -> list[str]:
    """The first documents of a set: whole, or from each that has enough a piece of so many letters of its middle."""
    rows = (row["text"] for row in read_lines(folder / "docs.jsonl.xz") if row.get("op", "base") == "base")
    if letters is None:
        return list(islice(rows, count))
    bare = ("".join(filter(str.isalnum, text)) for text in rows)
    return list(islice((text[len(text) // 2 :][:letters] for text in bare if len(text) >= 2 * letters), count))


def measure(texts: Sequence[str], kind: Kind, levels: Sequence[int], setting: Setting) -> tuple[list[float], int]:
    """The recall of copies at each level, and the number of pairs of different documents that are flagged."""
    generator = random.Random(SEED)
    stock = sorted({part for text in texts for part in (text.split() if kind == "words" else text) if part.isalnum()})
    hasher = scheme_for(setting.settings)
    of_texts = hasher.fingerprint(texts)
    recalls = []
    for level in levels:
        copies = hasher.fingerprint([noisy(text, kind, level / 100, stock, generator) for text in texts])
        recalls.append(float(pairs_flagged(of_texts, copies, setting.parameters).mean()))
    return recalls, len(near_pairs(of_texts, setting.parameters))


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(get_args(Kind)), default="misread", show_default=True)
@click.option("--letters", type=click.IntRange(min=10), help="Take pieces of this length.")
@click.option("--documents", "count", type=click.IntRange(min=2), default=400, show_default=True)
@click.option("--setting", "settings", multiple=True, default=("default", "ocr"), type=NAMED, help="May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of tables.")
def main(
    folders: tuple[Path, ...],
    kind: Kind,
    letters: int | None,
    count: int,
    settings: tuple[Setting, ...],
    as_json: bool,
) -> None:
    results = []
    for folder in folders:
        texts = documents(folder, count, letters)
        table = Table(title=f"{folder.name}, {kind}: {len(texts)} documents, recall", title_justify="left")
        for column in ("setting", *(f"{level} %" for level in LEVELS), "others"):
            table.add_column(column, justify="left" if column == "setting" else "right")
        for setting in settings:
            recalls, others = measure(texts, kind, LEVELS, setting)
            results.append({"set": folder.name, "setting": setting.name, "recall": recalls, "others": others})
            table.add_row(setting.name, *(f"{share:.3f}" for share in recalls), str(others))
        if not as_json:
            Console(width=150).print(table)
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "results": results}, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
