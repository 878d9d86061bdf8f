"""The whole path in one worker: its index decides, and its transport delivers to the outputs."""

from collections.abc import Mapping, Sequence

import numpy as np
import structlog

from index import Decisions, Index, Named, Position, Source, Verdict
from streamer.audit.auditor import Auditor
from streamer.explain.story import story_record
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.observe.batch_report import Stopwatch, report
from streamer.records.reason import Reason
from streamer.records.record import Batch, Outgoing, Record
from streamer.records.relation import Measure
from streamer.records.route import Router
from streamer.service.loop import Listener, Preparation, PreparingLoop, StartingOffsets
from streamer.service.pipeline import Work
from streamer.service.recovery import Plan
from streamer.transports.transport import Transport

log = structlog.get_logger(__name__)

STORIES_MAX = 1_000
"""Stories in a delivery, about."""


class Service(PreparingLoop):
    """One worker of the whole service."""

    def __init__(
        self,
        transport: Transport,
        recoverer: StartingOffsets,
        preparation: Preparation,
        listener: Listener,
        measure: Measure,
        stories: "Stories | None" = None,
    ) -> None:
        """preparation: with the steps of `ByIndex`. stories: None writes none."""
        super().__init__(transport, recoverer, preparation, listener)
        self._measure = measure
        self._stories = stories

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        work = self._prepared(whole, stopwatch)
        if work is None:
            return
        self._await(("decide", "route"), work, stopwatch)
        with stopwatch.step("commit"):
            self._deliver(work.batch, work.outgoing)
        self._report_lost(work.batch)
        self._listener.batch(report(work.batch, stopwatch, work.decisions, self._measure))
        self._require_whole(work.batch, whole)

    def _begun(self, plans: Mapping[Source, Plan]) -> None:
        super()._begun(plans)
        if self._stories is not None:
            for source, plan in plans.items():
                self._stories.at = Position(source, max(0, plan.begin - 1))

    def _rest(self, idle: Batch) -> None:
        super()._rest(idle)
        self._deliver(idle, [])

    def _deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        stories = [] if self._stories is None else self._stories.due(batch.records)
        if outgoing or batch.ends or stories:
            self._transport.deliver(batch, [*outgoing, *stories])
        if self._stories is not None:
            self._listener.stories(self._stories.written())


class Stories:
    """Due stories, with any delivery of the worker that has the turn to write them.

    A story counts what is decided, perhaps a batch before its outputs appear. It stays due until it is written, so a crash
    repeats it. Its topic keeps the order, for one worker at a time writes.

    >>> from index import Parameters
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     Stories(index).due([])
    []
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._names = StreamNames(index)
        self._mark = 0
        self._sizes: list[int] = []
        self.at: Position | None = None
        """Position of a record in the last delivery, or before the first one."""

    def due(self, records: Sequence[Record]) -> list[Outgoing]:
        """Stories to deliver with these records."""
        if records:
            self.at = Position(records[0].source, records[0].offset)
        if self.at is None or not self._index.take_stories_turn():
            return []
        stories, self._mark = self._index.due_stories(STORIES_MAX)
        self._sizes = [story.documents for story in stories]
        named = [each for story in stories for each in story if isinstance(each, Named)]
        names = self._names.of([self.at, *(each.position for each in named)])
        return [story_record(story, names, self.at) for story in stories]

    def written(self) -> list[int]:
        """Note that the last due stories were delivered. Returns how many documents each has."""
        # Roots that have left the log are due and have no story.
        if self._mark:
            self._index.clear_stories(self._mark)
        sizes, self._sizes, self._mark = self._sizes, [], 0
        return sizes


class ByIndex:
    """Steps `decide` and `route`, by an index.

    The journal stores no destination: `router` chooses it again at a redelivery.
    """

    def __init__(self, index: Index, router: Router, auditor: Auditor) -> None:
        self._index = index
        self._router = router
        self._auditor = auditor
        self._names = StreamNames(index)
        self._shared_ids = SharedIds()

    def decide(self, work: Work) -> None:
        """Set a batch's final verdicts."""
        entries = work.entries()
        work.decisions = self._index.admit(entries, work.batch.ends, work.batch.marks)
        # At once: a decision happens once, and another worker may deliver its batch.
        log_crossings(work.decisions)
        self._shared_ids.see(entries.ids, work.decisions)
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
    """Names of the originals' streams.

    >>> from index import Parameters, Source
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     StreamNames(index).of([None, Position(Source("stream", 0), 7)])
    {}
    """

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


class SharedIds:
    """Warns once of an id that names no page.

    >>> shared = SharedIds()
    """

    def __init__(self) -> None:
        self._watches = True

    def see(self, ids: Sequence[str], decisions: Decisions) -> None:
        """Examine decisions on documents with these ids, row for row."""
        if not self._watches:
            return
        shared = (decisions.verdicts == Verdict.UNIQUE) & (decisions.reasons == Reason.SHARED_ID)
        if shared.any():
            self._watches = False
            log.warning(
                "an id names one unrelated text after the other, so none of them replaces another",
                id=ids[int(np.argmax(shared))],
                remedy="Let decode.id name a field that tells documents apart, or set index.recrawl = 'duplicate'.",
            )


def log_crossings(decisions: Decisions) -> None:
    """Log hosts that crossed the guard's limits with a batch, in either direction."""
    for host, documents, unequal, beyond in decisions.crossings:
        if beyond:
            log.warning("host beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
        else:
            log.info("host no longer beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
