"""Delivery to the outputs, with due stories."""

from collections.abc import Mapping, Sequence

from index import Source
from streamer.records.record import Batch, Outgoing
from streamer.service.loop import Listener
from streamer.service.pipeline import Work
from streamer.service.recovery import Plan
from streamer.service.stories import Stories
from streamer.transports.transport import Transport


class Outputs:
    """Delivers a batch's outgoing records as they are. See `Delivery`."""

    def __init__(self, transport: Transport, listener: Listener, stories: Stories | None = None) -> None:
        """stories: None writes none."""
        self._transport, self._listener, self._stories = transport, listener, stories

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """See `Delivery`."""
        if self._stories is not None:
            self._stories.begin(plans)

    def commit(self, work: Work) -> None:
        """See `Delivery`."""
        self._deliver(work.batch, work.outgoing)
        if work.reported is not None:
            self._listener.protected(work.reported.counts)

    def idle(self, batch: Batch) -> None:
        """See `Delivery`: stories may be due without a record."""
        self._deliver(batch, [])

    def _deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        stories = [] if self._stories is None else self._stories.due(batch.records)
        if outgoing or batch.ends or stories:
            self._transport.deliver(batch, [*outgoing, *stories] if stories else outgoing)
        if self._stories is not None:
            self._listener.stories(self._stories.written())
