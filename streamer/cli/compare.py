"""`streamer compare`: verdicts of other settings on delivered documents, without a rebuild.

Exit codes: docs/running.md; 0 even if verdicts differ.
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

from streamer.cli import options
from streamer.cli.outputs import NoLeftovers, require_absent, show, writing
from streamer.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from streamer.settings.settings import Settings
    from streamer.transports.output_log import OutputLog
    from streamer.what_if.differences import Differences

_SHARED_SECTIONS = ("kafka", "topics", "batch", "decode", "route", "recovery", "workers", "observe")
"""Sections without influence on a decoded record's verdict, but for _DECIDING."""

_DECIDING = ("decode.scope",)


@click.command()
@options.any_files_argument
@options.out_option
@options.index_option
@click.option("--verdicts", type=options.FILE, help="Write both decisions on every document to this JSON Lines file.")
@options.force_option
@options.short_options
@options.chosen_and_json
def compare(
    chosen: options.Chosen,
    files: Sequence[Path],
    out: Path | None,
    directory: Path | None,
    verdicts: Path | None,
    force: bool,
) -> None:
    """Compare the delivered verdicts with those of other settings.

    Set the differences from the service's settings with --set. With FILES, compare the verdicts with and without --set.
    Changes nothing; the service may run meanwhile.
    """
    from streamer.index_admin import tables
    from streamer.what_if.compare import compared
    from streamer.what_if.report import report

    if files and (out or directory):
        raise click.UsageError("give FILES, or --out and --index of a filtered folder")
    if verdicts is not None:
        require_absent(verdicts, force=force)
    with (
        _delivered(chosen, files, out, directory) as (settings, evidence),
        compared(settings, evidence, tables.progress_bar) as differences,
    ):
        if verdicts is not None:
            _write(differences, verdicts)
        summary = differences.as_json()
    show(summary, report(summary))


@contextmanager
def _delivered(
    chosen: options.Chosen, files: Sequence[Path], out: Path | None, directory: Path | None
) -> Iterator[tuple["Settings", "OutputLog"]]:
    if files:
        with tempfile.TemporaryDirectory(prefix="streamer-compare-") as folder:
            yield _filtered(chosen, files, Path(folder))
    else:
        settings = chosen.load(index=directory, over_files=out is not None)
        yield settings, options.output_log_of(settings, out)


def _filtered(chosen: options.Chosen, files: Sequence[Path], folder: Path) -> tuple["Settings", "OutputLog"]:
    """Filter files without --preset and the deciding --set."""
    from streamer.service.file_job import filter_files

    common = f"index.directory={folder / 'index'}", "route.shadow=false"
    keys = [override.partition("=")[0].strip() for override in chosen.overrides]
    are_shared = [key.partition(".")[0] in _SHARED_SECTIONS and key not in _DECIDING for key in keys]
    shared = [override for override, is_shared in zip(chosen.overrides, are_shared, strict=True) if is_shared]
    settings = options.Chosen(chosen.file, shared).load(*common, over_files=True)
    _, finished = filter_files(settings, files, folder / "out", Console(stderr=True))
    if not finished:
        sys.exit(EXIT_INTERRUPTED)
    others = chosen.load(*common, over_files=True)
    return others, options.output_log_of(others, folder / "out")


def _write(differences: "Differences", path: Path) -> None:
    with NoLeftovers(scratch=[path]), writing(path), path.open("wb") as file:
        for line in differences.lines():
            file.write(orjson.dumps(line) + b"\n")
