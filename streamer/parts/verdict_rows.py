"""Verdict batches as rows for records. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import NO_NUMBER, Decisions, Kind, Source, Verdict
from streamer.errors import RecordsUnreadable, VerdictsMissing
from streamer.parts.verdict_batch import VerdictBatch
from streamer.records.decode import DeadLetter, Document
from streamer.records.reason import Reason, label
from streamer.records.record import Record


@dataclass(frozen=True, slots=True)
class VerdictRows:
    """Verdicts on n records, row for row, from any batches.

    documents     only ids and details
    kinds         uint8 [n], `Kind` values
    fingerprints  uint64 [n, words]
    names         topics of the originals' streams

    >>> one, no_text = np.zeros(1, np.uint8), Document("a", "")
    >>> decisions = Decisions(one, one, one, one, [None], [None], one, one)
    >>> rows = VerdictRows(decisions, [no_text], one, np.zeros((1, 2), np.uint64), {})
    >>> Verdict(rows.decisions.verdicts[0]).label, rows.documents[0].id
    ('unique', 'a')
    """

    decisions: Decisions
    documents: list[Document | DeadLetter]
    kinds: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    names: Mapping[str, str]


def verdicts_on(records: Sequence[Record], batches: Mapping[Source, Sequence[VerdictBatch]]) -> VerdictRows:
    """Verdicts on these records from their sources' batches. A later batch may repeat an earlier one.

    Raises VerdictsMissing for a record without a verdict, and RecordsUnreadable for another program version's verdict.
    """
    read = [batch for of_source in batches.values() for batch in of_source]
    rows = _rows_in(read, records)
    verdicts, reasons, distances, ratios, replayed, kinds, fingerprints = (
        np.concatenate([getattr(batch, name) for batch in read])[rows]
        for name in ("verdicts", "reasons", "distances", "ratios", "replayed", "kinds", "fingerprints")
    )
    ids, details, original_ids, positions = (
        _chosen(rows, [getattr(batch, name) for batch in read])
        for name in ("ids", "details", "original_ids", "original_positions")
    )
    _require_known(verdicts.tolist(), reasons.tolist(), records)
    count = len(records)
    decisions = Decisions(
        verdicts,
        reasons,
        distances,
        np.full(count, NO_NUMBER, np.uint64),
        original_ids,
        positions,
        replayed,
        np.zeros(count, np.int64),
        ratios=ratios,
    )
    documents: list[Document | DeadLetter] = [
        DeadLetter(Reason.POISON, detail or "", given) if kind == Kind.DEAD_LETTER else Document(given or "", "")
        for given, detail, kind in zip(ids, details, kinds.tolist(), strict=True)
    ]
    names = {stream: name for batch in read for stream, name in batch.names.items()}
    return VerdictRows(decisions, documents, kinds, fingerprints, names)


def _require_known(verdicts: Sequence[int], reasons: Sequence[int], records: Sequence[Record]) -> None:
    for pair in dict.fromkeys(zip(verdicts, reasons, strict=True)):
        try:
            label(Verdict(pair[0]), Reason(pair[1]))
        except (KeyError, ValueError):
            row = list(zip(verdicts, reasons, strict=True)).index(pair)
            raise RecordsUnreadable(
                f"{records[row].position}: its verdict has the number {pair[0]} and the reason {pair[1]}, which do not go "
                "together in this program: update the older one of the two programs"
            ) from None


def _rows_in(read: Sequence[VerdictBatch], records: Sequence[Record]) -> npt.NDArray[np.int64]:
    """Each record's row among those in all batches together: int64 [n]. Raises VerdictsMissing."""
    rows: dict[tuple[Source, int], int] = {}
    first = 0
    for batch in read:
        source = Source(batch.heading.stream, batch.heading.partition)
        for row, offset in enumerate(batch.offsets.tolist(), start=first):
            rows.setdefault((source, offset), row)
        first += len(batch)
    chosen = [rows.get((record.source, record.offset), -1) for record in records]
    if -1 in chosen:
        raise VerdictsMissing(records[chosen.index(-1)].position)
    return np.array(chosen, np.int64)


def _chosen(rows: npt.NDArray[np.int64], columns: Sequence[Sequence[Any]]) -> list[Any]:
    values = [value for column in columns for value in column]
    return [values[row] for row in rows.tolist()]
