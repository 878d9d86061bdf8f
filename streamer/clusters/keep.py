"""Policies that choose a cluster's best document."""

import math
from collections.abc import Callable
from pathlib import Path

from streamer.errors import SettingsError
from streamer.records.hosts import host_reader
from streamer.records.names import without_scope
from streamer.settings.decode import PRESETS, Decode

Rank = Callable[[str | None, int | None, float], float]
"""A document's rank; the lowest is the best, at a tie the first.

host     None: unknown
time_ms  milliseconds since 1970; None: unknown
length   letters divided by the root's
"""

POLICIES: dict[str, Rank] = {
    "first": lambda _host, _time_ms, _length: 0.0,
    "longest": lambda _host, _time_ms, length: -length,
    "newest": lambda _host, time_ms, _length: math.inf if time_ms is None else -time_ms,
}
HOST_ORDER = "host-order="


def rank_by(policy: str, decode: Decode) -> Rank:
    """A policy by its words: one in POLICIES, or host-order=FILE with a host a line, the best first.

    Raises SettingsError.

    >>> newest = rank_by("newest", Decode(time="/crawled"))
    >>> newest(None, 2_000, 1.0) < newest(None, 1_000, 1.0) < newest(None, None, 1.0)
    True
    """
    if policy == "newest" and (decode.time or PRESETS[decode.preset].time) is None:
        raise SettingsError("--keep newest: no field is a document's time: set decode.time.")
    if policy in POLICIES:
        return POLICIES[policy]
    if not policy.startswith(HOST_ORDER):
        raise SettingsError(f"--keep {policy}: is no policy: name {', '.join(POLICIES)} or {HOST_ORDER}FILE.")
    try:
        lines = Path(policy.removeprefix(HOST_ORDER)).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--keep {policy}: the file cannot be read: {error}.") from error
    places = {host: place for place, host in reversed([*enumerate(map(host_reader(decode.host_scope), lines))]) if host}
    if not places:
        raise SettingsError(f"--keep {policy}: the file names no host: write one a line, the best first.")
    named = str if decode.scope is None else without_scope
    return lambda host, _time_ms, _length: places.get(named(host or ""), math.inf)
