"""What a file takes: values by destination, and a verdict line for each decided record."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple, overload

import numpy as np
import orjson

from index import NO_DISTANCE, Decisions, Position, Verdict, base_of, minhash
from streamer.records.decode import DeadLetter, Document
from streamer.records.reason import Reason, label
from streamer.records.record import Destination, Outgoing, Record
from streamer.records.relation import relation
from streamer.records.route import DESTINATIONS, Router, destination_of

_STRING = rb'"(?:[^"\\]|\\.)*+"'
_OF_ARCHIVE = re.compile(
    rb'\{(?:"id":%b,)?+"url":(%b)(?:,"time":%b)?+,"type":"(?:response|resource|conversion)"'
    % (_STRING, _STRING, _STRING)
)
"""The beginning of a line that `transports.files.warc` made, with its URL. The text behind it may be long."""

_ARCHIVED_BEGIN = 2**13
"""Bytes in which the URL of such a line begins: an id is before it at most."""

_URL = b'"url":"'

_LABELS = {verdict: verdict.label for verdict in Verdict}


def verdict_lines(outgoing: Iterable[Outgoing]) -> bytes:
    r"""A line with a JSON object for each: source, line (from 1), id, verdict, original, distance, reason.

    `original` is an id; id, original and distance may be null. A duplicate adds `original_source` and `original_line`, and
    `base` if they are those of a base set.
    By similarity, distance is null, and `similarity` is added; then `relation`, `length` and `new`, as far as known. A dead
    letter may have `detail`. In shadow mode a duplicate has `shadow`, the avoided output. A page of an archive has `url`, since
    its id names a record. `protected` has what it resembles in protected sets.
    Non-UTF-8 bytes in a file's name appear as \xNN.
    """
    verdicts = [*map(_verdict, outgoing)]
    try:
        written = orjson.dumps(verdicts)
    except TypeError:
        written = orjson.dumps(
            [
                {key: _shown(value) if isinstance(value, str) else value for key, value in verdict.items()}
                for verdict in verdicts
            ]
        )
    # A call for each line takes nine times as long. Within a string a quotation mark follows a backslash, so no
    # string has such a joint.
    return written[1:-1].replace(b'},{"source":', b'}\n{"source":') + b"\n" * bool(verdicts)


def _verdict(outgoing: Outgoing) -> dict[str, Any]:
    decision, record = outgoing.decision, outgoing.record
    assert decision is not None, "a batch between parts has no verdict line"
    line: dict[str, Any] = {
        "source": record.topic,
        "line": record.offset + 1,
        "id": decision.id,
        "verdict": _LABELS[decision.verdict],
        "original": decision.original_id,
    }
    if (url := _archived_url(record.value)) is not None:
        line["url"] = url
    if decision.original_position is not None:
        line["original_source"], _, offset = decision.original_position.rsplit("/", 2)
        line["original_line"] = int(offset) + 1
    if (base := decision.base) is not None:
        line["base"] = base
    line["distance"] = decision.distance
    line["reason"] = decision.reason
    if decision.similarity is not None:
        line["similarity"] = decision.similarity
    if decision.relation is not None:
        line["relation"], line["length"] = decision.relation, decision.length
    if decision.new is not None:
        line["new"] = decision.new
    if decision.detail is not None:
        line["detail"] = decision.detail
    if decision.protected:
        line["protected"] = [match.as_json() for match in decision.protected]
    if outgoing.destination is not DESTINATIONS[decision.verdict]:
        line["shadow"] = DESTINATIONS[decision.verdict]
    return line


def _archived_url(value: bytes | None) -> str | None:
    """URL of a page from an archive; None for any other record."""
    # Most records have no such key near their beginning, and the search for it costs a twentieth.
    if value is None or value.find(_URL, 0, _ARCHIVED_BEGIN) < 0:
        return None
    begin = _OF_ARCHIVE.match(value)
    with suppress(orjson.JSONDecodeError):
        return None if begin is None else orjson.loads(begin[1])
    return None


def _shown(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Lines(Sequence[Outgoing]):
    """Outgoing records without headers, as a file takes them. Each is made when it is asked for.

    Lines of unique documents and of duplicates, nearly all, come from columns: a fifth and three fifths of the time from objects.

    >>> from index import NO_DISTANCE, Source
    >>> nothing, none = np.zeros(1, np.uint8), np.full(1, NO_DISTANCE, np.int16)
    >>> decisions = Decisions(nothing, nothing, none, nothing, [None], [None], nothing, nothing)
    >>> records = [Record(Source("stream", 0), "pages", 7, key=None, value=b"{}", timestamp_ms=0)]
    >>> lines = Lines(Router("neardup", "0", with_headers=False), records, [Document("a", "text")], decisions, {})
    >>> lines.values()["unique"], lines[0].decision.id
    ([b'{}'], 'a')
    """

    def __init__(
        self,
        router: Router,
        records: Sequence[Record],
        documents: Sequence[Document | DeadLetter],
        decisions: Decisions,
        stream_names: Mapping[str, str],
    ) -> None:
        """See `Router.explained`."""
        self._router, self._names = router, stream_names
        self._records, self._documents, self._decisions = records, documents, decisions
        self._places: dict[str, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, row: int) -> Outgoing: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Outgoing]: ...
    def __getitem__(self, row: int | slice) -> Outgoing | Sequence[Outgoing]:
        return self._made[row]

    def values(self) -> dict[str, list[bytes]]:
        """The records' values by destination, in order."""
        verdicts, values = self._decisions.verdicts, [record.value or b"" for record in self._records]
        by_destination: dict[str, list[bytes]] = {}
        for destination in Destination:
            chosen = [
                verdict for verdict in Verdict if destination_of(verdict, shadow=self._router.shadow) is destination
            ]
            by_destination[destination] = [*compress(values, np.isin(verdicts, chosen).tolist())]
        return by_destination

    def outcomes(self) -> Counter[str]:
        """How many there are by "verdict/reason"."""
        # Both are bytes.
        pairs = np.bincount(self._decisions.verdicts.astype(np.int64) << 8 | self._decisions.reasons)
        counts: Counter[str] = Counter()
        for pair in np.flatnonzero(pairs).tolist():
            # Two verdicts may have one label.
            verdict = Verdict(pair >> 8)
            counts[f"{verdict.label}/{label(verdict, Reason(pair & 255))}"] += int(pairs[pair])
        return counts

    def verdict_lines(self) -> bytes:
        """The records' `verdict_lines`."""
        has_url = [(record.value or b"").find(_URL, 0, _ARCHIVED_BEGIN) >= 0 for record in self._records]
        verdicts, plain, lines = self._decisions.verdicts, ~np.array(has_url, np.bool_), [""] * len(self)
        uniques, duplicates = (plain & (verdicts == each) for each in (Verdict.UNIQUE, Verdict.DUPLICATE))
        rows = [np.flatnonzero(each).tolist() for each in (uniques, duplicates, ~(uniques | duplicates))]
        try:
            made = self._of_uniques(rows[0]), self._of_duplicates(rows[1])
            others = verdict_lines(self._explained(rows[2])).decode().split("\n")[:-1]
            for places, texts in zip(rows, (*made, others), strict=True):
                for row, line in zip(places, texts, strict=True):
                    lines[row] = line
        except TypeError:
            return verdict_lines(self)
        return "\n".join([*lines, ""]).encode()

    def _of_uniques(self, rows: Sequence[int]) -> Iterator[str]:
        """Verdict lines for unique records. Raises TypeError for a text that is no UTF-8."""
        reasons, ends = self._decisions.reasons[rows].tolist(), dict[int, str]()
        for reason in set(reasons):
            named = label(Verdict.UNIQUE, Reason(reason))
            ends[reason] = f',"verdict":"unique","original":null,"distance":null,"reason":"{named}"}}'
        for begin, reason in zip(self._beginnings(rows), reasons, strict=True):
            yield f"{begin}{ends[reason]}"

    def _of_duplicates(self, rows: Sequence[int]) -> Iterator[str]:
        """Verdict lines for duplicates. Raises TypeError for a text that is no UTF-8."""
        decisions, measure = self._decisions, self._router.measure
        originals = _written([decisions.original_ids[row] for row in rows])
        reasons, distances = decisions.reasons.tolist(), decisions.distances.tolist()
        similarities = minhash.similarities_of(decisions.distances).tolist()
        labels = {reason: label(Verdict.DUPLICATE, Reason(reason)) for reason in {reasons[row] for row in rows}}
        lengths, news = measure.columns(decisions)
        end = f',"shadow":"{Destination.DUPLICATE}"}}' if self._router.shadow else "}"
        for row, begin, original in zip(rows, self._beginnings(rows), originals, strict=True):
            position, reason, length, new = decisions.original_positions[row], reasons[row], lengths[row], news[row]
            place = "" if position is None else self._place_text(position)
            distance, similarity = "null", ""
            if distances[row] != NO_DISTANCE and measure.by_similarity:
                similarity = f',"similarity":{similarities[row]}'
            elif distances[row] != NO_DISTANCE:
                distance = distances[row]
            related = ""
            if length is not None:
                named = relation(Verdict.DUPLICATE, reason, length, new, measure.longer_min)
                related = f',"relation":"{named}","length":{length}'
            if new is not None:
                related += f',"new":{new}'
            yield (
                f'{begin},"verdict":"duplicate","original":{original}{place},"distance":{distance},'
                f'"reason":"{labels[reason]}"{similarity}{related}{end}'
            )

    def _beginnings(self, rows: Sequence[int]) -> Iterator[str]:
        """Verdict lines up to the id."""
        topic = None
        for row, id_ in zip(rows, _written([self._documents[row].id for row in rows]), strict=True):
            record = self._records[row]
            if record.topic is not topic:
                topic = record.topic
                source = f'{{"source":{orjson.dumps(topic).decode()},"line":'
            yield f'{source}{record.offset + 1},"id":{id_}'

    def _place_text(self, position: Position) -> str:
        """An original's place in a verdict line."""
        stream = position.source.stream
        source, base = self._places.get(stream) or self._places.setdefault(stream, self._named(stream))
        return f',"original_source":{source},"original_line":{position.offset + 1}{base}'

    def _named(self, stream: str) -> tuple[str, str]:
        """A stream's name as JSON, and that of its base set as a verdict line has it."""
        base = base_of(stream)
        shown = "" if base is None else f',"base":{orjson.dumps(base.name).decode()}'
        return orjson.dumps(self._names.get(stream) or stream).decode(), shown

    @cached_property
    def _made(self) -> list[Outgoing]:
        return self._explained(range(len(self)))

    def _explained(self, rows: Sequence[int]) -> list[Outgoing]:
        decisions = {
            each.name: _chosen(getattr(self._decisions, each.name), rows)
            for each in fields(Decisions)
            if each.name != "crossings"
        }
        records, documents = _chosen(self._records, rows), _chosen(self._documents, rows)
        return self._router.explained(
            records, documents, [None] * len(rows), replace(self._decisions, **decisions), self._names
        )


