"""The file job: the service over files, in this process."""

import signal
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from index import Applied, Index, Source
from index.kernels.jit import compilations
from streamer.audit.report import estimates_of
from streamer.errors import InputsUnread, InputUnreadable, NoDocuments
from streamer.fingerprint.scheme import settings_digest
from streamer.fingerprint.warm_up import compile_first
from streamer.observe.batch_report import BatchReport
from streamer.protected.sets import open_sets
from streamer.records.decode import Decoder
from streamer.records.first_look import RECORDS, WrongInput
from streamer.service.index_steps import ByIndex
from streamer.service.loop import Listener, Loop
from streamer.service.processes import Processes
from streamer.service.state import State
from streamer.service.summary import Totals
from streamer.service.wiring import build_service, open_with_scheme
from streamer.settings.settings import Recovery, Settings
from streamer.transports.files.formats import array_hint, record_test
from streamer.transports.files.line_reader import LineReader, records_of
from streamer.transports.files.read_ahead import ReadAhead, is_archive
from streamer.transports.files.remote import Input, Remote, size_of
from streamer.transports.files.transport import FileTransport

FILES_POLICY = Recovery(
    first_start="earliest",
    # Known files and a new output folder: write the same verdicts again.
    committed_missing="earliest",
    index_behind="restore",
    # The content identifies a file: other content under an old name is another input.
    topic_recreated="continue",
    offsets_gone="stop",
)

START_BYTES = 8 * 2**20
"""Bytes of input from which processes start at once; others wait for the first batches."""

_SHOWN = {
    State.STARTING: "starting",
    State.RESTORING: "restoring",
    State.RUNNING: "filtering",
    State.DRAINING: "filtering",
    State.STOPPED: "ended",
}


class _ProgressBar(Listener):
    def __init__(self, transport: FileTransport, progress: Progress, totals: Totals) -> None:
        self._transport, self._bar, self._totals = transport, progress, totals
        self._task = progress.add_task("", total=transport.bytes_total or None, documents="")

    def state(self, state: State) -> None:
        self._bar.update(self._task, description=_SHOWN[state])
        if state in (State.RESTORING, State.RUNNING):
            # An error at the start should not appear below an empty bar.
            self._bar.start()

    def progress(self) -> None:
        documents = f"{self._totals.records:,} documents"
        self._bar.update(self._task, completed=self._transport.bytes_read, documents=documents)

    def batch(self, figures: BatchReport) -> None:
        self._totals.add(figures)

    def odd_times(self, count: int) -> None:
        self._totals.odd_times += count

    def without_scope(self, count: int) -> None:
        self._totals.without_scope += count

    def protected(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self._totals.protected[name] = self._totals.protected.get(name, 0) + count


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[documents]}"),
        TimeRemainingColumn(),
        console=console,
        disable=console.quiet,
    )


def known_streams(index: Index, names: Collection[str]) -> dict[str, list[tuple[str, Applied]]]:
    """Known streams under files' names, by name, each with its applied offset; oldest first."""
    applied = index.applied()
    known: dict[str, list[tuple[str, Applied]]] = {name: [] for name in names}
    for stream, name in index.stream_names().items():
        if name in known and (source := Source(stream, 0)) in applied:
            known[name].append((stream, applied[source]))
    return known


def require_documents(settings: Settings, path: Input, dead_letters_max: int | None) -> None:
    """Raise NoDocuments if too many of a file's first records are dead letters. A pipe is not looked at.

    dead_letters_max  among the first RECORDS; None: all but one of those there are
    """
    if not path.is_file():
        return
    try:
        with closing(LineReader(path, is_record=record_test(settings.decode))) as reader:
            lines = reader.lines(RECORDS, settings.batch.bytes_max)
    except InputUnreadable:
        # The run says so, after the other files.
        return
    look, records = WrongInput(), records_of(Source("", 0), str(path), 0, lines)
    decoder = Decoder(settings.decode)
    for record in records:
        look.count(decoder.decode([record]))
        # One document is enough. Others may end this process, and the job has care for that.
        if dead_letters_max is None and look.dead_letters < look.records:
            return
    limit = look.records - 1 if dead_letters_max is None else dead_letters_max
    if records and look.dead_letters > limit:
        raise NoDocuments(
            f"{path}: {look.reasons()}{array_hint(records[0].value or b'', path)} Nothing was filtered; "
            f"--dead-letters-max {RECORDS} filters such files."
        )


