"""The whole path in one worker: its index decides, and its transport delivers to the outputs."""

from collections.abc import Sequence

import structlog

from index import Decisions, Index, Position
from streamer.audit.auditor import Auditor
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.observe.batch_report import Stopwatch, report
from streamer.records.record import Batch
from streamer.records.relation import Measure
from streamer.records.route import Router
from streamer.service.loop import Listener, Preparation, PreparingLoop, StartingOffsets
from streamer.service.pipeline import Work
from streamer.transports.transport import Transport

log = structlog.get_logger(__name__)


class Service(PreparingLoop):
    """One worker of the whole service."""

    def __init__(
        self,
        transport: Transport,
        recoverer: StartingOffsets,
        preparation: Preparation,
        listener: Listener,
        measure: Measure,
    ) -> None:
        """preparation: with the steps of `ByIndex`."""
        super().__init__(transport, recoverer, preparation, listener)
        self._measure = measure

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        work = self._prepared(whole, stopwatch)
        if work is None:
            return
        self._await(("decide", "route"), work, stopwatch)
        with stopwatch.step("commit"):
            self._transport.deliver(work.batch, work.outgoing)
        self._report_lost(work.batch)
        self._listener.batch(report(work.batch, stopwatch, work.decisions, self._measure))
        self._require_whole(work.batch, whole)


class ByIndex:
    """Steps `decide` and `route`, by an index.

    The journal stores no destination: `router` chooses it again at a redelivery.
    """

    def __init__(self, index: Index, router: Router, auditor: Auditor) -> None:
        self._index = index
        self._router = router
        self._auditor = auditor
        self._names = StreamNames(index)

    def decide(self, work: Work) -> None:
        """Set a batch's final verdicts."""
        entries = work.entries()
        work.decisions = self._index.admit(entries, work.batch.ends, work.batch.marks)
        # At once: a decision happens once, and another worker may deliver its batch.
        log_crossings(work.decisions)
        names = {record.source.stream: record.topic for record in work.batch.records}
        self._auditor.observe(entries, work.fingerprints.sampled(), work.decisions, names)

    def route(self, work: Work) -> None:
        """Set a decided batch's outgoing records, row for row."""
        # Only headers show fingerprints.
        shown: list[str | None] = [None] * len(work.documents)
        if self._router.with_headers:
            shown = hexadecimal(work.fingerprints.kinds, work.fingerprints.fingerprints)
        names = self._names.of(work.decisions.original_positions)
        work.outgoing = self._router.explained(work.batch.records, work.documents, shown, work.decisions, names)


class StreamNames:
    """Names of the originals' streams."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, str] = {}

    def of(self, positions: Sequence[Position | None]) -> dict[str, str]:
        """Names of at least these positions' streams.

        An index may know many streams, so only a new stream causes a reading.
        """
        named = {position.source.stream for position in positions if position is not None}
        if not named <= self._known.keys():
            self._known = self._index.stream_names()
        return self._known


def log_crossings(decisions: Decisions) -> None:
    """Log hosts that crossed the guard's limits with a batch, in either direction."""
    for host, documents, unequal, beyond in decisions.crossings:
        if beyond:
            log.warning("host beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
        else:
            log.info("host no longer beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