def _written(texts: Sequence[str | None]) -> Sequence[str]:
    """Each text as JSON. Raises TypeError for one that is no UTF-8."""
    # No string has a line break of its own.
    return orjson.dumps(texts, option=orjson.OPT_INDENT_2).decode()[4:-2].split(",\n  ") if texts else ()


def _chosen(column: Any, rows: Sequence[int]) -> Any:
    return column[list(rows)] if isinstance(column, np.ndarray) else [column[row] for row in rows]


class Written(NamedTuple):
    """What a file takes from outgoing records.

    values         by destination or feed, in order
    verdict_lines  all but for copies
    outcomes       their number by "verdict/reason"

    >>> written([]).values
    {}
    """

    values: Mapping[str, list[bytes]]
    verdict_lines: bytes
    outcomes: Counter[str]


def written(outgoing: Sequence[Outgoing]) -> Written:
    """What a file takes from these."""
    if isinstance(outgoing, Lines):
        return Written(outgoing.values(), outgoing.verdict_lines(), outgoing.outcomes())
    values: dict[str, list[bytes]] = {}
    for each in outgoing:
        values.setdefault(each.destination, []).append(each.record.value or b"")
    decided = [each for each in outgoing if each.decision is not None]
    outcomes = Counter(
        f"{each.decision.verdict.label}/{each.decision.reason}" for each in decided if each.decision is not None
    )
    return Written(values, verdict_lines(decided), outcomes)
