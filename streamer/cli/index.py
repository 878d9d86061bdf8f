"""`streamer index`: tools for the index. Each is safe while a service runs, or refuses to run.

Exit codes: docs/index-tools.md; 1: `check` failed, or `query --id` or `forget` knows no such document or source.
"""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from streamer.cli import on_flink, options
from streamer.cli.outputs import EXIT_NO, NoLeftovers, require_absent, show, writing
from streamer.cli.sections import RememberingGroup
from streamer.errors import SettingsError
from streamer.settings.settings import Settings

EXPORT_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.group("index", cls=RememberingGroup)
@click.option(
    "--directory", type=options.FOLDER, help="Folder of the index.  [default: index.directory of the settings]"
)
@options.pass_chosen
def index_group(chosen: options.Chosen, directory: Path | None) -> None:
    """Inspect, copy, rebuild and edit the index."""
    if directory:
        chosen.overrides.append(f"index.directory={directory}")


@index_group.command("stats")
@click.option("--kafka", "with_kafka", is_flag=True, help="Also show the group's committed offsets.")
@options.settings_and_json
def stats(settings: Settings, with_kafka: bool) -> None:
    """Show the index's size, applied offsets, bucket fill and readers."""
    from streamer.index_admin import tables, tools

    committed = None
    if with_kafka:
        from streamer.transports.kafka.topics import committed_offsets

        committed = committed_offsets(settings)
    with tools.open_for_reading(settings) as index:
        statistics = tools.statistics(index, settings, committed)
    show(statistics, tables.statistics_table(statistics))


@index_group.command("query")
@click.option("--text", help="Compare with this text; - reads standard input.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Compare with the text of a file (UTF-8).",
)
@click.option("--scope", default="", help="Scope of the text, if decode.scope is set.")
@click.option("--id", "id_", help="Compare with an indexed document, and show the decisions on this id.")
@click.option("--fingerprint", help="Compare with a fingerprint in hexadecimal.")
@click.option(
    "--distance", type=click.IntRange(0, 7), help="SimHash: maximum distance.  [default: distance_max of the index]"
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="Show at most this many.")
@options.settings_and_json
def query(
    settings: Settings,
    text: str | None,
    file: Path | None,
    scope: str,
    id_: str | None,
    fingerprint: str | None,
    distance: int | None,
    limit: int,
) -> None:
    """Show the documents nearest to a text or document.

    Give one of --text, --file, --id, --fingerprint. Changes nothing.
    """
    from rich.console import Group

    from streamer.explain import near
    from streamer.index_admin import tables, tools

    if sum(option is not None for option in (text, file, id_, fingerprint)) != 1:
        raise click.UsageError("give one of --text, --file, --id, --fingerprint")
    with tools.open_for_reading(settings) as index:
        if id_ is not None:
            queries = tools.seek_id(index, id_)
        elif fingerprint is not None:
            try:
                queries = [tools.seek_fingerprint(index, fingerprint)]
            except ValueError as problem:
                raise click.BadParameter(str(problem), param_hint="--fingerprint") from problem
        else:
            queries = [tools.seek_text(index, settings, _text(text, file), scope)]
        names, parameters = index.stream_names(), index.parameters
        if distance is not None and parameters.scheme == "minhash":
            raise click.BadParameter("this index compares by similarity: leave it out", param_hint="--distance")
        nearest = [near.nearest(index, each.kind, each.fingerprint, distance, limit) for each in queries]
        answers = [tools.answer(*each, names, parameters) for each in zip(queries, nearest, strict=True)]
    show({"answers": answers}, Group(*map(tables.answer_table, answers)))
    if not answers:
        click.echo(f"no record has the id {id_}", err=True)
        sys.exit(EXIT_NO)


def _text(text: str | None, file: Path | None) -> str:
    if file is None and text != "-":
        return str(text)
    octets = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return octets.decode()
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"the text is not UTF-8: {problem}") from problem


def _entries(index: Any) -> int:
    statistics = index.statistics()
    return int(statistics.entries + statistics.exact_entries + statistics.forgotten)


@index_group.command("check")
@options.settings_and_json
def check(settings: Settings) -> None:
    """Check the index; exit code 1 if it is damaged.

    Checks the file's structure and the consistency of all tables, in one snapshot. The file of a busy index grows
    meanwhile.
    """
    from index.tools import verify as verify_index
    from streamer.index_admin import tables, tools

    with (
        tools.open_for_reading(settings) as index,
        tables.progress_bar("checking documents", 2 * _entries(index)) as progress,
    ):
        findings = verify_index(index, progress)
    verdict = tools.verdict(findings)
    show(verdict, tables.findings_table(verdict))
    sys.exit(0 if verdict["sound"] else EXIT_NO)


