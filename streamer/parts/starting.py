"""Starting offsets in a part without an index: from the committed offset alone.

    C  committed offset of the part's own group
    D  committed offset of the whole service's group: everything below it was delivered
    N  delivered offset, as the workers of this host noted
    C or D         continue at the greater one: a service without parts may have delivered more meanwhile
    C < N          the brokers lost commits: continue at the first record that the outputs lack
    N, no C        the brokers lost the group: likewise; a person decides if the outputs hold nothing near N
    none           first start: the first record
    C foreign      the service did not commit it: a person decides (recovery.foreign_offsets), unless all below is handed on
    D foreign      no proof of delivery: ignored, unless recovery.foreign_offsets trusts it
    C < first      retention removed records: a person decides (recovery.offsets_gone); skipped are counted
    C > end        the outside lost records: always a person

Only `decide` sees that an input topic was replaced, because it knows the index.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from index import Source
from streamer.errors import Rebalancing, RecoveryRefused
from streamer.service.recovery import UNDELIVERED_OFFSETS_MAX, Foreign, Plan, SourceOffsets, Unrecovered, plan
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Claim, Transport

log = structlog.get_logger(__name__)

LOOK_BACK_OFFSETS = 10_000
"""Offsets before a note that are looked for in the outputs too: those right before it may be no records."""


class Notes(NamedTuple):
    """What a host knows of its own deliveries.

    noted_to   offset below which a source was delivered, by the workers' notes; 0 without one
    delivered  offset after the last of a source's records at these offsets in the outputs; 0 without one

    >>> Notes().noted_to(Source("stream", 0))
    0
    """

    noted_to: Callable[[Source], int] = lambda _: 0
    delivered: Callable[[Source, range], int] = lambda *_: 0


@dataclass
class OffsetStarter:
    """Chooses and seeks the starting offsets of newly assigned sources.

    handed_on  offset, at most this one, below which this part has certainly written everything
    delivered  claims in the whole service's group, if that is another one
    notes      of a part that delivers outputs
    """

    _transport: Transport
    _policy: Recovery
    _handed_on: Callable[[Source, int], int]
    _delivered: Callable[[], Mapping[Source, Claim]] = dict
    notes: Notes = field(default_factory=Notes)

    def recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        """See `StartingOffsets`. Raises RecoveryRefused."""
        try:
            return self._begin(assigned)
        except Rebalancing:
            return Unrecovered.WAITING

    def close(self) -> None:
        """See `StartingOffsets`."""

    def _begin(self, assigned: Assigned) -> dict[Source, Plan]:
        everywhere = assigned.sources + assigned.others
        claims = self._transport.claims(everywhere)
        trusts = self._policy.foreign_offsets == "trust"
        delivered = {source: claim for source, claim in self._delivered().items() if trusts or not claim.foreign}
        committed: dict[Source, int | None] = {}
        for source in everywhere:
            both = filter(None, (claims[source], delivered.get(source)))
            committed[source] = max((claim.offset for claim in both), default=None)
        firsts = self._transport.first_offsets(assigned.sources)
        ends = self._transport.end_offsets(assigned.sources)
        for source in assigned.sources:
            if (claim := claims[source]) is None or not claim.foreign:
                committed[source] = self._mended(
                    assigned, source, committed[source], range(firsts[source], ends[source])
                )
        if self._policy.first_start == "latest" and not any(offset is not None for offset in committed.values()):
            raise RecoveryRefused(
                "recovery.first_start = 'latest' is for a service that is not in parts, for its parts would begin at different "
                "ends. Let the whole service begin (streamer run without --part) and stop it, then start the parts; or set "
                "'earliest'."
            )
        policy = self._policy.model_copy(update={"first_start": "earliest"})
        plans = {}
        for source in assigned.sources:
            at = committed[source]
            name = assigned.names[source.stream]
            claim, foreign = claims[source], None
            if claim is not None and claim.foreign and at == claim.offset:
                foreign = Foreign(max(firsts[source], self._handed_on(source, at)), self._transport.strangers())
            # Without an index nothing needs restoring: committed records count as decided.
            offsets = SourceOffsets(
                name, source.partition, at, at, firsts[source], ends[source], recreated=False, foreign=foreign
            )
            plans[source] = replace(plan(offsets, policy), restore=range(0))
        starts = {
            source: planned.begin
            for source, planned in plans.items()
            if planned.commit or (claim := claims[source]) is None or claim.foreign or claim.offset != planned.begin
        }
        if starts:
            self._transport.commit_start(starts)
        for source, planned in plans.items():
            self._transport.seek(source, planned.begin, None)
        return plans

    def _mended(self, assigned: Assigned, source: Source, committed: int | None, whole: range) -> int | None:
        """The committed offset, or that of the first record that the outputs lack if the brokers lost later commits."""
        noted = self.notes.noted_to(source)
        # Of what the input has lost the plan speaks.
        if noted <= max(committed or 0, whole.start):
            return committed
        near = range(max(whole.start, noted - LOOK_BACK_OFFSETS), min(whole.stop, noted + UNDELIVERED_OFFSETS_MAX))
        delivered = self.notes.delivered(source, near)
        where = f"{assigned.names[source.stream]}/{source.partition}"
        if committed is None and not delivered:
            raise RecoveryRefused(
                f"{where}: the group has no offset, workers of this host have delivered up to offset {noted}, and the outputs "
                "have no record near it: brokers or outputs were set back. Look where the outputs end, and set the group's "
                "offset there (kafka-consumer-groups --reset-offsets)."
            )
        mended = max(committed or 0, delivered)
        log.warning(
            "the brokers lost commits: the group's offset went back",
            input=assigned.names[source.stream],
            partition=source.partition,
            committed=committed,
            delivered=mended,
            remedy="Restart the broker that coordinates the group, so that it loads all offsets. No record is affected.",
        )
        return mended
