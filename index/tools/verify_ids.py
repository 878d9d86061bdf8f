"""Check of the table of ids: every row that the log holds stands where its id and the state of the moving place it.

As in `verify`, nothing is looked up: hashes of what ought to stand in a part of the table are added, those of what does are
taken off, and only the parts with another sum than 0 are looked at row by row. Rows that have left the log may still stand in
a segment, and do not count.
"""

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from index.kernels.ids import NO_HASH
from index.lsm import id_segments
from index.lsm.id_table import hashes_of
from index.session import ReadSession
from index.storage.codec import unpack_id_segment, unpack_ids
from index.storage.layout import LOG_KEY, STRIPE_HASHES, Table, id_key, unpack_id_key
from index.storage.log import Batch
from index.tools.finding import Finding
from index.tools.verify_tables import Numbers
from index.tools.verify_tables import hashes_of as hashes_of_identities

PARTS_BITS = 16
_PART_SHIFT = np.uint64(40 - PARTS_BITS)

Found = tuple[Numbers, Numbers]
"""Hashes of ids and rows, uint64 [n] each."""


def ids(session: ReadSession, batches: Iterable[Batch]) -> Finding:
    """Compare the table of ids with the log; batches: can be iterated more than once."""
    finding = Finding("ids")
    sums = np.zeros(1 << PARTS_BITS, np.uint64)
    edges: list[tuple[int, int]] = []
    for hashes, rows in _expected(session, batches, edges):
        np.add.at(sums, (hashes >> _PART_SHIFT).astype(np.int64), _sealed(hashes, rows))
    held = np.array(edges, np.uint64).reshape(-1, 2)
    for hashes, rows in _actual(session, held, finding):
        np.subtract.at(sums, (hashes >> _PART_SHIFT).astype(np.int64), _sealed(hashes, rows))
    counted = id_segments.state(session.transaction).rows
    if counted != finding.examined:
        finding.note([f"{counted} rows are counted, {finding.examined} stand in the segments of ids"])
    if sums.any():
        _explain(session, batches, held, finding, sums != 0)
    return finding


def _sealed(hashes: Numbers, rows: Numbers) -> Numbers:
    return hashes_of_identities(np.column_stack([hashes, rows]))


def _expected(session: ReadSession, batches: Iterable[Batch], edges: list[tuple[int, int]]) -> Iterator[Found]:
    """Rows of the log that ought to stand in segments; fills in the first and the end of each batch's rows."""
    now = id_segments.state(session.transaction)
    cursor = np.uint64(now.cursor or 0)
    for batch in batches:
        ends, texts = unpack_ids(batch.value)
        hashes, first = hashes_of(texts, ends), LOG_KEY.unpack(batch.key)[1]
        rows = np.arange(first, first + len(hashes), dtype=np.uint64)
        edges.append((first, first + len(hashes)))
        moved = hashes != NO_HASH
        if batch.key >= now.frozen_to:
            moved[:] = False
        elif batch.key >= now.merged_to:
            moved &= hashes < cursor
        yield hashes[moved], rows[moved]


def _actual(session: ReadSession, held: Numbers, finding: Finding) -> Iterator[Found]:
    """Rows in segments, without those that have left the log; notes segments that are not sound."""
    last = (-1, -1)
    for key, value in session.transaction.walk(Table.IDS):
        where = f"the segment of ids {key.hex()}"
        if len(key) != len(id_key(0, 0)):
            finding.note([f"{where} has no bound"])
            continue
        bound = unpack_id_key(key)
        try:
            hashes, rows = unpack_id_segment(bound[0], value)
        except (ValueError, struct.error) as problem:
            finding.note([f"{where} cannot be read: {problem}"])
            continue
        finding.examined += len(rows)
        if not len(rows):
            finding.note([f"{where} is empty"])
            continue
        ascend = (hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (rows[1:] > rows[:-1]))
        if not ascend.all():
            finding.note([f"{where} is not in order"])
        if (int(hashes[0]), int(rows[0])) < bound or last >= bound:
            finding.note([f"{where} begins before its bound, or in the one before it"])
        if int(hashes[-1]) // STRIPE_HASHES != bound[0] // STRIPE_HASHES:
            finding.note([f"{where} reaches into the next stripe"])
        last = int(hashes[-1]), int(rows[-1])
        there = _are_held(rows, held)
        yield hashes[there], rows[there]


def _are_held(rows: Numbers, held: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows stand in a batch of the log; held: uint64 [b, 2], first and end of the rows of each batch."""
    if not len(held):
        return np.zeros(len(rows), np.bool_)
    places = np.searchsorted(held[:, 0], rows, side="right") - 1
    found: npt.NDArray[np.bool_] = (places >= 0) & (rows < held[places, 1])
    return found


def _explain(
    session: ReadSession, batches: Iterable[Batch], held: Numbers, finding: Finding, chosen: npt.NDArray[np.bool_]
) -> None:
    """Note the rows that are missing from the chosen parts of the table, bool [parts], and those that do not belong there."""
    wanted = _gathered(_expected(session, batches, []), chosen)
    actual = _gathered(_actual(session, held, Finding("ids")), chosen)
    before = finding.wrong
    finding.note(f"row {row} of the log is not found through its id" for row in np.setdiff1d(wanted, actual).tolist())
    finding.note(f"an id that is not its own leads to row {row}" for row in np.setdiff1d(actual, wanted).tolist())
    if finding.wrong == before:
        finding.note(["rows stand in the segments of ids under hashes that are not theirs, or twice"])


def _gathered(portions: Iterator[Found], chosen: npt.NDArray[np.bool_]) -> Numbers:
    found = [np.empty(0, np.uint64)]
    for hashes, rows in portions:
        found.append(rows[chosen[(hashes >> _PART_SHIFT).astype(np.int64)]])
    return np.concatenate(found)
