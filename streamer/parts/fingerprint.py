"""fingerprint: documents become fingerprint batches. Read, decode, fingerprint, commit; no index.

A partition's batches cover every offset: each begins at the previous one's end.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from index import Entries, Source
from streamer.parts.envelope import DOCUMENTS_MAX, Heading
from streamer.parts.fingerprint_batch import FingerprintBatch, Samples, fitting, pack_fingerprints
from streamer.parts.messages import between
from streamer.records.decode import DeadLetter, Document
from streamer.records.record import Batch, Handover, Outgoing, Record
from streamer.service.pipeline import Work
from streamer.service.recovery import Plan
from streamer.transports.kafka.transport import KafkaTransport


class FingerprintPart:
    """Delivers fingerprints. See `Delivery`."""

    def __init__(self, transport: KafkaTransport, stamp: str, *, idle_ms: int | None = None) -> None:
        """idle_ms: time after which an idle partition gets a batch without documents; None: never."""
        self._transport, self._stamp = transport, stamp
        self._idle_seconds = None if idle_ms is None else idle_ms / 1000
        self._reached: dict[Source, int] = {}
        self._written_seconds: dict[Source, float] = {}

    def begun(self, plans: Mapping[Source, Plan]) -> None:
        """See `Delivery`."""
        self._reached.update({source: plan.begin for source, plan in plans.items()})

    def commit(self, work: Work) -> None:
        """See `Delivery`. Idle partitions get their heartbeats after it."""
        batch, samples = work.batch, work.fingerprints.sampled()
        outgoing = batches_of(batch, work.documents, work.entries(), samples, self._reached, self._stamp)
        self._transport.deliver(batch, outgoing)
        self._reached.update(batch.ends)
        self._write_heartbeats(batch)

    def idle(self, batch: Batch) -> None:
        """See `Delivery`."""
        self._write_heartbeats(batch)

    def _write_heartbeats(self, batch: Batch) -> None:
        """Write an empty batch for every idle partition, in a separate transaction.

        A forgotten transaction ends by its positions, and heartbeats have none.
        """
        if self._idle_seconds is None:
            return
        now_seconds = time.monotonic()
        due = self._due(batch, now_seconds - self._idle_seconds)
        names = self._transport.input_names()
        if due:
            signs = [heartbeat(source, names[source.stream], self._reached[source], self._stamp) for source in due]
            self._transport.deliver(Batch((), snapshot=batch.snapshot), signs)
        self._written_seconds.update(dict.fromkeys((*batch.ends, *due), now_seconds))

    def _due(self, batch: Batch, before_seconds: float) -> list[Source]:
        return [
            source
            for source in self._transport.begun()
            if source in self._reached
            and source not in batch.ends
            and self._written_seconds.get(source, before_seconds) <= before_seconds
        ]


def batches_of(
    batch: Batch,
    documents: Sequence[Document | DeadLetter],
    entries: Entries,
    samples: Samples,
    begins: Mapping[Source, int],
    stamp: str,
) -> list[Outgoing]:
    """Records for the fingerprint topic: by source, at most DOCUMENTS_MAX documents per batch.

    entries, samples  for the batch's records, row for row
    begins            offset per source at which its first batch begins
    """
    outgoing: list[Outgoing] = []
    now_ms = int(time.time() * 1000)
    for number, source in enumerate(entries.sources):
        rows = np.flatnonzero(entries.source_numbers == number)
        begin = begins.get(source, batch.records[int(rows[0])].offset)
        for first in range(0, len(rows), DOCUMENTS_MAX):
            chosen = rows[first : first + DOCUMENTS_MAX]
            head, last = batch.records[int(chosen[0])], batch.records[int(chosen[-1])]
            heading = Heading(stamp, source.stream, head.topic, source.partition, begin, last.end)
            packed = pack_fingerprints(
                FingerprintBatch(
                    heading,
                    _of_one(entries.take(chosen), source),
                    _details(documents, chosen.tolist()),
                    fitting({place: samples[row] for place, row in enumerate(chosen.tolist()) if row in samples}),
                )
            )
            outgoing.append(between(Handover.FINGERPRINTS, head, packed, now_ms))
            begin = last.end
    return outgoing


def heartbeat(source: Source, topic: str, offset: int, stamp: str) -> Outgoing:
    """A batch without documents: no document below `offset` will follow."""
    heading = Heading(stamp, source.stream, topic, source.partition, offset, offset)
    packed = pack_fingerprints(FingerprintBatch(heading, _of_one(NOTHING, source), []))
    record = Record(source, topic, offset, None, None, 0)
    return between(Handover.FINGERPRINTS, record, packed, int(time.time() * 1000))


NOTHING = Entries(
    sources=(),
    source_numbers=np.zeros(0, np.uint32),
    offsets=np.zeros(0, np.uint64),
    kinds=np.zeros(0, np.uint8),
    reasons=np.zeros(0, np.uint8),
    fingerprints=np.zeros((0, 0), np.uint64),
    times_ms=np.zeros(0, np.int64),
    ids=[],
    digests=np.zeros((0, 2), np.uint64),
)


def _of_one(entries: Entries, source: Source) -> Entries:
    return replace(entries, sources=(source,), source_numbers=np.zeros(len(entries), np.uint32))


def _details(documents: Sequence[Document | DeadLetter], rows: Sequence[int]) -> list[str | None]:
    chosen = [documents[row] for row in rows]
    return [each.detail if isinstance(each, DeadLetter) else None for each in chosen]
