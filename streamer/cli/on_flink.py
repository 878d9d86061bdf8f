"""What commands have for a job on Flink. Without its options none of them loads `streamer.flink`."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import click

from streamer.cli.outputs import show
from streamer.errors import SettingsError
from streamer.settings.settings import Settings

SCOPE_NEEDED = "--scope needs decode.scope, as the index was made: without it ids begin with no scope"

FLINK_ADDRESS = click.option(
    "--flink-address",
    metavar="URL",
    envvar="FLINK_ADDRESS",
    help="Flink's REST API, to say how the job is while this command waits for it.  [env: FLINK_ADDRESS]",
)


def wait_for_job(settings: Settings, written: Any, address: str | None, *, seeding: bool) -> None:
    """Wait until a job has taken in what was written, and say on standard error how the job is. Raises JobFailed."""
    from streamer.flink import taking_in

    get = None if address is None else taking_in.rest_at(address)
    taking_in.wait_until_taken_in(
        settings, written, seeding=seeding, get=get, say=lambda line: click.echo(line, err=True)
    )


def give_back(
    settings: Settings,
    selection: Any,
    address: str | None,
    *,
    dry_run: bool,
) -> Any:
    """Give back what a job on Flink has dropped, and wait until it knows. Raises SettingsError, JobFailed, BrokerUnavailable."""
    from streamer.flink.give_back import JobThatTakesBack
    from streamer.give_back.give_back import GiveBack
    from streamer.index_admin import tables
    from streamer.records.decode import Decoder
    from streamer.transports.kafka.output_log import KafkaOutputLog
    from streamer.transports.output_log import GIVE_BACK

    job = JobThatTakesBack(settings)
    bar = tables.progress_bar("giving back", None)
    with bar as progress, closing(KafkaOutputLog(settings, job.noted)) as output_log:
        output_log.open(None if dry_run else GIVE_BACK)
        command = GiveBack(output_log, job, Decoder(settings.decode), job.scheme, settings.batch, progress)
        survey = command.preview(selection) if dry_run else command.run(selection)
    if survey.given_back:
        wait_for_job(settings, job.written(), address, seeding=False)
    return survey


def forget(
    settings: Settings,
    ids: Sequence[str],
    source: str | None,
    scope: str | None,
    address: str | None,
    *,
    dry_run: bool,
) -> None:
    """Have the job forget documents with these ids, or of a scope. Raises SettingsError, JobFailed, BrokerUnavailable."""
    from streamer.flink.forget import forget as forget_on_flink
    from streamer.records.names import beginning, bounded_id

    if source is not None:
        raise click.UsageError(
            "--source: a job on Flink reads one input, so without it nothing is left: submit the job without its state"
        )
    if dry_run:
        raise click.UsageError("--dry-run: no operator on Flink looks documents up by their ids: leave it out")
    if scope is not None and settings.decode.scope is None:
        raise SettingsError(SCOPE_NEEDED)
    prefix = None if scope is None else beginning(scope)
    written = forget_on_flink(settings, [*map(bounded_id, ids)], prefix)
    ((partition, end),) = written.ends.items()
    place = f"{written.topic}/{partition} offset {end - 1}"
    click.echo(f"written at {place}: what came before it is forgotten", err=True)
    wait_for_job(settings, written, address, seeding=False)
    answer = {"ids": list(ids), "scope": scope, "topic": written.topic, "partition": partition, "offset": end - 1}
    show(answer, f"the job has taken it in: {len(ids) if scope is None else 'a scope'} forgotten before {place}")
