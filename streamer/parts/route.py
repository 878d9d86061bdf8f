"""route: documents and their verdicts become outputs. Read, route, commit; no fingerprint, no index."""

from streamer.fingerprint.fingerprints import hexadecimal
from streamer.parts.messages import part_report
from streamer.parts.routing import RoutingTransport
from streamer.parts.verdict_rows import outgoing_of
from streamer.records.record import Batch
from streamer.service.batch_report import Stopwatch
from streamer.service.loop import Listener, Loop, StartingOffsets


class RoutePart(Loop):
    """One worker in this part. It reads only records with known verdicts."""

    def __init__(
        self,
        transport: RoutingTransport,
        recoverer: StartingOffsets,
        listener: Listener,
        *,
        by_similarity: bool,
        connector_name: str,
        task_id: str,
        settings_digest: str,
        shadow: bool,
    ) -> None:
        """See `Service`."""
        super().__init__(transport, recoverer, listener)
        self._routing = transport
        self._by_similarity = by_similarity
        self._connector_name = connector_name
        self._task_id = task_id
        self._settings_digest = settings_digest
        self._shadow = shadow

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        with stopwatch.step("route"):
            verdicts = self._routing.verdicts_on(whole)
            outgoing = outgoing_of(
                whole.records,
                verdicts,
                hexadecimal(verdicts.kinds, verdicts.fingerprints),
                by_similarity=self._by_similarity,
                connector_name=self._connector_name,
                task_id=self._task_id,
                settings_digest=self._settings_digest,
                shadow=self._shadow,
            )
        with stopwatch.step("commit"):
            self._routing.deliver(whole, outgoing)
        self._tell_of_lost(whole)
        self._listener.batch(part_report(whole, stopwatch))
