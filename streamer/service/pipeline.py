"""Decode, fingerprint, decide and route: from a batch of records to its outgoing records.

A separate thread prepares one batch while the loop delivers the one before:

    loop     | commit n                                              | read n+1 | commit n+1 ...
    ahead    | decode n+1 | fingerprint n+1 | decide n+1 | route n+1 |          | decode n+2 | fingerprint n+2 ...

Everything except a decision is invisible from outside, and can be discarded at any time. A decision stays: if its batch is
not delivered, the next reader of the records gets it from the journal, as after a crash between decide and commit. One thread
decides all batches, so in order, and none after a failed one. Only the loop's own thread touches the transport. The compiled
half of the work runs in parallel without the interpreter's lock; the other half runs while the loop waits for the brokers.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from index import Decisions, Entries, Kind, Source
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Batch, Outgoing, Record
from streamer.service.poison.attempts import IDLE, AttemptFile

Item = TypeVar("Item", bound=np.generic)

Documents = Sequence[Document | DeadLetter]


def fingerprint_documents(fingerprinter: Scheme, documents: Sequence[Document | DeadLetter]) -> Fingerprints:
    """Fingerprint the decoded documents, row for row with `documents`.

    The row of a dead letter has Kind.DEAD_LETTER, the dead letter's reason, and unused zeros.
    """
    readable = [document for document in documents if isinstance(document, Document)]
    found: Fingerprints = fingerprinter.fingerprint(
        [document.text for document in readable],
        [document.title for document in readable],
        [document.metadata for document in readable],
    )
    if len(readable) == len(documents):
        return found
    decoded = [row for row, document in enumerate(documents) if isinstance(document, Document)]
    count = len(documents)
    kinds = np.full(count, Kind.DEAD_LETTER, np.uint8)
    reasons = np.array([each.reason if isinstance(each, DeadLetter) else 0 for each in documents], np.uint8)
    kinds[decoded] = found.kinds
    reasons[decoded] = found.reasons
    return Fingerprints(
        kinds,
        reasons,
        _spread(found.fingerprints, decoded, count),
        _spread(found.feature_counts, decoded, count),
        None if found.looks is None else _spread(found.looks, decoded, count),
        None if found.digests is None else _spread(found.digests, decoded, count),
    )


def _spread(column: npt.NDArray[Item], rows: Sequence[int], count: int) -> npt.NDArray[Item]:
    """A column of `count` rows with the given items in these rows, and zeros elsewhere."""
    wide = np.zeros((count, *column.shape[1:]), column.dtype)
    wide[rows] = column
    return wide


def entries_of(
    records: Sequence[Record], documents: Sequence[Document | DeadLetter], fingerprints: Fingerprints
) -> Entries:
    """Input columns of the index. A dead letter without an id gets its position as id."""
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in records]
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, dtype=np.uint32),
        offsets=np.array([record.offset for record in records], dtype=np.uint64),
        kinds=fingerprints.kinds,
        reasons=fingerprints.reasons,
        fingerprints=fingerprints.fingerprints,
        times_ms=np.array(
            [
                document.time_ms if isinstance(document, Document) else record.timestamp_ms
                for record, document in zip(records, documents, strict=True)
            ],
            dtype=np.int64,
        ),
        ids=[document.id or record.position for record, document in zip(records, documents, strict=True)],
        looks=fingerprints.looks,
        hosts=[document.host if isinstance(document, Document) else None for document in documents],
        named=np.array([isinstance(document, Document) and document.named for document in documents], np.bool_),
        digests=fingerprints.digests,
    )


def prepare(decoder: Decoder, fingerprinter: Scheme, records: Sequence[Record]) -> Entries:
    """Decode and fingerprint records in one call; recovery and rebuild use it for output records."""
    documents = decoder.decode(records)
    return entries_of(records, documents, fingerprint_documents(fingerprinter, documents))


@dataclass(frozen=True, slots=True)
class Decided:
    """Pending verdicts and outgoing records of a batch, with the CPU seconds of each."""

    decisions: "Future[tuple[Decisions, float]]"
    outgoing: "Future[tuple[list[Outgoing], float]]"


Documented = Future[tuple[list[Document | DeadLetter], float]]
Fingerprinted = Future[tuple[Fingerprints, float]]


class Decider(Protocol):
    """Decides batches and routes them."""

    def decide(self, batch: Batch, documents: Documents, fingerprints: Fingerprints) -> Decisions:
        """Final verdicts on a batch."""

    def route(
        self, batch: Batch, documents: Documents, fingerprints: Fingerprints, decisions: Decisions
    ) -> list[Outgoing]:
        """Outgoing records of a decided batch, row for row."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch in preparation: documents and fingerprints with their CPU seconds, and the pending decision.

    decided  None without a decider
    """

    records: Sequence[Record]
    documents: Documented
    fingerprints: Fingerprinted
    decided: Decided | None


class Prefetcher:
    """The thread that prepares batches in order, at most one ahead of demand.

    It notes its current work: the note identifies a record that ends the process.
    """

    def __init__(self, decoder: Decoder, fingerprinter: Scheme, deciding: Decider | None = None) -> None:
        """deciding: decides the batches; None: no decisions."""
        self._decoder = decoder
        self._fingerprinter = fingerprinter
        self._deciding = deciding
        self._has_failed = False
        self._clock: int | None = None
        self._thread = ThreadPoolExecutor(1, "ahead", initializer=self._take_clock)
        self._prepared: Prepared | None = None

    def begin(self, batch: Batch, note: AttemptFile) -> None:
        """Begin to prepare a batch."""
        documents = self._thread.submit(self._decoded, batch, note)
        fingerprints = self._thread.submit(self._fingerprinted, documents, note)
        decided = self._submitted(batch, documents, fingerprints, note)
        self._prepared = Prepared(batch.records, documents, fingerprints, decided)

    def decide(
        self, batch: Batch, documents: Documents, fingerprints: Fingerprints, note: AttemptFile
    ) -> Decided | None:
        """Decide and route a batch that was prepared elsewhere; None without a decider."""
        return self._submitted(batch, _known(documents), _known(fingerprints), note)

    def take(self, batch: Batch, note: AttemptFile) -> Prepared:
        """The preparation of a batch, started before or now. The preparation of any other batch is discarded."""
        if self._prepared is None or self._prepared.records is not batch.records:
            self.begin(batch, note)
        assert self._prepared is not None
        prepared, self._prepared = self._prepared, None
        return prepared

    def settle(self) -> None:
        """Wait until nothing is being prepared or decided: decoder, fingerprinter and index are then free."""
        if self._prepared is not None:
            wait([self._prepared.fingerprints])
            if self._prepared.decided is not None:
                wait([self._prepared.decided.outgoing])

    def leave(self) -> bool:
        """Cancel the prefetched batch; True if it was already decided."""
        decided = None if self._prepared is None else self._prepared.decided
        return decided is not None and not decided.decisions.cancel() and decided.decisions.exception() is None

    def cpu_seconds(self) -> float:
        """CPU time of the thread so far; 0 if the system does not measure it."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def close(self) -> None:
        """Wait for the current preparation, and end the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _take_clock(self) -> None:
        clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        self._clock = None if clock_of is None else clock_of(threading.get_ident())

    def _decoded(self, batch: Batch, note: AttemptFile) -> tuple[list[Document | DeadLetter], float]:
        note.name(batch)
        note.enter("decode")
        begin = time.thread_time()
        documents = self._decoder.decode(batch.records)
        return documents, time.thread_time() - begin

    def _fingerprinted(self, decoded: Documented, note: AttemptFile) -> tuple[Fingerprints, float]:
        documents, _ = decoded.result()
        note.enter("fingerprint")
        begin = time.thread_time()
        fingerprints = fingerprint_documents(self._fingerprinter, documents)
        note.enter(IDLE)
        return fingerprints, time.thread_time() - begin

    def _submitted(
        self, batch: Batch, documents: Documented, fingerprints: Fingerprinted, note: AttemptFile
    ) -> Decided | None:
        deciding = self._deciding
        if deciding is None:
            return None

        def decide() -> tuple[Decisions, float]:
            return self._decisions(deciding, batch, documents.result()[0], fingerprints.result()[0], note)

        def route() -> tuple[list[Outgoing], float]:
            given = documents.result()[0], fingerprints.result()[0], decisions.result()[0]
            note.enter("route")
            begin = time.thread_time()
            outgoing = deciding.route(batch, *given)
            note.enter(IDLE)
            return outgoing, time.thread_time() - begin

        decisions = self._thread.submit(decide)
        return Decided(decisions, self._thread.submit(route))

    def _decisions(
        self, deciding: Decider, batch: Batch, documents: Documents, fingerprints: Fingerprints, note: AttemptFile
    ) -> tuple[Decisions, float]:
        if self._has_failed:
            raise RuntimeError("the batch before was not decided, so this one must not be")
        note.name(batch)
        note.enter("decide")
        begin = time.thread_time()
        self._has_failed = True
        decisions = deciding.decide(batch, documents, fingerprints)
        self._has_failed = False
        return decisions, time.thread_time() - begin


def _known(item: Any) -> "Future[tuple[Any, float]]":
    """A completed future without CPU time, for an item prepared elsewhere."""
    future: Future[tuple[Any, float]] = Future()
    future.set_result((item, 0.0))
    return future