@index_group.command("backup")
@click.argument("directory", type=options.FOLDER)
@options.settings_and_json
def backup(settings: Settings, directory: Path) -> None:
    """Copy the index into a new DIRECTORY.

    The copy is a snapshot; the service may write meanwhile.
    """
    _copied(settings, directory, compact=False)


@index_group.command("restore")
@click.argument("backup_directory", metavar="BACKUP", type=options.FOLDER)
@options.settings_and_json
def restore(settings: Settings, backup_directory: Path) -> None:
    """Copy a BACKUP to the folder of the index.

    Refuses to replace an index. The service then restores later documents from the topics.
    """
    _copied(settings.replaced(index={"directory": backup_directory}), settings.index.directory, compact=False)


@index_group.command("compact")
@click.argument("directory", required=False, type=options.FOLDER)
@click.option("--in-place", is_flag=True, help="Replace the index, unless a process has it open.")
@options.settings_and_json
def compact(settings: Settings, directory: Path | None, in_place: bool) -> None:
    """Release free pages, by a copy to DIRECTORY or --in-place."""
    if in_place == (directory is not None):
        raise click.UsageError("give either DIRECTORY or --in-place")
    if directory is not None:
        _copied(settings, directory, compact=True)
    else:
        show(*_replaced(settings.index.directory, settings.index.directory))


@index_group.command("switch")
@click.argument("directory", type=options.FOLDER)
@options.settings_and_json
def switch(settings: Settings, directory: Path) -> None:
    """Replace the index by the one in DIRECTORY.

    Refuses while a process has the index open. The old file stays in the folder.
    """
    show(*_replaced(settings.index.directory, directory))


def _copied(settings: Settings, directory: Path, *, compact: bool) -> None:
    from index.tools import copy
    from streamer.index_admin import tools

    with tools.open_for_reading(settings) as index, NoLeftovers(scratch=[directory]), writing(directory):
        size = copy(index, directory, compact=compact)
    show({"directory": str(directory), "bytes": size}, f"{size:,} bytes in {directory}")


def _replaced(directory: Path, source: Path) -> tuple[dict[str, Any], str]:
    from index.tools import FORMER_FILE, replace

    keep_former = not (directory.exists() and source.exists() and source.samefile(directory))
    with writing(directory):
        before, after = replace(directory, source, keep_former=keep_former)
    result: dict[str, Any] = {"directory": str(directory), "bytes_before": before, "bytes": after}
    lines = f"{before:,} bytes before, {after:,} bytes now in {directory}"
    if keep_former:
        result["former"] = str(directory / FORMER_FILE)
        lines += f"\nthe old file is {result['former']}: remove it once the new index works"
    return result, lines


@index_group.command("key")
@options.pass_settings
def key(settings: Settings) -> None:
    """Print the secret key of the index, for a key file (fingerprint.key_file).

    Anyone with the key can craft texts that match others. Only the service should be able to read the file.
    """
    from streamer.index_admin import tools

    with tools.open_for_reading(settings) as index:
        if index.secret is None:
            raise SettingsError(
                f"the index in {settings.index.directory} has no secret key: it uses fingerprint.key_file or the public key."
            )
        click.echo(index.secret.hex())


@index_group.command("export")
@click.argument("file", type=EXPORT_FILE)
@options.force_option
@options.settings_and_json
def export(settings: Settings, file: Path, force: bool) -> None:
    """Write the whole index into a FILE of JSON Lines.

    A FILE named .zst is compressed; - is standard output.
    """
    from streamer.index_admin import export, tables, tools

    require_absent(file, force=force or str(file) == "-")
    with (
        tools.open_for_reading(settings) as index,
        tables.progress_bar("exporting", index.statistics().journal_rows) as progress,
        writing(file),
    ):
        count = export.export(index, file, progress)
    if str(file) != "-":
        show({"file": str(file), "positions": count}, f"{count:,} positions in {file}")


