"""Longer versions on streams with known truth: what the rule changes, and how near `neardup.new` is.

    python -m bench.longer SET [SET ...] [--longer-min 0.1] [--new-max 1] [--articles 100] [--json]

A set is a stream as `bench.accuracy` reads it. The scheme as shipped, by its public key, decides it on disk, with
`index.longer = "pass"` and without, with `index.new_max` only in the first case. An `extends` answers a duplicate of the truth
as in `streamer evaluate`.

`new` is the error of `neardup.new`, estimate less exact share, over the drops with the rule. The exact share is that of the
distinct shingles of the scheme, from both texts.

Then articles unlike all others of their set follow their teasers (60, 70, 80 and 90 % of their letters, in turn), and shorter
versions follow them (70 to 95 %).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from bench.accuracy import Stream
from bench.named_settings import parse
from index import Kind, Longer, minhash
from streamer.evaluation.scores import Decided, admit, pair_distances
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.minhash.shingles import shingle_characters
from streamer.fingerprint.scheme import scheme_for
from streamer.records.relation import RATIO_UNITS, new_shares
from streamer.text.compared import compared
from streamer.text.normalisation import Normaliser

TEASERS, SHORTER = (0.6, 0.7, 0.8, 0.9), (0.7, 0.8, 0.85, 0.9, 0.95)
SETTING = parse("default")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome on one set.

    dropped    duplicates without the rule, and with it; likewise `false` and `missed`
    extends    longer versions, those that are duplicates by the truth, those in the grey zone
    growth     the least growth of an `extends`, by letters; None without any
    new        error of `neardup.new`: mean, standard deviation, largest
    teased     articles after their teasers: all, dropped without the rule, with it
    shortened  by share: shorter versions that are duplicates without the rule, and with it
    """

    set_name: str
    documents: int
    dropped: tuple[int, int]
    false: tuple[int, int]
    missed: tuple[int, int]
    extends: tuple[int, int, int]
    growth: float | None
    new: tuple[float, float, float]
    teased: tuple[int, int, int]
    shortened: dict[str, tuple[int, int]]


def outcome(stream: Stream, longer: Longer, articles: int) -> Outcome:
    """Decide a set with the rule and without."""
    fingerprinted, _ = stream.fingerprint(SETTING)
    prints = fingerprinted.documents
    without, decided = (fingerprinted.decided(SETTING.parameters, rule) for rule in (None, longer))
    truth, extends = stream.truth_of(decided.originals, SETTING.insert), decided.extended >= 0
    before, after = (stream.scores(fingerprinted, each, SETTING.insert) for each in (without, decided))
    lengths = letters_of(prints)
    growths = lengths[extends] / lengths[decided.extended[extends]] - 1
    errors = new_errors(stream.texts, prints, decided)
    unlike = [stream.texts[row] for row in unlike_rows(stream, without)[:articles]]
    return Outcome(
        stream.name,
        len(prints),
        (int((without.originals >= 0).sum()), int((decided.originals >= 0).sum())),
        (before.false_duplicates, after.false_duplicates),
        (before.missed, after.missed),
        tuple(
            int(rows.sum())
            for rows in (extends, extends & truth.duplicate, extends & ~truth.duplicate & ~truth.different)
        ),
        round(float(growths.min()), 4) if len(growths) else None,
        (float(errors.mean()), float(errors.std()), float(np.abs(errors).max(initial=0))),
        (
            len(unlike),
            *dropped_of([(text, TEASERS[at % len(TEASERS)]) for at, text in enumerate(unlike)], longer, teased=True),
        ),
        {f"{share:.0%}": dropped_of([(text, share) for text in unlike], longer, teased=False) for share in SHORTER},
    )


