"""Delivered verdicts against those by other settings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index import NO_DISTANCE, Verdict, minhash
from streamer.delivered.table import NAMING, NO_VERDICT, Flags, Table, any_of, text_of
from streamer.evaluation.sentences import NO_SENTENCES, SentencesLost
from streamer.records.record import Destination
from streamer.records.relation import spread
from streamer.records.route import DESTINATIONS

EXAMPLES_MAX = 10
"""Most listed documents per kind, and hosts."""

SIDES = ("delivered", "other")

UNKNOWN = "not told"
"""Label for a verdict in neither an output nor the index."""

_DROPPED = any_of(verdict for verdict in Verdict if DESTINATIONS[verdict] is Destination.DUPLICATE)

_SCHEMA = f"""
CREATE VIEW difference AS
SELECT ordered.place, o.number, ordered.row, ordered.is_unknown, print.id, print.host, p.new,
    iif(o.verdict = {NO_VERDICT}, coalesce(j.verdict, {NO_VERDICT}), o.verdict) AS delivered, p.verdict AS other,
    original.row AS delivered_original, other_original.row AS other_original,
    o.distance AS delivered_distance, o.by_similarity, p.distance AS other_distance
FROM ordered JOIN output o USING (row) JOIN print USING (row) JOIN decided p USING (place)
LEFT JOIN journal j USING (row) LEFT JOIN output original ON original.row = o.original
LEFT JOIN ordered other_original ON other_original.place = p.original
WHERE ordered.is_counted;
"""
_LINE = """
SELECT difference.row, difference.id, difference.host, delivered, delivered_original, a.id, delivered_distance, by_similarity,
    other, other_original, b.id, other_distance, new
