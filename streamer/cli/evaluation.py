"""`evaluate` and the commands below it, which measure methods on documents of known truth. They decide nothing."""

import gzip
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson
from rich.console import Console
from rich.table import Table

from streamer.cli.methods import FILES, REPORT_COLUMNS, scores
from streamer.cli.options import FOLDER, Chosen, json_option, pass_chosen, settings_options
from streamer.cli.outputs import NoLeftovers, require_absent, writing
from streamer.errors import NoDocuments
from streamer.settings.settings import Settings

if TYPE_CHECKING:
    from streamer.records.decode import Document


class _ScoresUnlessNamed(click.Group):
    """A group whose command is `scores` where none of its commands is named; options may stand before either."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments[0] in self.commands:
            return super().resolve_command(context, arguments)
        return scores.name, scores, arguments

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        scores.format_options(context, formatter)
        self.format_commands(context, formatter)


@click.group(
    cls=_ScoresUnlessNamed,
    context_settings={"ignore_unknown_options": True},
    help=scores.help,
    subcommand_metavar="SET... | COMMAND [ARGS]...",
)
@settings_options
def evaluate() -> None:
    """Hold the commands."""


def _documents(files: Sequence[Path], settings: Settings) -> "list[Document]":
    """All documents of files. Raises NoDocuments where there is none."""
    from streamer.evaluation.sample import read_documents

    documents = [document for batch in read_documents(files, settings.decode) for document in batch]
    if not documents:
        raise NoDocuments("There is no document in FILES; do decode.text and the other pointers fit?")
    return documents


@evaluate.command()
@FILES
@click.option("--out", required=True, type=FOLDER, help="Write the set into this folder.")
@click.option(
    "--floor",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0.1, 1.0),
    help="Name pairs from this Jaccard similarity on.",
)
@click.option(
    "--run",
    type=click.IntRange(1, 32),
    help="Compare runs of so many tokens.  [default: 5, or 3 where most letters belong to scripts that part words]",
)
@pass_chosen
def truth(chosen: Chosen, files: Sequence[Path], out: Path, floor: float, run: int | None) -> None:
    """Find the exact near-duplicates among the documents of FILES, so that nobody has to label them.

    Writes a set for `streamer evaluate`: the documents, every pair of Jaccard similarity --floor or more, and the largest
    similarity of each document with an earlier one. docs/methods.md says over which sets.
    """
    from streamer.evaluation.join import similar_pairs, tokens_in_a_run
    from streamer.text.normalisation import Normaliser

    settings = chosen.load(over_files=True)
    normaliser = Normaliser(settings.fingerprint)
    documents = _documents(files, settings)
    require_absent(out, force=False)
    texts = [normaliser.normal_form(text) for text in normaliser.without_markup([each.text for each in documents])]
    run = run or tokens_in_a_run(texts)
    pairs = similar_pairs(texts, floor, run)
    largest, rows = pairs.nearest(len(documents))
    ids = [str(row) for row in range(len(documents))]
    head = f"#Jaccard similarity of runs of {run} tokens, exact; none below {floor:g}"
    lines = [head, "id\tmax_j\tbest_earlier_id"]
    lines += [
        f"{identity}\t{similarity:.4f}\t{ids[row] if row >= 0 else ''}"
        for identity, similarity, row in zip(ids, largest.tolist(), rows.tolist(), strict=True)
    ]
    listed = [head, "id1\tid2\tjaccard"]
    listed += [
        f"{ids[earlier]}\t{ids[later]}\t{similarity:.4f}"
        for later, earlier, similarity in zip(
            pairs.later.tolist(), pairs.earlier.tolist(), pairs.similarities.tolist(), strict=True
        )
    ]
    rows_out = [
        orjson.dumps(
            {"id": identity, "title": each.title, "text": each.text, "metadata": each.metadata, "source_id": each.id}
        )
        for identity, each in zip(ids, documents, strict=True)
    ]
    with NoLeftovers(scratch=[out]), writing(out):
        out.mkdir(parents=True)
        (out / "docs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(rows_out) + b"\n", preset=1))
        (out / "stream_truth.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", mtime=0))
        (out / "pairs.tsv.gz").write_bytes(gzip.compress("\n".join(listed).encode() + b"\n", mtime=0))
    click.echo(
        f"{len(documents)}\tdocuments\t{len(pairs.later)}\tpairs\t{int((largest >= 0.8).sum())}\tduplicates\t{out}"
    )


@evaluate.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
@pass_chosen
def judges(chosen: Chosen, folders: Sequence[Path], as_json: bool) -> None:
    """Score the same pairs by cosine, by SimHash of 64 and of 128 bits, and by MinHash.

    FOLDERS are sets as for `streamer evaluate`. Of a stream the pairs are every duplicate with the most similar earlier
    document, and as many documents that differ with earlier ones drawn at random.
    """
    from streamer.evaluation.judges import judged
    from streamer.evaluation.sets import read_pairs_of_set

    classic = (
        chosen.with_preset("simhash-classic")
        if chosen.load(over_files=True).fingerprint.scheme == "minhash"
        else chosen
    )
    simhash = classic.load("fingerprint.second_look=none", over_files=True)
    minhash = chosen.with_preset("minhash").load(over_files=True)
    found = [each for folder in folders for each in judged(read_pairs_of_set(folder), simhash, minhash)]
    if as_json:
        click.echo(orjson.dumps([each.as_json() for each in found], option=orjson.OPT_INDENT_2))
        return
    rows = Table(title="Scores are 1 for equal documents. Best: the threshold of the highest F1.", title_justify="left")
    for column in ("set", "judge", "pairs", "duplicates score", "others score", "best", "precision", "recall", "F1"):
        rows.add_column(column, justify="left" if column in ("set", "judge") else "right", no_wrap=True)
    for each in found:
        rows.add_row(
            each.set_name,
            each.judge,
            f"{each.duplicates} + {each.different}",
            *(f"{value:.4f}" for value in (each.mean_duplicates, each.mean_different, each.threshold)),
            *(f"{value:.4f}" for value in (each.precision, each.recall, each.f1)),
        )
    Console(width=None if sys.stdout.isatty() else REPORT_COLUMNS).print(rows)


@evaluate.command("time")
@FILES
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the times over the number of documents on this HTML page.",
)
@json_option
@pass_chosen
def time_command(chosen: Chosen, files: Sequence[Path], picture: Path | None, as_json: bool) -> None:
    """Time a decision over the number of documents in the index, with the index and without.

    Without it, each document is compared with all. The documents of FILES, of which every one enters, are the stream.
    """
    from streamer.evaluation.report import timing_page
    from streamer.evaluation.sets import Document, fingerprint_documents
    from streamer.evaluation.timing import timings
    from streamer.fingerprint.scheme import parameters_for, scheme_for

    settings = chosen.load(over_files=True)
    documents = [Document(each.title, each.text, each.metadata) for each in _documents(files, settings)]
    scheme = scheme_for(settings)
    parameters = parameters_for(settings, scheme.stamp())
    found = timings(fingerprint_documents(scheme, documents), parameters)
    if as_json:
        click.echo(orjson.dumps([each._asdict() for each in found], option=orjson.OPT_INDENT_2))
    else:
        rows = Table(title="Processor time a document, in microseconds.", title_justify="left")
        for column in ("documents in the index", "with the index", "without"):
            rows.add_column(column, justify="right")
        for each in found:
            rows.add_row(f"{each.documents:,}", f"{each.with_index_us:,.1f}", f"{each.without_us:,.1f}")
        Console(width=None if sys.stdout.isatty() else REPORT_COLUMNS).print(rows)
    # Last: a picture that cannot be written must not cost the figures.
    if picture is not None:
        with writing(picture):
            picture.write_text(timing_page(found, parameters), encoding="utf-8")


@evaluate.command("short")
@FILES
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the share missed over the length on this HTML page.",
)
@json_option
@pass_chosen
def short_command(chosen: Chosen, files: Sequence[Path], picture: Path | None, as_json: bool) -> None:
    """Show the share of short texts that is misjudged, by their length and by the threshold.

    Takes passages of whole sentences from the documents of FILES, and replaces one word of each. Fingerprints judge
    alone, without a second look.
    """
    from streamer.evaluation.report import short_page
    from streamer.evaluation.short_texts import misjudged, thresholds_of
    from streamer.fingerprint.scheme import parameters_for, scheme_for
    from streamer.text.normalisation import Normaliser

    settings = chosen.load(over_files=True)
    if settings.fingerprint.scheme == "simhash":
        settings = chosen.load("fingerprint.second_look=none", over_files=True)
    documents = _documents(files, settings)
    texts = Normaliser(settings.fingerprint).without_markup([each.text for each in documents])
    scheme = scheme_for(settings)
    parameters = parameters_for(settings, scheme.stamp())
    thresholds = thresholds_of(parameters)
    found = list(misjudged(texts, scheme, parameters))
    if not found:
        raise NoDocuments("No two documents of FILES have a sentence of 8 to 45 characters.")
    if as_json:
        click.echo(orjson.dumps([each.as_json(thresholds) for each in found], option=orjson.OPT_INDENT_2))
    else:
        kind = "similarity >=" if parameters.by_similarity else "distance <="
        rows = Table(title=f"Share missed / false, by {kind}", title_justify="left")
        for column in ("characters", "texts", *(f"{threshold:g}" for threshold in thresholds)):
            rows.add_column(column, justify="right", no_wrap=True)
        for each in found:
            shares = zip(each.missed.tolist(), each.false.tolist(), strict=True)
            cells = (f"{missed:.2f} / {false:.4f}" for missed, false in shares)
            rows.add_row(f"{each.least}-{each.most}", f"{each.texts:,}", *cells)
        Console(width=None if sys.stdout.isatty() else REPORT_COLUMNS).print(rows)
    # Last: a picture that cannot be written must not cost the figures.
    if picture is not None:
        with writing(picture):
            picture.write_text(short_page(found, parameters), encoding="utf-8")
