"""`streamer dead-letters`: what could not be decoded, and sending it to the input again.

Exit codes: 0 done; 1 nothing was meant, or some dead letters cannot be replayed; 75 a broker does not answer, or another
replay took over: run it again; 78 a setting is wrong.
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
    since = "Only records from this time on: 2026-01-31T18:00, or how long ago: 90s, 15m, 2h, 3d."
    with_since = click.option("--since", help=since)(function)
    return click.option("--reason", help="Only dead letters with this reason, such as not-json.")(with_since)


@dead_letters.command("list")
@_filter_options
@json_option
@pass_settings
def list_command(settings: Settings, reason: str | None, since: str | None, as_json: bool) -> None:
    """Count dead letters by reason, with first and last time and examples."""
    from streamer.give_back import report
    from streamer.give_back.dead_letters import listed

    filters = _filters(reason, since)
    with _output_log(settings, to_send=False) as output_log:
        found = listed(output_log, filters)
    _print(report.listed_as_json(found), report.listed_table(found), as_json)


@dead_letters.command("show")
@click.argument("name", metavar="POSITION|ID")
@json_option
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show a dead letter: headers, the decoder's words, its bytes.

    POSITION is that of the input, topic/partition/offset. Bytes that are no text are shown as \\x..; at most 4 KB are.
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import shown

    with _output_log(settings, to_send=False) as output_log:
        found = shown(output_log, name)
    _print({"dead_letters": found}, report.shown_table(found), as_json)
    if not found:
        click.echo(f"no dead letter has the position or the id {name}", err=True)
        sys.exit(EXIT_NOTHING)


@dead_letters.command("replay")
@_filter_options
@click.option("--dry-run", is_flag=True, help="Show what would be replayed, and send nothing.")
@json_option
@pass_settings
def replay(settings: Settings, reason: str | None, since: str | None, dry_run: bool, as_json: bool) -> None:
    """Send dead letters to the input again, where the service decides them anew.

    Mend the setting first, and restart the service. Each goes once, with its key, value, time and headers, however often
    the command is run or killed.
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import replay as send
    from streamer.index_admin import tables
    from streamer.observe.logs import configure_logging

    configure_logging(settings.observe.log_level, settings.observe.log_format)
    filters = _filters(reason, since)
    with _output_log(settings, to_send=not dry_run) as output_log, tables.progress_bar("replaying", None) as done:
        found = send(output_log, filters, settings.batch, dry_run=dry_run, progress=done)
    _print(report.replayed_as_json(found, dry_run=dry_run), report.replayed_table(found, dry_run=dry_run), as_json)
    if found.refused:
        click.echo(
            f"{found.refused} dead letters stand for records that could not be read, and hold no bytes", err=True
        )
    sys.exit(EXIT_NOTHING if found.refused or not found.matched else 0)


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


def _print(found: dict[str, Any], table: RenderableType, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    else:
        Console().print(table, soft_wrap=True, highlight=False)
