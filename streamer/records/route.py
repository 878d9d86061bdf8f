"""Route: a record and its decision become an outgoing record. Pure.

docs/headers.md shows every header. The input's stay, except `neardup.*`: another filter's would contradict the new
ones. `neardup.replayed` stays too, since it shows a dead letter that keeps returning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import orjson

from index import NO_DISTANCE, Decisions, Insert, Position, Source, Verdict, minhash
from streamer.records.decode import DeadLetter, Document
from streamer.records.reason import OTHER, SHARED, Reason, label, verdict_of
from streamer.records.record import (
    Decision,
    Destination,
    Feed,
    Header,
    Headers,
    Outgoing,
    ProtectedMatch,
    Record,
)
from streamer.records.relation import IN_BITS, Measure, relation

PREFIX = "neardup."
VERDICT = "neardup.verdict"
SHADOW = "neardup.shadow"
REASON = "neardup.reason"
POSITION = "neardup.position"
STREAM = "neardup.stream"
SETTINGS = "neardup.settings"
OFFSETS = "neardup.offsets"
ID = "neardup.id"
FINGERPRINT = "neardup.fingerprint"
DISTANCE = "neardup.distance"
SIMILARITY = "neardup.similarity"
RELATION = "neardup.relation"
LENGTH = "neardup.length"
NEW = "neardup.new"
ORIGINAL_ID = "neardup.original.id"
ORIGINAL_POSITION = "neardup.original.position"
ORIGINAL_STREAM = "neardup.original.stream"
BASE = "neardup.base"
PROTECTED = "neardup.protected"

REPLAYED = "neardup.replayed"
REPLAYED_STREAM = "neardup.replayed.stream"

CONNECT_PREFIX = "__connect.errors."

# Published values, not names of classes: tools filter dead letters by them, and old dead letters keep them.
CONNECT_CLASS = "streamer.document.Decoder"
CONNECT_EXCEPTION_CLASS = "streamer.document.DeadLetter"

DESTINATIONS = {
    Verdict.UNIQUE: Destination.UNIQUE,
    Verdict.TEMPLATE: Destination.UNIQUE,
    Verdict.UNDECIDABLE: Destination.UNIQUE,
    Verdict.UPDATE: Destination.UNIQUE,
    Verdict.EXTENDS: Destination.UNIQUE,
    Verdict.ADDS: Destination.UNIQUE,
    Verdict.DUPLICATE: Destination.DUPLICATE,
    Verdict.SUSPECT: Destination.UNIQUE,
    Verdict.GIVEN_BACK: Destination.UNIQUE,
    Verdict.DEAD_LETTER: Destination.DEAD_LETTER,
}
"""Output of each verdict, outside of shadow mode."""


def destination_of(verdict: Verdict, *, shadow: bool) -> Destination:
    """Output for a verdict. Shadow mode sends duplicates to the unique ones, and changes nothing else."""
    destination = DESTINATIONS[verdict]
    return Destination.UNIQUE if shadow and destination is Destination.DUPLICATE else destination


def explain(
    records: Sequence[Record],
    documents: Sequence[Document | DeadLetter],
    fingerprints_hex: Sequence[str | None],
    decisions: Decisions,
    stream_names: Mapping[str, str],
    measure: Measure = IN_BITS,
) -> list[Decision]:
    """Decisions on n records in words, row for row. The journal's verdict and reason win over today's decoding.

    fingerprints_hex  lower-case hexadecimal; shown for comparable entries
    stream_names      stream -> name in originals' positions; default: the id
    """
    columns = zip(
        records,
        documents,
        fingerprints_hex,
        decisions.verdicts.tolist(),
        decisions.reasons.tolist(),
        decisions.distances.tolist(),
        decisions.original_ids,
        decisions.original_positions,
        decisions.replayed.tolist(),
        *measure.columns(decisions),
        strict=True,
    )
    explained: list[Decision] = []
    for _, document, fingerprint, number, reason, distance, original_id, original, replayed, length, new in columns:
        verdict, label_text = _words(number, reason)
        identity = document.id
        if verdict is Verdict.UNIQUE:
            explained.append(Decision(verdict, label_text, identity, fingerprint, replayed=replayed))
        elif verdict.names_original:
            is_measured = distance != NO_DISTANCE
            explained.append(
                Decision(
                    verdict,
                    label_text,
                    identity,
                    fingerprint,
                    distance if is_measured and not measure.by_similarity else None,
                    original_id,
                    None if original is None else position_text(original, stream_names),
                    None,
                    replayed,
                    None if original is None else original.source.stream,
                    minhash.similarity_of(distance) if is_measured and measure.by_similarity else None,
                    relation(verdict, reason, length, new, measure.longer_min),
                    length,
                    new,
                )
            )
        else:
            detail = document.detail if type(document) is DeadLetter and verdict is Verdict.DEAD_LETTER else None
            explained.append(Decision(verdict, label_text, identity, detail=detail, replayed=replayed))
    return explained


@dataclass(frozen=True, slots=True)
class Router:
    """Makes outgoing records.

    connector_name, task_id  for the Kafka Connect headers of dead letters
    settings_digest          digest of the settings for texts, ids and fingerprints; None: no such header
    with_headers             False for a transport without headers
    measure                  of the index that decides
    shadow                   see `destination_of`; a header names the avoided output

    >>> record = Record(Source("id", 0), "pages", 7, key=None, value=b"{}", timestamp_ms=0)
    >>> (outgoing,) = Router("neardup", "0").route([record], [Decision(Verdict.UNIQUE, "no-match", "a")])
    >>> outgoing.destination, outgoing.headers[:2]
    (<Destination.UNIQUE: 'unique'>, (('neardup.verdict', b'unique'), ('neardup.reason', b'no-match')))
    """

    connector_name: str
    task_id: str
    settings_digest: str | None = None
    with_headers: bool = True
    shadow: bool = False
    measure: Measure = IN_BITS

    def explained(
        self,
        records: Sequence[Record],
        documents: Sequence[Document | DeadLetter],
        fingerprints_hex: Sequence[str | None],
        decisions: Decisions,
        stream_names: Mapping[str, str],
        protected: Sequence[tuple[ProtectedMatch, ...]] | None = None,
    ) -> list[Outgoing]:
        """`explain` and `route`. `protected`: what protected sets say, row for row; None without sets."""
        words = explain(records, documents, fingerprints_hex, decisions, stream_names, self.measure)
        if protected is not None:
            for decision, matches in zip(words, protected, strict=True):
                decision.protected = matches
        return self.route(records, words)

    def route(self, records: Sequence[Record], decisions: Sequence[Decision]) -> list[Outgoing]:
        """Outgoing records for n records, row for row: only destination and headers change."""
        destinations = {verdict: destination_of(verdict, shadow=self.shadow) for verdict in Verdict}
        if not self.with_headers:
            return [
                Outgoing(destinations[decision.verdict], record, (), decision)
                for record, decision in zip(records, decisions, strict=True)
            ]
        outgoing: list[Outgoing] = []
        topic, source = None, None
        by_settings = () if self.settings_digest is None else ((SETTINGS, self.settings_digest.encode()),)
        for record, decision in zip(records, decisions, strict=True):
            if record.source is not source or record.topic is not topic:
                topic, source = record.topic, record.source
                before, of_stream = _bytes(f"{topic}/{source.partition}/"), (STREAM, source.stream.encode())
            kept = record.headers
            if kept:
                kept = tuple(
                    header for header in kept if not header[0].startswith(PREFIX) or header[0].startswith(REPLAYED)
                )
            destination = destinations[decision.verdict]
            gained = _gained(record, decision, (POSITION, before + b"%d" % record.offset), of_stream)
            gained += by_settings
            if destination is not DESTINATIONS[decision.verdict]:
                gained += ((SHADOW, DESTINATIONS[decision.verdict].encode()),)
            if decision.verdict is Verdict.DEAD_LETTER:
                gained += _connect_errors(record, decision, self.connector_name, self.task_id)
            outgoing.append(Outgoing(destination, record, kept + gained, decision))
        return outgoing


def protected_copies(outgoing: Sequence[Outgoing]) -> list[Outgoing]:
    """Copies for `Feed.PROTECTED`: outgoing records that resemble an entry in a protected set."""
    return [
        Outgoing(Feed.PROTECTED, each.record, each.headers)
        for each in outgoing
        if each.decision is not None and each.decision.protected
    ]


def parse_position(headers: Headers) -> Position | None:
    """Input position in an output's headers, or None."""
    return _parse(headers, STREAM, POSITION)


