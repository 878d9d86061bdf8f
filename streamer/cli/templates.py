"""`streamer index templates`: each host's templates, and the pages kept or lost because of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamer.cli.options import Chosen, chosen_and_json, opened_output_log, out_option
from streamer.cli.outputs import show

if TYPE_CHECKING:
    from index import Index
    from streamer.index_admin.templates import LostPages
    from streamer.settings.settings import Settings


@click.command("templates")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Show at most this many.")
@click.option("--lost", is_flag=True, help="Also list dropped pages that the template would keep now.")
@out_option
@chosen_and_json
def templates(chosen: Chosen, limit: int, lost: bool, out: Path | None) -> None:
    """Show the templates of each host, and the pages kept because of them.

    The first pages of a template are dropped as duplicates of each other, until the index has seen enough of them. With --lost,
    list these with the command that gives them back.
    """
    from index.tools import frames_of
    from streamer.index_admin.templates import as_values, table
    from streamer.index_admin.tools import open_for_reading

    if out is not None and not lost:
        raise click.UsageError("--out: has an effect only with --lost")
    settings = chosen.load(over_files=out is not None)
    with open_for_reading(settings) as index:
        has_frames = index.parameters.frames is not None
        pages = _lost_pages(settings, index, out) if lost and has_frames else None
        folders = [] if out is None else ["--out", str(out), "--index", str(settings.index.directory)]
        values = as_values(frames_of(index, limit) if has_frames else [], pages, folders)
    show(values, table(values))


def _lost_pages(settings: "Settings", index: "Index", out: Path | None) -> "LostPages":
    from streamer.fingerprint.scheme import key_for, scheme_for
    from streamer.give_back.give_back import GiveBack
    from streamer.give_back.selection import Selection
    from streamer.index_admin.templates import LostPages
    from streamer.records.decode import Decoder

    pages, scheme = LostPages(), scheme_for(settings, key_for(settings, index.secret))
    with opened_output_log(settings, out) as output_log:
        giving = GiveBack(output_log, index, Decoder(settings.decode), scheme, settings.batch)
        for output, _, host in giving.matching(Selection(for_template=True), None):
            if host is not None:
                pages.add(host, output.headers.id)
    return pages
