"""route: documents and verdicts become outputs. Read, route, commit; no fingerprint, no index."""

from streamer.fingerprint.fingerprints import hexadecimal
from streamer.observe.batch_report import Stopwatch, report
from streamer.parts.routing import RoutingTransport
from streamer.records.record import Batch
from streamer.records.route import Router
from streamer.service.loop import Listener, Loop, StartingOffsets


class RoutePart(Loop):
    """One worker in this part. It reads only records with known verdicts."""

    def __init__(
        self, transport: RoutingTransport, recoverer: StartingOffsets, listener: Listener, router: Router
    ) -> None:
        super().__init__(transport, recoverer, listener)
        self._routing = transport
        self._router = router

    def _walk(self, whole: Batch, stopwatch: Stopwatch) -> None:
        with stopwatch.step("route"):
            verdicts = self._routing.verdicts_on(whole)
            outgoing = self._router.explained(
                whole.records,
                verdicts.documents,
                hexadecimal(verdicts.kinds, verdicts.fingerprints),
                verdicts.decisions,
                verdicts.names,
            )
        with stopwatch.step("commit"):
            self._routing.deliver(whole, outgoing)
        self._report_lost(whole)
        self._listener.batch(report(whole, stopwatch))
