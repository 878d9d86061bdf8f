"""Check: the decision of `admit` in a read session, by the same look-up, rule and guard."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide.admit import decisions, fill_in
from index.decide.batch import origins_of
from index.decide.decide import decide
from index.decide.guard import foreseen
from index.decide.prepare import prepared, stored_form
from index.entry import NO_NUMBER, Decisions, Entries, naming_originals, standing_for_themselves
from index.frames.hosts import with_frames
from index.session import OpenIndex, ReadSession
from index.storage.journal import DECISION, JournaledDecisions
from index.storage.log import Origin
from index.versions.reasons import with_reasons


def check(opened: OpenIndex, entries: Entries, *, are_known: bool = False) -> Decisions:
    """Implementation of `Index.check`; `are_known` as in `with_frames`."""
    stored = stored_form(entries, opened.parameters)
    return opened.read(lambda session: _checked(session, stored, are_known=are_known))


def _checked(session: ReadSession, entries: Entries, *, are_known: bool) -> Decisions:
    entries = with_frames(session, entries, np.arange(len(entries)), are_known=are_known)
    # No row of a check sees another, so every row is prepared alone.
    chunks = prepared(entries, np.arange(len(entries)), session.parameters, is_check=True)
    count = len(entries)
    # Expired by number, but not yet by a batch: `admit` would advance the horizon first.
    if session.opened.retention.entries_max is not None:
        session.visibility.expire_below(session.counters.next_number - session.opened.retention.entries_max)
    checked = JournaledDecisions(np.zeros(count, DECISION), np.zeros(count, np.bool_), {})
    candidates = np.zeros(count, np.int64)
    for chunk in chunks:
        outcome, equal, compared = decide(session, chunk)
        outcome = foreseen(session, chunk, outcome, equal)
        chunk = replace(chunk, entries=with_reasons(session, chunk.entries, outcome))
        candidates[chunk.rows] = compared
        naming = np.flatnonzero(naming_originals(outcome.verdicts)).tolist()
        origins = origins_of(session, outcome, naming, _no_rows)
        fill_in(checked, chunk, outcome, dict(zip(naming, origins, strict=True)))
    # A check assigns no numbers, so a row that is its own original has none.
    checked.rows["number"][standing_for_themselves(checked.rows["verdict"])] = NO_NUMBER
    return decisions(session, checked, candidates)


def _no_rows(rows: npt.NDArray[np.int64]) -> list[Origin]:
    assert not len(rows), f"no row sees another, but one names row {rows[0]}"
    return []
