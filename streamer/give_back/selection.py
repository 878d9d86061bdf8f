"""Filters for dropped records and dead letters. Pure."""

import re
from dataclasses import dataclass

from index import Position
from streamer.errors import SettingsError
from streamer.records.decode import Document
from streamer.records.forms.times import date_ms
from streamer.transports.output_log import Output

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d{1,9})\s*([smhd])")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters on outputs, combined by "and"; None matches all.

    >>> Selection(host="example.org").matches_host("example.org")
    True

    host          as documents have it (`hosts.host_named`)
    since_ms      earliest record timestamp
    for_template  near duplicates that their hosts' frames would keep now
    once          the newest record of each page, by id
    positions     input positions
    """

    id: str | None = None
    original: str | None = None
    host: str | None = None
    since_ms: int | None = None
    for_template: bool = False
    reason: str | None = None
    once: bool = False
    positions: frozenset[Position] | None = None

    def may_match(self, output: Output) -> bool:
        """Whether all filters match except host, which needs a decoded record."""
        headers, record = output.headers, output.record
        if record is None:
            return False
        return (
            self.id in (None, headers.id)
            and self.original in (None, headers.original_id)
            and self.reason in (None, headers.reason)
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and not (self.for_template and headers.distance == 0)
            and (self.positions is None or Position(record.source, record.offset) in self.positions)
        )

    def matches_host(self, host: str | None) -> bool:
        """Whether the host matches."""
        return self.host in (None, host)


def host_of(document: object) -> str | None:
    """Host of a decoded record, or None."""
    return document.host if isinstance(document, Document) else None


def moment_ms(text: str, now_ms: int) -> int:
    """Unix milliseconds for ISO 8601 (by default UTC) or an age: 90s, 15m, 2h, 3d. Raises SettingsError.

    >>> moment_ms("90s", now_ms=100_000)
    10000
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_ms - int(ago[1]) * _UNITS_MS[ago[2]]
    if (moment := date_ms(text.strip())) is None:
        raise SettingsError(
            f"--since {text}: is not a time: write 2026-01-31T18:00, or an age such as 90s, 15m, 2h, 3d."
        )
    return moment
