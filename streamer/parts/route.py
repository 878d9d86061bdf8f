"""route: documents and verdicts become outputs. Read, route, commit; no fingerprint, no index."""

from streamer.fingerprint.fingerprints import hexadecimal
from streamer.parts.routing import RoutingTransport
from streamer.records.route import Router
from streamer.service.pipeline import Work


class RoutePart:
    """Step `route`. It reads only records with known verdicts."""

    def __init__(self, transport: RoutingTransport, router: Router) -> None:
        self._transport, self._router = transport, router

    def route(self, work: Work) -> None:
        """Set a batch's outgoing records, row for row. `decide` has reported the decisions."""
        verdicts = self._transport.verdicts_on(work.batch)
        work.outgoing = self._router.explained(
            work.batch.records,
            verdicts.documents,
            hexadecimal(verdicts.kinds, verdicts.fingerprints),
            verdicts.decisions,
            verdicts.names,
        )
