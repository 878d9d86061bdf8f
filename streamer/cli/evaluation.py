"""`streamer evaluate` and its subcommands: methods measured on known truth."""

import gzip
import lzma
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from streamer.cli import options
from streamer.cli.methods import scores
from streamer.cli.outputs import NoLeftovers, require_absent, show, write_page, writing
from streamer.errors import NoDocuments, SettingsError
from streamer.explain.plain_table import PlainTable
from streamer.settings.settings import Settings

if TYPE_CHECKING:
    from streamer.records.decode import Document


class _ScoresUnlessNamed(click.Group):
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
@options.settings_options
def evaluate() -> None:
    """Group of the subcommands."""


def _documents(files: Sequence[Path], settings: Settings) -> "list[Document]":
    from streamer.evaluation.sample import read_documents

    return [document for batch in read_documents(files, settings.decode) for document in batch]


@evaluate.command()
@options.files_argument
@click.option("--out", required=True, type=options.FOLDER, help="Write the set into this folder.")
@click.option(
    "--floor",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0.1, 1.0),
    help="List pairs from this Jaccard similarity on.",
)
@click.option(
    "--run",
    type=click.IntRange(1, 32),
    help="Compare runs of this many tokens.  [default: 5, or 3 if most letters are of scripts with spaces]",
)
@options.pass_chosen
def truth(chosen: options.Chosen, files: Sequence[Path], out: Path, floor: float, run: int | None) -> None:
    """Compute the exact near-duplicates among the documents of FILES, without labels.

    Writes a set for `streamer evaluate`: the documents, all pairs with a Jaccard similarity of at least --floor, and each
    document's largest similarity to an earlier one. docs/methods.md defines the compared sets.
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
    head = f"#Jaccard similarity of runs of {run} tokens, exact; none below {floor:g}"
    largest_lines = [head, "id\tmax_j\tbest_earlier_id"]
    for row, (similarity, earlier) in enumerate(zip(largest.tolist(), rows.tolist(), strict=True)):
        largest_lines.append(f"{row}\t{similarity:.4f}\t{earlier if earlier >= 0 else ''}")
    of_pairs = zip(pairs.earlier.tolist(), pairs.later.tolist(), pairs.similarities.tolist(), strict=True)
    pair_lines = [f"{earlier}\t{later}\t{similarity:.4f}" for earlier, later, similarity in of_pairs]
    document_lines = [
        orjson.dumps(
            {"id": str(row), "title": each.title, "text": each.text, "metadata": each.metadata, "source_id": each.id},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for row, each in enumerate(documents)
    ]
    with NoLeftovers(scratch=[out]), writing(out):
        out.mkdir(parents=True)
        (out / "docs.jsonl.xz").write_bytes(lzma.compress(b"".join(document_lines), preset=1))
        _write_lines(out / "stream_truth.tsv.gz", largest_lines)
        _write_lines(out / "pairs.tsv.gz", [head, "id1\tid2\tjaccard", *pair_lines])
    click.echo(
        f"{len(documents)}\tdocuments\t{len(pairs.later)}\tpairs\t{int((largest >= 0.8).sum())}\tduplicates\t{out}"
    )


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))


@evaluate.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.chosen_and_json
def judges(chosen: options.Chosen, folders: Sequence[Path]) -> None:
    """Score the same pairs by cosine, SimHash (64 and 128 bits) and MinHash.

    FOLDERS are sets as for `streamer evaluate`. A stream gives each duplicate with its most similar earlier document, and
    as many different documents with random earlier ones.
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
    judgements = [each for folder in folders for each in judged(read_pairs_of_set(folder), simhash, minhash)]
    title = "Scores are 1 for equal documents. Best: the threshold of the highest F1."
    names = ("set", "judge")
    figures = ("pairs", "duplicates score", "others score", "best", "precision", "recall", "F1")
    rows = PlainTable(*names, *figures, ids=names, right=figures, title=title)
    for each in judgements:
        rows.add_row(
            each.set_name,
            each.judge,
            f"{each.duplicates} + {each.different}",
            *(f"{value:.4f}" for value in (each.mean_duplicates, each.mean_different, each.threshold)),
            *(f"{value:.4f}" for value in (each.precision, each.recall, each.f1)),
        )
    show([asdict(each) for each in judgements], rows, soft_wrap=False)


