"""Processes that decode and fingerprint batches, several at once, while this one decides, routes and delivers in order.

    process 1  | decode, fingerprint n+1 | decode, fingerprint n+3 ...
    process 2  | decode, fingerprint n+2 | decode, fingerprint n+4 ...
    ahead      | decide, route n         | decide, route n+1       ...
    loop       | commit n-1              | commit n                ...

A record that ends a process, or takes too long, ends them all: no result says which batch it was in. So each batch that was
under way runs alone, once it is next. If that fails too, its records go on trial.
"""

import multiprocessing
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import structlog

from index import Source
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.key import HashKey
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
    """Records without keys, headers and times, as columns: they take a tenth of the time to send.

    inputs   stream, partition and name
    numbers  place in `inputs`, by record
    """

    inputs: list[tuple[Source, str]]
    numbers: list[int]
    offsets: list[int]
    values: list[bytes | None]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Lines":
        """Columns of a batch of lines."""
        numbers: dict[tuple[Source, str], int] = {}
        return cls(
            numbers=[numbers.setdefault((record.source, record.topic), len(numbers)) for record in records],
            offsets=[record.offset for record in records],
            values=[record.value for record in records],
            inputs=list(numbers),
        )

    def records(self) -> list[Record]:
        """The records again."""
        return [
            Record(*self.inputs[number], offset, None, value, NO_TIMESTAMP_MS)
            for number, offset, value in zip(self.numbers, self.offsets, self.values, strict=True)
        ]


class Prepared(NamedTuple):
    """Documents without texts, as columns, and fingerprints; `letters` by row."""

    ids: list[str]
    times_ms: list[int]
    hosts: list[str | None]
    named: list[bool]
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
            letters,
            fingerprints,
        )

    def documents(self) -> list[Document | DeadLetter]:
        """The documents again, with empty texts, titles and metadata."""
        columns = zip(self.ids, self.times_ms, self.hosts, self.named, strict=True)
        documents: list[Document | DeadLetter] = [
            Document(id_, "", "", ms, host, (), named) for id_, ms, host, named in columns
        ]
        for row, letter in self.letters.items():
            documents[row] = letter
        return documents


_NONE = Document("", "")


class Processes:
    """Processes for the batches of a file job; they start once enough batches wait."""

    def __init__(self, settings: Settings, fingerprinter: Scheme, count: int) -> None:
        """count: processes; fewer than two prepare nothing."""
        self._arguments = settings, fingerprinter.key, fingerprinter.sampled_one_in
        self._count = count
        self._starter: threading.Thread | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._ready: Future[Prepared] | None = None
        self._begun: dict[int, tuple[Sequence[Record], Future[Prepared]]] = {}
        self._suspected = 0

    @property
    def batches_ahead(self) -> int:
        """Batches that should be under way: with two a process, no process waits for the loop."""
        return 2 * self._count + 1 if self._count > 1 else 1

    def begin(self, batches: Sequence[Sequence[Record]]) -> None:
        """Prepare the batches that the loop will take next, in order. Does not wait; never during `take`."""
        if self._pool is None and self._starter is None and len(batches) >= BATCHES_MIN:
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
                self._begun[id(records)] = records, self._submit(records)

    def take(self, records: Sequence[Record]) -> tuple[list[Document | DeadLetter], Fingerprints] | None:
        """Documents and fingerprints; None if the batch was not begun here.

        Raises RecordsSuspected, and RegistryUnavailable.
        """
        _, future = self._begun.pop(id(records), (records, None))
        if future is None:
            return None
        try:
            prepared = future.result()
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

    def end(self) -> None:
        """End all processes, whatever they do. A later `begin` may start others."""
        if self._starter is not None:
            self._starter.join()
        pool, self._pool, self._ready, self._starter = self._pool, None, None, None
        self._begun.clear()
        if pool is not None:
            # Before Python 3.14 a pool has no public way to end a process that hangs.
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(cancel_futures=True)

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pool = ProcessPoolExecutor(self._count, context, _enter, self._arguments)
        self._ready = self._submit([])

    def _submit(self, records: Sequence[Record]) -> "Future[Prepared]":
        assert self._pool is not None
        try:
            return self._pool.submit(_prepare, Lines.of(records) if records else None)
        except BrokenProcessPool as error:
            failed: Future[Prepared] = Future()
            failed.set_exception(error)
            return failed


class _Steps:
    """What a process needs for its batches."""

    def __init__(self, settings: Settings, key: HashKey, sampled_one_in: int) -> None:
        self.decoder, self.fingerprinter = Decoder(settings.decode), scheme_for(settings, key)
        self.fingerprinter.sampled_one_in = sampled_one_in
        self.seconds_max = settings.workers.progress_timeout_ms / 1000


_steps: list[_Steps] = []
"""The steps of this process; a pool has no other place for them."""


def _enter(settings: Settings, key: HashKey, sampled_one_in: int) -> None:
    """Begin a process of the pool."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _steps.append(_Steps(settings, key, sampled_one_in))


def _prepare(lines: Lines | None) -> Prepared:
    """Decode and fingerprint a batch, under an alarm that ends even a parser in C; None only loads the code."""
    (steps,) = _steps
    if lines is None:
        return Prepared.of([_NONE], fingerprint_documents(steps.fingerprinter, [_NONE]))
    signal.setitimer(signal.ITIMER_REAL, steps.seconds_max)
    try:
        documents = steps.decoder.decode(lines.records())
        return Prepared.of(documents, fingerprint_documents(steps.fingerprinter, documents))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
