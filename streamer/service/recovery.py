"""Recovery of a source: committed offset against applied offset.

    C  committed offset: everything below it was delivered, as the outside knows (consumer group, checkpoint)
    A  applied offset: everything below it was decided, as the index knows
    D  delivered offset: everything below it was delivered, as the workers noted

    C = A          continue
    C < A          continue at C: the journal repeats the decided records' verdicts, and they are delivered
    C < D, C < A   the brokers lost commits: continue at the first record that the outputs lack
    C > A          the index lost commits or is an old copy: enter [A, C) again from the outputs, then continue at C
    C, no A        the index is new: as C > A, from the beginning
    A, no C        the group lost its offsets: a person decides (recovery.committed_missing)
    neither        first start (recovery.first_start), all partitions of the stream together
    neither, but   for another partition of the stream: the partition was added later, and begins at its first record
    neither, but   the name is known under another stream id: a person decides (recovery.topic_recreated)
    C < first      retention removed undelivered records: a person decides (recovery.offsets_gone); skipped are counted
    C > end        the outside lost records: always a person
    C foreign      the service did not commit it: a person decides (recovery.foreign_offsets), unless all below was delivered

`plan` is pure; `recover` executes a plan. Repeating a plan, even after an interruption, gives the same result.

Workers share one index, so one lagging source (C > A) concerns all: the index is "restoring", and no worker begins. The
worker with the turn restores all sources, also unowned ones. A dead worker's turn passes to another.

A first start at the end commits all partitions at once: none may look added later. The lowest partition's owner does
this, and the others wait: an offset committed for another worker must never fall below a delivery.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

import structlog

from index import Applied, Index, Position, Source
from streamer.errors import DeliveryDoubtful, Rebalancing, RecoveryRefused
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination
from streamer.service.claims import Claims
from streamer.service.restoring import Reentry, Restoration, RestoringListener
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Claim, Transport

log = structlog.get_logger(__name__)

BEGIN_WAIT_SECONDS = 20.0
"""Longest wait for the lowest partition's owner. A member of the group needs about a second."""

TURN_WAIT_SECONDS = 5.0
"""Wait for the turn before the index counts as restoring: beginning sources takes a moment."""

CLAIMS_SECONDS = 60.0
"""Default wait for dead workers' claims."""

SLICE_SECONDS = 2.0
"""Length of a restoring slice; between slices the worker reads, its heartbeat to the group."""

UNDELIVERED_OFFSETS_MAX = 2**18
"""Most decided but undelivered offsets: two batches of the largest size, with gaps."""

_POSITIONS_AT_ONCE = 2**16
_RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Foreign:
    """Data on an offset that the service did not commit.

    delivered_to  all decided records below it were delivered; the first offset for an unknown source
    strangers     other programs in the group, in words

    >>> Foreign(delivered_to=70).strangers
    ()
    """

    delivered_to: int
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """A source's offsets at its assignment, for the table above.

    committed  C, or None
    applied    A, or None
    first      first readable offset
    end        next record's offset
    recreated  the index knows the name under another stream id
    begun      the group or the index knows a partition of the stream, or of another stream with the name
    foreign    data on C if the service did not commit it

    >>> SourceOffsets("pages", 0, committed=70, applied=50, first=0, end=90, recreated=False).foreign is None
    True
    """

    name: str
    partition: int
    committed: int | None
    applied: int | None
    first: int
    end: int
    recreated: bool
    begun: bool = False
    foreign: Foreign | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps for one source, in this order.

    restore  input offsets that enter the index again, from the outputs
    commit   commit `begin` first
    begin    offset to read from
    skipped  number of input offsets that no worker will ever see: [committed, begin)

    >>> Plan(70, restore=range(50, 70)).commit
    False
    """

    begin: int
    restore: range = range(0)
    commit: bool = False
    skipped: int = 0


def plan(offsets: SourceOffsets, policy: Recovery) -> Plan:
    """Plan for one source, by the table above. Raises RecoveryRefused if a person has to decide.

    >>> offsets = SourceOffsets("pages", 0, committed=70, applied=50, first=0, end=90, recreated=False)
    >>> plan(offsets, Recovery()).restore
    range(50, 70)
    """
    where = f"{offsets.name}/{offsets.partition}"
    planned = _plan(offsets, policy, where)
    if planned.begin > offsets.end:
        raise RecoveryRefused(
            f"{where}: reading would go on at offset {planned.begin}, but the input ends at {offsets.end}: it lost records "
            "or was recreated. Read it under a new kafka.group with a new index.directory, or reset the group's offsets."
        )
    return planned


def _plan(offsets: SourceOffsets, policy: Recovery, where: str) -> Plan:
    if offsets.recreated and offsets.applied is None and offsets.committed is None:
        return _plan_recreated(offsets, policy, where)
    if offsets.committed is None:
        return _plan_without_committed(offsets, policy, where)
    if offsets.foreign is not None and policy.foreign_offsets == "stop":
        _require_delivered(offsets.committed, offsets.foreign, where)
    if offsets.committed < offsets.first:
        return _plan_offsets_gone(offsets, policy, where)
    return Plan(offsets.committed, restore=_behind(offsets.committed, offsets.applied, policy, where))


def _require_delivered(committed: int, foreign: Foreign, where: str) -> None:
    """Raise RecoveryRefused if records below a foreign offset may be undelivered."""
    if committed <= foreign.delivered_to:
        return
    members = f" Other programs in the group now: {'; '.join(foreign.strangers)}." if foreign.strangers else ""
    raise RecoveryRefused(
        f"{where}: the service did not commit offset {committed} of its group, and has delivered nothing between "
        f"{foreign.delivered_to} and there: another program of the same group has read it, or a person has set it.{members} End "
        "that program, or give it a group of its own. Then set the offset back (kafka-consumer-groups.sh --reset-offsets "
        f"--to-offset {foreign.delivered_to}), or set recovery.foreign_offsets = 'trust' for one start, which skips the records "
        "between."
    )


def _behind(committed: int, applied: int | None, policy: Recovery, where: str) -> range:
    """[A, C), the index's gap. Raises RecoveryRefused for any under the policy "stop"."""
    behind = range(applied or 0, committed)
    if behind and policy.index_behind == "stop":
        raise RecoveryRefused(
            f"{where}: the group is at {committed}, the index at {applied or 0}: the index is new or an old copy. Set "
            "recovery.index_behind = 'restore' to enter what is missing from the output topics."
        )
    return behind


