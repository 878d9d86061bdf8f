"""`streamer compare`: what other settings would have decided, before anything is rebuilt.

Exit codes: 0 also where verdicts differ; 65 nothing was ever committed; 75 the broker does not answer; 78 a setting is wrong.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson
from rich.console import Console

from streamer.cli.options import FOLDER, Chosen, force_option, json_option, output_log_of, pass_chosen
from streamer.cli.outputs import NoLeftovers, require_absent, writing
from streamer.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from streamer.settings.settings import Settings
    from streamer.transports.output_log import OutputLog
    from streamer.what_if.differences import Differences

_OF_BOTH_SIDES = ("kafka", "topics", "batch", "decode", "route", "recovery", "workers", "observe")
"""Sections whose settings decide nothing, once a record is read."""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--out", type=FOLDER, help="Compare with what `streamer filter` wrote into this folder, not with topics.")
@click.option(
    "--index",
    "directory",
    type=FOLDER,
    help="Folder of the index, which tells the order of deciding.  [default: index.directory of the settings]",
)
@click.option(
    "--verdicts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write both decisions on every document into this file, a line of JSON each.",
)
@force_option
@json_option
@pass_chosen
def compare(
    chosen: Chosen,
    files: Sequence[Path],
    out: Path | None,
    directory: Path | None,
    verdicts: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Tell what other settings would have decided of all that was delivered.

    The settings in force are the other ones: name with --set what is to differ from those of the service. Of FILES it is
    compared what the settings with and without --set decide. The service may run meanwhile; nothing of it is changed.
    """
    from streamer.index_admin import tables
    from streamer.observe.logs import configure_logging
    from streamer.what_if.compare import compared
    from streamer.what_if.report import report

    if files and (out or directory):
        raise click.UsageError("give FILES, or --out and --index of what was filtered")
    if verdicts is not None:
        require_absent(verdicts, force=force)
    configure_logging("warning", "console")
    with (
        _delivered(chosen, files, out, directory) as (settings, evidence),
        compared(settings, evidence, tables.progress_bar) as differences,
    ):
        if verdicts is not None:
            _write(differences, verdicts)
        found = differences.as_json()
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    else:
        Console().print(report(found), soft_wrap=True, highlight=False)


@contextmanager
def _delivered(
    chosen: Chosen, files: Sequence[Path], out: Path | None, directory: Path | None
) -> Iterator[tuple["Settings", "OutputLog"]]:
    """The other settings, and what those in force delivered."""
    overrides = [f"index.directory={directory}"] if directory else []
    if files:
        with tempfile.TemporaryDirectory(prefix="streamer-compare-") as folder:
            yield _filtered(chosen, files, Path(folder))
    else:
        settings = chosen.load(*overrides, over_files=out is not None)
        yield settings, output_log_of(settings, out)


def _filtered(chosen: Chosen, files: Sequence[Path], folder: Path) -> tuple["Settings", "OutputLog"]:
    """Filter files by the settings without what --set and --preset say of deciding, as `streamer filter` does."""
    from streamer.service.file_job import filter_files

    places = f"index.directory={folder / 'index'}", "route.shadow=false"
    kept = [each for each in chosen.overrides if each.partition(".")[0].strip() in _OF_BOTH_SIDES]
    settings = Chosen(chosen.file, kept).load(*places, over_files=True)
    _, finished = filter_files(settings, files, folder / "out", Console(stderr=True))
    if not finished:
        sys.exit(EXIT_INTERRUPTED)
    others = chosen.load(*places, over_files=True)
    return others, output_log_of(others, folder / "out")


def _write(differences: "Differences", path: Path) -> None:
    with NoLeftovers(scratch=[path]), writing(path), path.open("wb") as file:
        for line in differences.lines():
            file.write(orjson.dumps(line) + b"\n")
