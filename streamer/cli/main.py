"""The command line: arguments to settings, run, exit code. Only data goes to standard output."""

import logging
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from index import errors
from streamer.cli import options
from streamer.cli.about import completion, version_command
from streamer.cli.compare import compare
from streamer.cli.complaints import complain
from streamer.cli.dead_letters import dead_letters
from streamer.cli.doctor import doctor
from streamer.cli.evaluation import audit, evaluate
from streamer.cli.give_back import give_back
from streamer.cli.index import index_group
from streamer.cli.methods import calibrate, idf
from streamer.cli.outputs import NoLeftovers, show
from streamer.cli.protect import protect
from streamer.cli.sections import SectionedGroup
from streamer.cli.templates import templates
from streamer.cli.verify import verify
from streamer.cli.why import stories, why
from streamer.errors import (
    EXIT_INTERRUPTED,
    InputLost,
    InputUnreadable,
    MemoryTooSmall,
    SettingsError,
    StreamerError,
)
from streamer.explain.words import LANGUAGES, language_of
from streamer.packages import require_package
from streamer.settings.parts import PARTS, Part
from streamer.settings.settings import Settings, idle_line, locale_name, needs_hosts, without_use

if TYPE_CHECKING:
    from streamer.clusters.keep import Policy

ADDRESS_SPACE_BYTES_MIN = 10**9
FILES_SHOWN_MAX = 5


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@options.settings_options
@click.version_option(package_name="neardup-streamer")
def cli() -> None:
    """Filter near-duplicates out of a stream of documents: exactly once, every decision explained.

    Settings come from --config FILE, STREAMER_SECTION__KEY variables, --preset and --set; later ones override. These
    options may come before or after a command.
    """
    from streamer.observe.logs import configure_logging

    # Unconfigured, structlog would write into the answer. Some commands configure more.
    configure_logging("warning", "console")
    # The command's error repeats the client's complaints.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _warn_of_idle_settings(settings: Settings) -> None:
    import structlog

    keys = without_use(settings)
    if keys:
        structlog.get_logger(__name__).warning(
            "settings without use", scheme=settings.fingerprint.scheme, settings=", ".join(keys)
        )


def _warn_of_markup(settings: Settings, files: Sequence[Path]) -> None:
    """Warn if crawled pages, by their file names, would be compared with their tags."""
    import structlog

    pages = [str(file) for file in files if ".warc" in file.suffixes and not {".wet", ".wat"} & set(file.suffixes)]
    if pages and settings.fingerprint.markup == "none":
        structlog.get_logger(__name__).warning(
            'pages are HTML: fingerprint.markup = "auto" compares their articles, and "html" their texts',
            files=pages[:FILES_SHOWN_MAX],
        )


@cli.command()
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Run only this part of the service; repeat it for more.  [default: the whole service]",
)
@options.pass_chosen
def run(chosen: options.Chosen, parts: Sequence[Part]) -> None:
    """Run the service: Kafka in, unique and duplicate topics out.

    It reads the input topic until Ctrl-C or SIGTERM. docs/scaling.md describes its parts.
    """
    # The metrics library must load after the supervisor creates the metrics folder.
    from streamer.workers.supervisor import Supervisor

    # Workers look at the index in place: a supervisor loads nothing that opens one.
    settings = chosen.stated()
    options.log_as_set(settings)
    _warn_of_idle_settings(settings)
    chosen_parts = [part for part in PARTS if part in parts]
    if chosen_parts and "decide" not in chosen_parts and settings.ask.enabled:
        raise SettingsError(
            "ask.enabled: only the part `decide` has the index to answer from: set it to false for other parts"
        )
    if chosen_parts and len(chosen_parts) < len(PARTS):
        if settings.topics.stories is not None:
            raise SettingsError("topics.stories: stories need the whole service: unset it, or run without --part")
        if settings.index.protected:
            raise SettingsError(
                "index.protected: the part with the fingerprints writes no outputs, and the part with the outputs has no "
                "fingerprints: leave it out, or run without --part"
            )
        # What fingerprints is loaded by workers, and not by a supervisor of the whole service.
        from streamer.fingerprint.scheme import require_shared_key

        require_shared_key(settings)
    # Without `decide`, another process may be creating the index there.
    index = settings.index.directory if not chosen_parts or "decide" in chosen_parts else None
    with NoLeftovers(index=index):
        # All parts together are the service, without topics in between.
        sys.exit(Supervisor(settings, chosen_parts if len(chosen_parts) < len(PARTS) else ()).run())


keep_option = click.option(
    "--keep",
    metavar="POLICY",
    help="Also write each cluster's best document to kept.jsonl: first, longest, newest, max:POINTER, min:POINTER, "
    "first:POINTER=A,B,C, or host-order=FILE.",
)
counts_option = click.option(
    "--counts",
    "with_counts",
    is_flag=True,
    help="With --keep: add how often a text was printed to each line of kept.jsonl.",
)