def new_errors(texts: Sequence[str], prints: Fingerprints, decided: Decided) -> npt.NDArray[np.float64]:
    """Estimate less exact share of new shingles, over the NEAR duplicates: float64 [m]."""
    rows = np.flatnonzero((decided.originals >= 0) & (prints.kinds == Kind.NEAR))
    originals, lengths = decided.originals[rows], letters_of(prints)
    distances = pair_distances(prints.rows(originals), prints.rows(rows), SETTING.parameters)
    ratios = np.round(lengths[rows] / lengths[originals] * RATIO_UNITS) / RATIO_UNITS
    estimates = new_shares(minhash.similarities_of(distances.astype(np.int16)), ratios)
    sets = shingle_sets(texts, {*rows.tolist(), *originals.tolist()})
    pairs = zip(rows.tolist(), originals.tolist(), strict=True)
    exact = [len(sets[row] - sets[original]) / len(sets[row]) for row, original in pairs]
    return estimates - np.array(exact)


def letters_of(prints: Fingerprints) -> npt.NDArray[np.float64]:
    """Letters of each text, as the rule counts them."""
    assert prints.lengths is not None
    return prints.lengths.astype(np.float64)


def shingle_sets(texts: Sequence[str], rows: set[int]) -> dict[int, set[int]]:
    """Distinct shingles of the scheme as shipped, by row."""
    chosen, normaliser = SETTING.settings.minhash, Normaliser(SETTING.settings.fingerprint)
    sizes = chosen.shingle_characters_wide, chosen.shingle_characters_narrow
    return {
        row: set(shingle_characters(compared(normaliser.characters([texts[row]])), *sizes).hashes.tolist())
        for row in rows
    }


def unlike_rows(stream: Stream, decided: Decided) -> list[int]:
    """Rows that resemble no earlier document, and that none names."""
    alone = (decided.originals < 0) & (stream.earlier == 0)
    alone[decided.originals[decided.originals >= 0]] = False
    return [row for row in np.flatnonzero(alone).tolist() if sum(map(str.isalnum, stream.texts[row])) >= 400]


def beginning(text: str, share: float) -> str:
    """The text up to this share of its letters."""
    places = [at for at, character in enumerate(text) if character.isalnum()]
    return text[: places[int(share * len(places)) - 1] + 1]


def dropped_of(articles: Sequence[tuple[str, float]], longer: Longer, *, teased: bool) -> tuple[int, int]:
    """How many second versions are duplicates, without the rule and with it.

    teased  the beginnings come first; else the whole texts
    """
    cut = [beginning(text, share) for text, share in articles]
    whole = [text for text, _ in articles]
    scheme = scheme_for(SETTING.settings)
    prints = scheme.fingerprint([*cut, *whole] if teased else [*whole, *cut])
    without, passing = (
        admit(prints, SETTING.parameters, rule).originals[len(articles) :] >= 0 for rule in (None, longer)
    )
    return int(without.sum()), int(passing.sum())


def table(found: Sequence[Outcome]) -> Table:
    """One row a set."""
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("set")
    headings = (
        "dropped",
        "false",
        "missed",
        "extends, true, grey",
        "least growth",
        "new: mean, deviation, worst",
        "teased",
    )
    for heading in (*headings, *(f"shorter {share:.0%}" for share in SHORTER)):
        rows.add_column(heading, justify="right")
    for each in found:
        pairs = (f"{before:,} -> {after:,}" for before, after in (each.dropped, each.false, each.missed))
        errors = "{:+.4f}, {:.4f}, {:.3f}".format(*each.new)
        teased = f"{each.teased[1]} of {each.teased[0]} -> {each.teased[2]}"
        shorter = (f"{before} -> {after}" for before, after in each.shortened.values())
        growth = "" if each.growth is None else f"{each.growth:.4f}"
        rows.add_row(each.set_name, *pairs, ", ".join(map(str, each.extends)), growth, errors, teased, *shorter)
    return rows


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--longer-min", default=0.1, show_default=True, type=click.FloatRange(0, 10), help="0: any length.")
@click.option("--new-max", default=1.0, show_default=True, type=click.FloatRange(0, 1))
@click.option("--articles", default=100, show_default=True, type=click.IntRange(1), help="At most, a set.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(folders: tuple[Path, ...], longer_min: float, new_max: float, articles: int, as_json: bool) -> None:
    longer = Longer(round(longer_min * 10_000), round(new_max * 10_000))
    found = [outcome(Stream(folder), longer, articles) for folder in folders]
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2))
    else:
        Console(width=200).print(table(found))


if __name__ == "__main__":
    main()