@index_group.command("seed")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the job has read all entries.")
@on_flink.FLINK_ADDRESS
@options.settings_and_json
def seed(settings: Settings, wait: bool, flink_address: str | None) -> None:
    """Write the index to a topic, as the initial state of a Flink job.

    First stop every process that decides by the index. Then run the job with --seed, stop it with a savepoint, and
    continue from there.
    """
    from streamer.flink import seed
    from streamer.index_admin import tables, tools

    with tools.open_for_reading(settings) as index, tables.progress_bar("writing entries", _entries(index)) as progress:
        written = seed.seed(settings, index, progress)
    click.echo(f"{written.entries:,} entries in the topic {written.topic}: run the job with --seed now", err=True)
    if wait:
        on_flink.wait_for_job(settings, written, flink_address, seeding=True)
    show(
        {"topic": written.topic, "entries": written.entries, "taken_in": wait},
        f"the job has read all {written.entries:,} entries: stop it with a savepoint" if wait else "",
    )


def _imported(settings: Settings, new: Settings, file: Path) -> dict[str, int]:
    """Enter an export into the index of `new`, by settings that differ from the export in thresholds alone."""
    from index import Index
    from streamer.fingerprint.scheme import parameters_for, scheme_for
    from streamer.index_admin import export, tables, tools
    from streamer.transports.files.line_reader import lines

    export_lines = lines(file)
    parameters, streams, total = export.read_header(export_lines, str(file))
    key, secret = tools.key_of_export(settings, parameters, str(file))
    required = parameters_for(new, scheme_for(new, key).stamp())
    parameters = parameters.with_thresholds(required)
    parameters.require_equal(required, str(file))
    directory = new.index.directory
    with NoLeftovers(index=directory):
        with writing(directory):
            index = Index.open(directory, parameters, map_bytes_max=new.index.map_bytes_max, secret=secret)
        with index, tables.progress_bar("importing", total) as progress:
            entered, already_known = export.take_in(index, export_lines, streams, total, str(file), progress)
    return {"records": entered + already_known, "already_known": already_known}


@index_group.command("rebuild")
@click.argument("directory", type=options.FOLDER)
@options.any_files_argument
@click.option("--topics", "from_topics", is_flag=True, help="Read the output topics.")
@click.option(
    "--export",
    "export_file",
    type=EXPORT_FILE,
    help="Read an export (-: standard input); only similarity_min, distance_max and second-look thresholds may differ.",
)
@click.option("--switch", "switch_to_it", is_flag=True, help="Then replace the index by the new one.")
@options.settings_and_json
def rebuild(
    settings: Settings,
    directory: Path,
    files: Sequence[Path],
    from_topics: bool,
    export_file: Path | None,
    switch_to_it: bool,
) -> None:
    """Build an index with other settings in a new DIRECTORY.

    Reads JSON Lines FILES, the output --topics or an --export. The service may run meanwhile. The same command continues
    an interrupted rebuild.
    """
    if sum([bool(files), from_topics, export_file is not None]) != 1:
        raise click.UsageError("give one of FILES, --topics, --export")
    if directory.resolve() == settings.index.directory.resolve():
        raise click.UsageError(f"{directory} holds the current index: give a new folder and --switch")
    new = settings.replaced(index={"directory": directory})
    done: dict[str, Any] = {"directory": str(directory)}
    done |= _rebuilt(settings, new, files) if export_file is None else _imported(settings, new, export_file)
    lines = f"{done['records']:,} records in {directory}, {done['already_known']:,} of them from an earlier run"
    if switch_to_it:
        done["switched"], more = _replaced(settings.index.directory, directory)
        lines = f"{lines}\n{more}"
    show(done, lines)
    if not switch_to_it:
        click.echo(
            f"to use it, stop the service, run `streamer index switch {directory}` (or set index.directory), and start the "
            "service with these settings",
            err=True,
        )


def _rebuilt(settings: Settings, new: Settings, files: Sequence[Path]) -> dict[str, int]:
    from index.tools import has_index
    from streamer.index_admin import rebuild, tables, tools

    options.log_as_set(settings, "warning")
    with NoLeftovers(index=new.index.directory), tables.progress_bar("rebuilding", None) as progress:
        if files:
            has_running = has_index(settings.index.directory)
            with tools.open_for_reading(settings) if has_running else nullcontext() as running:
                done = rebuild.rebuild_from_files(new, files, running, progress)
        else:
            done = rebuild.rebuild_from_topics(new, rebuild.ends_to_rebuild(settings), progress)
    return done._asdict()


