"""The steps `decide` and `route`, by an index."""

from itertools import groupby
from operator import attrgetter

from index import Index
from streamer.audit.auditor import Auditor
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.protected.sets import ProtectedSets
from streamer.records.lines import Lines
from streamer.records.route import Router, protected_copies
from streamer.service.decision_notices import SharedIds, log_crossings
from streamer.service.pipeline import Work
from streamer.service.stream_names import StreamNames

_source_of = attrgetter("source")


class ByIndex:
    """Takes both steps.

    The journal stores no destination: `router` chooses it again at a redelivery, and protected sets answer again.
    """

    def __init__(
        self, index: Index, router: Router, auditor: Auditor, protected: ProtectedSets, *, copies: bool
    ) -> None:
        """copies: whether what protected sets report goes out once more, to its feed."""
        self._index = index
        self._router = router
        self._protected, self._copies = protected, copies
        self._auditor = auditor
        self._names = StreamNames(index)
        self._shared_ids = SharedIds()

    def decide(self, work: Work) -> None:
        """Set a batch's final verdicts."""
        entries = work.entries()
        if self._protected.names:
            # Before the decision: a set that cannot be read stops a batch that nothing has decided.
            work.reported = self._protected.matches(entries)
        work.decisions = self._index.admit(entries, work.batch.ends, work.batch.marks)
        log_crossings(work.decisions)
        self._shared_ids.see(entries.ids, work.decisions)
        names = {source.stream: next(run).topic for source, run in groupby(work.batch.records, _source_of)}
        self._auditor.observe(entries, work.fingerprints.sampled(), work.decisions, names)

    def route(self, work: Work) -> None:
        """Set a decided batch's outgoing records, row for row."""
        assert work.decisions is not None
        names = self._names.of(work.decisions.original_positions)
        records, documents, fingerprints = work.batch.records, work.documents, work.fingerprints
        if not self._router.with_headers and work.reported is None:
            work.outgoing = Lines(self._router, records, documents, work.decisions, names)
            return
        # Only headers show fingerprints.
        shown: list[str | None] = [None] * len(documents)
        if self._router.with_headers:
            shown = hexadecimal(fingerprints.kinds, fingerprints.fingerprints)
        reported = None if work.reported is None else work.reported.rows
        work.outgoing = self._router.explained(records, documents, shown, work.decisions, names, reported)
        if self._copies and reported is not None:
            work.outgoing = [*work.outgoing, *protected_copies(work.outgoing)]
