"""Records from one part to the next."""

from streamer.records.record import Handover, Outgoing, Record
from streamer.records.route import POSITION, STREAM


def between(topic: Handover, read: Record, packed: bytes, now_ms: int) -> Outgoing:
    """A record between parts, in its first source record's partition.

    Its headers name that record's position, by which `transactions` ends forgotten transactions.
    """
    headers = ((POSITION, read.position.encode()), (STREAM, read.source.stream.encode()))
    return Outgoing(topic, Record(read.source, read.topic, read.offset, None, packed, now_ms), headers)
