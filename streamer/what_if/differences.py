"""Delivered verdicts against those by other settings."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Verdict, minhash, naming_originals
from streamer.evaluation.sentences import NO_SENTENCES, SentencesLost
from streamer.records.record import Destination
from streamer.records.relation import spread
from streamer.records.route import DESTINATIONS
from streamer.verification.position_table import NO_VERDICT, NONE, Flags, Rows
from streamer.what_if.documents import Documents

EXAMPLES_MAX = 10
"""Most listed documents per kind, and hosts."""

SIDES = ("delivered", "other")

UNKNOWN = "not told"
"""Label for a verdict in neither an output nor the index."""

_DROPPED = np.array([verdict for verdict in Verdict if DESTINATIONS[verdict] is Destination.DUPLICATE], np.uint8)


@dataclass(frozen=True, slots=True)
class Decided:
    """Verdicts on n documents, row for row.

    verdicts   uint8 [n]; NO_VERDICT if unknown
    distances  int16 [n], to the match; NO_DISTANCE without one
    originals  int64 [n], the original's row or NONE
    by_similarity  bool [n], whether the distance is in ten-thousandths of 1 - similarity, not in bits
    news       float64 [n], estimated share that the original lacks; NaN if unknown; None: all unknown

    >>> decided = Decided(np.full(1, Verdict.UNIQUE), np.full(1, NO_DISTANCE), np.full(1, NONE), np.zeros(1, np.bool_))
    >>> decided.shown(documents=None, row=0)
    {'verdict': 'unique'}
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    originals: Rows
    by_similarity: Flags
    news: npt.NDArray[np.float64] | None = None

    def shown(self, documents: Documents, row: int) -> dict[str, Any]:
        """A row's verdict and named match, for machines."""
        verdict, distance = int(self.verdicts[row]), int(self.distances[row])
        fields: dict[str, Any] = {"verdict": _label(verdict)}
        if verdict == NO_VERDICT or not Verdict(verdict).names_original:
            return fields
        original = int(self.originals[row])
        fields["original"] = None if original == NONE else documents.name(original)
        fields["original_position"] = None if original == NONE else documents.text(original)
        if distance != NO_DISTANCE:
            similarity = bool(self.by_similarity[row])
            fields |= {"similarity": minhash.similarity_of(distance)} if similarity else {"distance": distance}
        if self.news is not None and not np.isnan(self.news[row]):
            fields["new"] = round(float(self.news[row]), 3)
        return fields


