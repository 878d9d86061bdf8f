"""Commands that measure and prepare: `idf build`, `calibrate` and the scores of `evaluate`."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from streamer.cli import options
from streamer.cli.outputs import require_absent, show, write_page, writing
from streamer.errors import InputUnreadable, NoDocuments, SettingsError
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import Settings, idle_line, without_use


class _FiniteRange(click.FloatRange):
    """A range without infinity and `nan`, which passes every comparison."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        number: float = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", parameter, context)
        return number


def _tried(chosen: options.Chosen, text: str) -> Settings:
    """Settings of a --try: `preset=NAME` first. Raises SettingsError, also for a setting without effect."""
    parts = text.split()
    presets = [part.partition("=")[2] for part in parts if part.startswith("preset=")]
    overrides = [part for part in parts if not part.startswith("preset=")]
    for preset in presets:
        if preset not in METHOD_PRESETS:
            raise SettingsError(f"--try {text}: no preset {preset!r}: use one of {', '.join(METHOD_PRESETS)}")
        chosen = chosen.with_preset(preset)
    settings = chosen.load(*overrides, over_files=True)
    named = {override.partition("=")[0] for override in overrides}
    idle = [key for key in without_use(settings) if key in named]
    if idle:
        raise SettingsError("\n".join(f"--try {text}: {idle_line(key, settings)}" for key in idle))
    return settings


def _refuse_idle(variants: Sequence[Settings]) -> None:
    idle = set.intersection(*(set(without_use(settings)) for settings in variants))
    if idle:
        raise SettingsError("\n".join(idle_line(key, variants[0]) for key in sorted(idle)))


@click.group()
@options.settings_options
def idf() -> None:
    """Build tables of word rarity for fingerprint.idf."""


@idf.command("build")
@options.files_argument
@click.option("--out", required=True, type=options.FILE, help="Write the table to this file.")
@click.option(
    "--documents-min",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Skip words in fewer documents; they weigh as much as unseen words.",
)
@options.force_option
@options.pass_chosen
def idf_build(chosen: options.Chosen, files: Sequence[Path], out: Path, documents_min: int, force: bool) -> None:
    """Count the documents of FILES that contain each word.

    FILES are JSON Lines, plain, .gz or .zst; - is standard input. The resulting table never changes.
    """
    from streamer.evaluation.sample import read_documents
    from streamer.fingerprint.methods.idf import DocumentFrequencies, write_table
    from streamer.fingerprint.simhash.fingerprinter import Fingerprinter

    require_absent(out, force=force)
    settings = chosen.load("fingerprint.idf=", over_files=True)
    frequencies = DocumentFrequencies(Fingerprinter(settings.fingerprint).words)
    for batch in read_documents(files, settings.decode):
        frequencies.add([document.text for document in batch])
    table = list(frequencies.lines(documents_min))
    if len(table) == 1:
        raise NoDocuments(
            f"No word is in {documents_min} or more of {frequencies.documents:,} documents, so the table would be empty: give "
            "more FILES, lower --documents-min, or check decode.text and the other pointers."
        )
    with writing(out):
        count = write_table(out, table)
    click.echo(f"{count}\twords\t{frequencies.documents}\tdocuments\t{out}")


@click.command("evaluate")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="'[preset=NAME] [SECTION.KEY=VALUE ...]'",
    help="Also measure these settings, separated by spaces, or preset=NAME; repeat it for more.",
)
@click.option(
    "--groups", metavar="FIELD", help="Take groups as truth: the field that names a document's topic or cluster."
)
@click.option("--picture", type=options.FILE, help="Plot the distances or similarities on this HTML page.")
@options.chosen_and_json
def scores(
    chosen: options.Chosen, folders: Sequence[Path], tries: Sequence[str], groups: str | None, picture: Path | None
) -> None:
    """Measure precision, recall and F1 on labelled FOLDERS, and how much text and how many sentences drops lose.

    docs/methods.md describes the folders. A folder may also be a JSON Lines file of labelled pairs:
    {"a": text, "b": text, "label": true or false}.
    """
    from streamer.evaluation.losses import losses, lost_sentences
    from streamer.evaluation.report import Evaluation, page, table
    from streamer.evaluation.scores import UNIQUE_BELOW, entering_all
    from streamer.evaluation.sets import read_set
    from streamer.fingerprint.scheme import longer_of, parameters_for, scheme_for
    from streamer.text.normalisation import Normaliser

    variants = [(chosen.preset or "in force", chosen.load(over_files=True))]
    variants += [(text, _tried(chosen, text)) for text in tries]
    _refuse_idle([settings for _, settings in variants])
    evaluations = []
    for folder in folders:
        each = read_set(folder, groups)
        if not (each.truth.duplicate.any() or each.truth.different.any()):
            raise NoDocuments(
                f"{folder}: no label says duplicate or different, so there is nothing to score: label some pairs."
            )
        for name, settings in variants:
            scheme = scheme_for(settings)
            parameters = entering_all(parameters_for(settings, scheme.stamp()))
            begin = time.process_time()
            prints = each.fingerprint(scheme)
            decided = prints.decided(parameters, longer_of(settings.index))
            seconds = time.process_time() - begin
            normaliser = Normaliser(settings.fingerprint)
            evaluations.append(
                Evaluation(
                    each.name,
                    name,
                    parameters,
                    None if picture is None else prints.distances(parameters),
                    each.truth,
                    each.scores(prints, decided),
                    seconds / max(len(prints), 1) * 1e6,
                    each.floor > UNIQUE_BELOW,
                    int((decided.extended >= 0).sum()),
                    losses(each, decided, normaliser),
                    lost_sentences(each, decided, normaliser),
                )
            )
    show([each.as_json() for each in evaluations], table(evaluations), soft_wrap=False)
    write_page(picture, lambda: page(evaluations))


