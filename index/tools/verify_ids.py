"""Check of the id table: every log row with an id is in its place by id and compaction state.

As in `verify`, only parts with a sum other than 0 are compared row by row. Rows that have left the log may still be in
a segment, and do not count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from index.lsm import compaction
from index.lsm.levels import are_below
from index.lsm.shape import IdShape
from index.session import ReadSession
from index.storage.layout import LOG_KEY
from index.storage.log import Batch
from index.tools import verify_tables as tables
from index.tools.finding import Finding

_SHAPE = IdShape()


def ids(session: ReadSession, batches: Iterable[Batch]) -> Finding:
    """Compare the id table with the log; batches: can be iterated more than once."""
    finding, tally = Finding("ids"), tables.Tally(_SHAPE.tables)
    edges: list[tuple[int, int]] = []
    for entries in _expected(session, batches, edges):
        tally.add(entries)
    held = np.array(edges, np.uint64).reshape(-1, 2)
    in_levels: Counter[int] = Counter()
    for entries in tables.actual_in_segments(session, _SHAPE, finding.note, in_levels):
        tally.take_off(_held(entries, held))
    finding.examined = in_levels.total()
    now = compaction.state(session.transaction, _SHAPE)
    if (counted := now.first_entries + now.last_entries) != finding.examined:
        finding.note([f"{counted} rows are counted, {finding.examined} stand in the segments of ids"])
    actual = (_held(each, held) for each in tables.actual_in_segments(session, _SHAPE, tables.nothing_noted, Counter()))
    if len(differing := tally.differing()):
        for _, missing, wrong in tables.differences(tally, differing, _expected(session, batches, []), actual):
            lost, there = missing.identities[:, -1].tolist(), wrong.identities[:, -1].tolist()
            finding.note(f"row {row} of the log does not match its id" for row in lost)
            finding.note(f"an id that is not its own, or twice, leads to row {row}" for row in there)
    return finding


def _expected(
    session: ReadSession, batches: Iterable[Batch], edges: list[tuple[int, int]]
) -> Iterator[tables.TableEntries]:
    """Log rows that must be in segments; appends the first and the end of each batch's rows to `edges`."""
    now = compaction.state(session.transaction, _SHAPE)
    for batch in batches:
        hashes, rows = _SHAPE.entries_of(batch)
        first = LOG_KEY.unpack(batch.key)[1]
        edges.append((first, first + len(batch.rows)))
        entries = tables.entries_in_segments(0, np.stack([hashes[:, 0], rows]))
        moved = rows < np.uint64(now.merged_rows)
        if now.is_moving:
            moved |= (rows < np.uint64(now.frozen_rows)) & are_below(entries.identities.T, now.bound)
        yield entries.take(moved)


def _held(entries: tables.TableEntries, held: tables.Numbers) -> tables.TableEntries:
    """Only the rows in a log batch; held: uint64 [b, 2], each batch's first row and end."""
    rows = entries.identities[:, 1]
    if not len(held):
        return entries.take(np.zeros(len(rows), np.bool_))
    places = np.searchsorted(held[:, 0], rows, side="right") - 1
    return entries.take((places >= 0) & (rows < held[places, 1]))
