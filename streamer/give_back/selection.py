"""Which records a person means: filters that narrow each other down, and a time in words. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from streamer.errors import SettingsError
from streamer.records.decode import Document
from streamer.records.hosts import host_of as host_of_name
from streamer.transports.output_log import Output

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d{1,9})\s*([smhd])")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters; None: does not filter. A record is meant where all that are set hold.

    id        of the record
    original  id of the document that it was dropped for
    host      of the document, as `decode.host` gives it
    since_ms  least timestamp of the record
    for_template  only near duplicates that the frame of their host, as it is known by now, would keep
    """

    id: str | None = None
    original: str | None = None
    host: str | None = None
    since_ms: int | None = None
    for_template: bool = False

    def may_mean(self, output: Output) -> bool:
        """Whether all filters but that of the host hold, which asks for a decoded record."""
        headers, record = output.headers, output.record
        if record is None:
            return False
        return (
            self.id in (None, headers.id)
            and self.original in (None, headers.original_id)
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and not (self.for_template and headers.distance == 0)
        )

    def means_host(self, host: str | None) -> bool:
        """Whether the filter of the host holds."""
        return self.host is None or host_of_name(host) == host_of_name(self.host)


def host_of(document: object) -> str | None:
    """Host of a decoded record; None where it has none."""
    return document.host if isinstance(document, Document) else None


def moment_ms(text: str, now_ms: int) -> int:
    """Time in words, in milliseconds since 1970: ISO 8601 (UTC without a zone), or how long ago: 90s, 15m, 2h, 3d.

    Raises SettingsError.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_ms - int(ago[1]) * _UNITS_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise SettingsError(
            f"--since {text}: is no time: write it as 2026-01-31T18:00, or how long ago it was: 90s, 15m, 2h, 3d."
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)