@cli.command("filter")
@options.files_argument
# Eager: what FILES mean depends on it.
@click.option("--out", required=True, is_eager=True, type=options.FOLDER, help="Write the outputs to this folder.")
@click.option(
    "--dead-letters-max",
    type=click.IntRange(0),
    metavar="N",
    help="Stop if more of the first 1,000 lines are dead letters.  [default: stop if all are]",
)
@click.option(
    "--compress",
    type=click.Choice(["gz", "zst"]),
    help="Compress the outputs.  [default: as the folder has them, else plain]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="With parquet, also write each output as a Parquet file at the end.",
)
@click.option(
    "--clusters", "with_clusters", is_flag=True, help="Write clusters.jsonl at the end: see `streamer clusters`."
)
@keep_option
@counts_option
@options.processes_option
@options.index_option
@options.base_option
@options.protected_option
@options.short_options
@options.chosen_and_json
def filter_command(
    chosen: options.Chosen,
    files: Sequence[Path],
    out: Path,
    dead_letters_max: int | None,
    compress: str | None,
    kind: str,
    with_clusters: bool,
    keep: str | None,
    with_counts: bool,
    processes: int,
    directory: Path | None,
) -> None:
    """Filter FILES into a folder: JSON Lines, WARC, WET or Parquet.

    FILES are plain, .gz or .zst; - is standard input. A folder means its files at any depth, a quoted glob those that match
    it, in the order of their names. The same command continues an interrupted run.
    """
    from streamer.clusters.clusters import write_clusters
    from streamer.index_admin import tables
    from streamer.service.file_job import filter_files, require_documents
    from streamer.service.summary import table
    from streamer.transports.files.output_folder import FURTHER, PARQUET, write_parquet

    settings = chosen.load(index=directory, over_files=True)
    options.log_as_set(settings, "warning")
    _warn_of_idle_settings(settings)
    _warn_of_markup(settings, files)
    if kind == "parquet":
        require_package("--format parquet", "parquet")
    policy = _policy(keep, settings, with_counts=with_counts)
    require_documents(settings, files[0], dead_letters_max)
    with NoLeftovers(index=settings.index.directory, output=out):
        totals, finished = filter_files(settings, files, out, Console(stderr=True), compress, processes=processes)
        if finished and (with_clusters or policy is not None):
            totals.clusters = write_clusters(out, settings, policy, tables.progress_bar, with_counts=with_counts)
        if finished and kind == "parquet":
            write_parquet(out, FURTHER[: bool(totals.clusters) + (policy is not None)])
            totals.suffix = PARQUET
    for remark in totals.remarks:
        click.echo(f"streamer: {remark}", err=True)
    show(totals.as_json(out), table(totals, out), soft_wrap=False)
    if not finished:
        click.echo("stopped; run the same command again to continue", err=True)
        sys.exit(EXIT_INTERRUPTED)
    complain(totals, out)


def _policy(keep: str | None, settings: Settings, *, with_counts: bool) -> "Policy | None":
    from streamer.clusters.keep import rank_by

    if with_counts and keep is None:
        raise click.UsageError("--counts adds to the lines of kept.jsonl: give --keep, too")
    return None if keep is None else rank_by(keep, settings.decode)


@cli.command()
@click.argument("out", metavar="DIR", type=options.FOLDER)
@keep_option
@counts_option
@options.short_options
@options.chosen_and_json
def clusters(chosen: options.Chosen, out: Path, keep: str | None, with_counts: bool) -> None:
    """Write clusters.jsonl into an output folder: each document with its duplicates.

    All runs into DIR count. Hosts and times come from the documents, so give the settings that these runs had. A policy's FILE
    has a host a line, the best first.
    """
    from streamer.clusters.clusters import write_clusters
    from streamer.explain.plain_table import PlainTable
    from streamer.index_admin import tables

    settings = chosen.load(over_files=True)
    policy = _policy(keep, settings, with_counts=with_counts)
    counts = write_clusters(out, settings, policy, tables.progress_bar, with_counts=with_counts)
    show(counts, PlainTable("what", "count", rows=counts.items(), right=("count",), headed=False))


@cli.command()
@click.option(
    "--directory",
    default="demo-output",
    show_default=True,
    type=options.FOLDER,
    help="Write documents, indexes and outputs to this folder.",
)
@click.option(
    "--language", type=click.Choice(LANGUAGES), help="Show the result in this language.  [default: the locale's, or en]"
)
@options.pass_chosen
def demo(chosen: options.Chosen, directory: Path, language: str | None) -> None:
    """Filter synthetic news by both schemes, and show the result.

    One scheme uses the current settings, the other its preset: minhash or simhash-best.
    """
    from streamer.demo.demo import made_in, run_demo

    settings = chosen.load()
    by_scheme: dict[str, Settings] = {
        settings.fingerprint.scheme: settings
        for settings in (*(chosen.with_preset(preset).load() for preset in ("minhash", "simhash-best")), settings)
    }
    options.log_as_set(settings, "warning")
    with NoLeftovers(scratch=[directory, *made_in(directory)]):
        code = run_demo(directory, Console(), by_scheme, language or language_of(locale_name()))
    # Outside, so that an interrupted demo can continue.
    sys.exit(code)


