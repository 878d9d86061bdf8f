"""`streamer index`: looking after the index. All of it is safe beside a running service unless a command refuses it.

Exit codes: 0 done; 1 `verify` found something wrong, or `query --id` and `forget` did not find a document; 66 there is
no index; 73 something stands where the new index was to be; 75 the index is open in another process; others as in
docs/operations.md.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console, RenderableType

from streamer.errors import OutputUnwritable
from streamer.settings.settings import Settings, load

EXIT_FOUND_WRONG = 1
FOLDER = click.Path(path_type=Path, file_okay=False)


def _as_json(function: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(function)


@click.group("index")
@click.option("--directory", type=FOLDER, help="Folder of the index; index.directory of the settings if not given.")
@click.pass_context
def index_group(context: click.Context, directory: Path | None) -> None:
    """Look after the index: sizes, queries, soundness, copies, exports, rebuilding, forgetting."""
    file, overrides = context.obj
    more = [f"index.directory={directory}"] if directory else []
    context.obj = load(file, [*overrides, *more])


def _shown(found: dict[str, Any], as_json: bool, table: RenderableType) -> None:
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    else:
        Console().print(table, soft_wrap=True, highlight=False)


@index_group.command("stats")
@click.option("--kafka", "with_kafka", is_flag=True, help="Ask the broker for the group's committed offsets too.")
@_as_json
@click.pass_obj
def stats(settings: Settings, with_kafka: bool, as_json: bool) -> None:
    """How large the index is, how full its buckets are, how far each source was decided, and who reads it."""
    from streamer.index_admin import tables, tools

    committed = None
    if with_kafka:
        from streamer.transports.kafka.topics import committed_offsets

        committed = committed_offsets(settings)
    with tools.open_for_reading(settings) as index:
        found = tools.statistics(index, settings, committed)
    _shown(found, as_json, tables.statistics_table(found))


@index_group.command("query")
@click.option("--text", help="A text; - reads it from standard input.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="A file with a text, UTF-8.")
@click.option("--id", "id_", help="Id of a document in the index. All documents are looked through.")
@click.option("--fingerprint", help="A fingerprint in hexadecimal.")
@click.option(
    "--distance", type=click.IntRange(0, 7), help="SimHash: look this far; as far as matches count, if not given."
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="Show at most so many.")
@_as_json
@click.pass_obj
def query(
    settings: Settings,
    text: str | None,
    file: Path | None,
    id_: str | None,
    fingerprint: str | None,
    distance: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """The documents nearest to a text, a file, a document in the index, or a fingerprint; nothing is entered."""
    from rich.console import Group

    from streamer.index_admin import tables, tools

    if sum(asked is not None for asked in (text, file, id_, fingerprint)) != 1:
        raise click.UsageError("give one of --text, --file, --id, --fingerprint")
    with tools.open_for_reading(settings) as index:
        if id_ is not None:
            with tables.progress_bar("looking for the id", _entries(index)) as progress:
                sought = tools.seek_id(index, id_, progress)
        elif fingerprint is not None:
            try:
                sought = [tools.seek_fingerprint(index, fingerprint)]
            except ValueError as problem:
                raise click.BadParameter(str(problem), param_hint="--fingerprint") from problem
        else:
            sought = [tools.seek_text(index, settings, _text(text, file))]
        names, scheme = index.stream_names(), index.parameters.scheme
        if distance is not None and scheme == "minhash":
            raise click.BadParameter("documents of this index are compared by similarity", param_hint="--distance")
        nearest = [tools.nearest(index, each, distance, limit) for each in sought]
        found = [tools.answer(each, matches, names, scheme) for each, matches in zip(sought, nearest, strict=True)]
    _shown({"answers": found}, as_json, Group(*map(tables.answer_table, found)))
    if not found:
        click.echo(f"no document has the id {id_}", err=True)
        sys.exit(EXIT_FOUND_WRONG)


def _text(text: str | None, file: Path | None) -> str:
    if file is None and text != "-":
        return str(text)
    octets = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return octets.decode()
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"the text is not UTF-8: {problem}") from problem


def _entries(index: Any) -> int:
    found = index.statistics()
    return int(found.entries + found.exact_entries + found.forgotten)


@index_group.command("verify")
@_as_json
@click.pass_obj
def verify(settings: Settings, as_json: bool) -> None:
    """Check the file's structure, and that all tables fit together; exit code 1 if anything is wrong.

    It holds one moment's state for as long as it takes; the file of a busy index grows meanwhile.
    """
    from streamer.index_admin import tables, tools

    with (
        tools.open_for_reading(settings) as index,
        tables.progress_bar("verifying documents", 2 * _entries(index)) as progress,
    ):
        findings = tools.check(index, settings.index.directory, progress)
    found = tools.verdict(findings)
    _shown(found, as_json, tables.findings_table(found))
    sys.exit(0 if found["sound"] else EXIT_FOUND_WRONG)


@index_group.command("backup")
@click.argument("directory", type=FOLDER)
@_as_json
@click.pass_obj
def backup(settings: Settings, directory: Path, as_json: bool) -> None:
    """Copy the index, as it is at this moment, into a new DIRECTORY."""
    _copied(settings, settings.index.directory, directory, compact=False, as_json=as_json)


@index_group.command("restore")
@click.argument("backup_directory", metavar="BACKUP", type=FOLDER)
@_as_json
@click.pass_obj
def restore(settings: Settings, backup_directory: Path, as_json: bool) -> None:
    """Copy a BACKUP to where the index belongs; refused where there is one. The service enters what came since."""
    _copied(settings, backup_directory, settings.index.directory, compact=False, as_json=as_json)


@index_group.command("compact")
@click.argument("directory", required=False, type=FOLDER)
@click.option("--in-place", is_flag=True, help="Replace the index; refused while any process has it open.")
@_as_json
@click.pass_obj
def compact(settings: Settings, directory: Path | None, in_place: bool, as_json: bool) -> None:
    """Copy the index without its free pages, into a new DIRECTORY or --in-place."""
    if in_place == (directory is not None):
        raise click.UsageError("give either DIRECTORY or --in-place")
    if directory is not None:
        _copied(settings, settings.index.directory, directory, compact=True, as_json=as_json)
    else:
        found, lines = _replaced(settings.index.directory, settings.index.directory)
        _shown(found, as_json, lines)


@index_group.command("switch")
@click.argument("directory", type=FOLDER)
@_as_json
@click.pass_obj
def switch(settings: Settings, directory: Path, as_json: bool) -> None:
    """Replace the index by a copy of that in DIRECTORY; refused while any process has it open. The former file stays."""
    found, lines = _replaced(settings.index.directory, directory)
    _shown(found, as_json, lines)


def _at(settings: Settings, directory: Path) -> Settings:
    """The settings with another folder of the index."""
    return settings.model_copy(update={"index": settings.index.model_copy(update={"directory": directory})})


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into an error that names the path."""
    try:
        yield
    except OSError as problem:
        raise OutputUnwritable(f"{path}: {problem.strerror}.") from problem


