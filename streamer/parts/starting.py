"""Starting offsets in a part without an index: from the committed offset alone.

    C  committed offset of the part's own group
    D  committed offset of the whole service's group: everything below it was delivered
    C or D         continue at the greater one: a service without parts may have delivered more meanwhile
    neither        first start: the first record
    C foreign      the service did not commit it: a person decides (recovery.foreign_offsets), unless all below is handed on
    D foreign      no proof of delivery: ignored, unless recovery.foreign_offsets trusts it
    C < first      retention removed records: a person decides (recovery.offsets_gone); skipped are counted
    C > end        the outside lost records: always a person

Only `decide` sees that an input topic was replaced, because it knows the index.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from index import Source
from streamer.errors import Rebalancing, RecoveryRefused
from streamer.service.recovery import Foreign, Plan, SourceOffsets, Unrecovered, plan
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Claim, Transport


@dataclass
class OffsetStarter:
    """Chooses and seeks the starting offsets of newly assigned sources.

    handed_on  offset, at most this one, below which this part has certainly written everything
    delivered  claims in the whole service's group, if that is another one
    """

    _transport: Transport
    _policy: Recovery
    _handed_on: Callable[[Source, int], int]
    _delivered: Callable[[], Mapping[Source, Claim]] = dict

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
        if self._policy.first_start == "latest" and not any(offset is not None for offset in committed.values()):
            raise RecoveryRefused(
                "recovery.first_start = 'latest' is for a service that is not in parts, for its parts would begin at different "
                "ends. Let the whole service begin (streamer run without --part) and stop it, then start the parts; or set "
                "'earliest'."
            )
        firsts = self._transport.first_offsets(assigned.sources)
        ends = self._transport.end_offsets(assigned.sources)
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
