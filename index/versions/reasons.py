"""What only a decision with the original can give: reasons by versions and equal texts, and length ratios."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Entries, Verdict, length_ratios, naming_originals
from index.matching.outcome import MINOR, RECRAWLED, Outcome
from index.session import ReadSession
from index.storage import log
from index.storage.log import Documents


def with_reasons(session: ReadSession, entries: Entries, outcome: Outcome) -> Entries:
    """Replace reasons by `Recrawl.reasons`, `Recrawl.minor_reasons` and `equal_reasons`."""
    given = entries.reasons
    reasons = given.copy()
    marked = (
        (_of_equal_texts(session, entries, outcome), session.opened.equal_reasons),
        (outcome.versions == RECRAWLED, session.opened.recrawl.reasons),
        (outcome.versions == MINOR, session.opened.recrawl.minor_reasons),
    )
    for rows, replacements in marked:
        for row in np.flatnonzero(rows).tolist():
            reasons[row] = replacements.get(int(given[row]), int(given[row]))
    if np.array_equal(reasons, given):
        return entries
    return replace(entries, reasons=reasons)


def _of_equal_texts(session: ReadSession, entries: Entries, outcome: Outcome) -> npt.NDArray[np.bool_]:
    """Duplicates with their original's normalised text: bool [n].

    Equal signatures prove no equal texts: 128 bins of 8 bits often miss one changed word in a long text.
    """
    equal: npt.NDArray[np.bool_] = (outcome.verdicts == Verdict.DUPLICATE) & (outcome.distances == 0)
    rows = np.flatnonzero(equal) if session.opened.equal_reasons else np.empty(0, np.int64)
    if not len(rows):
        return np.zeros(len(equal), np.bool_)
    digests = entries.digests
    assert digests is not None
    texts, there = _of_originals(session, outcome, rows, digests[:, 0], lambda stored: stored.rows["text"])
    equal[rows] = there & (texts == digests[rows, 0])
    return equal


def with_ratios(session: ReadSession, entries: Entries, outcome: Outcome) -> Outcome:
    """The outcome with `Outcome.ratios`. Without its original's entry a row has none."""
    ratios, rows = np.zeros(len(entries), np.uint16), np.flatnonzero(naming_originals(outcome.verdicts))
    if len(rows) and entries.lengths is not None:
        lengths, _ = _of_originals(session, outcome, rows, entries.letters, lambda stored: stored.lengths)
        ratios[rows] = length_ratios(entries.letters[rows], lengths)
    return replace(outcome, ratios=ratios)


def _of_originals(
    session: ReadSession,
    outcome: Outcome,
    rows: npt.NDArray[np.intp],
    of_rows: npt.NDArray[Any],
    of_stored: Callable[[Documents], npt.NDArray[Any]],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """A column of the documents that rows, int64 [m], name: values [m], and whether each document is known, bool [m].

    of_rows    the column of all rows
    of_stored  the column of logged documents
    """
    named = outcome.named[rows]
    values = np.zeros(len(named), of_rows.dtype)
    there = (named >= np.uint64(outcome.first_number)) & (named != NO_NUMBER)
    # First number 10, rows 0 and 2 enter: original 11 is row 2 of these rows.
    places = (named[there] - np.uint64(outcome.first_number)).astype(np.int64)
    values[there] = of_rows[np.flatnonzero(outcome.entering)[places]]
    stored = log.documents(session.transaction, named[~there], session.words)
    values[~there], there[~there] = of_stored(stored), stored.there
    return values, there
