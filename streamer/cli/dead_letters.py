"""`streamer dead-letters`: list, show and replay dead letters.

Exit codes: docs/running.md; 1: no match, or some cannot be replayed; 75: also after a take-over.
"""

import sys

import click

from streamer.cli import options
from streamer.cli.outputs import EXIT_NO, show
from streamer.settings.settings import Settings


@click.group("dead-letters")
@options.settings_options
def dead_letters() -> None:
    """List, show and replay dead letters."""


_reason_option = click.option("--reason", help="Only dead letters with this reason, such as not-json.")


@dead_letters.command("list")
@_reason_option
@options.since_option
@options.settings_and_json
def list_command(settings: Settings, reason: str | None, since_ms: int | None) -> None:
    """Count dead letters by reason, with first and last time and examples."""
    from streamer.give_back import report
    from streamer.give_back.dead_letters import summarize
    from streamer.give_back.selection import Selection

    with options.opened_output_log(settings, None) as output_log:
        summaries = summarize(output_log, Selection(reason=reason, since_ms=since_ms))
    show(report.summary_as_json(summaries), report.summary_table(summaries))


@dead_letters.command("show")
@click.argument("name", metavar="POSITION|ID")
@options.settings_and_json
def show_command(settings: Settings, name: str) -> None:
    """Show a dead letter: headers, the decoder's error, the first 4 KB.

    POSITION is the input position, topic/partition/offset. Bytes that are not text appear as \\x...
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import describe

    with options.opened_output_log(settings, None) as output_log:
        descriptions = describe(output_log, name)
    show({"dead_letters": descriptions}, report.description_table(descriptions))
    if not descriptions:
        click.echo(f"no dead letter has the position or id {name}", err=True)
        sys.exit(EXIT_NO)


@dead_letters.command("replay")
@_reason_option
@options.since_option
@click.option("--dry-run", is_flag=True, help="Count the records to replay, and send nothing.")
@options.settings_and_json
def replay(settings: Settings, reason: str | None, since_ms: int | None, dry_run: bool) -> None:
    """Send dead letters to the input again.

    First correct the setting and restart the service. Each record is sent once, with its key, value, time and headers,
    even if the command is repeated or killed.
    """
    from streamer.give_back import report
    from streamer.give_back.dead_letters import replay as send
    from streamer.give_back.selection import Selection
    from streamer.index_admin import tables
    from streamer.transports.output_log import REPLAY

    options.log_as_set(settings)
    selection = Selection(reason=reason, since_ms=since_ms)
    with (
        options.opened_output_log(settings, None, None if dry_run else REPLAY) as output_log,
        tables.progress_bar("replaying", None) as done,
    ):
        counts = send(output_log, selection, settings.batch, dry_run=dry_run, progress=done)
    show(report.replay_as_json(counts, dry_run=dry_run), report.replay_table(counts, dry_run=dry_run))
    if counts.refused:
        click.echo(
            f"{counts.refused} dead letters cannot be replayed: the service could not read their bytes", err=True
        )
    sys.exit(EXIT_NO if counts.refused or not counts.matched else 0)
