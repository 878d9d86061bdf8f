"""`streamer why`: explains why a record was kept or dropped. `streamer stories`: lists what was printed most.

Exit codes: docs/running.md, whether texts are readable or not; 1: the index has no decision.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from streamer.cli import options
from streamer.cli.outputs import EXIT_NO, json_text, show, wants_json
from streamer.settings.settings import Settings

if TYPE_CHECKING:
    from streamer.protected.sets import ProtectedSets
    from streamer.transports.output_log import RecordsAt


@click.command()
@click.argument("name", metavar="ID | POSITION")
@click.option("--no-texts", is_flag=True, help="Use the index only, and read no texts.")
@click.option("--full", is_flag=True, help="Show whole texts, not only differences in context.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="Maximum decisions on an id.")
@options.protected_option
@click.option("--all", "everything", is_flag=True, help="Show all decisions on an id, and what each setting means.")
@options.outputs_and_json
def why(
    settings: Settings, out: Path | None, name: str, no_texts: bool, full: bool, limit: int, everything: bool
) -> None:
    """Explain why a record was kept or dropped.

    ID is a document's id, POSITION is TOPIC/PARTITION/OFFSET, or with --out FILE:LINE. Changes nothing; the service may
    run meanwhile. Exit code 1 if the index has no decision.
    """
    from streamer.explain.report import Report
    from streamer.explain.texts import comparable_scheme
    from streamer.explain.why import explain
    from streamer.index_admin import tools
    from streamer.protected.sets import open_sets

    with ExitStack() as opened:
        index = opened.enter_context(tools.open_for_reading(settings))
        protected: ProtectedSets | None = None
        records_at: RecordsAt | None = None
        if settings.index.protected:
            protected = opened.enter_context(open_sets(settings, comparable_scheme(index, settings)))
        if not no_texts:
            output_log = options.output_log_of(settings, out)
            if out is not None:
                output_log.open(None)
            records_at = output_log.records_at
        shown = None if everything else limit
        over_files = out is not None
        answer = explain(
            index,
            settings,
            name,
            limit=shown,
            over_files=over_files,
            records_at=records_at,
            full=full,
            protected=protected,
        )
    if wants_json():
        click.echo(json_text(answer.as_json()))
    elif answer.explanations:
        Report(Console(), over_files=out is not None, meanings=everything).print(answer)
    if answer.no_texts:
        click.echo(f"no texts: {answer.no_texts}", err=True)
    if not answer.explanations:
        click.echo(answer.problem, err=True)
        sys.exit(EXIT_NO)


@click.command()
@click.option("--top", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Show at most this many.")
@options.since_option
@click.option("--host", default="", help="Only stories that this host has printed.")
@click.option("--scope", help="Only stories of one scope, if decode.scope is set; --host is a host within it.")
@options.index_option
@options.chosen_and_json
def stories(
    chosen: options.Chosen, top: int, since_ms: int | None, host: str, scope: str | None, directory: Path | None
) -> None:
    """List the largest stories: kept documents with how many duplicates, and from how many hosts.

    The index counts them if topics.stories is set. --since takes those with a document from this time on.
    """
    from streamer.explain.story import stories_as_json, table
    from streamer.index_admin import tools

    settings = chosen.load(index=directory, over_files=True)
    with tools.open_for_reading(settings) as index:
        values = stories_as_json(index, settings.decode, top, since_ms, host, scope)
    show({"stories": values}, table(values))
    if scope is not None and not values:
        click.echo(f"no such story has its kept document in the scope {scope!r}", err=True)
