"""The order for deciding delivered documents again: the original index's, as far as known."""

import numpy as np
import numpy.typing as npt

from index import Index, Position, naming_originals, standing_for_themselves
from index.tools import Snapshot, portions, snapshot
from streamer.verification.position_table import NO_VERDICT, NONE, Flags, Rows
from streamer.what_if.documents import Documents

ROWS_AT_ONCE = 4_096


def ranks_in(index: Index, documents: Documents) -> tuple[Rows, npt.NDArray[np.uint8]]:
    """Each document's place in an index's log, or NONE; and its verdict there, or NO_VERDICT. Raises IndexDamagedError."""
    ranks, verdicts = np.full(len(documents), NONE), np.full(len(documents), NO_VERDICT, np.uint8)

    def operation(taken: Snapshot) -> None:
        read = 0
        for portion in portions(taken.records(), ROWS_AT_ONCE):
            rows = documents.rows_at([Position(record.source, record.offset) for record in portion])
            known = np.flatnonzero(rows != NONE)
            ranks[rows[known]] = known + read
            verdicts[rows[known]] = [portion[place].verdict for place in known.tolist()]
            read += len(portion)

    snapshot(index, operation)
    return ranks, verdicts


def order_of(documents: Documents, ranks: Rows, originals: Rows) -> Rows:
    """All decidable documents, each once, in decision order.

    ranks      int64 [n], place in the index's log; NONE if unknown
    originals  int64 [n], row of the original; NONE without one

    Documents unknown to the index follow their source's known ones, by timestamp, and a duplicate follows its original.
    A document whose original is unreadable is left out.
    """
    rows, by_position = documents.rows, documents.by_position()
    sources, offsets, arrived_ms = (np.ascontiguousarray(rows[name]) for name in ("source", "offset", "arrived_ms"))
    known = ranks != NONE
    after, times = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for part in np.split(by_position, np.flatnonzero(np.diff(sources[by_position])) + 1):
        after[part] = np.maximum.accumulate(ranks[part]) if len(part) else 0
        arrived = arrived_ms[part]
        # Inputs without timestamps were read one after the other.
        times[part] = np.maximum.accumulate(np.where(arrived > 0, arrived, sources[part]))
    places = np.where(known, ranks, after)
    behind = np.flatnonzero(~known & (originals != NONE))
    places[behind] = np.maximum(places[behind], places[originals[behind]])
    times[behind] = np.maximum(times[behind], times[originals[behind]])
    # An update needs its older version's decision, if readable; else it is a new page.
    naming = naming_originals(rows["verdict"]) & ~standing_for_themselves(rows["verdict"])
    order: Rows = np.lexsort((offsets, sources, naming, times, ~known, places))
    left_out = again(documents) | (naming & (originals == NONE))
    decidable: Rows = order[~left_out[order]]
    return decidable


def again(documents: Documents) -> Flags:
    """Whether an earlier row has the same position."""
    rows, by_position = documents.rows, documents.by_position()
    again = np.zeros(len(rows), np.bool_)
    same = (np.diff(rows["source"][by_position]) == 0) & (np.diff(rows["offset"][by_position]) == 0)
    again[by_position[1:][same]] = True
    return again
