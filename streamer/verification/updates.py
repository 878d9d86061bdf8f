"""Every update replaced an older version: a retired document with its id and another text."""

from index import NO_DISTANCE, Verdict, standing_for_themselves
from streamer.verification.comparison import Comparison
from streamer.verification.ledger import Ledger
from streamer.verification.position_table import NONE


def check_updates(ledger: Ledger, comparison: Comparison) -> None:
    """Check every delivered update; after the outputs and the index are in the ledger."""
    state, prints = ledger.state, comparison.prints
    for named, originals in ledger.naming():
        is_update = state["verdict"][named] == Verdict.UPDATE
        rows, older = named[is_update], originals[is_update]
        ledger.check("update-id", rows, state["id"][rows] != state["original_id"][rows], "replaces", older)
        # A version that was dropped as a copy, or given back, has no entry to retire.
        indexed = standing_for_themselves(state["verdict"][older])
        indexed &= (state["rank"][rows] != NONE) & (state["rank"][older] != NONE)
        still_counts = state["retired"][older[indexed]] == 0
        ledger.check("update-unretired", rows[indexed], still_counts, "replaces", older[indexed])
        known = comparison.are_known(rows) & comparison.are_known(older)
        ledger.findings.leave_out("updates without a fingerprint, or of a version without one", ~known)
        rows, older = rows[known], older[known]
        read = prints.read[rows] & prints.read[older]
        equal = prints.texts[rows[read]] == prints.texts[older[read]]
        ledger.check("update-equal", rows[read], equal, "replaces", older[read])
        delivered = state["distance"][rows]
        wrong = (delivered != NO_DISTANCE) & (delivered != comparison.distances(rows, older))
        ledger.note("similarity", rows[wrong], "replaces", older[wrong])
