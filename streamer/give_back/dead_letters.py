"""Listing and replaying dead letters: the service decides each replayed record again.

A replayed record names its position as a dead letter. Each batch is one transaction, so a killed command continues, and
replays nothing twice while the input keeps the copy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from index import Verdict
from streamer.give_back.batches import batches, position_of
from streamer.give_back.selection import Selection
from streamer.records.reason import Reason, label
from streamer.records.record import Destination, Record
from streamer.records.route import CONNECT_PREFIX, parse_replayed_position, replayed
from streamer.settings.settings import Batching
from streamer.transports.output_log import Output, OutputLog

log = structlog.get_logger(__name__)

EXAMPLES_MAX = 3
SHOWN_BYTES_MAX = 4_096
"""Most shown bytes of a value or header."""

_WITHOUT_BYTES = label(Verdict.DEAD_LETTER, Reason.UNREADABLE)


@dataclass(slots=True)
class ReasonSummary:
    """Dead letters with one reason.

    replayed_before  how many failed again after a replay
    examples         first positions

    >>> ReasonSummary(count=2).examples
    []
    """

    count: int = 0
    replayed_before: int = 0
    first_ms: int = 0
    last_ms: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReplayCounts:
    """Counts of a replay.

    replayed         sent to the input now; in a dry run, due to be sent
    replayed_before  replayed by an earlier command
    refused          placeholders for unreadable records, without bytes to send

    >>> ReplayCounts(matched=2, replayed=1).refused
    0
    """

    matched: int = 0
    replayed: int = 0
    replayed_before: int = 0
    refused: int = 0


def summarize(output_log: OutputLog, selection: Selection) -> dict[str, ReasonSummary]:
    """Matching dead letters by reason, the most frequent first."""
    summaries: dict[str, ReasonSummary] = {}
    for output, record in _matching(output_log, selection, selection.since_ms):
        summary = summaries.setdefault(output.headers.reason, ReasonSummary(first_ms=record.timestamp_ms))
        summary.count += 1
        summary.replayed_before += parse_replayed_position(record.headers) is not None
        summary.first_ms = min(summary.first_ms, record.timestamp_ms)
        summary.last_ms = max(summary.last_ms, record.timestamp_ms)
        if len(summary.examples) < EXAMPLES_MAX:
            summary.examples.append(record.position)
    return dict(sorted(summaries.items(), key=lambda each: -each[1].count))


def describe(output_log: OutputLog, name: str) -> list[dict[str, Any]]:
    """Full contents of dead letters with this position (`topic/partition/offset`) or id."""
    return [
        _description(output, record)
        for output, record in _matching(output_log, Selection(), None)
        if name in (record.position, output.headers.id)
    ]


def replay(
    output_log: OutputLog,
    selection: Selection,
    bounds: Batching,
    *,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _count: None,
) -> ReplayCounts:
    """Send matching dead letters to the input, once each. Raises the transport's errors."""
    counts, times_ms = ReplayCounts(), []
    for output, record in _matching(output_log, selection, selection.since_ms):
        counts.matched += 1
        counts.refused += _is_without_bytes(output)
        times_ms.append(record.timestamp_ms)
    if not times_ms:
        return counts
    since_ms = min(times_ms)
    sent = {parse_replayed_position(record.headers) for records in output_log.inputs(since_ms) for record in records}
    to_send = (
        replace(record, headers=replayed(output.headers.kept, record.headers))
        for output, record in _matching(output_log, selection, since_ms)
        if not _is_without_bytes(output)
    )
    for batch in batches(to_send, bounds):
        chosen = [record for record in batch if position_of(record) not in sent]
        if chosen and not dry_run:
            output_log.append(chosen)
        counts.replayed += len(chosen)
        counts.replayed_before += len(batch) - len(chosen)
        progress(counts.replayed)
    if not dry_run:
        fields = {"sent": counts.replayed, "before": counts.replayed_before, "refused": counts.refused}
        log.info("replayed dead letters", reason=selection.reason, since_ms=selection.since_ms, **fields)
    return counts


def _matching(output_log: OutputLog, selection: Selection, since_ms: int | None) -> Iterator[tuple[Output, Record]]:
    for outputs in output_log.outputs([Destination.DEAD_LETTER], since_ms):
        yield from ((each, each.record) for each in outputs if each.record is not None and selection.may_match(each))


def _is_without_bytes(output: Output) -> bool:
    return output.headers.reason == _WITHOUT_BYTES


def _description(output: Output, record: Record) -> dict[str, Any]:
    message = dict(record.headers).get(f"{CONNECT_PREFIX}exception.message") or b""
    earlier = parse_replayed_position(record.headers)
    return {
        "position": record.position,
        "at": output.place,
        "id": output.headers.id or None,
        "reason": output.headers.reason,
        "words": printable(message),
        "timestamp_ms": record.timestamp_ms,
        "replayed_from": None if earlier is None else f"{record.topic}/{earlier.source.partition}/{earlier.offset}",
        "headers": [[name, None if value is None else printable(value)] for name, value in record.headers],
        "key": None if record.key is None else printable(record.key),
        "value": None if record.value is None else printable(record.value),
        "value_bytes": None if record.value is None else len(record.value),
    }


def printable(octets: bytes, octets_max: int = SHOWN_BYTES_MAX) -> str:
    r"""First bytes as text, with invalid UTF-8 and control characters as \x.. or \u....

    >>> printable(b"ok \x1b[1m")
    'ok \\x1b[1m'
    """
    text = octets[:octets_max].decode(errors="backslashreplace")
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)