@index_group.command("forget")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--source", metavar="NAME", help="All that one input delivered: a topic, or a file as in verdicts.")
@click.option("--scope", help="All documents of one scope that have an id, if decode.scope is set.")
@click.option("--dry-run", is_flag=True, help="Change nothing: show what would leave.")
@click.option("--flink", is_flag=True, help="Tell the job on Flink, which has no index here, and wait until it knows.")
@on_flink.FLINK_ADDRESS
@options.settings_and_json
def forget(
    settings: Settings,
    ids: Sequence[str],
    source: str | None,
    scope: str | None,
    dry_run: bool,
    flink: bool,
    flink_address: str | None,
) -> None:
    """Remove documents by ID, or all of a --source or a --scope, from the index.

    Later near-duplicates of them are unique again; earlier verdicts stay. Unless index.insert = "unique", the duplicates of
    a removed original leave with it.
    """
    if bool(ids) + (source is not None) + (scope is not None) != 1:
        raise click.UsageError("give either IDs, --source or --scope")
    options.log_as_set(settings, "info")
    if flink:
        on_flink.forget(settings, ids, source, scope, flink_address, dry_run=dry_run)
    elif source is not None:
        _forget_source(settings, source, dry_run=dry_run)
    elif scope is not None:
        _forget_scope(settings, scope, dry_run=dry_run)
    else:
        _forget_ids(settings, ids, dry_run=dry_run)


def _forget_ids(settings: Settings, ids: Sequence[str], *, dry_run: bool) -> None:
    import structlog

    from streamer.explain.positions import position_text
    from streamer.index_admin import tables, tools
    from streamer.records.names import bounded_id

    asked = [bounded_id(each) for each in ids]
    with tools.open_to_forget(settings, dry_run=dry_run) as index:
        with tables.progress_bar("searching ids", _entries(index)) as progress:
            documents = index.forget(asked, progress, dry_run=dry_run)
        names = index.stream_names()
    log = structlog.get_logger(__name__)
    forgotten = []
    for document in documents:
        position = position_text(document.position, names)
        forgotten.append({"id": document.id, "position": position, "number": document.number})
        if not dry_run:
            log.info("forgotten", id=document.id, position=position, number=document.number)
    missing = sorted(set(asked) - {document.id for document in documents})
    answer = {"forgotten": forgotten, "not_found": missing, "dry_run": dry_run}
    show(answer, _counted(len(forgotten), dry_run=dry_run))
    if missing:
        click.echo(f"no indexed document has the id {', '.join(missing)}", err=True)
        sys.exit(EXIT_NO)


def _forget_source(settings: Settings, source: str, *, dry_run: bool) -> None:
    import structlog

    from streamer.index_admin import tables, tools

    with tools.open_to_forget(settings, dry_run=dry_run) as index:
        names = tools.source_names(index)
        streams = [stream for stream, name in names.items() if source in (stream, name)]
        if not streams:
            click.echo(tools.unknown_source(source, names), err=True)
            sys.exit(EXIT_NO)
        with tables.progress_bar("searching documents", _entries(index)) as progress:
            count = index.forget_streams(streams, progress, dry_run=dry_run)
    if not dry_run:
        structlog.get_logger(__name__).info("forgotten", source=source, streams=streams, documents=count)
    answer = {"source": source, "streams": streams, "forgotten": count, "dry_run": dry_run}
    show(answer, _counted(count, dry_run=dry_run))


def _forget_scope(settings: Settings, scope: str, *, dry_run: bool) -> None:
    import structlog

    from streamer.index_admin import tables, tools
    from streamer.records.names import beginning

    if settings.decode.scope is None:
        raise SettingsError(on_flink.SCOPE_NEEDED)
    with (
        tools.open_to_forget(settings, dry_run=dry_run) as index,
        tables.progress_bar("searching documents", _entries(index)) as progress,
    ):
        count = index.forget_names(beginning(scope), progress, dry_run=dry_run)
    if not dry_run:
        structlog.get_logger(__name__).info("forgotten", scope=scope, documents=count)
    show({"scope": scope, "forgotten": count, "dry_run": dry_run}, _counted(count, dry_run=dry_run))
    if not count:
        click.echo(f"no indexed document has an id in the scope {scope!r}", err=True)
        sys.exit(EXIT_NO)


def _counted(count: int, *, dry_run: bool) -> str:
    return f"{'would be forgotten' if dry_run else 'forgotten'}: {count:,}"
