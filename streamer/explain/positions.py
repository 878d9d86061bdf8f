"""Positions and times in people's form."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from index import Position, Source, base_of
from streamer.records.route import position_text as position_text
from streamer.transports.transport import NO_TIMESTAMP_MS

_POSITION = re.compile(r"(.+)/([0-9]{1,9})/([0-9]{1,18})", re.DOTALL)
_LINE = re.compile(r"(.+):([0-9]{1,18})", re.DOTALL)


def line_text(where: str) -> str:
    """`name:line`, with lines from 1, of a file's `name/partition/offset`.

    >>> line_text("pages.jsonl/0/6")
    'pages.jsonl:7'
    """
    name, _, offset = where.rsplit("/", 2)
    return f"{name}:{int(offset) + 1}"


def positions_of(text: str, names: Mapping[str, str], *, over_files: bool = False) -> list[Position]:
    """Positions that a text may mean, in every stream of this name or id, the newest first.

    The text is `name/partition/offset`, or over files also `name:line`.

    names  name of each stream, oldest first
    """
    if match := _POSITION.fullmatch(text):
        name, partition, offset = match[1], int(match[2]), int(match[3])
    elif over_files and (match := _LINE.fullmatch(text)) and int(match[2]):
        name, partition, offset = match[1], 0, int(match[2]) - 1
    else:
        return []
    streams = [stream for stream, topic in names.items() if name in (topic, stream) and base_of(stream) is None]
    return [Position(Source(stream, partition), offset) for stream in reversed(streams)]


def time_text(time_ms: int) -> str | None:
    """ISO 8601 in UTC; None without a time, or outside the calendar.

    >>> time_text(0)
    '1970-01-01T00:00:00.000Z'
    """
    if time_ms == NO_TIMESTAMP_MS:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def place_as_json(id_: str, position: Position, where: str, time_ms: int) -> dict[str, str | None]:
    """A record for machines: its id, its position as text (`where`), its stream and its time."""
    return {"id": id_, "position": where, "stream": position.source.stream, "time": time_text(time_ms)}