def parse_original_position(headers: Headers) -> Position | None:
    """The original's position in an output's headers, or None."""
    return _parse(headers, ORIGINAL_STREAM, ORIGINAL_POSITION)


def parse_replayed_position(headers: Headers) -> Position | None:
    """Position of the replayed dead letter, or None."""
    return _parse(headers, REPLAYED_STREAM, REPLAYED)


def is_given_back(headers: Headers) -> bool:
    """Whether an output is given back: it is out of order within its source."""
    return (VERDICT, Verdict.GIVEN_BACK.label.encode()) in headers


def given_back(headers: Headers) -> Headers:
    """Headers for a given-back record: the input's, its name and its original, from its drop's."""
    kept = tuple(header for header in headers if not header[0].startswith(PREFIX))
    named = tuple(header for header in headers if header[0] in _NAMING)
    return (*kept, (VERDICT, Verdict.GIVEN_BACK.label.encode()), *named)


_NAMING = (POSITION, STREAM, ID, ORIGINAL_ID, ORIGINAL_POSITION, ORIGINAL_STREAM, PROTECTED)


def replayed(kept: Headers, headers: Headers) -> Headers:
    """Headers for a replayed dead letter, with `headers`: the input's, `kept`, and its previous position."""
    values = dict(headers)
    return (*kept, (REPLAYED, values[POSITION]), (REPLAYED_STREAM, values[STREAM]))


