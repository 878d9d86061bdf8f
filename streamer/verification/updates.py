"""Every update replaced an older version: a retired document with its id and another text."""

import numpy as np

from index import NO_DISTANCE, Verdict, standing_for_themselves
from streamer.verification.comparison import Comparison
from streamer.verification.ledger import Ledger
from streamer.verification.position_table import NONE, Rows, chunks


def check_updates(ledger: Ledger, comparison: Comparison) -> None:
    """Check every delivered update; after the outputs and the index are in the ledger."""
    state, findings = ledger.state, ledger.findings

    def note(check: str, rows: Rows) -> None:
        ledger.note(check, rows, "replaces", state["original"][rows])

    for part in chunks(len(ledger)):
        rows = np.arange(part.start, part.stop)
        rows = rows[(state["verdict"][part] == Verdict.UPDATE) & (state["original"][part] >= 0)]
        older = state["original"][rows]
        findings.examine("update-id", len(rows))
        note("update-id", rows[state["id"][rows] != state["original_id"][rows]])
        # A version that was dropped as a copy, or given back, has no entry to retire.
        indexed = standing_for_themselves(state["verdict"][older])
        indexed &= (state["rank"][rows] != NONE) & (state["rank"][older] != NONE)
        findings.examine("update-unretired", int(indexed.sum()))
        note("update-unretired", rows[indexed & (state["retired"][older] == 0)])
        known = comparison.are_known(rows) & comparison.are_known(older)
        findings.leave_out("updates without a fingerprint, or of a version without one", ~known)
        rows, older = rows[known], older[known]
        prints = comparison.prints
        read = prints.read[rows] & prints.read[older]
        findings.examine("update-equal", int(read.sum()))
        note("update-equal", rows[read & (prints.texts[rows] == prints.texts[older])])
        distances = comparison.distances(rows, older)
        delivered = state["distance"][rows]
        note("similarity", rows[(delivered != NO_DISTANCE) & (delivered != distances)])
