"""Processes that decode and fingerprint batches, while this one decides, routes and delivers in order.

Over files each process prepares a whole batch, several ahead:

    process 1  | decode, fingerprint n+1 | decode, fingerprint n+3 ...
    process 2  | decode, fingerprint n+2 | decode, fingerprint n+4 ...
    ahead      | decide, route n         | decide, route n+1       ...
    loop       | commit n-1              | commit n                ...

A service does not know its next batches. There each process prepares a share of the same batch:

    process 1  | decode, fingerprint 1/2 n+1 |
    process 2  | decode, fingerprint 1/2 n+1 |
    loop       | commit n                    |

A record that ends a process, or takes too long, ends them all: no result says which batch it was in. So each batch that was
under way runs alone, once it is next. If that fails too, its records go on trial.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from index import Source
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints, joined
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.scheme import Scheme, scheme_for
from streamer.observe.process_start import die_with_starter, end_with_parent
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Lost, Record
from streamer.service.pipeline import PreparedElsewhere
from streamer.service.poison.attempts import PURE_STEPS
from streamer.settings.settings import Settings

log = structlog.get_logger(__name__)

BATCHES_MIN = 4
"""Batches ahead from which processes pay: to start them takes as long as a few batches."""

SHARE_BYTES_MIN = 2**16
"""Values in a share of a batch, on average: fewer are fingerprinted sooner than a process answers."""

TRIES_IN_TIME = 3
"""Tries at a batch that a watched worker can wait for: one among others, one alone, and time to begin its trial."""


class RecordsSuspected(Exception):
    """A batch ended the processes while it was the only one in them."""


class Packed(NamedTuple):
    """Records whose values stay in a file in memory: a process reads them once, and pickles none. Headers stay behind.

    runs      stream, partition and name of consecutive records, and their number
    offsets   int64 [n]
    times_ms  int64 [n]
    lengths   int64 [n], bytes of each value; -1 without one
    keys      of all records; None if none has one
    lost      what cannot be read, by row
    path      the file in memory, as another process opens it

    >>> memory = os.memfd_create("values")
    >>> batch = [Record(Source("stream", 0), "pages", offset, None, b"{}", 0) for offset in (7, 9)]
    >>> packed = Packed.of(batch, memory)
    >>> packed.runs[0][2], packed.records() == batch
    (2, True)
    >>> os.close(memory)
    """

    runs: list[tuple[Source, str, int]]
    offsets: "array[int]"
    times_ms: "array[int]"
    lengths: "array[int]"
    keys: list[bytes | None] | None
    lost: dict[int, Lost]
    path: str

    @classmethod
    def of(cls, records: Sequence[Record], memory: int) -> "Packed":
        """Records, with their values written into `memory`, the descriptor of an empty file."""
        runs = [(source, list(run)) for source, run in groupby(records, attrgetter("source"))]
        values, keys = [record.value for record in records], [record.key for record in records]
        with open(memory, "wb", buffering=0, closefd=False) as file:
            rest = memoryview(b"".join(filter(None, values)))
            while rest:
                rest = rest[file.write(rest) :]
        return cls(
            [(source, run[0].topic, len(run)) for source, run in runs],
            array("q", [record.offset for record in records]),
            array("q", [record.timestamp_ms for record in records]),
            array("q", [-1 if value is None else len(value) for value in values]),
            None if keys.count(None) == len(keys) else keys,
            {row: record.lost for row, record in enumerate(records) if record.lost is not None},
            f"/proc/{os.getpid()}/fd/{memory}",
        )

    def records(self) -> list[Record]:
        """The records again, without headers."""
        with Path(self.path).open("rb") as file:
            values = [file.read(length) if length >= 0 else None for length in self.lengths]
        places = chain.from_iterable(repeat((source, name), count) for source, name, count in self.runs)
        columns = zip(places, self.offsets, self.keys or repeat(None), values, self.times_ms, strict=False)
        records = [
            Record(source, name, offset, key, value, time_ms) for (source, name), offset, key, value, time_ms in columns
        ]
        for row, lost in self.lost.items():
            records[row].lost = lost
        return records


def shares_of(records: Sequence[Record], count_max: int) -> list[Sequence[Record]]:
    """A batch, in order, in at most so many shares of about as many bytes, and of SHARE_BYTES_MIN on average.

    >>> batch = [Record(Source("stream", 0), "pages", 0, None, bytes(SHARE_BYTES_MIN), 0) for offset in range(3)]
    >>> [len(share) for share in shares_of(batch, 2)], [len(share) for share in shares_of(batch[:1], 2)]
    ([1, 2], [1])
    """
    ends = list(accumulate(len(record.value or b"") for record in records))
    count = max(1, min(count_max, ends[-1] // SHARE_BYTES_MIN))
    # The first share begins at 0, even if its records have no bytes.
    bounds = [0, *(bisect_left(ends, ends[-1] * number / count) for number in range(1, count)), len(records)]
    return [records[begin:end] for begin, end in pairwise(bounds) if begin < end]


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
    cpu_seconds: tuple[float, float] = (0.0, 0.0)
    """To decode and to fingerprint."""

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


def whole(shares: Sequence[Prepared]) -> PreparedElsewhere:
    """A batch from its shares, in order.

    >>> from streamer.fingerprint.scheme import scheme_for
    >>> shares = [[Document(name, "one text")] for name in ("a", "b")]
    >>> found = whole([Prepared.of(share, fingerprint_documents(scheme_for(Settings()), share)) for share in shares])
    >>> [document.id for document in found.documents], len(found.fingerprints)
    (['a', 'b'], 2)
    """
    return PreparedElsewhere(
        [document for share in shares for document in share.documents()],
        joined([share.fingerprints for share in shares]),
        {step: sum(share.cpu_seconds[number] for share in shares) for number, step in enumerate(PURE_STEPS)},
    )


class Processes(AbstractContextManager["Processes"]):
    """Processes for the batches of a file job, or of a service.

    >>> [Processes(Settings(), count).batches_ahead for count in (4, 1)], Processes(Settings(), 4, shared=True).batches_ahead
    ([8, 1], 1)
    """

    def __init__(self, settings: Settings, count: int, readers: int = 0, *, shared: bool = False) -> None:
        """
        count    processes; fewer than two prepare nothing
        readers  more processes for `call`
        shared   all processes take a share of each batch, one batch ahead, for a worker that somebody watches
        """
        self._settings, self._count, self._readers, self._shared = settings, count, readers, shared
        tries = TRIES_IN_TIME if shared else 1
        self._seconds_max = settings.workers.progress_timeout_ms / 1000 / tries
        self._scheme: tuple[HashKey, int] = PUBLIC, 0
        self._starter: threading.Thread | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._ready: Future[Prepared] | None = None
        self._begun: dict[int, _Begun] = {}
        self._suspected = 0

    @property
    def batches_ahead(self) -> int:
        """Batches that should be under way: with half as many more than processes, none waits for the loop."""
        return self._count + self._count // 2 + 2 if self._count > 1 and not self._shared else 1

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
        if self._pay(batches) and self._pool is None and self._starter is None:
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
            if id(records) not in self._begun and (shares := self._shares(records)):
                self._begun[id(records)] = self._submit(records, shares)

    def take(self, records: Sequence[Record]) -> PreparedElsewhere | None:
        """The batch, prepared; None if it was not begun here.

        Raises RecordsSuspected, and RegistryUnavailable.
        """
        begun = self._begun.pop(id(records), None)
        if begun is None:
            return None
        try:
            return begun.result()
        except BrokenProcessPool:
            log.warning("a process that prepares batches ended; each begun batch runs alone", first=records[0].position)
            self._suspected = len(self._begun)
            self.end()
            self._start()
            try:
                return self._submit(records, self._shares(records)).result()
            except BrokenProcessPool:
                self._suspected = 0
                self.end()
                raise RecordsSuspected from None

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
            begun.close()
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

    def _pay(self, batches: Sequence[Sequence[Record]]) -> bool:
        """Whether processes may start: a service goes on for long, a file job for the batches that wait."""
        return self._count > 1 and (self._shared or len(batches) >= BATCHES_MIN)

    def _shares(self, records: Sequence[Record]) -> list[Sequence[Record]]:
        """What processes prepare of a batch; nothing if the worker is as fast."""
        if not self._shared:
            return [records]
        shares = shares_of(records, self._count)
        return shares if len(shares) > 1 else []

    def _submit(self, records: Sequence[Record], shares: Sequence[Sequence[Record]]) -> "_Begun":
        memories = [os.memfd_create("share") for _ in shares]
        packed = map(Packed.of, shares, memories)
        return _Begun(records, memories, [self._prepared(each) for each in packed])

    def _prepared(self, packed: Packed | None) -> "Future[Prepared]":
        return self._submitted(_prepare, packed, *self._scheme, self._seconds_max)

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
    """A batch under way in shares; the records stay alive, so that no others have their identity."""

    records: Sequence[Record]
    memories: list[int]
    futures: "list[Future[Prepared]]"

    def result(self) -> PreparedElsewhere:
        """The batch, prepared; its values leave the memory."""
        try:
            wait(self.futures)
            return whole([future.result() for future in self.futures])
        finally:
            self.close()

    def close(self) -> None:
        """Free the memory of values. A process that still reads them fails."""
        for memory in self.memories:
            os.close(memory)


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
    _prepare(None, PUBLIC, 0, math.inf)


def _begin(settings: Settings) -> None:
    """Begin a process of the pool."""
    die_with_starter()
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _settings[:] = [settings]


def _prepare(packed: Packed | None, key: HashKey, sampled_one_in: int, seconds_max: float) -> Prepared:
    """Decode and fingerprint records, under an alarm that ends even a parser in C; None only loads the code.

    The alarm counts this process's own time: on a busy machine a sound batch of pages may take minutes by the clock.
    """
    decoder, fingerprinter = _steps(key, sampled_one_in)
    if packed is None:
        return Prepared.of([_NONE], fingerprint_documents(fingerprinter, [_NONE]))
    signal.setitimer(signal.ITIMER_PROF, seconds_max)
    try:
        begin = time.process_time()
        documents = decoder.decode(packed.records())
        decoded = time.process_time()
        fingerprints = fingerprint_documents(fingerprinter, documents)
        seconds = decoded - begin, time.process_time() - decoded
        return Prepared.of(documents, fingerprints)._replace(cpu_seconds=seconds)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
