"""Times in the forms that crawlers, databases and people write, to milliseconds since 1970.

    numbers          seconds, milliseconds, microseconds or nanoseconds since 1970, by their size
    digits           2025, 202511, 20251122, 202511221000, 20251122100000 (CDX, Wayback, Nutch), 20251122100000123
    year first       ISO 8601; 2025/11/22 10:00:00; 2025.11.22; 2025年11月22日 10时30分; 2025년 11월 22일
    names of months  RFC 2822, RFC 850, ctime and Java; 22/Nov/2025:10:00:00 +0000; Nov 22, 2025 3:05 PM
    day first        22.11.2025 10:00, with dots only
    objects          {"$date": ...}, {"$numberLong": ...}, {"seconds": ..., "nanos": ...} and their like; [2025, 11, 22, 10, 0]

Without a zone a time is UTC. Names of zones but UTC and GMT are ambiguous (CST is four), and so is 03/04/2025: neither is read.
A time outside of the years 1000 to 2199 is a placeholder or a mistake, and is not read.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

CHARACTERS_MAX = 64
"""A longer text is no time."""

_FIRST_MS = round(datetime(1000, 1, 1, tzinfo=UTC).timestamp() * 1_000)
_END_MS = round(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1_000)
_NUMBER_MAX = 10**20
_SINCE_1973 = 10**8
"""Seconds. Numbers of smaller units begin here: a number between two units has no meaning that is likely."""

_PER_MS = {"s": 1e-3, "ms": 1, "us": 10**3, "ns": 10**6}
_STAMP = re.compile(r"(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{3})?", re.ASCII)
_STAMP_LENGTHS = (4, 6, 8, 12, 14, 17)
"""A calendar's digits. Ten are seconds since 1970."""

_NUMBER = re.compile(r"[+-]?\d{1,20}(?:\.\d{1,20})?(?:[eE]\+?\d{1,2})?", re.ASCII)
_DOT_NET = re.compile(r"/Date\((-?\d{1,16})(?:[+-]\d{4})?\)/", re.ASCII)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]{{0,6}}"
_YEAR = r"(?P<year>\d{4})"
_DATES = (
    rf"{_YEAR}(?P<by>[-/.])(?P<month>\d{{1,2}})(?P=by)(?P<day>\d{{1,2}})",
    rf"{_YEAR}[年년] ?(?P<month>\d{{1,2}})[月월] ?(?P<day>\d{{1,2}})[日号號일]",
    rf"{_YEAR}\. (?P<month>\d{{1,2}})\. (?P<day>\d{{1,2}})\.?",
    rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.{_YEAR}",
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/ ]{_MONTH}\.?,?[-/ ]{_YEAR}",
    rf"(?P<day>\d{{1,2}})-{_MONTH}-(?P<short>\d{{2}})",
    rf"{_MONTH}\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? {_YEAR}",
)
_CLOCK = (
    r"(?P<half>上午|下午|中午|오전|오후)? ?(?P<hour>\d{1,2})(?::|[时時点點시] ?)(?P<minute>\d{1,2})?"
    r"(?:(?::|[分분] ?)(?P<second>\d{1,2})?(?:[.,](?P<fraction>\d{1,9})|[秒초])?)? ?(?P<noon>[ap]\.?m\.?)?"
)
_ZONE = (
    r"(?:(?P<named>z|utc|gmt|ut)? ?(?:(?P<sign>[+-])(?P<zone_hours>\d{1,2}):?(?P<zone_minutes>\d{2})?)?(?: utc| gmt)?)"
)
_FORMS = (
    *(
        re.compile(rf"{date}(?:(?:,? at |[t, :]{{1,2}}|(?<=[日号號일])){_CLOCK} ?{_ZONE})?", re.ASCII)
        for date in _DATES
    ),
    # ctime, Java's and git's form: the year is behind the time.
    re.compile(
        rf"{_MONTH} (?P<day>\d{{1,2}}) {_CLOCK} ?{_ZONE} {_YEAR}(?: {_ZONE.replace('?P<', '?P<late_')})?", re.ASCII
    ),
)
_NOISE = re.compile(
    r"\([^()]*\)|\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b[,.]?|(?:星期|周|週)[一二三四五六日天]|[월화수목금토일月火水木金土日]曜日"
)
"""Weekdays, and whatever brackets hold."""


def time_ms(value: Any) -> int | None:
    """Milliseconds since 1970 for a document's field; None if it is not understood.

    >>> time_ms("20190101000000") == time_ms({"$date": "2019-01-01T00:00:00Z"}) == time_ms(1546300800)
    True
    """
    if type(value) is str:
        return _of_text(value.strip())
    if type(value) in (int, float):
        return _of_number(value)
    if type(value) is dict:
        return _of_object(value)
    return _of_parts(value) if type(value) is list else None