def _copied(settings: Settings, source: Path, directory: Path, *, compact: bool, as_json: bool) -> None:
    from index.tools.backup import copy
    from streamer.index_admin import tools

    with tools.open_for_reading(_at(settings, source)) as index, _writing(directory):
        size = copy(index, directory, compact=compact)
    _shown({"directory": str(directory), "bytes": size}, as_json, f"{size:,} bytes in {directory}")


def _replaced(directory: Path, source: Path) -> tuple[dict[str, Any], str]:
    """Replace an index; what came of it for machines, and in words."""
    from index.tools.backup import FORMER_FILE, replace

    keep_former = not (directory.exists() and source.exists() and source.samefile(directory))
    with _writing(directory):
        before, after = replace(directory, source, keep_former=keep_former)
    found: dict[str, Any] = {"directory": str(directory), "bytes_before": before, "bytes": after}
    lines = f"{before:,} bytes before, {after:,} bytes now in {directory}"
    if keep_former:
        found["former"] = str(directory / FORMER_FILE)
        lines += f"\nthe former file is {found['former']}: remove it when the new one has proven itself"
    return found, lines


@index_group.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@_as_json
@click.pass_obj
def export(settings: Settings, file: Path, as_json: bool) -> None:
    """Write all that the index knows into a FILE of JSON Lines (.zst: compressed; -: standard output)."""
    from streamer.index_admin import export, tables, tools

    with (
        tools.open_for_reading(settings) as index,
        tables.progress_bar("exporting", index.statistics().journal_rows) as progress,
        _writing(file),
    ):
        count = export.export(index, file, progress)
    if str(file) != "-":
        _shown({"file": str(file), "positions": count}, as_json, f"{count:,} positions in {file}")


@index_group.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@_as_json
@click.pass_obj
def import_command(settings: Settings, file: Path, as_json: bool) -> None:
    """Enter an export into the index, a new one or one made with the same settings. Known positions are left alone."""
    entered, known = _imported(settings, file)
    _shown(
        {"directory": str(settings.index.directory), "entered": entered, "already_known": known},
        as_json,
        f"{entered:,} positions entered, {known:,} known already",
    )


