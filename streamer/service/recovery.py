"""Where to begin with a source: the committed offset held against the applied offset.

    C  committed offset: everything below it was delivered, says the outside (consumer group, checkpoint)
    A  applied offset: everything below it was decided, says the index

    C = A          go on
    C < A          go on at C: the journal gives the decided records the same verdicts again, and they are delivered
    C > A          the index lost commits or is an old copy: enter [A, C) again from the outputs, then go on at C
    C, no A        the index is new: as C > A, from the beginning
    A, no C        the group lost its offsets: a person decides (recovery.committed_missing)
    neither        first start (recovery.first_start)
    neither, but   the name is known under another stream id: a person decides (recovery.topic_recreated)
    C < first      retention took undelivered records: a person decides (recovery.offsets_gone); skipped are counted
    C > end        the outside lost records: always a person

`plan` is pure; `recover` carries a plan out. Carrying one out twice, or half and then again, comes to the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from index.entry import Applied, Kind, Position, Source, Verdict
from index.index import Index
from streamer.errors import RecoveryRefused
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position
from streamer.service.pipeline import prepare
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Transport


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of one source at its assignment; offsets as in the module's drawing."""

    name: str
    partition: int
    committed: int | None
    applied: int | None
    first: int
    end: int
    recreated: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with one source, in this order.

    restore  input offsets to enter into the index again from the outputs
    commit   commit `begin` at the outside first, for there is no committed offset, or a policy moved it
    begin    read from this offset on
    skipped  input offsets that nobody will ever see: [committed, begin)
    """

    begin: int
    restore: range = range(0)
    commit: bool = False
    skipped: int = 0


def plan(found: Found, policy: Recovery) -> Plan:
    """The written answer to each state. Raises RecoveryRefused where a person has to decide."""
    where = f"{found.name}/{found.partition}"
    planned = _plan(found, policy, where)
    if planned.begin > found.end:
        raise RecoveryRefused(
            f"{where}: reading would go on at offset {planned.begin}, but the input ends at {found.end}: it lost records "
            "or was made anew. Read it under a new kafka.group with a new index.directory, or reset the group's offsets."
        )
    return planned


def _plan(found: Found, policy: Recovery, where: str) -> Plan:
    if found.recreated and found.applied is None and found.committed is None:
        return _plan_recreated(found, policy, where)
    if found.committed is None:
        return _plan_without_committed(found, policy, where)
    if found.committed < found.first:
        return _plan_offsets_gone(found, policy, where)
    behind = range(found.applied or 0, found.committed)
    if behind and policy.index_behind == "stop":
        raise RecoveryRefused(
            f"{where}: the group is at {found.committed}, the index at {found.applied or 0}: the index is new or an old "
            "copy. Set recovery.index_behind = 'restore' to enter what is missing from the output topics."
        )
    return Plan(found.committed, restore=behind)


def _plan_recreated(found: Found, policy: Recovery, where: str) -> Plan:
    if policy.topic_recreated == "stop":
        raise RecoveryRefused(
            f"{where}: the input was deleted and made again since the index last saw it. Set recovery.topic_recreated = "
            "'continue' to read the new one from its first record and keep the index."
        )
    return Plan(found.first, commit=True)


def _plan_without_committed(found: Found, policy: Recovery, where: str) -> Plan:
    if found.applied is None:
        return Plan(found.first if policy.first_start == "earliest" else found.end, commit=True)
    match policy.committed_missing:
        case "applied":
            return Plan(max(found.applied, found.first), commit=True, skipped=max(0, found.first - found.applied))
        case "earliest":
            return Plan(found.first, commit=True)
        case "stop":
            raise RecoveryRefused(
                f"{where}: the index has decided everything below {found.applied}, but the group has no committed "
                "offset. Set recovery.committed_missing = 'applied' to go on there (outputs of a last undelivered batch "
                "would be missing), or 'earliest' to deliver everything again with the same verdicts."
            )


def _plan_offsets_gone(found: Found, policy: Recovery, where: str) -> Plan:
    assert found.committed is not None
    gone = found.first - found.committed
    if policy.offsets_gone == "stop":
        raise RecoveryRefused(
            f"{where}: {gone} offsets from {found.committed} on were deleted by retention before they were delivered. "
            "Set recovery.offsets_gone = 'skip' to go on behind them; they are counted in neardup_offsets_skipped_total."
        )
    return Plan(found.first, restore=range(found.applied or 0, found.committed), commit=True, skipped=gone)


class Recoverer:
    """Brings newly assigned sources to where reading goes on."""

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
        """`progress` is called with the number of records entered again, at least once per batch of them."""
        self._transport = transport
        self._index = index
        self._decoder = decoder
        self._fingerprinter = fingerprinter
        self._policy = policy
        # Uniques first: a duplicate can only be entered when its original is there.
        self._outputs = [(Destination.UNIQUE, Verdict.UNIQUE)]
        if insert == "all":
            self._outputs.append((Destination.DUPLICATE, Verdict.DUPLICATE))
        self._progress = progress

    def recover(self, assigned: Assigned) -> dict[Source, Plan]:
        """Plan for every source, then carry out. Nothing is changed when any plan is refused (RecoveryRefused)."""
        applied = self._index.applied()
        plans = {source: plan(found, self._policy) for source, found in self._look(assigned, applied).items()}
        self._restore(plans)
        for source, planned in plans.items():
            if planned.commit:
                self._transport.commit_start(source, planned.begin)
            self._index.begin(source, assigned.names[source.stream], planned.begin)
            if planned.restore or planned.skipped:
                self._index.set_applied(source, planned.begin)
            self._transport.seek(source, planned.begin, applied.get(source))
        return plans

    def _look(self, assigned: Assigned, applied: dict[Source, Applied]) -> dict[Source, Found]:
        committed = self._transport.committed(assigned.sources)
        first = self._transport.first_offsets(assigned.sources)
        end = self._transport.end_offsets(assigned.sources)
        return {
            source: Found(
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
            )
            for source in assigned.sources
        }

    def _restore(self, plans: dict[Source, Plan]) -> None:
        ranges = {source: planned.restore for source, planned in plans.items() if planned.restore}
        if not ranges:
            return
        # All are asked for before any is read, so that a refusal comes before anything is changed.
        logs = [(verdict, self._transport.changelog(ranges, [destination])) for destination, verdict in self._outputs]
        for verdict, log in logs:
            for records in log:
                self._restore_records(records, verdict)

    def _restore_records(self, records: Sequence[Record], verdict: Verdict) -> None:
        if not records:
            # The search goes on; the watchdog should know.
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
