"""Positions and times as people write and read them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from index import Position, Source
from streamer.transports.transport import NO_TIMESTAMP_MS

_POSITION = re.compile(r"(.+)/([0-9]{1,9})/([0-9]{1,18})", re.DOTALL)
_LINE = re.compile(r"(.+):([0-9]{1,18})", re.DOTALL)


def position_text(position: Position, names: Mapping[str, str]) -> str:
    """`name/partition/offset`, with the stream's id if it has no name."""
    source = position.source
    return f"{names.get(source.stream) or source.stream}/{source.partition}/{position.offset}"


def line_text(where: str) -> str:
    """`name:line`, with lines from 1, of a file's `name/partition/offset`."""
    name, _, offset = where.rsplit("/", 2)
    return f"{name}:{int(offset) + 1}"


def positions_of(text: str, names: Mapping[str, str], *, over_files: bool = False) -> list[Position]:
    """Positions that a text may mean: in every stream with this name, the newest first; none if it names no stream.

    The text is `name/partition/offset`, or over files also `name:line`. A stream's id works as its name, too.

    names  name of each stream, oldest first
    """
    if found := _POSITION.fullmatch(text):
        name, partition, offset = found[1], int(found[2]), int(found[3])
    elif over_files and (found := _LINE.fullmatch(text)) and int(found[2]):
        name, partition, offset = found[1], 0, int(found[2]) - 1
    else:
        return []
    streams = [stream for stream, of_stream in names.items() if name in (of_stream, stream)]
    return [Position(Source(stream, partition), offset) for stream in reversed(streams)]


def time_text(time_ms: int) -> str | None:
    """Time in ISO 8601, UTC; None for no time, and for one outside the calendar."""
    if time_ms == NO_TIMESTAMP_MS:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
