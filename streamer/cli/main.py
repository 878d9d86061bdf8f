"""Arguments to settings, wiring, run, exit code. Data goes to standard output, all else to standard error."""

import logging
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson
import structlog
from rich.console import Console

from index import errors
from streamer.cli.about import completion, version_command
from streamer.cli.compare import compare
from streamer.cli.dead_letters import dead_letters
from streamer.cli.doctor import doctor
from streamer.cli.evaluation import evaluate
from streamer.cli.give_back import give_back
from streamer.cli.index import index_group
from streamer.cli.methods import calibrate, idf
from streamer.cli.options import FOLDER, Chosen, json_option, pass_chosen, pass_settings, settings_options
from streamer.cli.outputs import NoLeftovers
from streamer.cli.templates import templates
from streamer.cli.verify import verify
from streamer.cli.why import why
from streamer.errors import EXIT_INTERRUPTED, MemoryTooSmall, NoDocuments, SettingsError, StreamerError
from streamer.settings.parts import PARTS, Part
from streamer.settings.settings import Settings, idle_line, without_use

if TYPE_CHECKING:
    from streamer.service.summary import Totals

ADDRESS_SPACE_BYTES_MIN = 10**9


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@settings_options
@click.version_option(package_name="neardup-streamer")
def cli() -> None:
    """Filter near-duplicates out of a stream of documents: exactly once, every decision explained.

    Settings come from --config FILE, then from STREAMER_SECTION__KEY variables, then from --preset, then from --set; the
    later one wins. These options may stand before or after a command.
    """
    from streamer.observe.logs import configure_logging

    # A command that says more configures its own. Without any, lines would go to standard output, amid the answer.
    configure_logging("warning", "console")
    # The client's complaints end up in the command's own error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _warn_of_what_has_no_use(settings: Settings) -> None:
    keys = without_use(settings)
    if keys:
        structlog.get_logger(__name__).warning(
            "settings without use", scheme=settings.fingerprint.scheme, settings=", ".join(keys)
        )


def _warn_of_markup(settings: Settings, files: Sequence[Path]) -> None:
    """Warn where pages as crawlers stored them, told by the names of files, would be compared with all their tags."""
    pages = [str(file) for file in files if ".warc" in file.suffixes and not {".wet", ".wat"} & set(file.suffixes)]
    if pages and settings.fingerprint.markup == "none":
        structlog.get_logger(__name__).warning(
            'pages are HTML: fingerprint.markup = "html-main" compares their articles, and "html" their texts',
            files=pages,
        )


@cli.command()
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Run this part of the service alone; give it again for another one.  [default: the whole service]",
)
@pass_chosen
def run(chosen: Chosen, parts: Sequence[Part]) -> None:
    """Run the service: Kafka in, unique and duplicate topics out.

    It reads the input topic until Ctrl-C or SIGTERM. docs/scaling.md tells of its parts.
    """
    # The supervisor makes the metrics folder, and the metrics library must not load before that.
    from streamer.fingerprint.scheme import require_shared_key
    from streamer.observe.logs import configure_logging
    from streamer.service.supervisor import Supervisor

    settings = chosen.load()
    configure_logging(settings.observe.log_level, settings.observe.log_format)
    _warn_of_what_has_no_use(settings)
    chosen_parts = [part for part in PARTS if part in parts]
    if chosen_parts and "decide" not in chosen_parts and settings.ask.enabled:
        raise SettingsError(
            "ask.enabled: who asks is answered from the index, which the part `decide` has: switch it off here"
        )
    if chosen_parts and len(chosen_parts) < len(PARTS):
        require_shared_key(settings)
    # Another process may be about to make the index in that folder.
    index = settings.index.directory if not chosen_parts or "decide" in chosen_parts else None
    with NoLeftovers(index=index):
        # All parts in one place are the whole service, which needs no topics between them.
        sys.exit(Supervisor(settings, chosen_parts if len(chosen_parts) < len(PARTS) else ()).run())


@cli.command("filter")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--out", required=True, type=FOLDER, help="Write the outputs into this folder.")
@click.option(
    "--index",
    "directory",
    type=FOLDER,
    help="Folder of the index.  [default: index.directory of the settings]",
)
@json_option
@pass_chosen
def filter_command(chosen: Chosen, files: Sequence[Path], out: Path, directory: Path | None, as_json: bool) -> None:
    """Filter FILES into a folder: JSON Lines, WARC, WET or Parquet.

    FILES are plain, .gz or .zst; - is standard input. The same command, run again, goes on where it stopped.
    """
    from streamer.observe.logs import configure_logging
    from streamer.service.file_job import filter_files
    from streamer.service.summary import table

    settings = chosen.load(*([f"index.directory={directory}"] if directory else []), over_files=True)
    configure_logging("warning", settings.observe.log_format)
    _warn_of_what_has_no_use(settings)
    _warn_of_markup(settings, files)
    with NoLeftovers(index=settings.index.directory, output=out):
        totals, finished = filter_files(settings, files, out, Console(stderr=True))
    if as_json:
        click.echo(orjson.dumps(totals.as_json(out), option=orjson.OPT_INDENT_2))
    else:
        Console().print(table(totals, out))
    if not finished:
        click.echo("stopped; run the same command again to go on", err=True)
        sys.exit(EXIT_INTERRUPTED)
    _complain_of_dead_letters(totals)


