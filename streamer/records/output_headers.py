"""An output's headers, parsed: the strict reverse of `route`. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from index import NO_DISTANCE, Position, Verdict, minhash
from streamer.records import route
from streamer.records.reason import verdict_of
from streamer.records.record import Destination, Headers, ProtectedMatch
from streamer.records.relation import RELATIONS

CONNECT_HEADERS = 10
"""Kafka Connect headers at the end of a dead letter."""


@dataclass(frozen=True, slots=True)
class OutputHeaders:
    """The verdict on an output. A missing header gives None, or an empty text.

    distance     to the match, as the index measures it (similarities too); NO_DISTANCE without one
    kept         the input's headers
    contradicts  contradictions between the headers, in words
    offsets      covered input offsets from its position on; above 1 for unreadable records
    shadow       whether shadow mode kept it out of another output
    settings     digest of the settings for text, id and fingerprint
    relation     as in `Decision`, like `length`, `new` and `protected`

    >>> headers = (("neardup.verdict", b"unique"), ("neardup.reason", b"no-match"), ("neardup.position", b"pages/0/7"))
    >>> parsed = parse_headers((*headers, ("neardup.stream", b"id")), Destination.UNIQUE)
    >>> parsed.position, parsed.contradicts
    (Position(source=Source(stream='id', partition=0), offset=7), '')
    """

    verdict: Verdict | None
    reason: str
    position: Position | None
    id: str
    fingerprint: str | None
    distance: int
    original: Position | None
    original_id: str
    kept: Headers
    contradicts: str = ""
    offsets: int = 1
    shadow: bool = False
    by_similarity: bool = False
    settings: str = ""
    relation: str = ""
    length: float | None = None
    new: float | None = None
    protected: tuple[ProtectedMatch, ...] = ()


def parse_headers(headers: Headers, destination: Destination, *, of_kafka: bool = True) -> OutputHeaders:
    """Parse an output's headers. `of_kafka` False: only dead letters in Kafka have headers for its tools."""
    added = {name: value or b"" for name, value in headers if name.startswith(route.PREFIX)}
    texts = {name: value.decode(errors="replace") for name, value in added.items()}
    verdict = verdict_of(texts.get(route.VERDICT, ""), texts.get(route.REASON, ""))
    kept = tuple(header for header in headers if not header[0].startswith(route.PREFIX))
    contradictions = []
    if len(added) < len(headers) - len(kept):
        contradictions.append("a header occurs twice")
    shadow = route.SHADOW in texts
    if verdict is None:
        contradictions.append("there is no verdict")
    else:
        if route.destination_of(verdict, shadow=shadow) is not destination:
            contradictions.append(f"the verdict {verdict.label} does not belong here")
        if shadow and (
            texts[route.SHADOW] != route.DESTINATIONS[verdict] or destination is route.DESTINATIONS[verdict]
        ):
            contradictions.append(f"nothing keeps the verdict {verdict.label} out of {texts[route.SHADOW]!r}")
    if verdict is Verdict.DEAD_LETTER and of_kafka:
        if [name for name, _ in kept[-CONNECT_HEADERS:] if name.startswith(route.CONNECT_PREFIX)][9:]:
            kept = kept[:-CONNECT_HEADERS]
        else:
            contradictions.append("the headers of Kafka Connect are missing")
    offsets = texts.get(route.OFFSETS, "1")
    if not (offsets.isascii() and offsets.isdigit() and 0 < len(offsets) < 20):
        contradictions.append(f"it covers {offsets!r} offsets")
        offsets = "1"
    original = route.parse_original_position(headers)
    # A given-back record may name the document that caused its drop.
    names = verdict is not None and verdict.names_original
    if names != (original is not None) and verdict is not Verdict.GIVEN_BACK:
        contradictions.append("there is no original" if original is None else "there is an original")
    distance, problem = _distance(texts.get(route.DISTANCE), texts.get(route.SIMILARITY))
    contradictions += [problem] if problem else []
    length, new, problem = _lengths(texts, names=names)
    contradictions += [problem] if problem else []
    protected, problem = _protected(added.get(route.PROTECTED))
    contradictions += [problem] if problem else []
    return OutputHeaders(
        verdict,
        texts.get(route.REASON, ""),
        route.parse_position(headers),
        texts.get(route.ID, ""),
        texts.get(route.FINGERPRINT),
        distance,
        original,
        texts.get(route.ORIGINAL_ID, ""),
        kept,
        "; ".join(contradictions),
        int(offsets),
        shadow,
        route.SIMILARITY in texts,
        texts.get(route.SETTINGS, ""),
        texts.get(route.RELATION, ""),
        length,
        new,
        protected,
    )


def _protected(report: bytes | None) -> tuple[tuple[ProtectedMatch, ...], str]:
    """What protected sets say, and what is wrong with it."""
    if report is None:
        return (), ""
    try:
        matches = tuple(
            ProtectedMatch(each["set"], each["id"], each.get("similarity"), each.get("distance"))
            for each in orjson.loads(report)
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return (), f"{report.decode(errors='replace')!r} is no report of protected sets"
    if not matches:
        return (), "a report of protected sets names none"
    if len({match.set_name for match in matches}) < len(matches):
        return matches, "a protected set is reported twice"
    return matches, ""


def _lengths(texts: Mapping[str, str], *, names: bool) -> tuple[float | None, float | None, str]:
    """Length, new share, and what contradicts them. `names`: the verdict names an original."""
    relation, length, new = (texts.get(name) for name in (route.RELATION, route.LENGTH, route.NEW))
    if relation is None and length is None and new is None:
        return None, None, ""
    try:
        parsed = float(length or ""), None if new is None else float(new)
    except ValueError:
        return None, None, f"the length {length!r} or the share {new!r} is no number"
    if relation not in RELATIONS or not names:
        return *parsed, f"the relation {relation!r} does not belong here"
    return *parsed, ""


def _distance(bits: str | None, similarity: str | None) -> tuple[int, str]:
    try:
        if bits is not None:
            return int(bits), "" if similarity is None else "there are both a distance and a similarity"
        if similarity is not None:
            return minhash.distance_of(float(similarity)), ""
    except ValueError:
        return NO_DISTANCE, f"the distance {bits or similarity!r} is no number"
    return NO_DISTANCE, ""
