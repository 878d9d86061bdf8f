"""Records from one part to the next, and a part's figures."""

import numpy as np

from streamer.observe.batch_report import BatchReport, Stopwatch
from streamer.records.record import Batch, Handover, Outgoing, Record
from streamer.records.route import POSITION, STREAM


def between(topic: Handover, read: Record, packed: bytes, now_ms: int) -> Outgoing:
    """A record between parts, in the partition of its first source record.

    Its headers name that record's position: `transactions` uses it to end a transaction that the broker forgot.
    """
    headers = ((POSITION, read.position.encode()), (STREAM, read.source.stream.encode()))
    record = Record(read.source, read.topic, read.offset, None, packed, now_ms)
    return Outgoing(topic, record, headers)


def part_report(batch: Batch, stopwatch: Stopwatch) -> BatchReport:
    """Figures of a delivered batch in a part that does not decide."""
    return BatchReport(
        records=len(batch.records),
        value_bytes=sum(len(record.value or b"") for record in batch.records),
        step_seconds=stopwatch.wall_seconds,
        step_cpu_seconds=stopwatch.cpu_seconds,
        outcomes={},
        distances=np.zeros(0, np.int16),
        similarities=np.zeros(0),
        candidates=np.zeros(0, np.int64),
        unequal=0,
        replayed=0,
    )
