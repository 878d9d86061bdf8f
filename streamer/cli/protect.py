"""`streamer protect`: makes a set whose matches are reported, and not dropped.

Exit codes: docs/running.md.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from streamer.cli import options
from streamer.cli.complaints import complain
from streamer.cli.outputs import NoLeftovers, show
from streamer.errors import EXIT_INTERRUPTED


@click.command()
@options.files_argument
# Eager: what FILES mean depends on it.
@click.option("--out", required=True, is_eager=True, type=options.FOLDER, help="Make the set in this folder.")
@options.processes_option
@options.index_option
@options.short_options
@options.chosen_and_json
def protect(chosen: options.Chosen, files: Sequence[Path], out: Path, processes: int, directory: Path | None) -> None:
    """Make a protected set of FILES: documents that resemble it will be reported, not dropped.

    For evaluation sets and own articles. FILES are as for `filter`. Every document enters, and whole documents are compared:
    a question within a long page is not found. The index in use gives the key.
    """
    from streamer.protected.folders import INDEX_FOLDER, NOTE
    from streamer.service.file_job import require_documents
    from streamer.service.protecting import protect_files, table_of_set

    settings = chosen.load(index=directory, over_files=True)
    options.log_as_set(settings, "warning")
    require_documents(settings, files[0], None)
    with NoLeftovers(index=out / INDEX_FOLDER, output=out, scratch=[out / NOTE]):
        totals, finished = protect_files(settings, files, out, Console(stderr=True), processes=processes)
    show(totals.as_json(out), table_of_set(totals, out), soft_wrap=False)
    if not finished:
        click.echo("stopped; run the same command again to continue", err=True)
        sys.exit(EXIT_INTERRUPTED)
    complain(totals, out)
