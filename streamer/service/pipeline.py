"""Decode, fingerprint, decide and route: from a batch to its outgoing records.

A separate thread prepares one batch while the loop delivers the previous one:

    loop     | commit n                                              | read n+1 | commit n+1 ...
    ahead    | decode n+1 | fingerprint n+1 | decide n+1 | route n+1 |          | decode n+2 | fingerprint n+2 ...

Everything except a decision can be discarded. If a decided batch is not delivered, the journal repeats its decisions to the
next reader, as after a crash between decide and commit. One thread decides all batches, in order, and none after a failed one.
Only the loop's thread touches the transport.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from index import Decisions, Entries
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Batch, Outgoing, Record
from streamer.service.poison.attempts import IDLE, AttemptFile


@dataclass(slots=True, eq=False)
class Work:
    """A batch on its way; each step sets its product. `pending`: CPU seconds of unfinished steps, by name.

    >>> Work(Batch([])).pending
    {}
    """

    batch: Batch
    documents: list[Document | DeadLetter] = field(init=False)
    fingerprints: Fingerprints = field(init=False)
    decisions: Decisions = field(init=False)
    outgoing: list[Outgoing] = field(init=False)
    pending: "dict[str, Future[float]]" = field(default_factory=dict)

    def entries(self) -> Entries:
        """See `entries_of`."""
        return entries_of(self.batch.records, self.documents, self.fingerprints)


Step = Callable[[Work], None]
"""Reads earlier steps' products, and sets its own."""


Elsewhere = Callable[[Sequence[Record]], tuple[list[Document | DeadLetter], Fingerprints] | None]
"""Documents and fingerprints from another process; None if no other process prepares the records."""


def pure_steps(decoder: Decoder, fingerprinter: Scheme, elsewhere: Elsewhere = lambda _: None) -> dict[str, Step]:
    """PURE_STEPS by name."""

    def decode(work: Work) -> None:
        if (prepared := elsewhere(work.batch.records)) is None:
            work.documents = decoder.decode(work.batch.records)
        else:
            work.documents, work.fingerprints = prepared

    def fingerprint(work: Work) -> None:
        if not hasattr(work, "fingerprints"):
            work.fingerprints = fingerprint_documents(fingerprinter, work.documents)

    return {"decode": decode, "fingerprint": fingerprint}


class Prefetcher:
    """Thread that takes the steps of batches in order, at most one batch ahead.

    Its note identifies a record that ends the process.

    >>> note, taken = AttemptFile(folder), []
    >>> ahead = Prefetcher({"decode": lambda work: taken.append(work.batch)})
    >>> work = ahead.take(Batch([]), note)
    >>> work.pending["decode"].result() >= 0, len(taken)
    (True, 1)
    >>> ahead.close()
    >>> note.close(orderly=True)
    """

    def __init__(self, steps: Mapping[str, Step]) -> None:
        """steps: by name in STEPS, in order."""
        self._steps = steps
        self._has_failed = False
        self._clock: int | None = None
        self._thread = ThreadPoolExecutor(1, "ahead", initializer=self._take_clock)
        self._ahead: Work | None = None

    def begin(self, batch: Batch, note: AttemptFile) -> None:
        """Begin to prepare a batch."""
        self._ahead = self.start(Work(batch), note, list(self._steps))

    def start(self, work: Work, note: AttemptFile, steps: Sequence[str]) -> Work:
        """Start these last steps of the path; the work has all earlier products."""
        before: Future[float] | None = None
        for name in steps:
            before = work.pending[name] = self._thread.submit(self._take_step, name, work, note, before)
        return work

    def has(self, batch: Batch) -> bool:
        """Whether a batch's preparation has begun."""
        return self._ahead is not None and self._ahead.batch.records is batch.records

    def take(self, batch: Batch, note: AttemptFile) -> Work:
        """Preparation of a batch, begun before or now. Discards any other batch's."""
        if not self.has(batch):
            self.begin(batch, note)
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
        deciding = None if self._ahead is None else self._ahead.pending.get("decide")
        return deciding is not None and not deciding.cancel() and deciding.exception() is None

    def cpu_seconds(self) -> float:
        """The thread's CPU time; 0 if the system does not measure it."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def close(self) -> None:
        """Wait for the current preparation, and end the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _take_clock(self) -> None:
        clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        self._clock = None if clock_of is None else clock_of(threading.get_ident())

    def _take_step(self, name: str, work: Work, note: AttemptFile, before: "Future[float] | None") -> float:
        if before is None:
            note.name(work.batch)
        else:
            # Raises the previous step's error.
            before.result()
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
