"""Check: the decision of `admit` in a read session, by the same look-up, rule and guard."""

import numpy as np

from index.decide import give_back
from index.decide.admit import decided, look_up, named
from index.decide.guard import foreseen
from index.decide.prepare import prepared, stored_form
from index.entry import NO_DISTANCE, NO_NUMBER, Decisions, Entries, Verdict, naming_originals, standing_for_themselves
from index.frames.hosts import with_frames
from index.session import OpenIndex, ReadSession
from index.storage import documents
from index.storage.counters import counters_of
from index.storage.log import Origin
from index.versions.history import versions_of
from index.versions.reasons import with_reasons


def check(opened: OpenIndex, entries: Entries, *, are_known: bool = False) -> Decisions:
    """Implementation of `Index.check`; `are_known` as in `with_frames`."""
    stored = stored_form(entries, opened.parameters)
    return opened.read(lambda session: _checked(session, stored, are_known=are_known))


def _checked(session: ReadSession, entries: Entries, *, are_known: bool) -> Decisions:
    entries = with_frames(session, entries, np.arange(len(entries)), are_known=are_known)
    # No row of a check sees another, so every row is prepared alone.
    portions = prepared(entries, np.arange(len(entries)), session.parameters, alone=True)
    count, next_number = len(entries), counters_of(session.transaction).next_number
    # Expired by number, but not yet by a batch: `admit` would advance the horizon first.
    if session.retention.entries_max is not None:
        session.visibility.expire_below(next_number - session.retention.entries_max)
    verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
    origins: dict[int, Origin] = {}
    distances, originals = np.full(count, NO_DISTANCE, np.int16), np.full(count, NO_NUMBER)
    reasons, candidates = entries.reasons.copy(), np.zeros(count, np.int64)
    for portion, comes_again in give_back.split_given_back(
        session, entries, np.ones(count, np.bool_), portions, alone=True
    ):
        versions = versions_of(session, portion.entries)
        answer = look_up(session, portion, settle=versions is None, comes_again=comes_again)
        outcome = decided(session, portion, answer, versions, next_number)
        outcome = foreseen(session, portion, outcome, answer.equal)
        verdicts[portion.rows], distances[portion.rows] = outcome.verdicts, outcome.distances
        originals[portion.rows] = outcome.named
        reasons[portion.rows] = with_reasons(session, portion.entries, outcome).reasons
        candidates[portion.rows] = answer.compared
        of_batch = portion.rows.tolist()
        # An UPDATE that replaces no entry names its older version by origin.
        origins |= {of_batch[row]: Origin(*of) for row, of in outcome.former.items() if not isinstance(of, int)}
    # Other rows have no number: a check assigns none.
    originals[~naming_originals(verdicts)] = NO_NUMBER
    naming = np.flatnonzero(originals != NO_NUMBER)
    stored = documents.origins(session.transaction, originals[naming], session.words)
    origins |= {row: stored[number] for row, number in zip(naming.tolist(), originals[naming].tolist(), strict=True)}
    ids, positions = named(session, origins, count)
    # These rows are their own originals, and have no number yet.
    originals[standing_for_themselves(verdicts)] = NO_NUMBER
    return Decisions(verdicts, reasons, distances, originals, ids, positions, np.zeros(count, np.bool_), candidates)
