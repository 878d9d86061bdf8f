"""`streamer why`: why a record was kept or dropped, in words.

Exit codes: 0 the index knows a decision; 1 it knows none; 65 the index is damaged; 66 there is no index; 78 a setting is
wrong, or `--out` is no folder that was filtered into. Texts that cannot be read change no exit code.
"""

import re
import sys
from functools import partial
from pathlib import Path

import click
import orjson
from rich.console import Console

from index import Index
from streamer.cli.options import FOLDER, Chosen, json_option, pass_chosen
from streamer.settings.settings import Settings
from streamer.transports.output_log import RecordsAt

EXIT_NOT_FOUND = 1

_HARMFUL = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@click.command()
@click.argument("asked", metavar="ID | POSITION")
@click.option("--out", type=FOLDER, help="Read texts of what `streamer filter` wrote into this folder, not topics.")
@click.option(
    "--index",
    "directory",
    type=FOLDER,
    help="Folder of the index.  [default: index.directory of the settings]",
)
@click.option("--no-texts", is_flag=True, help="Tell what the index knows, and read no texts.")
@click.option("--full", is_flag=True, help="Show the whole texts, not the words that differ in their context.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="Show so many decisions on an id.")
@click.option("--all", "everything", is_flag=True, help="Show all decisions on an id.")
@json_option
@pass_chosen
def why(
    chosen: Chosen,
    asked: str,
    out: Path | None,
    directory: Path | None,
    no_texts: bool,
    full: bool,
    limit: int,
    everything: bool,
    as_json: bool,
) -> None:
    """Explain why a record was kept or dropped.

    ID is a document's id, POSITION is TOPIC/PARTITION/OFFSET, or with --out FILE:LINE. Changes nothing, and may run
    beside the service. Exit code 1 where the index knows no decision.
    """
    from streamer.explain.report import Report
    from streamer.explain.texts import with_texts
    from streamer.explain.why import explain
    from streamer.index_admin import tools

    overrides = [f"index.directory={directory}"] if directory else []
    settings = chosen.load(*overrides, over_files=out is not None)
    with tools.open_for_reading(settings) as index:
        records_at = None if no_texts else _records_at(settings, index, out)
        answer = explain(index, settings, asked, limit=None if everything else limit, over_files=out is not None)
        if records_at is not None and answer.explanations:
            answer = with_texts(answer, index, settings, records_at, full=full)
    if as_json:
        click.echo(_json(answer.as_json()))
    elif answer.explanations:
        Report(Console(), over_files=out is not None).print(answer)
    if answer.no_texts:
        click.echo(f"no texts: {answer.no_texts}", err=True)
    if not answer.explanations:
        click.echo(answer.problem, err=True)
        sys.exit(EXIT_NOT_FOUND)


def _records_at(settings: Settings, index: Index, out: Path | None) -> RecordsAt:
    if out is not None:
        from streamer.transports.files.output_log import FileOutputLog

        files = FileOutputLog(out, settings.batch)
        files.open(None)
        return files.records_at
    from streamer.transports.kafka.output_log import KafkaOutputLog

    return partial(KafkaOutputLog(settings).records_at, names=index.stream_names())


def _json(found: object) -> str:
    """JSON that a terminal shows as it is: control characters of a document stay escapes."""
    text = orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()
    return _HARMFUL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
