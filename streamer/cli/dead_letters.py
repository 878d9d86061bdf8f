"""`streamer dead-letters`: list, show and replay dead letters.

Exit codes: 0 done; 1 no match, or some dead letters cannot be replayed; 75 a broker does not answer, or another replay
took over: run it again; 78 a setting is wrong.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich.console import Console, RenderableType

from streamer.cli.options import json_option, output_log_of, pass_settings, settings_options
from streamer.settings.settings import Settings

if TYPE_CHECKING:
    from streamer.give_back.dead_letters import Filters
    from streamer.transports.output_log import OutputLog

EXIT_NOTHING = 1


@click.group("dead-letters")
@settings_options
def dead_letters() -> None:
    """List, show and replay dead letters."""


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    since = "Only records from this time on: 2026-01-31T18:00, or an age: 90s, 15m, 2h, 3d."
    with_since = click.option("--since", help=since)(function)
    return click.option("--reason", help="Only dead letters with this reason, such as not-json.")(with_since)


@dead_letters.command("list")
@_filter_options
@json_option
@pass_settings
def list_command(settings: Settings, reason: str | None, since: str | None, as_json: bool) -> None:
    """Count dead letters by reason, with first and last time and examples."""
    from streamer.give_back import report
    from streamer.give_back.dead_letters import summarize

    filters = _filters(reason, since)
    with _output_log(settings, to_send=False) as output_log:
        summaries = summarize(output_log, filters)
    _print(report.summary_as_json(summaries), report.summary_table(summaries), as_json)


@dead_letters.command("show")
@click.argument("name", metavar="POSITION|ID")
@json_option
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show a dead letter: headers, the decoder's error, the first 4 KB.

    POSITION is the input position, topic/partition/offset. Bytes that are not text appear as \\x...
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import describe

    with _output_log(settings, to_send=False) as output_log:
        descriptions = describe(output_log, name)
    _print({"dead_letters": descriptions}, report.description_table(descriptions), as_json)
    if not descriptions:
        click.echo(f"no dead letter has the position or id {name}", err=True)
        sys.exit(EXIT_NOTHING)


@dead_letters.command("replay")
@_filter_options
@click.option("--dry-run", is_flag=True, help="Count the records to replay, and send nothing.")
@json_option
@pass_settings
def replay(settings: Settings, reason: str | None, since: str | None, dry_run: bool, as_json: bool) -> None:
    """Send dead letters to the input again.

    First correct the setting and restart the service. Each record is sent once, with its key, value, time and headers,
    even if the command is repeated or killed.
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import replay as send
    from streamer.index_admin import tables
    from streamer.observe.logs import configure_logging

    configure_logging(settings.observe.log_level, settings.observe.log_format)
    filters = _filters(reason, since)
    with _output_log(settings, to_send=not dry_run) as output_log, tables.progress_bar("replaying", None) as done:
        counts = send(output_log, filters, settings.batch, dry_run=dry_run, progress=done)
    _print(report.replay_as_json(counts, dry_run=dry_run), report.replay_table(counts, dry_run=dry_run), as_json)
    if counts.refused:
        click.echo(
            f"{counts.refused} dead letters cannot be replayed: the service could not read their bytes", err=True
        )
    sys.exit(EXIT_NOTHING if counts.refused or not counts.matched else 0)


def _filters(reason: str | None, since: str | None) -> "Filters":
    from streamer.give_back.dead_letters import Filters
    from streamer.give_back.selection import moment_ms

    return Filters(reason, None if since is None else moment_ms(since, round(time.time() * 1_000)))


@contextmanager
def _output_log(settings: Settings, *, to_send: bool) -> Iterator["OutputLog"]:
    from streamer.transports.output_log import REPLAY

    output_log = output_log_of(settings, None)
    try:
        output_log.open(REPLAY if to_send else None)
        yield output_log
    finally:
        output_log.close()


def _print(content: dict[str, Any], table: RenderableType, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    else:
        Console().print(table, soft_wrap=True, highlight=False)
