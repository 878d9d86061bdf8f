"""`streamer give-back`: send dropped documents to the unique output.

Exit codes: docs/running.md; 1: no match, or earlier decided records are gone; 75: also after a take-over.
"""

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamer.cli import on_flink
from streamer.cli.options import log_as_set, output_log_of, outputs_and_json, since_option
from streamer.cli.outputs import EXIT_NO, show
from streamer.errors import SettingsError
from streamer.settings.settings import Settings

if TYPE_CHECKING:
    from streamer.give_back.give_back import Survey
    from streamer.give_back.selection import Selection


@click.command("give-back")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--original", help="Only duplicates of the document with this id.")
@click.option("--host", help="Only documents of this host, from decode.host.")
@since_option
@click.option(
    "--for-template",
    is_flag=True,
    help="Only pages that the template of their host would keep now, learnt after their drop.",
)
@click.option(
    "--once", is_flag=True, help="Only the newest record of each id, for a page that was dropped several times."
)
@click.option("--dry-run", is_flag=True, help="Show the matching documents, and change nothing.")
@click.option("--flink", is_flag=True, help="A job on Flink decides, in place of an index here: wait until it knows.")
@on_flink.FLINK_ADDRESS
@outputs_and_json
def give_back(
    settings: Settings,
    out: Path | None,
    id_: str | None,
    original: str | None,
    host: str | None,
    since_ms: int | None,
    for_template: bool,
    once: bool,
    dry_run: bool,
    flink: bool,
    flink_address: str | None,
) -> None:
    """Send dropped documents to the unique output.

    Give at least one of ID, --original, --host, --since, --for-template; several combine. Each record is sent once, with its key,
    value and headers, even if the command is repeated or killed, and is not dropped again. Run it on the index machine, or with
    --flink anywhere; the service may run meanwhile.
    """
    from streamer.give_back import report
    from streamer.give_back.selection import Selection
    from streamer.records.hosts import host_named

    if not (id_ or original or host or for_template or since_ms is not None):
        raise click.UsageError("select documents by ID, --original, --host, --since or --for-template")
    if out is not None and since_ms is not None:
        raise SettingsError("--since: lines of files have no time: select by ID, --original or --host.")
    if flink and (out is not None or for_template):
        option, why = (
            ("--out", "Flink reads no files") if out is not None else ("--for-template", "hosts' frames are its job's")
        )
        raise click.UsageError(f"{option}: with --flink it cannot be: {why}. Leave it out")
    log_as_set(settings)
    named = host and host_named(host, settings.decode)
    selection = Selection(id_, original, named, since_ms, for_template, once=once)
    if flink:
        survey = on_flink.give_back(settings, selection, flink_address, dry_run=dry_run)
    else:
        survey = _by_index(settings, out, selection, dry_run=dry_run)
    show(report.survey_as_json(survey, dry_run=dry_run), report.survey_table(survey, dry_run=dry_run))
    if survey.gone:
        click.echo(
            f"{len(survey.gone)} records of an earlier command are gone from the duplicates and cannot be given back: remove "
            "them from the index (streamer index forget).",
            err=True,
        )
    if not survey.matched:
        click.echo("no duplicate matches", err=True)
    sys.exit(EXIT_NO if survey.gone or not survey.matched else 0)


def _by_index(settings: Settings, out: Path | None, selection: "Selection", *, dry_run: bool) -> "Survey":
    from streamer.fingerprint.scheme import key_for, scheme_for
    from streamer.give_back.give_back import GiveBack, lock_give_back, require_whole
    from streamer.index_admin import tables, tools
    from streamer.records.decode import Decoder
    from streamer.transports.output_log import GIVE_BACK

    if dry_run:
        opened = tools.open_for_reading(settings)
        scheme = scheme_for(settings, key_for(settings, opened.secret))
    else:
        opened, scheme = tools.open_to_decide(settings)
    only = nullcontext() if dry_run else lock_give_back(settings.index.directory)
    bar = tables.progress_bar("giving back", None)
    with opened as index, only, bar as progress, closing(output_log_of(settings, out)) as output_log:
        require_whole(output_log, index)
        output_log.open(None if dry_run else GIVE_BACK)
        command = GiveBack(output_log, index, Decoder(settings.decode), scheme, settings.batch, progress)
        return command.preview(selection) if dry_run else command.run(selection)