def _are_large_and_here(files: Sequence[Input]) -> bool:
    """Whether copies of this process shall work on them. A process that asked a server has threads, which no copy may have."""
    return not any(isinstance(file, Remote) for file in files) and sum(map(size_of, files)) >= START_BYTES


def filter_files(
    settings: Settings,
    files: Sequence[Input],
    out: Path,
    console: Console,
    compression: str | None = None,
    *,
    processes: int = 1,
    steps: type[ByIndex] = ByIndex,
    secret: bytes | None = None,
) -> tuple[Totals, bool]:
    """Filter files into the folder `out`, from an earlier run's end on.

    compression  see `OutputFolder`
    processes    that decode and fingerprint; 1: this one does
    steps        takes the steps `decide` and `route`
    secret       of a new index, as in `open_with_scheme`

    Returns this run's totals, with the inputs that could not be read to their end, and False after Ctrl-C or SIGTERM.
    Raises InputUnreadable, InputChanged, SettingsError, DeliveryDoubtful, NeardupIndexError.
    """
    totals = Totals(shadow=settings.route.shadow)
    begin = time.perf_counter()
    with ExitStack() as resources:
        resources.enter_context(compilations(partial(_tell_compiling, console)))
        readers = processes if processes > 1 and any(map(is_archive, files)) else 0
        several = resources.enter_context(Processes(settings, processes, readers))
        with compile_first(settings):
            if _are_large_and_here(files):
                several.start()
            index, fingerprinter = open_with_scheme(settings, secret=secret)
        resources.enter_context(index)
        protected = resources.enter_context(open_sets(settings, fingerprinter))
        ahead = ReadAhead(files, readers, several.call)
        known, is_record = partial(known_streams, index), record_test(settings.decode)
        digest = settings_digest(settings, fingerprinter.stamp())
        transport = FileTransport(
            files,
            out,
            settings.batch,
            known,
            compression=compression,
            ahead=ahead,
            is_record=is_record,
            settings_digest=digest,
            protected=bool(protected.names),
        )
        bar = _bar(console)
        listener = _ProgressBar(transport, bar, totals)
        service = build_service(
            settings,
            transport,
            index,
            fingerprinter,
            listener,
            FILES_POLICY,
            supervised=False,
            processes=several,
            protected=protected,
            steps=steps,
        )
        interrupted = _run(service, bar, transport, totals)
        totals.before, totals.left_out = transport.records_before, transport.left_out
        totals.remarks, totals.suffix, totals.folder = transport.remarks, transport.suffix, transport.outcomes
    if settings.audit.one_in:
        totals.audit = estimates_of(settings)
    totals.seconds, totals.index = time.perf_counter() - begin, settings.index.directory
    return totals, not interrupted


def _run(service: Loop, bar: Progress, transport: FileTransport, totals: Totals) -> bool:
    """Run to the end of all inputs, and note those that could not be read. True after a signal.

    Raises InputsUnread if nothing at all was filtered, so nothing has to stay.
    """
    try:
        return _run_until_signal(service, bar)
    except InputsUnread as error:
        if not totals.records + transport.records_before:
            raise
        totals.unread = str(error)
        return False
    finally:
        if bar.live.is_started:
            bar.stop()


def _tell_compiling(console: Console, kernel: int, cache: Path) -> None:
    if kernel == 1:
        console.print(f"compiling machine code, once for this processor (cached in {cache})", soft_wrap=True)


def _run_until_signal(service: Loop, bar: Progress) -> bool:
    """SIGINT and SIGTERM end the service after the current batch, and its end the bar. Returns whether a signal came."""
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        service.stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        service.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if bar.live.is_started:
            bar.stop()
    return bool(received)
