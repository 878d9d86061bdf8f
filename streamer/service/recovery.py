"""Recovery of a source: the committed offset held against the applied offset.

    C  committed offset: everything below it was delivered, as the outside knows (consumer group, checkpoint)
    A  applied offset: everything below it was decided, as the index knows

    C = A          go on
    C < A          go on at C: the journal gives the decided records the same verdicts again, and they are delivered
    C > A          the index lost commits or is an old copy: enter [A, C) again from the outputs, then go on at C
    C, no A        the index is new: as C > A, from the beginning
    A, no C        the group lost its offsets: a person decides (recovery.committed_missing)
    neither        first start (recovery.first_start), all partitions of the stream together
    neither, but   of another partition of the stream: the partition was added later, and begins at its first record
    neither, but   the name is known under another stream id: a person decides (recovery.topic_recreated)
    C < first      retention took undelivered records: a person decides (recovery.offsets_gone); skipped are counted
    C > end        the outside lost records: always a person

`plan` is pure; `recover` carries a plan out. A plan may be carried out twice, or half and then whole: the result is the
same.

A first start at the end commits a start for every partition of the stream at once, whoever owns it: else a worker could
not tell a partition that another worker began a moment ago from one that was added later. The owner of the lowest partition
does it, and the others wait for it: an offset that is committed for somebody else must never fall behind a delivery.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from index import Applied, Index, Kind, Position, Source, Verdict
from streamer.errors import DeliveryDoubtful, RecoveryRefused
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position
from streamer.service.pipeline import prepare
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Transport

BEGIN_WAIT_SECONDS = 20.0
"""Longest wait for the owner of the lowest partition; it has joined the same group, and needs a second."""

_BEGIN_RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Offsets of one source at its assignment, to be held against each other as the table above does.

    name       of the input, for people
    committed  C, or None
    applied    A, or None
    first      first offset that can still be read
    end        offset that the next record will get
    recreated  the index knows the name under another stream id
    begun      the group or the index knows a partition of the stream, or of another stream of the name
    """

    name: str
    partition: int
    committed: int | None
    applied: int | None
    first: int
    end: int
    recreated: bool
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps for one source, in this order.

    restore  input offsets that enter the index again, from the outputs
    commit   commit `begin` first: there is no committed offset, or a policy moved it
    begin    offset to read from
    skipped  count of input offsets that nobody will ever see: [committed, begin)
    """

    begin: int
    restore: range = range(0)
    commit: bool = False
    skipped: int = 0


def plan(offsets: SourceOffsets, policy: Recovery) -> Plan:
    """Plan for one source, by the table above. Raises RecoveryRefused where a person has to decide."""
    where = f"{offsets.name}/{offsets.partition}"
    planned = _plan(offsets, policy, where)
    if planned.begin > offsets.end:
        raise RecoveryRefused(
            f"{where}: reading would go on at offset {planned.begin}, but the input ends at {offsets.end}: it lost records "
            "or was made anew. Read it under a new kafka.group with a new index.directory, or reset the group's offsets."
        )
    return planned


def _plan(offsets: SourceOffsets, policy: Recovery, where: str) -> Plan:
    if offsets.recreated and offsets.applied is None and offsets.committed is None:
        return _plan_recreated(offsets, policy, where)
    if offsets.committed is None:
        return _plan_without_committed(offsets, policy, where)
    if offsets.committed < offsets.first:
        return _plan_offsets_gone(offsets, policy, where)
    behind = range(offsets.applied or 0, offsets.committed)
    if behind and policy.index_behind == "stop":
        raise RecoveryRefused(
            f"{where}: the group is at {offsets.committed}, the index at {offsets.applied or 0}: the index is new or an old "
            "copy. Set recovery.index_behind = 'restore' to enter what is missing from the output topics."
        )
    return Plan(offsets.committed, restore=behind)


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


class Recoverer:
    """Brings newly assigned sources to the offset where reading goes on."""

    def __init__(
        self,
        transport: Transport,
        index: Index,
        decoder: Decoder,
        fingerprinter: Scheme,
        policy: Recovery,
        *,
        insert: str,
        progress: Callable[[int], None],
    ) -> None:
        """`progress` is called at least once per batch of restored records, with their number."""
        self._transport = transport
        self._index = index
        self._decoder = decoder
        self._fingerprinter = fingerprinter
        self._policy = policy
        # Uniques first: a duplicate can enter only after its original.
        self._outputs = [(Destination.UNIQUE, Verdict.UNIQUE)]
        if insert == "all":
            self._outputs.append((Destination.DUPLICATE, Verdict.DUPLICATE))
        self._progress = progress

    def recover(self, assigned: Assigned) -> dict[Source, Plan]:
        """Plan for every source, then carry the plans out. A refused plan (RecoveryRefused) leaves all as it was."""
        if self._policy.first_start == "latest":
            self._begin_at_end(assigned)
        applied = self._index.applied()
        plans = {source: plan(offsets, self._policy) for source, offsets in self._offsets_of(assigned, applied).items()}
        self._restore(plans)
        for source, planned in plans.items():
            if planned.commit:
                self._transport.commit_start({source: planned.begin})
            self._index.begin(source, assigned.names[source.stream], planned.begin)
            if planned.restore or planned.skipped:
                self._index.set_applied(source, planned.begin)
            self._transport.seek(source, planned.begin, applied.get(source))
        return plans

    def _begin_at_end(self, assigned: Assigned) -> None:
        """Begin all partitions of a stream that nobody knows yet at their ends, or wait until another worker has."""
        everywhere = assigned.sources + assigned.others
        deadline = time.monotonic() + BEGIN_WAIT_SECONDS
        while not self._begun_of(assigned, self._index.applied()):
            if min(everywhere) in assigned.sources:
                starts = self._transport.end_offsets(everywhere)
                self._transport.commit_start(starts)
                for source, offset in starts.items():
                    self._index.begin(source, assigned.names[source.stream], offset)
                return
            if time.monotonic() > deadline:
                raise DeliveryDoubtful(f"no worker has begun {min(everywhere)} at its end: the others wait for it")
            self._progress(0)
            time.sleep(_BEGIN_RETRY_SECONDS)

    def _begun_of(self, assigned: Assigned, applied: dict[Source, Applied]) -> bool:
        streams = {stream for name in assigned.names.values() for stream in self._index.streams(name)}
        if any(source.stream in streams for source in applied):
            return True
        committed = self._transport.committed(assigned.sources + assigned.others)
        return any(offset is not None for offset in committed.values())

    def _offsets_of(self, assigned: Assigned, applied: dict[Source, Applied]) -> dict[Source, SourceOffsets]:
        committed = self._transport.committed(assigned.sources)
        first = self._transport.first_offsets(assigned.sources)
        end = self._transport.end_offsets(assigned.sources)
        begun = self._policy.first_start == "latest" and self._begun_of(assigned, applied)
        return {
            source: SourceOffsets(
                name=assigned.names[source.stream],
                partition=source.partition,
                committed=committed[source],
                applied=applied[source].offset if source in applied else None,
                first=first[source],
                end=end[source],
                recreated=any(
                    Source(stream, source.partition) in applied
                    for stream in self._index.streams(assigned.names[source.stream])
                    if stream != source.stream
                ),
                begun=begun,
            )
            for source in assigned.sources
        }

    def _restore(self, plans: dict[Source, Plan]) -> None:
        ranges = {source: planned.restore for source, planned in plans.items() if planned.restore}
        if not ranges:
            return
        # All changelogs are opened before the first is read, so that a refusal comes before any change.
        logs = [(verdict, self._transport.changelog(ranges, [destination])) for destination, verdict in self._outputs]
        for verdict, log in logs:
            for records in log:
                self._restore_records(records, verdict)

    def _restore_records(self, records: Sequence[Record], verdict: Verdict) -> None:
        if not records:
            # An empty batch: time passes while nothing is found, and the supervisor needs a sign of life.
            self._progress(0)
            return
        entries = prepare(self._decoder, self._fingerprinter, records)
        decided = np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT))
        entries = entries.take(np.flatnonzero(decided))
        originals: list[Position | None] = [
            parse_original_position(record.headers) if verdict is Verdict.DUPLICATE else None
            for record, keep in zip(records, decided, strict=True)
            if keep
        ]
        verdicts = np.full(len(entries), verdict, dtype=np.uint8)
        self._index.restore(entries, verdicts, originals)
        self._progress(len(entries))
