"""Processes that decode and fingerprint batches, several at once, while this one decides, routes and delivers in order.

    process 1  | decode, fingerprint n+1 | decode, fingerprint n+3 ...
    process 2  | decode, fingerprint n+2 | decode, fingerprint n+4 ...
    ahead      | decide, route n         | decide, route n+1       ...
    loop       | commit n-1              | commit n                ...

A record that ends a process, or takes too long, ends them all: no result says which batch it was in. So each batch that was
under way runs alone, once it is next. If that fails too, its records go on trial.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from index import Source
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.observe.process_start import end_with_parent
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.transport import NO_TIMESTAMP_MS

log = structlog.get_logger(__name__)

BATCHES_MIN = 4
"""Batches ahead from which processes pay: to start them takes as long as a few batches."""


class RecordsSuspected(Exception):
    """A batch ended the processes while it was the only one in them."""


class Lines(NamedTuple):
    """A batch of lines, which stay in a file in memory: a process reads them once, and nothing is pickled.

    runs  stream, partition and name of consecutive lines, the first one's offset, and their number
    path  the file in memory, as another process opens it

    >>> memory = os.memfd_create("lines")
    >>> batch = [Record(Source("stream", 0), "pages", offset, None, b"{}", NO_TIMESTAMP_MS) for offset in (7, 8, 9)]
    >>> lines = Lines.of(batch, memory)
    >>> lines.runs[0][2:], lines.records() == batch
    ((7, 3), True)
    >>> os.close(memory)
    """

    runs: list[tuple[Source, str, int, int]]
    path: str

    @classmethod
    def of(cls, records: Sequence[Record], memory: int) -> "Lines":
        """A batch of lines, written into `memory`, the descriptor of an empty file."""
        runs = [(source, list(run)) for source, run in groupby(records, attrgetter("source"))]
        with open(memory, "wb", buffering=0, closefd=False) as file:
            rest = memoryview(b"\n".join([record.value or b"" for record in records]))
            while rest:
                rest = rest[file.write(rest) :]
        return cls(
            [(source, run[0].topic, run[0].offset, len(run)) for source, run in runs],
            f"/proc/{os.getpid()}/fd/{memory}",
        )

    def records(self) -> list[Record]:
        """The records again."""
        lines = iter(Path(self.path).read_bytes().split(b"\n"))
        return [
            Record(source, name, offset, None, line, NO_TIMESTAMP_MS)
            for source, name, first, count in self.runs
            for offset, line in zip(range(first, first + count), lines, strict=False)
        ]


class Prepared(NamedTuple):
    """Documents without texts, as columns, and fingerprints; `letters` by row.

    >>> from streamer.fingerprint.scheme import scheme_for
    >>> documents = [Document("a", "one text", host="a.example")]
    >>> prepared = Prepared.of(documents, fingerprint_documents(scheme_for(Settings()), documents))
    >>> prepared.documents()[0].host, prepared.documents()[0].text
    ('a.example', '')
    """

    ids: list[str]
    times_ms: list[int]
    hosts: list[str | None]
    named: list[bool]
    odd_times: dict[int, str]
    without_scope: list[int]
    letters: dict[int, DeadLetter]
    fingerprints: Fingerprints

    @classmethod
    def of(cls, documents: Sequence[Document | DeadLetter], fingerprints: Fingerprints) -> "Prepared":
        """Columns of a batch's documents."""
        letters = {row: each for row, each in enumerate(documents) if isinstance(each, DeadLetter)}
        texts = [each if isinstance(each, Document) else _NONE for each in documents]
        return cls(
            [text.id for text in texts],
            [text.time_ms for text in texts],
            [text.host for text in texts],
            [text.named for text in texts],
            {row: text.odd_time for row, text in enumerate(texts) if text.odd_time},
            [row for row, text in enumerate(texts) if text.scope == ""],
            letters,
            fingerprints,
        )

    def documents(self) -> list[Document | DeadLetter]:
        """The documents again, with empty texts, titles and metadata."""
        columns = zip(self.ids, self.times_ms, self.hosts, self.named, strict=True)
        documents: list[Any] = [Document(id_, "", "", ms, host, (), named) for id_, ms, host, named in columns]
        for row, odd_time in self.odd_times.items():
            documents[row] = replace(documents[row], odd_time=odd_time)
        for row in self.without_scope:
            documents[row] = replace(documents[row], scope="")
        for row, letter in self.letters.items():
            documents[row] = letter
        return documents


_NONE = Document("", "")