FROM difference LEFT JOIN print a ON a.row = delivered_original LEFT JOIN print b ON b.row = other_original
"""
_NEWLY_DROPPED = f"delivered NOT IN {_DROPPED} AND other IN {_DROPPED}"
_NEWLY_KEPT = f"delivered IN {_DROPPED} AND other NOT IN {_DROPPED}"


@dataclass
class Differences:
    """Both verdicts on documents that were delivered and decided again; see `order.SCHEMA`.

    by_similarity  whether the other settings' distances are in ten-thousandths of 1 - similarity, not in bits
    sentences      lost sentences, as delivered and by the other settings

    >>> from streamer.delivered.table import opened
    >>> from streamer.transports.output_log import Extent
    >>> from streamer.what_if.order import SCHEMA
    >>> with opened(folder / "delivered", Extent({}, {}, {}, {}, outputs=0, inputs=0)) as table:
    ...     table.execute(SCHEMA)
    ...     Differences(table, by_similarity=True).sentences[0].distinct
    0
    """

    table: Table
    by_similarity: bool
    sentences: tuple[SentencesLost, SentencesLost] = (NO_SENTENCES, NO_SENTENCES)

    def __post_init__(self) -> None:
        self.table.execute(_SCHEMA)

    def kept(self, documents: int) -> tuple[Flags, Flags, Flags]:
        """Which documents are compared, and which each side keeps, by their numbers: bool [documents] thrice."""
        flags = np.zeros((3, documents), np.bool_)
        query = f"SELECT number, 1, delivered NOT IN {_DROPPED}, other NOT IN {_DROPPED} FROM difference"
        for portion in self.table.portions(query):
            numbers, *columns = zip(*portion, strict=True)
            flags[:, numbers] = columns
        return flags[0], flags[1], flags[2]

    def as_json(self) -> dict[str, Any]:
        """All differences for machines."""
        changes = self._changes()
        counted, unknown = self.table.one("SELECT count(*), coalesce(sum(is_unknown), 0) FROM difference")
        rows, doubled = self.table.one("SELECT count(*), coalesce(sum(times - 1), 0) FROM output")
        left_out = {"came out more than once": doubled, "whose original can no longer be read": rows - counted}
        others = f"delivered IN {NAMING} AND other IN {NAMING} AND delivered_original IS NOT other_original"
        return {
            "documents": counted,
            "delivered": _by_label(changes, 0),
            "other": _by_label(changes, 1),
            "changed": sum(count for (delivered, other), count in changes.items() if delivered != other),
            "changes": [
                {"delivered": delivered, "other": other, "documents": count}
                for (delivered, other), count in sorted(changes.items())
                if delivered != other
            ],
            "newly_dropped": self._group(_NEWLY_DROPPED) | self._lost(),
            "newly_kept": self._group(_NEWLY_KEPT),
            "other_originals": self._count(others),
            "of_unknown_order": unknown,
            "left_out": {reason: count for reason, count in left_out.items() if count},
            "sentences": {side: each.as_json() for side, each in zip(SIDES, self.sentences, strict=True)},
        }

    def lines(self, rest: str = "ORDER BY place") -> Iterator[dict[str, Any]]:
        """Both decisions on every document for machines, in decision order. `rest`: SQL behind the query."""
        for portion in self.table.portions(f"{_LINE} {rest}"):
            yield from map(self._line, portion)

    def _line(self, columns: tuple[Any, ...]) -> dict[str, Any]:
        row, id_, host, *decisions, new = columns
        return {
            "position": self.table.text(row),
            "id": text_of(id_),
            "host": text_of(host) or None,
            "delivered": self._decision(decisions[:5], None),
            "other": self._decision([*decisions[5:], self.by_similarity], new),
        }

    def _decision(self, columns: Sequence[Any], new: float | None) -> dict[str, Any]:
        verdict, original, id_, distance, by_similarity = columns
        fields: dict[str, Any] = {"verdict": _label(verdict)}
        if verdict == NO_VERDICT or not Verdict(verdict).names_original:
            return fields
        fields["original"] = None if original is None else text_of(id_)
        fields["original_position"] = None if original is None else self.table.text(original)
        if distance != NO_DISTANCE:
            fields |= {"similarity": minhash.similarity_of(distance)} if by_similarity else {"distance": distance}
        if new is not None:
            fields["new"] = round(new, 3)
        return fields

    def _changes(self) -> Counter[tuple[str, str]]:
        """Document counts by delivered and new verdict."""
        changes: Counter[tuple[str, str]] = Counter()
        query = "SELECT delivered, other, count(*) FROM difference GROUP BY delivered, other"
        for portion in self.table.portions(query):
            for delivered, other, count in portion:
                # Several verdicts may have one label.
                changes[_label(delivered), _label(other)] += count
        return changes

    def _count(self, condition: str) -> int:
        return int(self.table.one(f"SELECT count(*) FROM difference WHERE {condition}")[0])

    def _lost(self) -> dict[str, Any]:
        """How much text newly dropped documents have that their originals lack: percentiles, and the documents that lose most."""
        condition = f"{_NEWLY_DROPPED} AND new IS NOT NULL"
        portions = self.table.portions(f"SELECT new FROM difference WHERE {condition}")
        news = np.array([new for portion in portions for (new,) in portion], np.float64)
        worst = self.lines(f"WHERE {condition} ORDER BY new DESC, place LIMIT {EXAMPLES_MAX}")
        return {"new": spread(news), "most_new": list(worst)}

    def _group(self, condition: str) -> dict[str, Any]:
        hosts = f"""SELECT host, count(*) FROM difference WHERE {condition} AND host IS NOT NULL
            GROUP BY host ORDER BY count(*) DESC, min(place) LIMIT {EXAMPLES_MAX}"""
        return {
            "documents": self._count(condition),
            "hosts": [
                {"host": text_of(host), "documents": count}
                for portion in self.table.portions(hosts)
                for host, count in portion
            ],
            "examples": list(self.lines(f"WHERE {condition} ORDER BY place LIMIT {EXAMPLES_MAX}")),
        }


def _by_label(changes: Counter[tuple[str, str]], side: int) -> dict[str, int]:
    counts = Counter(dict.fromkeys((verdict.label for verdict in Verdict), 0))
    for pair, count in changes.items():
        counts[pair[side]] += count
    return dict(counts)


def _label(verdict: int) -> str:
    return UNKNOWN if verdict == NO_VERDICT else Verdict(verdict).label
