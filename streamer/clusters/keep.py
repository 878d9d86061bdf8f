"""Policies that choose a cluster's best document."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jsonpointer import JsonPointer, JsonPointerException

from streamer.errors import SettingsError
from streamer.records.hosts import host_reader
from streamer.records.names import without_scope
from streamer.settings.decode import PRESETS, Decode

Rank = Callable[[str | None, int | None, float, str | None], float]
"""A document's rank; the lowest is the best, at a tie the first.

host     None: unknown
time_ms  milliseconds since 1970; None: unknown
length   letters divided by the root's
field    the value at the policy's pointer, as text; None: neither text nor number
"""


class Policy(NamedTuple):
    """How the best document of a cluster is chosen.

    pointer  JSON pointer to the field that the rank asks for; None: none

    >>> policy = rank_by("max:/score", Decode())
    >>> policy.pointer, policy.rank(None, None, 1.0, "0.9") < policy.rank(None, None, 1.0, "0.3")
    ('/score', True)
    """

    rank: Rank
    pointer: str | None = None


POLICIES: dict[str, Policy] = {
    "first": Policy(lambda _host, _time_ms, _length, _field: 0.0),
    "longest": Policy(lambda _host, _time_ms, length, _field: -length),
    "newest": Policy(lambda _host, time_ms, _length, _field: math.inf if time_ms is None else -time_ms),
}
HOST_ORDER = "host-order="

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_OTHERS = "max:POINTER, min:POINTER, first:POINTER=A,B,C"


def rank_by(policy: str, decode: Decode) -> Policy:
    """A policy by its words: one in POLICIES; host-order=FILE with a host a line, the best first; or one by a field.

    max:POINTER, min:POINTER  the largest, the smallest number, which may be written as a text; documents without one come last
    first:POINTER=A,B,C       the first of these texts or numbers; documents with another value come last

    Raises SettingsError.

    >>> newest = rank_by("newest", Decode(time="/crawled")).rank
    >>> newest(None, 2_000, 1.0, None) < newest(None, 1_000, 1.0, None) < newest(None, None, 1.0, None)
    True
    """
    if policy == "newest" and (decode.time or PRESETS[decode.preset].time) is None:
        raise SettingsError("--keep newest: no field is a document's time: set decode.time.")
    if policy in POLICIES:
        return POLICIES[policy]
    if policy.startswith(HOST_ORDER):
        return _by_hosts(policy, decode)
    kind, colon, rest = policy.partition(":")
    if not colon or kind not in ("max", "min", "first"):
        raise SettingsError(
            f"--keep {policy}: is no policy: name {', '.join(POLICIES)}, {_OTHERS} or {HOST_ORDER}FILE."
        )
    pointer, listed = rest, ""
    if kind == "first":
        pointer, _, listed = rest.partition("=")
    _require_pointer(policy, pointer, decode)
    if kind == "first":
        return Policy(_by_list(policy, listed.split(",")), pointer)
    sign = -1.0 if kind == "max" else 1.0
    return Policy(lambda _host, _time_ms, _length, field: _number(field, sign), pointer)


def _by_hosts(policy: str, decode: Decode) -> Policy:
    try:
        lines = Path(policy.removeprefix(HOST_ORDER)).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--keep {policy}: the file cannot be read: {error}.") from error
    places = {host: place for place, host in reversed([*enumerate(map(host_reader(decode.host_scope), lines))]) if host}
    if not places:
        raise SettingsError(f"--keep {policy}: the file names no host: write one a line, the best first.")
    named = str if decode.scope is None else without_scope
    return Policy(lambda host, _time_ms, _length, _field: places.get(named(host or ""), math.inf))


def _by_list(policy: str, values: Sequence[str]) -> Rank:
    places = {value: place for place, value in reversed([*enumerate(values)]) if value}
    if not places:
        raise SettingsError(f"--keep {policy}: names no value: write first:POINTER=A,B,C, the best first.")
    return lambda _host, _time_ms, _length, field: math.inf if field is None else places.get(field, math.inf)


def _require_pointer(policy: str, pointer: str, decode: Decode) -> None:
    try:
        JsonPointer(pointer)
    except JsonPointerException as error:
        raise SettingsError(f"--keep {policy}: {error}: write a JSON pointer such as /score.") from error
    if not pointer:
        raise SettingsError(f"--keep {policy}: names no field: write a JSON pointer such as /score.")
    if decode.format == "text":
        raise SettingsError(f'--keep {policy}: lines of decode.format = "text" have no fields.')


def _number(field: str | None, sign: float) -> float:
    """The rank of a number in a text; infinite without one."""
    return sign * float(field) if field is not None and _NUMBER.fullmatch(field) else math.inf
