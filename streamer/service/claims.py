"""Claims: one index per group, or no decisions.

Two indexes in a group would miss each other's documents. So every committed offset claims its partition for an index,
in use or restoring. A lost index returns under a new id, and takes over by itself:

    1  announce   the worker claims its own sources for a restoring index
    2  restore    ... until no source lags
    3  take       the worker claims its own sources for an index in use
    4  look       the worker checks all other sources, and begins without a rival claim in use

Two indexes cannot both pass 4: the later one sees the other's claim. A dead index's partitions get new owners within its
members' session timeout. A longer claim, or an offset that keeps moving, shows a live rival, and a person has to decide.
"""

import time
from collections.abc import Mapping

import structlog

from index import Source
from streamer.errors import RecoveryRefused
from streamer.transports.transport import Assigned, Claim, Transport

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
"""Interval between checks while sources wait to begin."""

MARGIN_SECONDS = 20.0
"""Wait beyond the session timeout: a rebalance may need a second try."""

_MOVES_MAX = 2
"""Moves of a rival's offset that count as life: a dying worker may deliver its last batch."""


class Claims:
    """One worker's claims on its group's sources."""

    def __init__(self, transport: Transport, identity: str, patience_seconds: float) -> None:
        """identity: id of this worker's index; patience_seconds: how long a dead member's claims may live."""
        self._transport, self._identity, self._patience_seconds = transport, identity, patience_seconds
        self._announced: frozenset[Source] = frozenset()
        self._announced_seconds = 0.0
        self._rivals: dict[Source, Claim] = {}
        self._rivals_since_seconds = 0.0
        self._compared_seconds = 0.0
        self._moves = 0

    def announce(self, assigned: Assigned) -> None:
        """Claim the assigned sources for this restoring index, if another one claims them, but not too often.

        Raises RecoveryRefused for a live rival.
        """
        now_seconds, sources = time.monotonic(), frozenset(assigned.sources)
        if sources <= self._announced and now_seconds - self._announced_seconds < LOOK_SECONDS:
            return
        claims = self._transport.claims(assigned.sources + assigned.others)
        for source in assigned.sources:
            claim = claims[source]
            if claim is not None and self._is_rival(claim):
                self._transport.commit_start({source: claim.offset}, restoring=True)
        self._announced, self._announced_seconds = sources, now_seconds
        self._judge(assigned, claims)

    def lacking(self, assigned: Assigned) -> set[Source]:
        """Assigned sources without a committed claim for this index in use."""
        claims = self._transport.claims(assigned.sources)
        return {
            source
            for source, claim in claims.items()
            if claim is not None and (claim.index, claim.in_use) != (self._identity, True)
        }

    def have_no_rivals(self, assigned: Assigned) -> bool:
        """Whether no other index in use claims a source. Raises RecoveryRefused for a live rival."""
        self._judge(assigned, self._transport.claims(assigned.others))
        return not self._rivals

    def _is_rival(self, claim: Claim) -> bool:
        # A foreign offset names no index; recovery judges those.
        return claim.index not in ("", self._identity)

    def _judge(self, assigned: Assigned, claims: Mapping[Source, Claim | None]) -> None:
        now_seconds = time.monotonic()
        rivals: dict[Source, Claim] = {}
        for source in assigned.others:
            claim = claims[source]
            if claim is not None and claim.in_use and self._is_rival(claim):
                rivals[source] = claim
        if not rivals:
            self._rivals = {}
            return
        if not self._rivals:
            log.info("waiting for the claims of another index to go", index=self._identity, others=_shown(rivals))
            self._rivals, self._rivals_since_seconds, self._moves = rivals, now_seconds, 0
            self._compared_seconds = now_seconds
        elif now_seconds - self._compared_seconds >= LOOK_SECONDS:
            before = self._rivals
            self._moves += any(at in before and claim.offset != before[at].offset for at, claim in rivals.items())
            self._rivals, self._compared_seconds = rivals, now_seconds
        if self._moves >= _MOVES_MAX or now_seconds - self._rivals_since_seconds > self._patience_seconds:
            raise self._refused(assigned, rivals)

    def _refused(self, assigned: Assigned, rivals: Mapping[Source, Claim]) -> RecoveryRefused:
        named = sorted(f"{assigned.names[source.stream]}/{source.partition}" for source in rivals)
        others = sorted({claim.index for claim in rivals.values()})
        return RecoveryRefused(
            f"index.directory holds index {self._identity}, but {', '.join(named)} of the same group is decided with index "
            f"{', '.join(others)}: two services of one group work with two indexes, and neither would know the documents of "
            "the other. Let all of them name one index.directory on one machine, or give this one a kafka.group and outputs "
            "of its own. If the other index is gone for good, end every service of the group, and start this one again."
        )


def _shown(rivals: Mapping[Source, Claim]) -> dict[int, str]:
    return {source.partition: claim.index for source, claim in sorted(rivals.items())}
