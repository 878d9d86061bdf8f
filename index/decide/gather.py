"""Gather: the visible entries within the distance of n rows, streamed from memtables and segments.

They are few by construction. Two documents within the distance of each other are both entries only where a rule let
them: an update, a longer version, a page of a template, a page given back, or a member of a root.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.matching.distance import Matches, joined, no_matches
from index.session import ReadSession
from index.storage import documents, log

LOOKS_AT_ONCE = 2**15
"""Looks read and compared at once: bounds their memory to 8 MiB at 256 bytes each."""


class Gathered(NamedTuple):
    """Candidates of n rows.

    rows      int64 [m], ascending
    numbers   uint64 [m], entries; a pair may come several times
    compared  int64 [n], comparisons
    equal     bool [n], whether a visible entry has the row's fingerprint

    >>> nothing_gathered(2).equal
    array([False, False])
    """

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint64]
    compared: npt.NDArray[np.int64]
    equal: npt.NDArray[np.bool_]


def nothing_gathered(count: int) -> Gathered:
    """No candidates for so many rows."""
    return Gathered(np.empty(0, np.int64), np.empty(0, np.uint64), np.zeros(count, np.int64), np.zeros(count, np.bool_))


def gather(session: ReadSession, chunk: Prepared, *, by_look: bool = True) -> Gathered:
    """Candidates in the index and its base sets for prepared rows; by_look: without those that the second look refuses."""
    found = _gathered(session, chunk, by_look=by_look)
    for base, below in session.bases:
        more = _gathered(below, chunk, by_look=by_look)
        rows, numbers = (
            np.concatenate(each)
            for each in ((found.rows, more.rows), (found.numbers, more.numbers + np.uint64(base.first)))
        )
        order = np.argsort(rows, kind="stable")
        found = Gathered(rows[order], numbers[order], found.compared + more.compared, found.equal | more.equal)
    return found


def _gathered(session: ReadSession, chunk: Prepared, *, by_look: bool) -> Gathered:
    near, exact, entries = chunk.near, chunk.exact, chunk.entries
    parts, compared = [no_matches()], np.zeros(len(entries), np.int64)
    equal = np.zeros(len(entries), np.bool_)
    for matches, comparisons in session.tree.matches(session.transaction, chunk.lookup):
        compared[near] += comparisons
        visible = matches.take(session.visibility.visible(matches.numbers))
        equal[near[visible.rows[visible.distances == 0]]] = True
        parts.append(_accepted(session, chunk, visible) if by_look else visible)
    found = joined(parts)
    rows, numbers = documents.equals(session.visibility, entries.fingerprints[exact])
    rows, numbers = np.concatenate([near[found.rows], exact[rows]]), np.concatenate([found.numbers, numbers])
    order = np.argsort(rows, kind="stable")
    return Gathered(rows[order], numbers[order], compared, equal)


def _accepted(session: ReadSession, chunk: Prepared, matches: Matches) -> Matches:
    """Matches that the second look accepts: it may refuse many, whose looks need not be kept."""
    look = session.parameters.second_look
    if not look.bytes or not len(matches):
        return matches
    looks, accepted = chunk.entries.look_rows[chunk.near], np.zeros(len(matches), np.bool_)
    # Ascending numbers read each log batch once.
    order = np.argsort(matches.numbers, kind="stable")
    for begin in range(0, len(order), LOOKS_AT_ONCE):
        places = order[begin : begin + LOOKS_AT_ONCE]
        some = matches.take(places)
        stored = log.documents(session.transaction, some.numbers, session.words)
        accepted[places] = look.judge(some.distances, looks[some.rows], stored.looks(look.bytes)).counts & stored.there
    return matches.take(accepted)
