"""`streamer index templates`: what the pages of each host share, and how many pages that kept."""

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
    """Show what the pages of each host share, and the pages kept because of it.

    The first pages of a template are dropped as duplicates of each other, until the host has shown enough.
    """
    from index.tools import frames_of
    from streamer.index_admin.templates import as_values, table
    from streamer.index_admin.tools import open_for_reading

    with open_for_reading(settings) as index:
        found = as_values(frames_of(index, limit) if index.parameters.frames is not None else [])
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    else:
        Console().print(table(found), soft_wrap=True, highlight=False)