def _plan_recreated(offsets: SourceOffsets, policy: Recovery, where: str) -> Plan:
    if policy.topic_recreated == "stop":
        raise RecoveryRefused(
            f"{where}: the input was deleted and made again since the index last saw it. Set recovery.topic_recreated = "
            "'continue' to read the new one from its first record and keep the index."
        )
    return Plan(offsets.first, commit=True)


def _plan_without_committed(offsets: SourceOffsets, policy: Recovery, where: str) -> Plan:
    if offsets.applied is None:
        at_end = policy.first_start == "latest" and not offsets.begun
        return Plan(offsets.end if at_end else offsets.first, commit=True)
    match policy.committed_missing:
        case "applied":
            return Plan(
                max(offsets.applied, offsets.first), commit=True, skipped=max(0, offsets.first - offsets.applied)
            )
        case "earliest":
            return Plan(offsets.first, commit=True)
        case "stop":
            raise RecoveryRefused(
                f"{where}: the index has decided everything below {offsets.applied}, but the group has no committed "
                "offset. Set recovery.committed_missing = 'applied' to go on there (outputs of a last undelivered batch "
                "would be missing), or 'earliest' to deliver everything again with the same verdicts."
            )


def _plan_offsets_gone(offsets: SourceOffsets, policy: Recovery, where: str) -> Plan:
    assert offsets.committed is not None
    gone = offsets.first - offsets.committed
    if policy.offsets_gone == "stop":
        raise RecoveryRefused(
            f"{where}: {gone} offsets from {offsets.committed} on were deleted by retention before they were delivered. "
            "Set recovery.offsets_gone = 'skip' to go on behind them; they are counted in neardup_offsets_skipped_total."
        )
    return Plan(offsets.first, restore=range(offsets.applied or 0, offsets.committed), commit=True, skipped=gone)


class _Known(NamedTuple):
    """All sources' offsets: in the group, the index's, and what is known on the foreign ones."""

    committed: Mapping[Source, int | None]
    applied: Mapping[Source, Applied]
    foreign: Mapping[Source, Foreign]

    def applied_to(self, source: Source) -> int | None:
        return self.applied[source].offset if source in self.applied else None


class Unrecovered(Enum):
    """Why the assigned sources cannot begin yet.

    WAITING    another worker begins sources, or must do so first
    RESTORING  some worker restores the index

    >>> plans = Unrecovered.WAITING
    >>> plans if isinstance(plans, dict) else f"read again: {plans.name.lower()}"
    'read again: waiting'
    """

    WAITING = auto()
    RESTORING = auto()


