"""Batches of records to resend. Pure."""

from collections.abc import Iterable, Iterator

from index import Position
from streamer.records.record import Record
from streamer.settings.settings import Batching
from streamer.transports.output_log import portions


def position_of(record: Record) -> Position:
    """Input position of a record."""
    return Position(record.source, record.offset)


def batches(records: Iterable[Record], bounds: Batching) -> Iterator[list[Record]]:
    """Split records into non-empty batches within the bounds, ascending, with unique positions.

    Within a batch, a position's first record wins.
    """
    for portion in filter(None, portions(records, bounds, ascending=False)):
        batch = {position_of(record): record for record in reversed(portion)}
        yield [batch[position] for position in sorted(batch)]