def _imported(settings: Settings, file: Path, *, by_settings: bool = False) -> tuple[int, int]:
    """How many positions were entered, and how many were known.

    by_settings  a new index gets the thresholds of the settings, all else of which must be what was exported
    """
    from index.index import Index
    from streamer.fingerprint.scheme import parameters_for, scheme_for
    from streamer.index_admin import export, tables
    from streamer.transports.files.line_reader import lines

    found = lines(file)
    parameters, streams, total = export.read_header(found, str(file))
    if by_settings:
        asked = parameters_for(settings, scheme_for(settings).stamp())
        parameters = parameters.with_thresholds(asked)
        parameters.require_equal(asked, str(file))
    with (
        Index.open(settings.index.directory, parameters, map_bytes_max=settings.index.map_bytes_max) as index,
        tables.progress_bar("importing", total) as progress,
    ):
        return export.take_in(index, found, streams, total, str(file), progress)


@index_group.command("rebuild")
@click.argument("directory", type=FOLDER)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--topics", "from_topics", is_flag=True, help="Enter what was delivered to the output topics.")
@click.option(
    "--export",
    "export_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Enter an export; only similarity_min, distance_max and thresholds of a second look may differ.",
)
@click.option("--switch", "switch_to_it", is_flag=True, help="Then replace the index by the new one.")
@_as_json
@click.pass_obj
def rebuild(
    settings: Settings,
    directory: Path,
    files: Sequence[Path],
    from_topics: bool,
    export_file: Path | None,
    switch_to_it: bool,
    as_json: bool,
) -> None:
    """Make an index by the settings in force in a new DIRECTORY, beside the running one; run again, it goes on.

    From JSON Lines FILES, from the output --topics, or from an --export.
    """
    if sum([bool(files), from_topics, export_file is not None]) != 1:
        raise click.UsageError("give one of FILES, --topics, --export")
    if directory.resolve() == settings.index.directory.resolve():
        raise click.UsageError(f"{directory} is where the index is: name another, and let --switch replace it")
    new = _at(settings, directory)
    done: dict[str, Any] = {"directory": str(directory)}
    if export_file is not None:
        entered, known = _imported(new, export_file, by_settings=True)
        done |= {"records": entered + known, "already_known": known}
    else:
        done |= _rebuilt(settings, new, files)
    lines = f"{done['records']:,} records in {directory}, {done['already_known']:,} of them known already"
    if switch_to_it:
        done["switched"], more = _replaced(settings.index.directory, directory)
        lines = f"{lines}\n{more}"
    _shown(done, as_json, lines)
    if not switch_to_it:
        click.echo(
            f"to use it, stop the service, run `streamer index switch {directory}` (or set index.directory), and start the "
            "service with these settings",
            err=True,
        )


def _rebuilt(settings: Settings, new: Settings, files: Sequence[Path]) -> dict[str, int]:
    from index.storage.store import DATA_FILE
    from streamer.index_admin import rebuild, tables, tools

    has_running = not files or (settings.index.directory / DATA_FILE).is_file()
    with (
        tools.open_for_reading(settings) if has_running else nullcontext() as running,
        tables.progress_bar("rebuilding", None) as progress,
    ):
        if files:
            done = rebuild.rebuild_from_files(new, files, running, progress)
        else:
            assert running is not None
            done = rebuild.rebuild_from_topics(new, running, progress)
    return done._asdict()


@index_group.command("forget")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_as_json
@click.pass_obj
def forget(settings: Settings, ids: Sequence[str], as_json: bool) -> None:
    """Remove documents, so that their near-duplicates are unique again; verdicts stay what they were.

    With index.insert = "all" an original takes along the duplicates that entered after it.
    """
    import structlog

    from streamer.index_admin import tables, tools
    from streamer.observe.logs import configure_logging

    configure_logging("info", settings.observe.log_format)
    with tools.open_for_writing(settings) as index:
        with tables.progress_bar("looking for the ids", _entries(index)) as progress:
            documents = index.forget(ids, progress)
        names = index.stream_names()
    log = structlog.get_logger(__name__)
    found = []
    for document in documents:
        position = tools.position_text(document.position, names)
        log.info("forgotten", id=document.id, position=position, number=document.number)
        found.append({"id": document.id, "position": position, "number": document.number})
    missing = sorted(set(ids) - {document.id for document in documents})
    _shown({"forgotten": found, "not_found": missing}, as_json, f"forgotten: {len(found):,}")
    if missing:
        click.echo(f"no document to forget has the id {', '.join(missing)}", err=True)
        sys.exit(EXIT_FOUND_WRONG)
