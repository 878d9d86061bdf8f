"""The whole path in one worker: its index decides every batch, and the transport delivers it to the outputs."""

from collections.abc import Sequence

import structlog

from index import Decisions, HostShare, Index, Position
from streamer.fingerprint.fingerprints import Fingerprints, hexadecimal
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.missing_hosts import MissingHosts
from streamer.records.record import Batch, Decision, Outgoing
from streamer.records.route import explain, route
from streamer.service.batch_report import Stopwatch, report
from streamer.service.loop import Listener, PreparingLoop, StartingOffsets
from streamer.service.pipeline import Documents, entries_of
from streamer.service.poison.attempts import Attempts
from streamer.service.poison.trial import Trials
from streamer.transports.transport import Transport

log = structlog.get_logger(__name__)


class Service(PreparingLoop):
    """One worker of the whole service: a transport, an index, and the path between them."""

    def __init__(
        self,
        transport: Transport,
        index: Index,
        decoder: Decoder,
        fingerprinter: Scheme,
        recoverer: StartingOffsets,
        attempts: Attempts,
        trials: Trials,
        listener: Listener,
        missing_hosts: MissingHosts,
        *,
        connector_name: str,
        task_id: str,
        settings_digest: str | None,
        shadow: bool,
    ) -> None:
        """`connector_name` and `task_id` go into the headers of dead letters, as in Kafka Connect.

        `settings_digest`: see `route`. `shadow`: see `destination_of`. The journal does not store it: a redelivered batch
        goes to the destinations of this service.
        """
        deciding = ByIndex(
            index,
            connector_name=connector_name,
            task_id=task_id,
            settings_digest=settings_digest,
            with_headers=transport.takes_headers,
            shadow=shadow,
        )
        super().__init__(
            transport, decoder, fingerprinter, recoverer, attempts, trials, listener, missing_hosts, deciding
        )
        self._by_similarity = index.parameters.by_similarity

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        ready = self._prepared(whole, stopwatch)
        if ready is None:
            return
        assert ready.decided is not None, "a service decides"
        batch = ready.batch
        with stopwatch.step("decide"):
            decisions, decide_seconds = ready.decided.decisions.result()
        with stopwatch.step("route"):
            outgoing, route_seconds = ready.decided.outgoing.result()
        stopwatch.cpu_seconds["decide"] += decide_seconds
        stopwatch.cpu_seconds["route"] += route_seconds
        with stopwatch.step("commit"):
            self._transport.deliver(batch, outgoing)
        self._tell_of_lost(batch)
        self._listener.batch(report(batch, decisions, stopwatch, by_similarity=self._by_similarity))
        self._require_whole(batch, whole)


class ByIndex:
    """Decider that asks the index."""

    def __init__(
        self,
        index: Index,
        *,
        connector_name: str,
        task_id: str,
        settings_digest: str | None,
        with_headers: bool,
        shadow: bool,
    ) -> None:
        """See `Service`, and `route`."""
        self._index = index
        self._names = StreamNames(index)
        self._connector_name = connector_name
        self._task_id = task_id
        self._settings_digest = settings_digest
        self._with_headers = with_headers
        self._shadow = shadow

    def decide(self, batch: Batch, documents: Documents, fingerprints: Fingerprints) -> Decisions:
        """See Decider."""
        entries = entries_of(batch.records, documents, fingerprints)
        decisions = self._index.admit(entries, batch.ends, batch.marks)
        # At once: a decision happens once, and another worker may deliver its batch.
        tell(decisions)
        return decisions

    def route(
        self, batch: Batch, documents: Documents, fingerprints: Fingerprints, decisions: Decisions
    ) -> list[Outgoing]:
        """See Decider."""
        # Only headers show fingerprints.
        shown: list[str | None] = [None] * len(batch.records)
        if self._with_headers:
            shown = hexadecimal(fingerprints.kinds, fingerprints.fingerprints)
        explained: list[Decision] = explain(
            batch.records,
            documents,
            shown,
            decisions,
            self._names.of(decisions.original_positions),
            by_similarity=self._index.parameters.by_similarity,
        )
        return route(
            batch.records,
            explained,
            connector_name=self._connector_name,
            task_id=self._task_id,
            settings_digest=self._settings_digest,
            with_headers=self._with_headers,
            shadow=self._shadow,
        )


class StreamNames:
    """Names of the originals' streams."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, str] = {}

    def of(self, positions: Sequence[Position | None]) -> dict[str, str]:
        """Names of at least the streams of these positions.

        The index may know many streams, so names are read again only for a new stream.
        """
        named = {position.source.stream for position in positions if position is not None}
        if not named <= self._known.keys():
            self._known = self._index.stream_names()
        return self._known


def tell(decisions: Decisions) -> None:
    """Log a batch's news about hosts."""
    _tell(decisions.crossings)


def _tell(crossings: Sequence[HostShare]) -> None:
    """Log the hosts that crossed the limits of the guard with a batch, in either direction."""
    for host, documents, unequal, beyond in crossings:
        if beyond:
            log.warning("host beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
        else:
            log.info("host no longer beyond guard.share_max", host=host, recent_documents=documents, unequal=unequal)
