"""`streamer verify`: proof from first principles that nothing was lost, doubled or decided wrongly.

Exit codes: 0 all is sound; 1 something is wrong; 65 nothing was ever committed; 66 there is no index; 75 the broker does not
answer; 78 a setting is wrong.
"""

import sys

import click
import orjson
from rich.console import Console

from streamer.cli.options import json_option, pass_settings
from streamer.settings.settings import Settings

EXIT_FOUND_WRONG = 1


@click.command()
@click.option("--all", "everything", is_flag=True, help="Read all texts, and compare all unique documents.")
@click.option(
    "--sample",
    default=20_000,
    show_default=True,
    type=click.IntRange(1),
    help="Read the texts of about so many documents, and compare these with all others.",
)
@json_option
@pass_settings
def verify(settings: Settings, everything: bool, sample: int, as_json: bool) -> None:
    """Prove that every record came out once, and right.

    Reads the input topic, the outputs and the index, and writes nothing. The service may run meanwhile. Exit code 1 where
    something is wrong.
    """
    from streamer.index_admin import tables, tools
    from streamer.transports.kafka.evidence import KafkaEvidence
    from streamer.verification.report import report
    from streamer.verification.verify import verify as verify_all

    with tools.open_for_reading(settings) as index:
        findings = verify_all(
            settings, KafkaEvidence(settings), index, tables.progress_bar, sample=None if everything else sample
        )
    if as_json:
        click.echo(orjson.dumps(findings.as_json(), option=orjson.OPT_INDENT_2))
    else:
        Console().print(report(findings), soft_wrap=True, highlight=False)
    sys.exit(0 if findings.sound else EXIT_FOUND_WRONG)