def restoring_outputs(insert: Insert) -> list[tuple[Destination, Verdict]]:
    """Outputs that restore a lost index, in order, each with the verdict that enters in that turn.

    Uniques and given-back records come first: duplicates and suspects need their originals, and updates retire only
    entered versions. The unique output comes again for its other verdicts.
    """
    outputs = [(Destination.UNIQUE, Verdict.UNIQUE), (Destination.UNIQUE, Verdict.UPDATE)]
    if insert == "unique":
        return outputs
    resembling = [verdict for verdict in Verdict if verdict.names_original and not verdict.stands_for_itself]
    outputs += [(Destination.UNIQUE, verdict) for verdict in resembling]
    return [*outputs, (Destination.DUPLICATE, Verdict.DUPLICATE)]


def restoring_verdict(record: Record) -> Verdict:
    """Verdict with which an output's record enters a lost index: the headers', for a named original or a given-back
    record; else UNIQUE.
    """
    headers = dict(record.headers)
    return _restoring_verdict(headers.get(VERDICT) or b"", headers.get(REASON) or b"")


@lru_cache(256)
def _restoring_verdict(verdict: bytes, reason: bytes) -> Verdict:
    named = verdict_of(verdict.decode(errors="replace"), reason.decode(errors="replace"))
    return named if named is not None and (named.names_original or named is Verdict.GIVEN_BACK) else Verdict.UNIQUE


def restoring_reasons(
    entered: Sequence[int], records: Sequence[Record], originals: Sequence[Position | None]
) -> list[int]:
    """Reasons with which an output's records enter a lost index: those of a shared id as in the headers, else as entered.

    originals  as in `Index.restore`; without one an update enters as UNIQUE
    """
    reasons = list(entered)
    for row, (record, original) in enumerate(zip(records, originals, strict=True)):
        told = _SHARING.get(dict(record.headers).get(REASON) or b"")
        if told is not None and reasons[row] == Reason.ORDINARY:
            is_update = told is Reason.OTHER_TEXT
            reasons[row] = told if not is_update or (original is not None and original.source.stream) else reasons[row]
    return reasons


_SHARING = {
    label(verdict, reason).encode(): reason
    for verdict, table in ((Verdict.UPDATE, OTHER), (Verdict.UNIQUE, SHARED))
    for reason in table.values()
}


