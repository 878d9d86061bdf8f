"""Decode, fingerprint, decide and route: from a batch to its outgoing records.

Two threads prepare batches while the loop delivers the previous one:

    loop     | read n+1 |                       | commit n+1                | read n+2 ...
    decide   | decide n+1 ...       | route n+1 |       | decide n+2 ...      | route n+2
    decode              | decode n+2 | fingerprint n+2 |                      | decode n+3 ...

Everything except a decision can be discarded. If a decided batch is not delivered, the journal repeats its decisions to the
next reader, as after a crash between decide and commit. One thread decides all batches, in order, and none after a failed one.
Only the loop's thread touches the transport.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import NamedTuple

from index import Decisions, Entries
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.protected.sets import Reported
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Batch, Outgoing, Record
from streamer.service.poison.attempts import IDLE, PURE_STEPS, AttemptFile


@dataclass(slots=True, eq=False)
class Work:
    """A batch on its way; each step sets its product.

    decisions  None in a worker that decides nothing
    reported   what protected sets say; None without any
    pending    CPU seconds of unfinished steps, by name
    elsewhere_seconds  CPU seconds of steps in other processes, by name

    >>> Work(Batch([])).pending
    {}
    """

    batch: Batch
    documents: list[Document | DeadLetter] = field(init=False)
    fingerprints: Fingerprints = field(init=False)
    decisions: Decisions | None = field(default=None, init=False)
    reported: Reported | None = field(default=None, init=False)
    outgoing: Sequence[Outgoing] = field(init=False)
    pending: "dict[str, Future[float]]" = field(default_factory=dict)
    elsewhere_seconds: Mapping[str, float] = field(default_factory=dict, init=False)

    def entries(self) -> Entries:
        """See `entries_of`."""
        return entries_of(self.batch.records, self.documents, self.fingerprints)


Step = Callable[[Work], None]
"""Reads earlier steps' products, and sets its own."""


_FIRST_STEPS = ("decode", "decide")
"""The first step of each thread."""


class PreparedElsewhere(NamedTuple):
    """What other processes made of a batch; `cpu_seconds` by step.

    >>> PreparedElsewhere.__annotations__.keys() == {"documents", "fingerprints", "cpu_seconds"}
    True
    """

    documents: list[Document | DeadLetter]
    fingerprints: Fingerprints
    cpu_seconds: Mapping[str, float]


Elsewhere = Callable[[Sequence[Record]], PreparedElsewhere | None]
"""A batch from other processes; None if no other process prepares the records."""


def pure_steps(decoder: Decoder, fingerprinter: Scheme, elsewhere: Elsewhere = lambda _: None) -> dict[str, Step]:
    """PURE_STEPS by name."""

    def decode(work: Work) -> None:
        if (prepared := elsewhere(work.batch.records)) is None:
            work.documents = decoder.decode(work.batch.records)
        else:
            work.documents, work.fingerprints, work.elsewhere_seconds = prepared

    def fingerprint(work: Work) -> None:
        if not hasattr(work, "fingerprints"):
            work.fingerprints = fingerprint_documents(fingerprinter, work.documents)

    return {"decode": decode, "fingerprint": fingerprint}


class Prefetcher:
    """Threads that take the steps of batches in order, at most one batch ahead: one the pure steps, one all others.

    Their notes identify a record that ends the process.

    >>> notes, taken = [AttemptFile(folder), AttemptFile(folder)], []
    >>> ahead = Prefetcher({"decode": lambda work: taken.append(work.batch)})
    >>> work = ahead.take(Batch([]), notes)
    >>> work.pending["decode"].result() >= 0, len(taken)
    (True, 1)
    >>> ahead.close()
    >>> for note in notes:
    ...     note.close(orderly=True)
    """

    def __init__(self, steps: Mapping[str, Step]) -> None:
        """steps: by name in STEPS, in order."""
        self._steps = steps
        self._has_failed = False
        self._clocks: list[int] = []
        self._threads = [ThreadPoolExecutor(1, name, initializer=self._take_clock) for name in _FIRST_STEPS]
        self._ahead: Work | None = None

    def begin(self, batch: Batch, notes: Sequence[AttemptFile]) -> None:
        """Begin to prepare a batch. notes: one for each thread."""
        self._ahead = self.start(Work(batch), notes, list(self._steps))

    def start(self, work: Work, notes: Sequence[AttemptFile], steps: Sequence[str]) -> Work:
        """Start these last steps of the path; the work has all earlier products."""
        before: Future[float] | None = None
        for name in steps:
            number = int(name not in PURE_STEPS)
            before = work.pending[name] = self._threads[number].submit(
                self._take_step, name, work, notes[number], before
            )
        return work

    def has(self, batch: Batch) -> bool:
        """Whether a batch's preparation has begun."""
        return self._ahead is not None and self._ahead.batch.records is batch.records

    def take(self, batch: Batch, notes: Sequence[AttemptFile]) -> Work:
        """Preparation of a batch, begun before or now. Discards any other batch's."""
        if not self.has(batch):
            self.begin(batch, notes)
        assert self._ahead is not None
        work, self._ahead = self._ahead, None
        # Equal to the batch that was peeked at, except for the proof of ownership.
        work.batch = batch
        return work

    def settle(self) -> None:
        """Wait until decoder, fingerprinter and index are free."""
        if self._ahead is not None:
            wait(self._ahead.pending.values())

    def leave(self) -> bool:
        """Cancel the prefetched batch; True if it was already decided."""
        pending = {} if self._ahead is None else self._ahead.pending
        deciding = pending.get("decide")
        if deciding is None or deciding.cancel():
            return False
        # It decides, or waits for the fingerprints.
        for name in pending.keys() & PURE_STEPS:
            pending[name].cancel()
        return deciding.exception() is None

    def cpu_seconds(self) -> float:
        """The threads' CPU time; 0 if the system does not measure it."""
        return sum(map(time.clock_gettime, self._clocks))

    def close(self) -> None:
        """Wait for the current preparation, and end the threads."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)

    def _take_clock(self) -> None:
        clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        if clock_of is not None:
            self._clocks.append(clock_of(threading.get_ident()))

    def _take_step(self, name: str, work: Work, note: AttemptFile, before: "Future[float] | None") -> float:
        if before is not None:
            # Raises the previous step's error.
            before.result()
        if name in _FIRST_STEPS:
            note.name(work.batch)
        if name == "decide":
            if self._has_failed:
                raise RuntimeError("the batch before was not decided, so this one must not be")
            self._has_failed = True
        note.enter(name)
        begin = time.thread_time()
        self._steps[name](work)
        if name == "decide":
            self._has_failed = False
        # An error leaves the note as it is.
        note.enter(IDLE)
        return time.thread_time() - begin