@dataclass(frozen=True, slots=True)
class Differences:
    """Both verdicts on documents that were delivered and decided again.

    order             int64 [m], rows of the compared documents, in decision order
    of_unknown_order  how many the index lacks, so timestamps order them
    left_out          how many are not compared, by reason
    sentences         lost sentences, as delivered and by the other settings

    >>> from index import Parameters, Source
    >>> from streamer.what_if.documents import row_of
    >>> documents = Documents(np.zeros(1, row_of(Parameters())), np.zeros(0, np.uint8), [Source("id", 0)], {"id": "pages"})
    >>> rest = np.full(1, NO_DISTANCE), np.full(1, NONE), np.zeros(1, np.bool_)
    >>> delivered, other = (Decided(np.full(1, verdict), *rest) for verdict in (Verdict.UNIQUE, Verdict.DUPLICATE))
    >>> Differences(documents, np.array([0]), delivered, other, of_unknown_order=0, left_out={}).newly_dropped()
    array([0])
    """

    documents: Documents
    order: Rows
    delivered: Decided
    other: Decided
    of_unknown_order: int
    left_out: Mapping[str, int]
    sentences: tuple[SentencesLost, SentencesLost] = (NO_SENTENCES, NO_SENTENCES)

    def changes(self) -> Counter[tuple[str, str]]:
        """Document counts by delivered and new verdict."""
        pairs = self.delivered.verdicts[self.order].astype(np.int64) << 8 | self.other.verdicts[self.order]
        changes: Counter[tuple[str, str]] = Counter()
        # Several verdicts may have one label.
        for pair, count in zip(*(each.tolist() for each in np.unique(pairs, return_counts=True)), strict=True):
            changes[_label(pair >> 8), _label(pair & 0xFF)] += count
        assert changes.total() == len(self.order), "every document is counted once"
        return changes

    def newly_dropped(self) -> Rows:
        """Rows from the unique output that would miss it now, in decision order."""
        return self.order[~self._drops(self.delivered) & self._drops(self.other)]

    def newly_kept(self) -> Rows:
        """Rows outside the unique output that would reach it now, in decision order."""
        return self.order[self._drops(self.delivered) & ~self._drops(self.other)]

    def other_originals(self) -> int:
        """Number of documents with different originals."""
        rows = self.order[
            naming_originals(self.delivered.verdicts[self.order]) & naming_originals(self.other.verdicts[self.order])
        ]
        return int(np.count_nonzero(self.delivered.originals[rows] != self.other.originals[rows]))

    def _drops(self, decided: Decided) -> Flags:
        return drops(decided)[self.order]

    def as_json(self) -> dict[str, Any]:
        """All differences for machines."""
        changes = self.changes()
        labels = [verdict.label for verdict in Verdict]
        return {
            "documents": len(self.order),
            "delivered": _by_label(changes, 0, labels),
            "other": _by_label(changes, 1, labels),
            "changed": sum(count for (delivered, other), count in changes.items() if delivered != other),
            "changes": [
                {"delivered": delivered, "other": other, "documents": count}
                for (delivered, other), count in sorted(changes.items())
                if delivered != other
            ],
            "newly_dropped": self._group(self.newly_dropped()) | self._lost(self.newly_dropped()),
            "newly_kept": self._group(self.newly_kept()),
            "other_originals": self.other_originals(),
            "of_unknown_order": self.of_unknown_order,
            "left_out": dict(self.left_out),
            "sentences": {side: each.as_json() for side, each in zip(SIDES, self.sentences, strict=True)},
        }

    def line(self, row: int) -> dict[str, Any]:
        """Both decisions on a document for machines."""
        return {
            "position": self.documents.text(row),
            "id": self.documents.name(row),
            "host": self.documents.host(row) or None,
            "delivered": self.delivered.shown(self.documents, row),
            "other": self.other.shown(self.documents, row),
        }

    def lines(self) -> Iterator[dict[str, Any]]:
        """`line` for every document, in decision order."""
        return map(self.line, self.order.tolist())

    def _lost(self, rows: Rows) -> dict[str, Any]:
        """How much text their originals lack: percentiles, and the documents that lose most."""
        news = np.full(len(rows), np.nan) if self.other.news is None else self.other.news[rows]
        rows, news = rows[~np.isnan(news)], news[~np.isnan(news)]
        worst = rows[np.argsort(-news, kind="stable")[:EXAMPLES_MAX]]
        return {"new": spread(news), "most_new": [self.line(row) for row in worst.tolist()]}

    def _group(self, rows: Rows) -> dict[str, Any]:
        hosts = Counter(filter(None, map(self.documents.host, rows.tolist())))
        return {
            "documents": len(rows),
            "hosts": [{"host": host, "documents": count} for host, count in hosts.most_common(EXAMPLES_MAX)],
            "examples": [self.line(row) for row in rows[:EXAMPLES_MAX].tolist()],
        }


def drops(decided: Decided) -> Flags:
    """Which documents miss the unique output: bool [n]."""
    return np.isin(decided.verdicts, _DROPPED)


def _by_label(changes: Counter[tuple[str, str]], side: int, labels: list[str]) -> dict[str, int]:
    counts = Counter(dict.fromkeys(labels, 0))
    for pair, count in changes.items():
        counts[pair[side]] += count
    return dict(counts)


def _label(verdict: int) -> str:
    return UNKNOWN if verdict == NO_VERDICT else Verdict(verdict).label
