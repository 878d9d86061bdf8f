"""Every duplicate names an earlier document that is an original."""

import numpy as np
import numpy.typing as npt

from index import Insert, Verdict, naming_originals, standing_for_themselves
from streamer.verification.ledger import Ledger
from streamer.verification.position_table import NO_VERDICT, NONE, Flags, Rows


def check_originals(ledger: Ledger, insert: Insert) -> None:
    """Check every delivered duplicate's original; after the outputs and the index are in the ledger.

    insert  not "unique": an original may be an entered duplicate without a live original
    """
    state = ledger.state
    for rows, originals in ledger.naming():
        itself = originals == rows
        of_original = _verdicts(ledger, originals)
        silent = of_original == NO_VERDICT
        right = standing_for_themselves(of_original) | _are_given_back(ledger, originals)
        if insert != "unique":
            right |= naming_originals(of_original) & ~_count(ledger, state["original"][originals])
        # An update replaces the page's older version, which may be a dropped copy.
        right |= naming_originals(of_original) & (state["verdict"][rows] == Verdict.UPDATE)
        ledger.findings.leave_out("originals still in flight", silent)
        named, own = state["original_id"][rows], state["id"][originals]
        # An index that was restored since then knows ids by earlier settings.
        by_now = (state["by_other_settings"][rows] == 0) & (state["by_other_settings"][originals] == 0)
        wrong = {
            "original-itself": itself,
            "original-later": ~itself & _is_later(ledger, rows, originals),
            "original-not-unique": ~right & ~silent & ~itself,
            "original-id": by_now & (named != own) & (state["outputs"][originals] > 0),
        }
        for check, of_rows in wrong.items():
            ledger.check(check, rows, of_rows, "names", originals)


def _are_given_back(ledger: Ledger, rows: Rows) -> Flags:
    state = ledger.state[rows]
    return np.asarray((state["given_back"] > 0) | (state["known_given_back"] > 0))


def _count(ledger: Ledger, rows: Rows) -> Flags:
    """Whether each row's entry matches: bool [n]."""
    state = ledger.state[rows]
    return np.asarray((rows >= 0) & (state["rank"] != NONE) & (state["retired"] == 0))


def _verdicts(ledger: Ledger, rows: Rows) -> npt.NDArray[np.uint8]:
    state = ledger.state
    return np.asarray(np.where(state["outputs"][rows] > 0, state["verdict"][rows], state["journaled"][rows]))


def _is_later(ledger: Ledger, rows: Rows, originals: Rows) -> Flags:
    """Whether each original came after its duplicate: by offset in a source, else by an index with both.

    A restored index has dropped documents last.
    """
    same = ledger.are_of_one_source(rows, originals)
    ranks, of_originals = ledger.state["rank"][rows], ledger.state["rank"][originals]
    known = (ranks != NONE) & (of_originals != NONE) & ~standing_for_themselves(ledger.state["verdict"][rows])
    return np.asarray(np.where(same, originals > rows, known & (of_originals > ranks)))