@cli.group()
@options.settings_options
def topics() -> None:
    """Create the service's topics, and fill its input."""


@topics.command("create")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1), help="Partitions of each topic.")
@click.option(
    "--replicas", default=1, show_default=True, type=click.IntRange(1), help="Replication factor of each topic."
)
@click.option("--parts", is_flag=True, help="Also create the topics between parts.")
@options.pass_chosen
def topics_create(chosen: options.Chosen, partitions: int, replicas: int, parts: bool) -> None:
    """Create the four topics of the settings.

    Existing topics stay as they are.
    """
    from streamer.transports.kafka.topics import create_topics

    for topic, outcome in create_topics(chosen.load(), partitions, replicas, parts=parts).items():
        click.echo(f"{topic}\t{outcome}")


@topics.command("produce")
@options.files_argument
@click.option("--topic", help="Write to this topic.  [default: topics.input of the settings]")
@options.pass_chosen
def topics_produce(chosen: options.Chosen, files: Sequence[Path], topic: str | None) -> None:
    """Send the lines of FILES to the input topic, in order.

    FILES are as for `filter`; each WARC page and each Parquet row is one line.
    """
    from streamer.service.summary import left_out_in_words
    from streamer.transports.files.line_reader import lines
    from streamer.transports.files.warc import UNREADABLE
    from streamer.transports.kafka.topics import produce

    settings = chosen.load()
    left_out: Counter[str] = Counter()
    complaints: list[str] = []
    lost: list[InputLost] = []

    def remark(sentence: str) -> None:
        click.echo(f"streamer: {sentence}", err=True)

    def readable() -> Iterator[bytes]:
        for file in files:
            try:
                yield from lines(file, left_out, remark)
            except InputUnreadable as error:
                complaints.append(str(error))
            except InputLost as error:
                # The count says how many lines are in the topic, so that the rest can follow.
                lost.append(error)
                return

    count = produce(settings, topic or settings.topics.input, readable())
    click.echo(f"{count}\t{topic or settings.topics.input}")
    if left_out := +left_out:
        click.echo(f"no documents: {left_out_in_words(left_out)}", err=True)
    if left_out[UNREADABLE]:
        complaints.append(f"{left_out[UNREADABLE]:,} damaged places in archives are left out.")
    if lost:
        raise lost[0]
    if complaints:
        raise InputUnreadable("\n".join(complaints))


@cli.group("config")
@options.settings_options
def config_group() -> None:
    """Show and check the settings."""


@config_group.command("show")
@click.option("--all", "methods", is_flag=True, help="Also print the settings of methods that have their defaults.")
@options.pass_chosen
def config_show(chosen: options.Chosen, methods: bool) -> None:
    """Print the settings as TOML, without secrets.

    The output is a settings file. docs/settings-methods.md lists the settings of methods, which presets give.
    """
    from streamer.settings.toml import as_toml

    click.echo(as_toml(chosen.load(), methods=methods), nl=False)


@config_group.command("check")
@options.pass_settings
def config_check(settings: Settings) -> None:
    """Check the settings; exit code 78 if one is wrong.

    Prints one line per problem: a wrong value, contradicting settings, a missing extra, or a setting without effect.
    """
    from streamer.doctor.finding import State
    from streamer.doctor.machine import extras
    from streamer.records.first_look import remedy

    missing = [extra.remedy for extra in extras(settings) if extra.state is not State.OK]
    problems = [*missing, *(idle_line(key, settings) for key in without_use(settings))]
    if problems:
        raise SettingsError("\n".join(problems))
    click.echo("the settings are valid")
    if needs_hosts(settings) and settings.decode.format == "text":
        click.echo(f"streamer: text has no host, so the index learns no templates. {remedy(settings.decode)}", err=True)


for command in (
    *(index_group, idf, evaluate, calibrate, compare, verify, why, stories, audit, doctor, give_back),
    *(dead_letters, protect, version_command, completion),
):
    cli.add_command(command)
index_group.add_command(templates)


def _require_address_space() -> None:
    """Raise MemoryTooSmall below ADDRESS_SPACE_BYTES_MIN: compiled code would abort without a message."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE_BYTES_MIN:
        raise MemoryTooSmall(
            f"The address space is limited to {limit:,} bytes (ulimit -v): raise it to at least {ADDRESS_SPACE_BYTES_MIN:,} "
            "and start again."
        )


def main() -> None:
    """Run the command line. A known error becomes a line on standard error and its exit code."""
    try:
        _require_address_space()
        cli.main(prog_name="streamer", standalone_mode=True)
    except StreamerError as error:
        click.echo(f"streamer: {error}", err=True)
        sys.exit(error.exit_code)
    except MemoryError as error:
        click.echo(
            f"streamer: not enough memory ({error}): raise the container's limit or ulimit -v, or lower batch.bytes_max and "
            "batch.records_max. The same command continues an interrupted run.",
            err=True,
        )
        sys.exit(MemoryTooSmall.exit_code)
    except errors.NeardupIndexError as error:
        from streamer.service.wiring import exit_code_of

        click.echo(f"streamer: {error}", err=True)
        sys.exit(exit_code_of(error))
