"""decide: fingerprint batches become verdict batches. Read, decide, commit; no text.

The index knows documents by their own positions, as in a service without parts.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from index import Decisions, Index, Source, plain_source
from streamer.audit.auditor import Auditor
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.observe.batch_report import Stopwatch
from streamer.parts.batches import accounts_for_offsets, is_of_engine, place_of, readable
from streamer.parts.deciding import DecidingTransport
from streamer.parts.envelope import differing
from streamer.parts.fingerprint_batch import FingerprintBatch, joined, joined_samples, unpack_fingerprints
from streamer.parts.messages import between
from streamer.parts.verdict_batch import VerdictBatch, pack_verdicts
from streamer.records.record import Batch, Handover, Outgoing, Record
from streamer.service.decision_notices import SharedIds, log_crossings
from streamer.service.pipeline import Work
from streamer.service.recovery import Plan
from streamer.service.stream_names import StreamNames
from streamer.transports.transport import Place


class DecidePart:
    """Takes the step `decide`, and delivers verdicts."""

    def __init__(self, transport: DecidingTransport, index: Index, stamp: str, auditor: Auditor) -> None:
        """stamp: required fingerprint stamp, as text."""
        self._transport = transport
        self._index, self._stamp, self._auditor = index, stamp, auditor
        self._names = StreamNames(index)
        self._shared_ids = SharedIds()
        self._run: Sequence[FingerprintBatch] = ()

    def runs(self, batch: Batch, stopwatch: Stopwatch) -> Iterator[Work]:
        """Cut a read batch up into those of one decision each. Raises SettingsError, RecordsUnreadable, DeliveryDoubtful."""
        with stopwatch.step("decide"):
            batches = self._in_place(batch.records, [self._unpacked(record) for record in batch.records])
        for begin, end in _runs(batches):
            for record, each in zip(batch.records[begin:end], batches[begin:end], strict=True):
                if each.heading.stream != self._transport.stream_of(record.source.partition):
                    raise DeliveryDoubtful(
                        f"{record.position}: fingerprints of an input topic that was replaced: a new worker looks into it"
                    )
            self._run = batches[begin:end]
            yield Work(batch.part(begin, end))

    def decide(self, work: Work) -> None:
        """Set the final verdicts of the last run."""
        # A heartbeat holds nothing to decide, and moves no document offset.
        filled = [each for each in self._run if each.heading.begin < each.heading.end]
        work.decisions = self._admit(filled) if filled else None
        # What was given back while an engine decided has been delivered, and follows what came before it.
        for each in self._run:
            if _is_given_back(each):
                self._index.give_back(each.entries, delivered=True)

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """See `Delivery`."""

    def commit(self, work: Work) -> None:
        """See `Delivery`."""
        read = zip(work.batch.records, self._run, strict=True)
        places = {record.source: Place(each.heading.stream, each.heading.end) for record, each in read}
        decisions = work.decisions
        outgoing = [] if decisions is None else self._messages(work.batch.records, self._run, decisions)
        self._transport.deliver(work.batch, outgoing, places)

    def idle(self, batch: Batch) -> None:
        """See `Delivery`."""

    def _admit(self, batches: Sequence[FingerprintBatch]) -> Decisions:
        ends = {each.entries.sources[0]: each.heading.end for each in batches}
        entries = joined(batches)
        decisions = self._index.admit(entries, ends)
        log_crossings(decisions)
        self._shared_ids.see(entries.ids, decisions)
        names = {each.heading.stream: each.heading.topic for each in batches}
        self._auditor.observe(entries, joined_samples(batches), decisions, names)
        return decisions

    def _in_place(self, records: Sequence[Record], batches: Sequence[FingerprintBatch]) -> list[FingerprintBatch]:
        """The batches. Those that account for no offsets take the preceding documents' end as their position."""
        reached: dict[int, tuple[str, int]] = {}
        placed = []
        for record, batch in zip(records, batches, strict=True):
            partition, heading = record.source.partition, batch.heading
            if not accounts_for_offsets(heading):
                if partition not in reached:
                    reached[partition] = self._transport.stream_of(partition), self._transport.decided_to(partition)
                stream, end = reached[partition]
                entries = replace(batch.entries, sources=tuple(map(plain_source, batch.entries.sources)))
                heading = replace(heading, stream=stream, begin=end, end=end)
                batch = replace(batch, heading=heading, entries=entries)
            else:
                reached[partition] = heading.stream, heading.end
            placed.append(batch)
        return placed

    def _unpacked(self, record: Record) -> FingerprintBatch:
        with readable():
            batch = unpack_fingerprints(record.value, place_of(record.topic, record.source.partition, record.offset))
        if not is_of_engine(batch.heading) and (why := differing(self._stamp, batch.heading.stamp)):
            raise SettingsError(
                f"{record.position}: these are fingerprints by other settings: {why}. Run all parts with the same settings "
                "of the method."
            )
        return batch

    def _messages(
        self, records: Sequence[Record], batches: Sequence[FingerprintBatch], decisions: Decisions
    ) -> list[Outgoing]:
        names = self._names.of(decisions.original_positions)
        outgoing: list[Outgoing] = []
        now_ms, begin = int(time.time() * 1000), 0
        for record, batch in zip(records, batches, strict=True):
            rows, begin = slice(begin, begin + len(batch.entries)), begin + len(batch.entries)
            # Heartbeats carry no verdicts.
            if batch.heading.begin == batch.heading.end:
                continue
            verdicts = _verdicts(batch, decisions, rows, self._index.identity, names)
            outgoing.append(between(Handover.VERDICTS, record, pack_verdicts(verdicts), now_ms))
        return outgoing


def _verdicts(
    batch: FingerprintBatch, decisions: Decisions, rows: slice, decider: str, names: dict[str, str]
) -> VerdictBatch:
    entries = batch.entries
    return VerdictBatch(
        batch.heading,
        decider,
        entries.offsets,
        decisions.verdicts[rows],
        decisions.reasons[rows],
        decisions.distances[rows],
        decisions.ratios[rows],
        decisions.replayed[rows],
        entries.kinds,
        entries.fingerprints,
        batch.output_ids,
        batch.details,
        decisions.original_ids[rows],
        decisions.original_positions[rows],
        names,
    )


def _is_given_back(batch: FingerprintBatch) -> bool:
    """Whether a batch in its place was given back."""
    return batch.heading.begin == batch.heading.end and len(batch.entries) > 0


def _runs(batches: Sequence[FingerprintBatch]) -> Iterator[tuple[int, int]]:
    """Runs of batches for one decision: a source's offsets ascend, a partition has one source, and only the last one was given
    back.

    Mostly one. Repeated fingerprints or a replaced input topic cause more.
    """
    begin, reached = 0, dict[int, tuple[str, int]]()
    for row, batch in enumerate(batches):
        heading = batch.heading
        stream, end = reached.get(heading.partition, (heading.stream, heading.begin))
        if stream != heading.stream or heading.begin < end:
            yield begin, row
            begin, reached = row, {}
        reached[heading.partition] = heading.stream, heading.end
        if _is_given_back(batch) and row + 1 < len(batches):
            yield begin, row + 1
            begin, reached = row + 1, {}
    yield begin, len(batches)
