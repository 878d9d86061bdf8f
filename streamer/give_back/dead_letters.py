"""Dead letters: what they are, and sending them to the input again, where the service decides them anew, each once.

The input is the truth: a record that was replayed names the position at which it was a dead letter. A batch is one
transaction. So a command that died goes on where it stopped, and nothing is replayed twice as long as the input holds it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from index import Verdict
from streamer.give_back.batches import batches, position_of
from streamer.records.reason import Reason, label
from streamer.records.record import Destination, Headers, Record
from streamer.records.route import CONNECT_PREFIX, parse_replayed_position, replayed
from streamer.settings.settings import Batching
from streamer.transports.output_log import Output, OutputLog

log = structlog.get_logger(__name__)

EXAMPLES_MAX = 3
SHOWN_BYTES_MAX = 4_096
"""Bytes of a value or a header that are shown."""

_WITHOUT_BYTES = label(Verdict.DEAD_LETTER, Reason.UNREADABLE)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which dead letters are meant; None: does not filter. since_ms: least timestamp of the record."""

    reason: str | None = None
    since_ms: int | None = None

    def mean(self, output: Output) -> bool:
        """Whether all filters hold."""
        record = output.record
        if record is None:
            return False
        return self.reason in (None, output.headers.reason) and (
            self.since_ms is None or record.timestamp_ms >= self.since_ms
        )


@dataclass(slots=True)
class OfReason:
    """Dead letters of one reason.

    again     of them, how many had been replayed before, and failed once more
    first_ms  the earliest timestamp, last_ms the latest
    examples  positions of the first ones
    """

    count: int = 0
    again: int = 0
    first_ms: int = 0
    last_ms: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Replayed:
    """What became of the dead letters that were meant.

    sent     to the input now, or would be
    before   had been sent before
    refused  cannot come back: they stand for records that could not be read, and hold no bytes
    """

    matched: int = 0
    sent: int = 0
    before: int = 0
    refused: int = 0


def listed(output_log: OutputLog, filters: Filters) -> dict[str, OfReason]:
    """Dead letters that are meant, by reason, the most frequent first."""
    found: dict[str, OfReason] = {}
    for output in _meant(output_log, filters, filters.since_ms):
        record = output.record
        assert record is not None, "what names no position is not meant"
        of_reason = found.setdefault(output.headers.reason, OfReason(first_ms=record.timestamp_ms))
        of_reason.count += 1
        of_reason.again += parse_replayed_position(record.headers) is not None
        of_reason.first_ms = min(of_reason.first_ms, record.timestamp_ms)
        of_reason.last_ms = max(of_reason.last_ms, record.timestamp_ms)
        if len(of_reason.examples) < EXAMPLES_MAX:
            of_reason.examples.append(record.position)
    return dict(sorted(found.items(), key=lambda each: -each[1].count))


def shown(output_log: OutputLog, name: str) -> list[dict[str, Any]]:
    """Dead letters at this position (`topic/partition/offset`), or with this id, with all that they hold, in words."""
    return [
        _in_words(output, output.record)
        for output in _meant(output_log, Filters(), None)
        if output.record is not None and name in (output.record.position, output.headers.id)
    ]


def replay(
    output_log: OutputLog,
    filters: Filters,
    bounds: Batching,
    *,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _count: None,
) -> Replayed:
    """Send the dead letters that are meant to the input, each once. Raises what the transport raises."""
    found, times_ms = Replayed(), []
    for output in _meant(output_log, filters, filters.since_ms):
        assert output.record is not None, "what names no position is not meant"
        found.matched += 1
        found.refused += _is_without_bytes(output)
        times_ms.append(output.record.timestamp_ms)
    if not times_ms:
        return found
    since_ms = min(times_ms)
    sent = {parse_replayed_position(record.headers) for records in output_log.inputs(since_ms) for record in records}
    for batch in batches(_to_send(_meant(output_log, filters, since_ms)), bounds):
        chosen = [record for record in batch if position_of(record) not in sent]
        if chosen and not dry_run:
            output_log.append(chosen)
        found.sent += len(chosen)
        found.before += len(batch) - len(chosen)
        progress(found.sent)
    if not dry_run:
        counts = {"sent": found.sent, "before": found.before, "refused": found.refused}
        log.info("replayed dead letters", reason=filters.reason, since_ms=filters.since_ms, **counts)
    return found


def _meant(output_log: OutputLog, filters: Filters, since_ms: int | None) -> Iterator[Output]:
    found = output_log.outputs([Destination.DEAD_LETTER], since_ms)
    return (each for outputs in found for each in outputs if filters.mean(each))


def _is_without_bytes(output: Output) -> bool:
    return output.headers.reason == _WITHOUT_BYTES


def _to_send(outputs: Iterable[Output]) -> Iterator[Record]:
    for output in outputs:
        record = output.record
        if record is not None and not _is_without_bytes(output):
            yield replace(record, headers=replayed(output.headers.kept, record.headers))


def _in_words(output: Output, record: Record) -> dict[str, Any]:
    words = dict(record.headers).get(f"{CONNECT_PREFIX}exception.message") or b""
    again = parse_replayed_position(record.headers)
    return {
        "position": record.position,
        "at": output.place,
        "id": output.headers.id or None,
        "reason": output.headers.reason,
        "words": printable(words),
        "timestamp_ms": record.timestamp_ms,
        "replayed_from": None if again is None else f"{record.topic}/{again.source.partition}/{again.offset}",
        "headers": _headers(record.headers),
        "key": None if record.key is None else printable(record.key),
        "value": None if record.value is None else printable(record.value),
        "value_bytes": None if record.value is None else len(record.value),
    }


def _headers(headers: Headers) -> list[list[str | None]]:
    return [[name, None if value is None else printable(value)] for name, value in headers]


def printable(octets: bytes, octets_max: int = SHOWN_BYTES_MAX) -> str:
    """The first bytes as text: what is no UTF-8, and what a terminal would obey, as \\x.. or \\u...."""
    text = octets[:octets_max].decode(errors="backslashreplace")
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)