@evaluate.command("time")
@options.files_argument
@click.option("--picture", type=options.FILE, help="Plot the times by number of documents on this HTML page.")
@options.chosen_and_json
def time_command(chosen: options.Chosen, files: Sequence[Path], picture: Path | None) -> None:
    """Time a decision by the number of documents, with and without the index.

    Without the index, each document is compared with all earlier ones. All documents of FILES enter the index.
    """
    from streamer.evaluation.report import timing_page
    from streamer.evaluation.timing import timings
    from streamer.fingerprint.documents import fingerprint_documents
    from streamer.fingerprint.scheme import scheme_with_parameters

    settings = chosen.load(over_files=True)
    documents = _documents(files, settings)
    scheme, parameters = scheme_with_parameters(settings)
    measured = timings(fingerprint_documents(scheme, documents), parameters)
    columns = ("documents in the index", "with the index", "without")
    rows = ((each.documents, f"{each.with_index_us:,.1f}", f"{each.without_us:,.1f}") for each in measured)
    shown = PlainTable(*columns, rows=rows, right=columns, title="Processor time a document, in microseconds.")
    show([each._asdict() for each in measured], shown, soft_wrap=False)
    write_page(picture, lambda: timing_page(measured, parameters))


@evaluate.command("short")
@options.files_argument
@click.option("--picture", type=options.FILE, help="Plot the share of misses by length on this HTML page.")
@options.chosen_and_json
def short_command(chosen: options.Chosen, files: Sequence[Path], picture: Path | None) -> None:
    """Show the share of misjudged short texts, by length and threshold.

    Takes passages of whole sentences from FILES, and replaces one word in each. Fingerprints decide without a second
    look.
    """
    from streamer.evaluation.report import short_page
    from streamer.evaluation.short_texts import misjudged, thresholds_of
    from streamer.fingerprint.scheme import scheme_with_parameters
    from streamer.text.normalisation import Normaliser

    settings = chosen.load(over_files=True)
    if settings.fingerprint.scheme == "simhash":
        settings = chosen.load("fingerprint.second_look=none", over_files=True)
    documents = _documents(files, settings)
    texts = Normaliser(settings.fingerprint).without_markup([each.text for each in documents])
    scheme, parameters = scheme_with_parameters(settings)
    thresholds = thresholds_of(parameters)
    rates = list(misjudged(texts, scheme, parameters))
    if not rates:
        raise NoDocuments("FILES need two documents with a sentence of 8 to 45 characters; give more FILES.")
    kind = "similarity >=" if parameters.by_similarity else "distance <="
    columns = ("characters", "texts", *(f"{threshold:g}" for threshold in thresholds))
    rows = PlainTable(*columns, right=columns, title=f"Share missed / false, by {kind}")
    for each in rates:
        shares = zip(each.missed.tolist(), each.false.tolist(), strict=True)
        cells = (f"{missed:.2f} / {false:.4f}" for missed, false in shares)
        rows.add_row(f"{each.least}-{each.most}", each.texts, *cells)
    show([each.as_json(thresholds) for each in rates], rows, soft_wrap=False)
    write_page(picture, lambda: short_page(rates, parameters))


@click.command("audit")
@options.index_option
@options.since_option
@options.chosen_and_json
def audit(chosen: options.Chosen, directory: Path | None, since_ms: int | None) -> None:
    """Show how good the verdicts are, measured on the stream.

    Recall: of documents with a near-duplicate that was kept before, the share that was dropped or names it. Precision: of
    duplicates, the share that exact counting confirms. The second table shows what another minhash.similarity_min would do.
    """
    from streamer.audit.report import report, store_of, tables

    settings = chosen.load(index=directory, over_files=True)
    if not settings.index.directory.is_dir():
        raise SettingsError(
            f"index.directory: {settings.index.directory}: there is no index; name its folder by --index."
        )
    if not settings.audit.one_in and not store_of(settings).path.exists():
        raise SettingsError("audit.one_in: 0 samples nothing; set it above 0, and filter.")
    values = report(settings, None if since_ms is None else since_ms / 1_000)
    show(values, tables(values))
