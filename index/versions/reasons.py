"""What only a decision with the original can give: length ratios, and reasons by versions and equal texts."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Verdict, length_ratios, naming_originals
from index.kernels.judge import Documents
from index.kernels.versions import MINOR, OTHER_TEXT, RETURNED, SHARED_ID, STRANGERS_MAX
from index.kernels.walk import Outcomes
from index.matching.outcome import Outcome
from index.session import ReadSession


def original_columns(outcomes: Outcomes, documents: Documents) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
    """`Outcome.ratios`, uint16 [n], and duplicates with their original's normalised text, bool [n].

    Equal signatures prove no equal texts: 128 bins of 8 bits often miss one changed word in a long text.
    """
    own, named = np.arange(len(outcomes.named)), outcomes.named
    naming = naming_originals(outcomes.verdicts) & (named != own)
    lengths = documents.lengths.astype(np.uint32)
    ratios = np.where(naming, length_ratios(lengths[own], lengths[named]), 0).astype(np.uint16)
    equal = (outcomes.verdicts == Verdict.DUPLICATE) & (outcomes.distances == 0)
    equal &= documents.digests[named, 0] == documents.digests[own, 0]
    return ratios, equal


def with_reasons(session: ReadSession, entries: Entries, outcome: Outcome) -> Entries:
    """Replace reasons by `equal_reasons` and those of `Recrawl`."""
    before, recrawl = entries.reasons, session.opened.recrawl
    reasons = before.copy()
    for marked, replacements in (
        (outcome.equal_texts & (outcome.verdicts == Verdict.DUPLICATE), session.opened.equal_reasons),
        (outcome.marks == MINOR, recrawl.minor_reasons),
        (outcome.marks == RETURNED, recrawl.returned_reasons),
        (outcome.marks == OTHER_TEXT, recrawl.other_reasons),
        (outcome.marks == SHARED_ID, recrawl.shared_reasons),
    ):
        for row in np.flatnonzero(marked).tolist():
            reasons[row] = replacements.get(int(before[row]), int(before[row]))
    return entries if np.array_equal(reasons, before) else replace(entries, reasons=reasons)


def strangers_by_reasons(session: ReadSession, entries: Entries) -> npt.NDArray[np.uint8]:
    """`Outcome.strangers` of rows with final reasons, uint8 [n], as far as reasons tell: in a row they count as one."""
    recrawl = session.opened.recrawl
    others = np.isin(entries.reasons, list(recrawl.other_reasons.values()))
    shared = np.isin(entries.reasons, list(recrawl.shared_reasons.values()))
    return np.where(shared, STRANGERS_MAX + 1, others).astype(np.uint8)