def _complain_of_dead_letters(totals: "Totals") -> None:
    """Warn where more than half of the lines are dead letters. Raises NoDocuments where all are."""
    from index import Verdict

    dead = totals.verdict(Verdict.DEAD_LETTER)
    if 2 * dead <= totals.records:
        return
    reasons = ", ".join(
        f"{reason} {count:,}"
        for (verdict, reason), count in totals.outcomes.most_common()
        if verdict == Verdict.DEAD_LETTER.label
    )
    complaint = (
        f"{dead:,} of {totals.records:,} lines are dead letters ({reasons}); do decode.format, decode.text and the other "
        "pointers fit?"
    )
    if dead == totals.records:
        raise NoDocuments(complaint)
    click.echo(f"streamer: {complaint}", err=True)


@cli.command()
@click.option(
    "--directory",
    default="demo-output",
    show_default=True,
    type=FOLDER,
    help="Write documents, indexes and outputs into this folder.",
)
@pass_chosen
def demo(chosen: Chosen, directory: Path) -> None:
    """Filter made-up news by both schemes, and show the result.

    Of the scheme that is not in force the preset is shown: minhash or simhash-best.
    """
    from streamer.demo.demo import made_in, run_demo
    from streamer.observe.logs import configure_logging

    settings = chosen.load()
    by_scheme: dict[str, Settings] = {
        settings.fingerprint.scheme: settings
        for settings in (*(chosen.with_preset(preset).load() for preset in ("minhash", "simhash-best")), settings)
    }
    configure_logging("warning", settings.observe.log_format)
    with NoLeftovers(scratch=[directory, *made_in(directory)]):
        code = run_demo(directory, Console(), by_scheme)
    # Outside: an interrupted demo goes on where it stopped.
    sys.exit(code)


@cli.group()
@settings_options
def topics() -> None:
    """Topics that the service reads and writes."""


@topics.command("create")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1), help="Partitions of each topic.")
@click.option(
    "--replicas", default=1, show_default=True, type=click.IntRange(1), help="Replication factor of each topic."
)
@click.option("--parts", is_flag=True, help="Create the topics between the parts of a service too.")
@pass_chosen
def topics_create(chosen: Chosen, partitions: int, replicas: int, parts: bool) -> None:
    """Create the four topics of the settings.

    Topics that exist stay as they are.
    """
    from streamer.transports.kafka.topics import create_topics

    for topic, outcome in create_topics(chosen.load(), partitions, replicas, parts=parts).items():
        click.echo(f"{topic}\t{outcome}")


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--topic", help="Write to this topic.  [default: topics.input of the settings]")
@pass_chosen
def produce(chosen: Chosen, files: Sequence[Path], topic: str | None) -> None:
    """Send the lines of FILES to the input topic, in order.

    FILES are as `filter` reads them: of WARC each page is a line, of Parquet each row.
    """
    from streamer.service.summary import left_out_in_words
    from streamer.transports.files.line_reader import lines
    from streamer.transports.kafka.topics import produce as send

    settings = chosen.load()
    left_out: Counter[str] = Counter()
    count = send(settings, topic or settings.topics.input, (line for file in files for line in lines(file, left_out)))
    click.echo(f"{count}\t{topic or settings.topics.input}")
    if left_out:
        click.echo(f"no documents: {left_out_in_words(left_out)}", err=True)


@cli.group("config")
@settings_options
def config_group() -> None:
    """Show and check the settings."""


@config_group.command("show")
@pass_chosen
def config_show(chosen: Chosen) -> None:
    """Print all settings in force as TOML.

    Secrets are left out.
    """
    from streamer.settings.reference import as_toml

    click.echo(as_toml(chosen.load()), nl=False)


@config_group.command("check")
@pass_settings
def config_check(settings: Settings) -> None:
    """Check the settings; exit code 78 where one is wrong.

    Each problem is one line: a wrong value, settings that contradict each other, a missing extra, a setting without
    effect under the scheme in force.
    """
    from streamer.records.missing_hosts import needs_hosts, remedy

    problems = [*_missing_extras(settings), *(idle_line(key, settings) for key in without_use(settings))]
    if problems:
        raise SettingsError("\n".join(problems))
    click.echo("the settings hold together")
    if needs_hosts(settings) and settings.decode.format == "text":
        click.echo(f"streamer: text names no host, so templates of sites are not learnt. {remedy(settings)}", err=True)


def _missing_extras(settings: Settings) -> Iterator[str]:
    from streamer.records.schemas import require_avro
    from streamer.text.main_text import require
    from streamer.transports.kafka.client import require_client

    if settings.fingerprint.markup == "html-main":
        try:
            require()
        except SettingsError as error:
            yield str(error)
    if settings.decode.format == "avro":
        try:
            require_avro()
        except SettingsError as error:
            yield str(error)
    try:
        require_client(settings)
    except SettingsError as error:
        yield str(error)


for command in (
    index_group,
    idf,
    evaluate,
    calibrate,
    compare,
    verify,
    why,
    doctor,
    give_back,
    dead_letters,
    version_command,
    completion,
):
    cli.add_command(command)
index_group.add_command(templates)


def _require_address_space() -> None:
    """Raise MemoryTooSmall below ADDRESS_SPACE_BYTES_MIN, where compiled code ends the process without a message."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE_BYTES_MIN:
        raise MemoryTooSmall(
            f"The address space is limited to {limit:,} bytes (ulimit -v), and {ADDRESS_SPACE_BYTES_MIN:,} are needed: "
            "raise the limit and start again."
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
            f"streamer: there is not enough memory ({error}): raise the limit of the container or of ulimit -v, or lower "
            "batch.bytes_max and batch.records_max. The same command goes on where it stopped.",
            err=True,
        )
        sys.exit(MemoryTooSmall.exit_code)
    except errors.IndexProblem as error:
        from streamer.service.wiring import exit_code_of

        click.echo(f"streamer: {error}", err=True)
        sys.exit(exit_code_of(error))
