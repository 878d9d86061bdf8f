"""`streamer index templates`: what sites share, by the templates that the index has learnt."""

import click
import orjson
from rich.console import Console

from streamer.cli.options import json_option, pass_settings
from streamer.settings.settings import Settings


@click.command("templates")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Show at most this many.")
@json_option
@pass_settings
def templates(settings: Settings, limit: int, as_json: bool) -> None:
    """Show the templates that pages share, and the pages lost to them.

    The first pages of a template are dropped as duplicates of each other, until it is known. --json names all of them.
    """
    from index.tools import templates_of
    from streamer.index_admin import tables
    from streamer.index_admin.templates import as_values, table
    from streamer.index_admin.tools import open_for_reading

    with (
        open_for_reading(settings) as index,
        tables.progress_bar("reading the log", index.statistics().journal_rows) as progress,
    ):
        found = as_values(templates_of(index, limit, progress), index.stream_names())
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    else:
        Console().print(table(found), soft_wrap=True, highlight=False)