def _methods(chosen: options.Chosen, schemes: Sequence[str]) -> list[tuple[str, Settings]]:
    in_force = chosen.load(over_files=True)
    _refuse_idle([in_force])
    methods: list[tuple[str, Settings]] = []
    for preset in METHOD_PRESETS:
        whole = chosen.with_preset(preset)
        settings = whole.load(over_files=True)
        if settings.fingerprint.scheme == "minhash":
            methods.append((preset, settings))
        else:
            methods += [(preset, whole.load(f"fingerprint.bits={bits}", over_files=True)) for bits in (64, 128)]
    if in_force not in [settings for _, settings in methods]:
        methods.append(("in force", in_force))
    return [(method, settings) for method, settings in methods if settings.fingerprint.scheme in schemes]


@click.command()
@options.any_files_argument
@click.option("--documents", default=1_000, show_default=True, type=click.IntRange(10), help="Size of the sample.")
@click.option(
    "--pairs",
    "pairs_file",
    type=options.FILE,
    help='Labelled pairs: {"a": text, "b": text, "label": true or false} on each line.  [default: generated by edits]',
)
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    type=click.Choice(["simhash", "minhash"]),
    default=("simhash", "minhash"),
    help="Try only this scheme.  [default: both]",
)
@click.option(
    "--false-per-million",
    default=100.0,
    show_default=True,
    type=_FiniteRange(0),
    help="Recommend only settings with at most this many false duplicates per million documents.",
)
@options.short_options
@options.pass_chosen
def calibrate(
    chosen: options.Chosen,
    files: Sequence[Path],
    documents: int,
    pairs_file: Path | None,
    schemes: Sequence[str],
    false_per_million: float,
) -> None:
    """Recommend a scheme and a threshold for your FILES.

    Prints a settings file to standard output. The first documents of FILES are the sample for false duplicates. Labelled
    pairs show missed duplicates; without --pairs, the command generates near-duplicates by edits. Without FILES, the first
    texts of the pairs are the sample. Among about equally good settings it takes those that lose the fewest sentences.
    docs/methods.md explains the figures.
    """
    from streamer.evaluation.calibration import best, fragment, labelled_sample, make_sample, trials
    from streamer.evaluation.report import recommendation, trial_table
    from streamer.evaluation.sample import read_documents
    from streamer.evaluation.sets import read_pairs
    from streamer.explain.plain_table import PIPE_COLUMNS, PipeConsole
    from streamer.text.normalisation import Normaliser

    if not files and pairs_file is None:
        raise click.UsageError("Give FILES with documents, --pairs, or both.")
    settings = chosen.load(over_files=True)
    methods = _methods(chosen, schemes)
    # Metadata pointers come from the settings, else from a method that compares metadata.
    decode = next((tried.decode for _, tried in methods if tried.decode.metadata), settings.decode)
    normaliser = Normaliser(settings.fingerprint)
    batches = read_documents(files, decode, documents) if files else ()
    documents_read = [document for batch in batches for document in batch]
    if pairs_file is None:
        sample = make_sample(documents_read, normaliser)
    else:
        pairs = read_pairs(pairs_file)
        if not pairs.truth.duplicate.any():
            raise InputUnreadable(f"{pairs_file}: no pair is labelled as a duplicate: label some.")
        sample = labelled_sample(documents_read or pairs.documents, pairs, normaliser)
    tried = list(trials(methods, sample))
    advised = best(tried, false_per_million)
    console = Console(stderr=True) if sys.stderr.isatty() else PipeConsole(stderr=True, width=PIPE_COLUMNS)
    console.print(trial_table(tried, advised))
    for line in recommendation(tried, advised, len(sample.documents), pairs_file, false_per_million):
        click.echo(f"# {line}")
    click.echo(fragment(advised.settings), nl=False)