def date_ms(text: str) -> int | None:
    """Milliseconds since 1970 for a date and time in words; None if it is not understood."""
    # Of digits alone the parser takes any that follow a date as a time.
    if not 4 <= len(text) <= CHARACTERS_MAX or (text.isdecimal() and len(text) != len("20251122")):
        return None
    try:
        return _moment_ms(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return _of_form(text)


def _of_text(text: str) -> int | None:
    if len(text) > CHARACTERS_MAX:
        return None
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if _NUMBER.fullmatch(text):
        return _of_number(int(text) if text.isdecimal() else float(text), text)
    if dated := _DOT_NET.fullmatch(text):
        return _plausible(int(dated[1]))
    return date_ms(text)


def _of_number(number: float, text: str = "") -> int | None:
    """A calendar's digits come first: since 1970 they would mean 1970, 1976 or no likely year."""
    if not abs(number) < _NUMBER_MAX:
        return None
    digits = text or (str(number) if type(number) is int and number > 0 else "")
    if len(digits) in _STAMP_LENGTHS and digits.isdecimal() and (stamp := _STAMP.fullmatch(digits)):
        parts = [int(part) for part in stamp.groups() if part]
        # A number of four or six digits is a year of the web, or small.
        if len(digits) > 6 or 1990 <= parts[0] < 2100:
            parts[6:] = [part * 10**6 for part in parts[6:]]
            if (moment := _of_parts([*parts, 1, 1][: max(3, len(parts))])) is not None:
                return moment
    for unit, per_ms in _PER_MS.items():
        ms = number / per_ms if unit != "s" else number * 1_000
        is_late = unit == "s" or abs(ms) >= _SINCE_1973 * 1_000
        if is_late and ms < _END_MS:
            return _plausible(round(ms))
    return None


def _of_object(value: Mapping[str, Any]) -> int | None:
    """MongoDB's extended JSON, and the timestamps that Protobuf and Firestore write."""
    if "$date" in value:
        inner = value["$date"]
        if type(inner) is dict:
            inner = inner.get("$numberLong")
        # Always milliseconds, however few.
        if type(inner) is str and re.fullmatch(r"-?\d{1,16}", inner, re.ASCII):
            inner = int(inner)
        if type(inner) in (int, float):
            return _plausible(round(inner)) if abs(inner) < _NUMBER_MAX else None
        return _of_text(inner.strip()) if type(inner) is str else None
    if type(long := value.get("$numberLong", value.get("$numberDouble"))) is str:
        return _of_text(long)
    if type(stamp := value.get("$timestamp")) is dict:
        return _of_number(stamp["t"]) if type(stamp.get("t")) is int else None
    for seconds, nanos in (("seconds", "nanos"), ("_seconds", "_nanoseconds"), ("seconds", "nanoseconds")):
        whole, rest = value.get(seconds), value.get(nanos, 0)
        if type(whole) is str and re.fullmatch(r"-?\d{1,12}", whole, re.ASCII):
            whole = int(whole)
        if type(whole) is int and type(rest) is int and value.keys() <= {seconds, nanos}:
            return _plausible(whole * 1_000 + rest // 10**6)
    return None


def _of_parts(parts: Sequence[Any]) -> int | None:
    """Year, month, day, hour, minute, second and nanosecond, as Jackson writes a date of Java; at least three."""
    if not 3 <= len(parts) <= 7 or any(type(part) is not int for part in parts):
        return None
    try:
        return _moment_ms(datetime(*parts[:6], *(part // 1_000 for part in parts[6:])))
    except (ValueError, OverflowError):
        return None


def _of_form(text: str) -> int | None:
    text = " ".join(_NOISE.sub(" ", unicodedata.normalize("NFKC", text).lower()).split())
    for form in _FORMS:
        if (match := form.fullmatch(text)) is not None:
            try:
                return _of_match({name: part for name, part in match.groupdict().items() if part})
            except (ValueError, OverflowError):
                return None
    return None


def _of_match(found: Mapping[str, str]) -> int | None:
    """Raises ValueError for a date that no calendar has."""
    # RFC 2822, 4.3: two digits below 50 are of this century.
    year = int(found["year"]) if "year" in found else int(found["short"]) + (2000 if int(found["short"]) < 50 else 1900)
    month = _MONTHS.index(found["name"]) + 1 if "name" in found else int(found["month"])
    hour, half = int(found.get("hour", 0)), found.get("half") or found.get("noon", "")
    if half and hour > 12:
        raise ValueError("the afternoon has twelve hours")
    if half in ("下午", "오후", "中午") or half.startswith("p"):
        hour = hour % 12 + 12
    elif half:
        hour %= 12
    micros = int(found.get("fraction", "0").ljust(9, "0")) // 1_000
    moment = datetime(
        year, month, int(found["day"]), hour, int(found.get("minute", 0)), int(found.get("second", 0)), micros
    )
    sign, hours, minutes = (
        found.get(name, found.get(f"late_{name}", default))
        for name, default in (("sign", "+"), ("zone_hours", "0"), ("zone_minutes", "0"))
    )
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return _moment_ms(moment.replace(tzinfo=timezone(-offset if sign == "-" else offset)))


def _moment_ms(moment: datetime) -> int | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _plausible(round(moment.timestamp() * 1_000))


def _plausible(ms: int) -> int | None:
    return ms if _FIRST_MS <= ms < _END_MS else None