class Processes(AbstractContextManager["Processes"]):
    """Processes for the batches of a file job.

    >>> Processes(Settings(), count=4).batches_ahead, Processes(Settings(), count=1).batches_ahead
    (8, 1)
    """

    def __init__(self, settings: Settings, count: int, readers: int = 0) -> None:
        """
        count    processes; fewer than two prepare nothing
        readers  more processes for `call`
        """
        self._settings, self._count, self._readers = settings, count, readers
        self._scheme: tuple[HashKey, int] = PUBLIC, 0
        self._starter: threading.Thread | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._ready: Future[Prepared] | None = None
        self._begun: dict[int, _Begun] = {}
        self._suspected = 0

    @property
    def batches_ahead(self) -> int:
        """Batches that should be under way: with half as many more than processes, none waits for the loop."""
        return self._count + self._count // 2 + 2 if self._count > 1 else 1

    def start(self) -> None:
        """Start the processes, if there shall be any, as copies of this one, with all code and tables.

        Before this process has other threads or an open index, which no copy may have. Processes that start later load all
        that themselves.
        """
        if self._count > 1:
            _enter(self._settings)
            self._start("fork")

    def use(self, fingerprinter: Scheme) -> None:
        """Fingerprint as this scheme does. Before the first `begin`."""
        self._scheme = fingerprinter.key, fingerprinter.sampled_one_in

    def begin(self, batches: Sequence[Sequence[Record]]) -> None:
        """Prepare the batches that the loop will take next, in order. Does not wait; never during `take`.

        Starts the processes once enough batches wait.
        """
        if len(batches) >= BATCHES_MIN and self._pool is None and self._starter is None:
            self._starter = threading.Thread(target=self._start, name="start processes")
            self._starter.start()
        if self._ready is None or not self._ready.done():
            return
        if self._ready.exception() is not None:
            log.warning(
                "processes to prepare batches in do not start; this process prepares them", processes=self._count
            )
            self._ready = None
            return
        if self._suspected:
            self._suspected -= 1
            batches = batches[:1]
        for records in batches:
            if id(records) not in self._begun:
                self._begun[id(records)] = self._submit(records)

    def take(self, records: Sequence[Record]) -> tuple[list[Document | DeadLetter], Fingerprints] | None:
        """Documents and fingerprints; None if the batch was not begun here.

        Raises RecordsSuspected, and RegistryUnavailable.
        """
        begun = self._begun.pop(id(records), None)
        if begun is None:
            return None
        try:
            prepared = begun.result()
        except BrokenProcessPool:
            log.warning("a process that prepares batches ended; each begun batch runs alone", first=records[0].position)
            self._suspected = len(self._begun)
            self.end()
            self._start()
            try:
                prepared = self._submit(records).result()
            except BrokenProcessPool:
                self._suspected = 0
                self.end()
                raise RecordsSuspected from None
        return prepared.documents(), prepared.fingerprints

    def call(self, function: Callable[..., Any], *arguments: object) -> Future[Any] | None:
        """Call a function in a process; None if none has started. At most `readers` calls may wait for this process."""
        return None if self._pool is None else self._submitted(function, *arguments)

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End all processes, whatever they do. A later `begin` may start others."""
        if self._starter is not None:
            self._starter.join()
        pool, self._pool, self._ready, self._starter = self._pool, None, None, None
        for begun in self._begun.values():
            os.close(begun.memory)
        self._begun.clear()
        if pool is not None:
            # Before Python 3.14 a pool has no public way to end a process that hangs.
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(cancel_futures=True)

    def _start(self, method: str = "forkserver") -> None:
        context = multiprocessing.get_context(method)
        context.set_forkserver_preload([__name__])
        self._pool = ProcessPoolExecutor(self._count + self._readers, context, _begin, (self._settings,))
        # The pool starts one process a call that waits.
        self._ready, *_ = [self._prepared(None) for _ in range(self._count)]

    def _submit(self, records: Sequence[Record]) -> "_Begun":
        memory = os.memfd_create("batch")
        return _Begun(records, memory, self._prepared(Lines.of(records, memory)))

    def _prepared(self, lines: Lines | None) -> "Future[Prepared]":
        return self._submitted(_prepare, lines, *self._scheme)

    def _submitted(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        assert self._pool is not None
        try:
            return self._pool.submit(function, *arguments)
        except (BrokenProcessPool, EOFError, OSError) as error:
            # The system may refuse a process, and the server that starts them may die, too.
            failed: Future[Any] = Future()
            failed.set_exception(BrokenProcessPool(str(error)))
            return failed


class _Begun(NamedTuple):
    """A batch under way; the records stay alive, so that no others have their identity."""

    records: Sequence[Record]
    memory: int
    future: "Future[Prepared]"

    def result(self) -> Prepared:
        """The batch, prepared; its lines leave the memory."""
        try:
            return self.future.result()
        finally:
            os.close(self.memory)


_settings: list[Settings] = []
"""The settings of this process; a pool has no other place for them."""


@lru_cache(1)
def _steps(key: HashKey, sampled_one_in: int) -> tuple[Decoder, Scheme]:
    """What this process needs for its batches."""
    (settings,) = _settings
    fingerprinter = scheme_for(settings, key)
    fingerprinter.sampled_one_in = sampled_one_in
    return Decoder(settings.decode), fingerprinter


def _enter(settings: Settings) -> None:
    """Load what batches need: code, tables, machine code."""
    _settings[:] = [settings]
    _prepare(None, PUBLIC, 0)


def _begin(settings: Settings) -> None:
    """Begin a process of the pool."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _settings[:] = [settings]


def _prepare(lines: Lines | None, key: HashKey, sampled_one_in: int) -> Prepared:
    """Decode and fingerprint a batch, under an alarm that ends even a parser in C; None only loads the code.

    The alarm counts this process's own time: on a busy machine a sound batch of pages may take minutes by the clock.
    """
    decoder, fingerprinter = _steps(key, sampled_one_in)
    if lines is None:
        return Prepared.of([_NONE], fingerprint_documents(fingerprinter, [_NONE]))
    signal.setitimer(signal.ITIMER_PROF, _settings[0].workers.progress_timeout_ms / 1000)
    try:
        documents = decoder.decode(lines.records())
        return Prepared.of(documents, fingerprint_documents(fingerprinter, documents))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
