"""Reasons that only a decision can give: minor or other versions, and duplicates with their original's text."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Verdict
from index.matching.outcome import MINOR, RECRAWLED, Outcome
from index.session import ReadSession
from index.storage import log


def with_reasons(session: ReadSession, entries: Entries, outcome: Outcome) -> Entries:
    """Replace reasons by `Recrawl.reasons`, `Recrawl.minor_reasons` and `equal_reasons`."""
    given = entries.reasons
    reasons = given.copy()
    marked = (
        (_of_equal_texts(session, entries, outcome), session.equal_reasons),
        (outcome.versions == RECRAWLED, session.recrawl.reasons),
        (outcome.versions == MINOR, session.recrawl.minor_reasons),
    )
    for rows, replacements in marked:
        for row in np.flatnonzero(rows).tolist():
            reasons[row] = replacements.get(int(given[row]), int(given[row]))
    if np.array_equal(reasons, given):
        return entries
    return replace(entries, reasons=reasons)


def _of_equal_texts(
    session: ReadSession,
    entries: Entries,
    outcome: Outcome,
) -> npt.NDArray[np.bool_]:
    """Duplicates with their original's normalised text: bool [n].

    Equal signatures prove no equal texts: 128 bins of 8 bits often miss one changed word in a long text.
    """
    equal: npt.NDArray[np.bool_] = (outcome.verdicts == Verdict.DUPLICATE) & (outcome.distances == 0)
    rows = np.flatnonzero(equal) if session.equal_reasons else np.empty(0, np.int64)
    if not len(rows):
        return np.zeros(len(equal), np.bool_)
    digests, originals = entries.digests, outcome.originals[rows]
    assert digests is not None
    distinct, inverse = np.unique(originals, return_inverse=True)
    texts, there = np.zeros(len(distinct), np.uint64), distinct >= np.uint64(outcome.first_number)
    # First number 10, rows 0 and 2 enter: original 11 is row 2 of these rows.
    texts[there] = digests[
        np.flatnonzero(outcome.entering)[(distinct[there] - np.uint64(outcome.first_number)).astype(np.int64)], 0
    ]
    stored = log.documents(session.transaction, distinct[~there], session.words)
    in_log = np.flatnonzero(~there)[stored.places]
    texts[in_log], there[in_log] = stored.rows()[0]["text"], True
    equal[rows] = there[inverse] & (texts[inverse] == digests[rows, 0])
    return equal
