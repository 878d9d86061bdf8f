"""The commands that measure and prepare, and decide nothing: `idf build`, `evaluate`, `calibrate`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import orjson
from rich.console import Console

from streamer import config
from streamer.errors import InputUnreadable, SettingsError
from streamer.recipes import RECIPES

REPORT_COLUMNS = 150
"""Width of a table that goes into a file or a pipe."""

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))


def _settings(context: click.Context, more: Sequence[str] = ()) -> config.Settings:
    file, overrides = context.obj
    return config.load(file, [*overrides, *more])


def _simhash_settings(context: click.Context, more: Sequence[str] = ()) -> config.Settings:
    settings = _settings(context, more)
    if settings.fingerprint.scheme != "simhash":
        raise SettingsError(
            f"fingerprint.scheme = {settings.fingerprint.scheme!r}: this command knows distances of SimHash only; leave the "
            "setting out here (bench.accuracy measures both schemes)"
        )
    if settings.fingerprint.second_look != "none":
        raise SettingsError(
            f"fingerprint.second_look = {settings.fingerprint.second_look!r}: this command knows distances alone; leave the "
            "setting out here (bench.accuracy measures a second look)"
        )
    return settings


@click.group()
def idf() -> None:
    """Tables of how rare words are, for fingerprint.idf."""


@idf.command("build")
@FILES
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The table to write.")
@click.option(
    "--documents-min",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Words of fewer documents are left out; they count as though never seen.",
)
@click.pass_context
def idf_build(context: click.Context, files: Sequence[Path], out: Path, documents_min: int) -> None:
    """Count in how many documents of FILES (JSON Lines) each word occurs and freeze that into a table."""
    from streamer.fingerprint import Fingerprinter
    from streamer.idf import DocumentFrequencies, write_table
    from streamer.sample import read_documents

    settings = _settings(context, ["fingerprint.idf="])
    frequencies = DocumentFrequencies(Fingerprinter(settings.fingerprint))
    for batch in read_documents(files, settings.decode):
        frequencies.add([document.text for document in batch])
    count = write_table(out, frequencies.lines(documents_min))
    click.echo(f"{count}\twords\t{frequencies.documents}\tdocuments\t{out}")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="'SECTION.KEY=VALUE ...'",
    help="Settings to measure beside those in force, parted by blanks; may be repeated.",
)
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="HTML page of the distances to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def evaluate(
    context: click.Context, folders: Sequence[Path], tries: Sequence[str], picture: Path | None, as_json: bool
) -> None:
    """Precision, recall and F1, with intervals, over FOLDERS of documents with known truth (docs/methods.md)."""
    from streamer.evaluation import UNIQUE_BELOW, score
    from streamer.evaluation_report import Evaluation, page, table
    from streamer.evaluation_sets import read_set
    from streamer.fingerprint import Fingerprinter

    variants = [("in force", _simhash_settings(context))]
    variants += [(text, _simhash_settings(context, text.split())) for text in tries]
    found = []
    for folder in folders:
        each = read_set(folder)
        for name, settings in variants:
            fingerprinter = Fingerprinter(settings.fingerprint)
            begin = time.perf_counter()
            distances = each.distances(fingerprinter)
            seconds = time.perf_counter() - begin
            found.append(
                Evaluation(
                    each.name,
                    name,
                    settings.fingerprint.bits,
                    settings.index.distance_max,
                    distances,
                    each.truth,
                    score(distances, each.truth, settings.index.distance_max),
                    len(distances) / seconds,
                    each.floor > UNIQUE_BELOW,
                )
            )
    if picture is not None:
        picture.write_text(page(found), encoding="utf-8")
    if as_json:
        click.echo(orjson.dumps([each.as_json() for each in found], option=orjson.OPT_INDENT_2))
    else:
        Console(width=None if sys.stdout.isatty() else REPORT_COLUMNS).print(table(found))


@click.command()
@FILES
@click.option("--documents", default=1_000, show_default=True, type=click.IntRange(10), help="Size of the sample.")
@click.option(
    "--false-per-million",
    default=100.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Settings with more false duplicates per million documents are not recommended.",
)
@click.pass_context
def calibrate(context: click.Context, files: Sequence[Path], documents: int, false_per_million: float) -> None:
    """Recommend a recipe, a length and a distance for the documents of FILES, as TOML on standard output.

    The first documents are taken as a sample. Nobody says which of them are duplicates, so near-duplicates are made of
    them by small edits; what the figures mean stands in docs/methods.md.
    """
    from streamer.calibration import best, fragment, index_bytes_per_document, make_sample, trials
    from streamer.evaluation_report import trial_table
    from streamer.fingerprint import Fingerprinter
    from streamer.sample import read_documents

    settings = _simhash_settings(context)
    found = [
        (document.title, document.text)
        for batch in read_documents(files, settings.decode, documents)
        for document in batch
    ]
    if not found:
        raise InputUnreadable("There is no document to calibrate with; do decode.text and the other pointers fit?")
    variants = [
        _settings(context, [f"fingerprint.recipe={recipe}", f"fingerprint.bits={bits}"])
        for recipe in RECIPES
        for bits in (64, 128)
    ]
    sample = make_sample(found)
    tried = list(trials(variants, sample))
    chosen = best(tried, false_per_million)
    prints = Fingerprinter(
        _settings(context, [f"fingerprint.recipe={chosen.recipe}", f"fingerprint.bits={chosen.bits}"]).fingerprint
    ).fingerprint([text for _, text in found], [title for title, _ in found])
    Console(stderr=True, width=None if sys.stderr.isatty() else REPORT_COLUMNS).print(trial_table(tried, chosen))
    scores, size = chosen.scores, index_bytes_per_document(prints, chosen.bits, chosen.distance_max)
    click.echo(f"# {len(found)} documents and as many copies with one edit each, made for this.")
    click.echo(f"# precision {scores.precision.value:.4f} (at least {scores.precision.low:.3f}), recall of the copies")
    click.echo(
        f"# {scores.recall.value:.4f}; {chosen.microseconds_per_document:.0f} microseconds a document on this machine,"
    )
    click.echo(f"# {size:.0f} bytes a document in an index of {len(found)}; larger ones take less.")
    click.echo(fragment(chosen), nl=False)