@dataclass
class Recoverer:
    """Brings newly assigned sources to their starting offsets.

    patience_seconds  longest life of a dead worker's claims, see `streamer.service.claims`
    """

    _transport: Transport
    _index: Index
    _decoder: Decoder
    _fingerprinter: Scheme
    _policy: Recovery
    _listener: RestoringListener
    patience_seconds: float = CLAIMS_SECONDS

    def __post_init__(self) -> None:
        self._claims = Claims(self._transport, self._index.identity, self.patience_seconds)
        self._skipped: dict[Source, int] = {}
        self._restoration: Restoration | None = None
        self._waiting_since: float | None = None

    def recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        """Plan for every source, then execute the plans; or do a bounded part of the preparation.

        After Unrecovered, read, and recover the sources assigned then. RecoveryRefused changes nothing.
        """
        try:
            recovered = self._recover_in_turn(assigned)
        except Rebalancing:
            # Nothing was committed. The next read may bring another assignment.
            recovered = Unrecovered.WAITING
        if self._restoration is None:
            self._index.give_turn_back()
        if isinstance(recovered, dict):
            self._waiting_since = None
        return recovered

    def close(self) -> None:
        """Interrupt a restoration, and release the turn."""
        if self._restoration is not None:
            self._restoration.close()
        self._index.give_turn_back()

    def _wait(self) -> float:
        """Wait a little, with a heartbeat; returns the seconds waited so far."""
        now_seconds = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now_seconds
        self._listener.restored(0)
        time.sleep(_RETRY_SECONDS)
        return now_seconds - self._waiting_since

    def _recover_in_turn(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        self._claims.announce(assigned)
        if not self._index.take_turn():
            return Unrecovered.RESTORING if self._wait() > TURN_WAIT_SECONDS else Unrecovered.WAITING
        return self._recover(assigned)

    def _recover(self, assigned: Assigned) -> dict[Source, Plan] | Unrecovered:
        if self._restoration is not None:
            return self._restore(self._restoration)
        if self._policy.first_start == "latest" and not self._begin_at_end(assigned):
            return Unrecovered.WAITING
        # In this order: workers that share the index apply before they commit, so C <= A holds during concurrent work.
        committed = self._transport.committed(assigned.sources + assigned.others)
        claims = self._transport.claims(committed)
        applied = self._index.applied()
        foreign = {
            source: self._foreign(source, claim.offset, applied)
            for source, claim in claims.items()
            if claim is not None and claim.foreign
        }
        committed |= {source: claim.offset for source, claim in claims.items() if claim is not None}
        mended = self._mended(assigned, claims, applied)
        committed |= mended
        known = _Known(committed, applied, foreign)
        offsets_by_source = self._offsets_of(assigned, known)
        plans = {source: plan(offsets, self._policy) for source, offsets in offsets_by_source.items()}
        behind = {source: planned.restore for source, planned in plans.items()}
        behind |= self._others_behind(assigned, known)
        if any(behind.values()):
            delivered = {source: offset or 0 for source, offset in committed.items()}
            self._restoration = Restoration(
                self._transport,
                self._index,
                Reentry(self._index, self._decoder, self._fingerprinter, self._transport.inputs_at, delivered),
                {source: offsets for source, offsets in behind.items() if offsets},
                assigned.names,
                self._policy.outputs_trimmed == "stop",
                self._listener,
            )
            return self._restore(self._restoration)
        lacking = self._claims.lacking(assigned)
        starts = {
            source: planned.begin
            for source, planned in plans.items()
            if planned.commit or source in lacking or source in mended
        }
        if starts:
            self._transport.commit_start(starts)
        self._index.begin_all({source: planned.begin for source, planned in plans.items()}, assigned.names)
        for source, planned in plans.items():
            if planned.skipped:
                # The offset is committed: if the source has to wait, its next plan no longer has the count.
                self._skipped[source] = planned.skipped
                self._index.set_applied(source, planned.begin)
        if not self._claims.have_no_rivals(assigned):
            self._wait()
            return Unrecovered.WAITING
        for source, planned in plans.items():
            self._transport.seek(source, planned.begin, applied.get(source))
        return {source: replace(planned, skipped=self._skipped.pop(source, 0)) for source, planned in plans.items()}

    def _restore(self, restoration: Restoration) -> Unrecovered:
        if restoration.go_on(SLICE_SECONDS):
            # The assignment may have changed meanwhile: the next call checks again.
            self._restoration = None
        return Unrecovered.RESTORING

    def _mended(
        self, assigned: Assigned, claims: Mapping[Source, Claim | None], applied: Mapping[Source, Applied]
    ) -> dict[Source, int]:
        """Offsets in place of those whose later commits the brokers lost."""
        mended: dict[Source, int] = {}
        for source in assigned.sources:
            claim, decided_to = claims[source], applied[source].offset if source in applied else 0
            if claim is not None and not claim.foreign and claim.offset < min(claim.delivered, decided_to):
                # The outputs decide: in brokers restored from a copy they are as old as the commits.
                mended[source] = self._delivered_to(source, range(claim.offset, decided_to))
                log.warning(
                    "the brokers lost commits: the group's offset went back",
                    input=assigned.names[source.stream],
                    partition=source.partition,
                    committed=claim.offset,
                    delivered=mended[source],
                    remedy="Restart the broker that coordinates the group, so that it loads all offsets. No record is affected.",
                )
        return mended

    def _foreign(self, source: Source, committed: int, applied: Mapping[Source, Applied]) -> Foreign:
        """Data on a foreign offset. Reads outputs back as far as records may be decided and undelivered."""
        strangers = self._transport.strangers()
        if source not in applied:
            return Foreign(self._transport.first_offsets([source])[source], strangers)
        at = applied[source].offset
        below = range(max(0, at - UNDELIVERED_OFFSETS_MAX), min(committed, at))
        return Foreign(self._delivered_to(source, below), strangers)

    def _delivered_to(self, source: Source, offsets: range) -> int:
        """First decided but undelivered offset among these, by the outputs; else their end."""
        delivered: set[int] = set()
        for records in self._transport.changelog({source: offsets}, list(Destination)) if offsets else ():
            self._listener.restored(0)
            delivered.update(record.offset for record in records if record.source == source)
        for begin in range(offsets.start, offsets.stop, _POSITIONS_AT_ONCE):
            some = range(begin, min(begin + _POSITIONS_AT_ONCE, offsets.stop))
            for each in self._index.decided_at([Position(source, offset) for offset in some]):
                if each is not None and each.position.offset not in delivered:
                    return each.position.offset
        return offsets.stop

    def _others_behind(self, assigned: Assigned, known: _Known) -> dict[Source, range]:
        behind: dict[Source, range] = {}
        for source in assigned.others:
            if (offset := known.committed[source]) is not None:
                where = f"{assigned.names[source.stream]}/{source.partition}"
                if source in known.foreign and self._policy.foreign_offsets == "stop":
                    _require_delivered(offset, known.foreign[source], where)
                behind[source] = _behind(offset, known.applied_to(source), self._policy, where)
        return behind

    def _begin_at_end(self, assigned: Assigned) -> bool:
        """Begin all partitions of an unknown stream at their ends; returns whether they have begun.

        The lowest partition's owner does it. Raises DeliveryDoubtful after too long a wait.
        """
        everywhere = assigned.sources + assigned.others
        if self._begun_of(assigned, self._index.applied()):
            return True
        if min(everywhere) not in assigned.sources:
            if self._wait() > BEGIN_WAIT_SECONDS:
                raise DeliveryDoubtful(f"no worker has begun {min(everywhere)} at its end: the others wait for it")
            return False
        starts = self._transport.end_offsets(everywhere)
        self._transport.commit_start(starts)
        self._index.begin_all(starts, assigned.names)
        return True

    def _begun_of(self, assigned: Assigned, applied: Mapping[Source, Applied]) -> bool:
        names = set(assigned.names.values())
        streams = {stream for stream, name in self._index.stream_names().items() if name in names}
        if any(source.stream in streams for source in applied):
            return True
        committed = self._transport.committed(assigned.sources + assigned.others)
        return any(offset is not None for offset in committed.values())

    def _offsets_of(self, assigned: Assigned, known: _Known) -> dict[Source, SourceOffsets]:
        first = self._transport.first_offsets(assigned.sources)
        end = self._transport.end_offsets(assigned.sources)
        begun = self._policy.first_start == "latest" and self._begun_of(assigned, known.applied)
        streams: dict[str, list[str]] = {}
        for stream, name in self._index.stream_names().items():
            streams.setdefault(name, []).append(stream)
        return {
            source: SourceOffsets(
                name=assigned.names[source.stream],
                partition=source.partition,
                committed=known.committed[source],
                applied=known.applied_to(source),
                first=first[source],
                end=end[source],
                recreated=any(
                    Source(stream, source.partition) in known.applied
                    for stream in streams.get(assigned.names[source.stream], ())
                    if stream != source.stream
                ),
                begun=begun,
                foreign=known.foreign.get(source),
            )
            for source in assigned.sources
        }
