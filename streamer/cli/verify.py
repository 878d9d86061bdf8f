"""`streamer verify`: proof from first principles that no record was lost, doubled or decided wrongly.

Exit codes: docs/running.md.
"""

import sys
from pathlib import Path

import click

from streamer.cli.options import output_log_of, outputs_and_json, protected_option
from streamer.cli.outputs import EXIT_NO, show
from streamer.settings.settings import Settings


@click.command()
@click.option("--all", "everything", is_flag=True, help="Read all texts, and compare all unique documents.")
@click.option(
    "--sample",
    default=20_000,
    show_default=True,
    type=click.IntRange(1),
    help="Read the texts of about this many documents, and compare these with all others.",
)
@protected_option
@outputs_and_json
def verify(settings: Settings, out: Path | None, everything: bool, sample: int) -> None:
    """Prove that every record came out once, and right.

    Reads the input, the outputs and the index, and writes nothing. The service may run meanwhile. Exit code 1 if
    something is wrong.
    """
    from streamer.index_admin import tables, tools
    from streamer.verification.report import report
    from streamer.verification.verify import verify as verify_all

    some = None if everything else sample
    with tools.open_for_reading(settings) as index:
        findings = verify_all(settings, output_log_of(settings, out), index, tables.progress_bar, sample=some)
    show(findings.as_json(), report(findings))
    sys.exit(0 if findings.sound else EXIT_NO)
