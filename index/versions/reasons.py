"""What only a decision with the original can give: length ratios, and reasons by versions and equal texts."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Verdict, length_ratios, naming_originals
from index.kernels.judge import Documents
from index.kernels.versions import MINOR, OTHER_TEXT, RETURNED, SHARED_ID, STRANGERS_MAX
from index.kernels.walk import Outcomes
from index.matching.outcome import Outcome
from index.session import ReadSession, Recrawl


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
    equal_texts = outcome.equal_texts & (outcome.verdicts == Verdict.DUPLICATE)
    opened = session.opened
    reasons = replaced_reasons(entries.reasons, outcome.marks, equal_texts, opened.recrawl, opened.equal_reasons)
    return entries if np.array_equal(reasons, entries.reasons) else replace(entries, reasons=reasons)


def replaced_reasons(
    before: npt.NDArray[np.uint8],
    marks: npt.NDArray[np.uint8],
    equal_texts: npt.NDArray[np.bool_],
    recrawl: Recrawl,
    equal_reasons: Mapping[int, int],
) -> npt.NDArray[np.uint8]:
    """Final reasons for rows that came with these, uint8 [n].

    marks        uint8 [n], as in `Outcome`
    equal_texts  bool [n], duplicates with their original's text

    >>> marks, equal = np.array([MINOR, 0], np.uint8), np.array([False, True])
    >>> replaced_reasons(np.array([3, 3], np.uint8), marks, equal, Recrawl("update", minor_reasons={3: 7}), {3: 8})
    array([7, 8], dtype=uint8)
    """
    reasons = before.copy()
    for marked, replacements in (
        (equal_texts, equal_reasons),
        (marks == MINOR, recrawl.minor_reasons),
        (marks == RETURNED, recrawl.returned_reasons),
        (marks == OTHER_TEXT, recrawl.other_reasons),
        (marks == SHARED_ID, recrawl.shared_reasons),
    ):
        for row in np.flatnonzero(marked).tolist():
            reasons[row] = replacements.get(int(before[row]), int(before[row]))
    return reasons


def strangers_by_reasons(session: ReadSession, entries: Entries) -> npt.NDArray[np.uint8]:
    """`Outcome.strangers` of rows with final reasons, uint8 [n], as far as reasons tell: in a row they count as one."""
    recrawl = session.opened.recrawl
    others = np.isin(entries.reasons, list(recrawl.other_reasons.values()))
    shared = np.isin(entries.reasons, list(recrawl.shared_reasons.values()))
    return np.where(shared, STRANGERS_MAX + 1, others).astype(np.uint8)
