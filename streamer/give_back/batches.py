"""Batches of records to resend. Pure."""

from collections.abc import Iterable, Iterator

from index import Position
from streamer.records.record import Record
from streamer.settings.settings import Batching


def position_of(record: Record) -> Position:
    """Input position of a record."""
    return Position(record.source, record.offset)


def batches(records: Iterable[Record], bounds: Batching) -> Iterator[list[Record]]:
    """Split records into non-empty batches within the bounds, ascending, with unique positions.

    Within a batch, a position's first record wins.
    """
    batch: dict[Position, Record] = {}
    size = 0
    for record in records:
        length = len(record.value or b"")
        if batch and (len(batch) == bounds.records_max or size + length > bounds.bytes_max):
            yield _in_order(batch)
            batch, size = {}, 0
        batch.setdefault(position_of(record), record)
        size += length
    if batch:
        yield _in_order(batch)


def _in_order(batch: dict[Position, Record]) -> list[Record]:
    return [batch[position] for position in sorted(batch)]