def restored_as(verdict: Verdict, records: Sequence[Record]) -> list[Record]:
    """An output's records that enter a lost index in this verdict's turn.

    Updates, template pages and longer versions enter with the unique ones; updates again after all that they replaced.
    """
    if verdict is Verdict.UNIQUE:
        return [record for record in records if restoring_verdict(record) in _WITH_UNIQUES]
    return [record for record in records if restoring_verdict(record) is verdict]


_WITH_UNIQUES = [verdict for verdict in Verdict if verdict.stands_for_itself and verdict is not Verdict.GIVEN_BACK]


@cache
def _words(verdict: int, reason: int) -> tuple[Verdict, str]:
    return Verdict(verdict), label(Verdict(verdict), Reason(reason))


@cache
def _verdict_headers(verdict: Verdict, reason: str) -> Headers:
    return ((VERDICT, verdict.label.encode()), (REASON, reason.encode()))


def position_text(position: Position, names: Mapping[str, str]) -> str:
    """`name/partition/offset`, with the stream's id for a missing name."""
    stream, partition = position.source
    return f"{names.get(stream) or stream}/{partition}/{position.offset}"


def _gained(record: Record, decision: Decision, position: Header, stream: Header) -> Headers:
    """A decision's headers, made for every record: each is one step, and values with few variants are cached."""
    gained = [*_verdict_headers(decision.verdict, decision.reason), position, stream]
    if record.lost is not None:
        gained.append((OFFSETS, b"%d" % record.lost.offsets))
    if decision.id is not None:
        gained.append((ID, _bytes(decision.id)))
    if decision.fingerprint is not None:
        gained.append((FINGERPRINT, decision.fingerprint.encode()))
    if decision.verdict.names_original:
        if decision.original_id is not None:
            gained.append((ORIGINAL_ID, _bytes(decision.original_id)))
        if decision.original_position is not None:
            gained.append((ORIGINAL_POSITION, _bytes(decision.original_position)))
        if decision.original_stream is not None:
            gained.append((ORIGINAL_STREAM, _bytes(decision.original_stream)))
            if (base := decision.base) is not None:
                gained.append((BASE, _bytes(base)))
        if decision.distance is not None:
            gained.append(_short_header(DISTANCE, decision.distance))
        if decision.similarity is not None:
            gained.append(_short_header(SIMILARITY, decision.similarity))
        if decision.relation is not None:
            gained.append(_short_header(RELATION, decision.relation))
        if decision.length is not None:
            gained.append((LENGTH, b"%.3f" % decision.length))
        if decision.new is not None:
            gained.append((NEW, b"%.3f" % decision.new))
    if decision.protected:
        gained.append((PROTECTED, orjson.dumps([match.as_json() for match in decision.protected])))
    return tuple(gained)


@lru_cache(1024, typed=True)
def _short_header(name: str, value: float | str) -> Header:
    return (name, str(value).encode())


def _connect_errors(record: Record, decision: Decision, connector_name: str, task_id: str) -> Headers:
    """The ten headers of a dead letter for Kafka Connect's tools, in Connect's order and as decimal text.

    Names from org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter.
    """
    message = decision.reason if decision.detail is None else f"{decision.reason}: {decision.detail}"
    facts = (
        ("topic", record.topic),
        ("partition", str(record.source.partition)),
        ("offset", str(record.offset)),
        ("connector.name", connector_name),
        ("task.id", task_id),
        ("stage", "VALUE_CONVERTER"),
        ("class.name", CONNECT_CLASS),
        ("exception.class.name", CONNECT_EXCEPTION_CLASS),
        ("exception.message", message),
        ("exception.stacktrace", f"{CONNECT_EXCEPTION_CLASS}: {message}"),
    )
    return tuple((CONNECT_PREFIX + name, _bytes(value)) for name, value in facts)


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")


def _parse(headers: Headers, stream_name: str, position_name: str) -> Position | None:
    values = dict(headers)
    stream, position = values.get(stream_name), values.get(position_name)
    if stream is None or position is None:
        return None
    numbers = position.rsplit(b"/", 2)[1:]
    if len(numbers) != 2 or not all(number.isdigit() and len(number) < 20 for number in numbers):
        return None
    try:
        return Position(Source(stream.decode(), int(numbers[0])), int(numbers[1]))
    except UnicodeDecodeError:
        return None
