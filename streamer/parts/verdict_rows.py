"""Verdict batches as rows for records. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import NO_NUMBER, Decisions, Kind, Source, Verdict
from streamer.errors import RecordsUnreadable, VerdictsMissing
from streamer.records.decode import DeadLetter, Document
from streamer.records.reason import Reason, label
from streamer.records.record import Record
from streamer.records.verdict_batch import VerdictBatch


@dataclass(frozen=True, slots=True)
class VerdictRows:
    """Verdicts on n records, row for row, from any batches.

    documents     only ids and details
    kinds         uint8 [n], `Kind` values
    fingerprints  uint64 [n, words]
    names         topics of the originals' streams
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
    order, parts = _rows_of(records, batches)
    verdicts, reasons, distances, ratios, replayed, kinds = (
        np.concatenate([getattr(batch, name)[rows] for batch, rows in parts])[order]
        for name in ("verdicts", "reasons", "distances", "ratios", "replayed", "kinds")
    )
    fingerprints = np.concatenate([batch.fingerprints[rows] for batch, rows in parts])[order]
    ids, details, original_ids, positions = (
        _texts(parts, name, order) for name in ("ids", "details", "original_ids", "original_positions")
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
        DeadLetter(Reason.POISON, detail or "", given)
        if kind == Kind.DEAD_LETTER
        else Document(given or "", "", "", 0, None, ())
        for given, detail, kind in zip(ids, details, kinds.tolist(), strict=True)
    ]
    names: dict[str, str] = {}
    for batch, _ in parts:
        names.update(batch.names)
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


def _rows_of(
    records: Sequence[Record], batches: Mapping[Source, Sequence[VerdictBatch]]
) -> tuple[npt.NDArray[Any], list[tuple[VerdictBatch, npt.NDArray[Any]]]]:
    by_source: dict[Source, list[int]] = {}
    for row, record in enumerate(records):
        by_source.setdefault(record.source, []).append(row)
    parts: list[tuple[VerdictBatch, npt.NDArray[Any]]] = []
    wanted: list[npt.NDArray[Any]] = []
    for source, rows in by_source.items():
        offsets = np.array([records[row].offset for row in rows], np.uint64)
        missing = np.ones(len(rows), np.bool_)
        for batch in batches.get(source, ()):
            if not len(batch):
                continue
            at = np.searchsorted(batch.offsets, offsets).clip(max=len(batch) - 1)
            here = missing & (batch.offsets[at] == offsets)
            if here.any():
                parts.append((batch, at[here]))
                wanted.append(np.array(rows)[here])
                missing &= ~here
        if missing.any():
            raise VerdictsMissing(records[rows[int(np.flatnonzero(missing)[0])]].position)
    order = np.argsort(np.concatenate(wanted), kind="stable")
    return order, parts


def _texts(parts: Sequence[tuple[VerdictBatch, npt.NDArray[Any]]], name: str, order: npt.NDArray[Any]) -> list[Any]:
    joined = [column[row] for batch, rows in parts for column in (getattr(batch, name),) for row in rows.tolist()]
    return [joined[row] for row in order.tolist()]
