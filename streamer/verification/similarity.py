"""Every duplicate reports its true similarity and length, and is similar and short enough."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Verdict, minhash, naming_originals
from streamer.records.relation import Measure, new_shares
from streamer.verification.comparison import Comparison
from streamer.verification.findings import EXAMPLES_MAX
from streamer.verification.ledger import Ledger
from streamer.verification.position_table import Rows, chunks

ROWS_AT_ONCE = 1 << 16

ROUNDING = 0.0006
"""Headers have three digits."""


@dataclass
class SimilarityCheck:
    """Recomputes each duplicate's distance to its original; after outputs and index are in the ledger.

    >>> from index import Parameters
    >>> from streamer.verification.findings import Findings
    >>> from streamer.verification.ledger import LedgerWriter
    >>> from streamer.verification.texts import Prints
    >>> ledger, prints = LedgerWriter(folder).finish({}, Findings()), Prints.blank(folder, 0, Parameters())
    >>> SimilarityCheck(ledger, Comparison(prints, Parameters())).run(print)
    >>> ledger.findings.sound
    True
    """

    _ledger: Ledger
    _comparison: Comparison

    def run(self, progress: Callable[[int], None]) -> None:
        """Check all duplicates; `progress` takes the rows done."""
        state = self._ledger.state
        for part in chunks(len(self._ledger), ROWS_AT_ONCE):
            rows = np.arange(part.start, part.stop)
            verdicts = state["verdict"][part]
            # A version may be at any distance from its older one: both have one id.
            resembling = naming_originals(verdicts) & (verdicts != Verdict.UPDATE) & (state["minor"][part] == 0)
            rows = rows[resembling & (state["original"][part] >= 0)]
            originals = state["original"][rows]
            known = self._comparison.are_known(rows) & self._comparison.are_known(originals)
            self._ledger.findings.leave_out("duplicates without a fingerprint, or of an original without one", ~known)
            rows, originals = rows[known], originals[known]
            self._check_equal_texts(rows, originals)
            self._ledger.findings.examine("similarity", len(rows))
            distances, counts = self._comparison.compared_to_roots(rows, originals)
            # The distance ignores frames of a page kept for its frame.
            framed = state["verdict"][rows] == Verdict.TEMPLATE
            distances[framed] = self._comparison.plain_distances(rows[framed], originals[framed])
            counts |= framed
            wrong = ~counts | (distances != state["distance"][rows])
            # A restored index learns frames in another order, and keeps none for documents that did not enter.
            in_frames = (state["frame"][rows] > 0) | (state["frame"][originals] > 0)
            name = "similarities in the frames of hosts, which the index may know otherwise"
            self._ledger.findings.excuse(name, wrong, in_frames)
            self._note(rows[wrong], distances[wrong])
            progress(part.stop)

    def _check_equal_texts(self, rows: Rows, originals: Rows) -> None:
        state, prints = self._ledger.state, self._comparison.prints
        by_now = (state["by_other_settings"][rows] == 0) & (state["by_other_settings"][originals] == 0)
        asked = (state["same_text"][rows] > 0) & by_now & prints.read[rows] & prints.read[originals]
        rows, originals = rows[asked], originals[asked]
        differ = prints.texts[rows] != prints.texts[originals]
        self._ledger.check("same-text", rows, differ, "has another text than", originals)

    def _note(self, rows: Rows, distances: npt.NDArray[np.int16]) -> None:
        if not len(rows):
            return
        state, by_similarity = self._ledger.state, self._comparison.parameters.by_similarity
        examples = [
            f"{self._ledger.text(row)}: tells {_shown(int(state['distance'][row]), by_similarity)} of "
            f"{self._ledger.text(int(state['original'][row]))}, which is "
            f"{_shown(distance, by_similarity)}"
            for row, distance in zip(rows[:EXAMPLES_MAX].tolist(), distances[:EXAMPLES_MAX].tolist(), strict=True)
        ]
        self._ledger.findings.note("similarity", examples, len(rows))


def check_lengths(ledger: Ledger, comparison: Comparison, measure: Measure, *, passes: bool, new_max: float) -> None:
    """Check all documents that name an original; after outputs and index are in the ledger.

    Lengths come from the texts if both were read, else from the headers.

    passes   whether longer versions pass: `index.longer`
    new_max  `index.new_max`
    """
    state, letters = ledger.state, comparison.prints.letters
    for rows, originals in ledger.naming():
        reported = state["length"][rows]
        by_now = (state["by_other_settings"][rows] == 0) & (state["by_other_settings"][originals] == 0)
        read = by_now & (letters[rows] > 0) & (letters[originals] > 0)
        lengths = np.where(read, letters[rows] / np.maximum(letters[originals], 1), reported)
        ledger.check("length", rows, np.abs(reported - lengths) > ROUNDING, "has another length beside", originals)
        distances = state["distance"][rows]
        news = new_shares(minhash.similarities_of(distances), np.maximum(reported, ROUNDING))
        differs = (distances != NO_DISTANCE) & measure.of_shingles & (np.abs(state["new"][rows] - news) > ROUNDING)
        ledger.note("length", rows[differs], "has another new share beside", originals[differs])
        # Equal fingerprints and a page's own versions are duplicates at any length.
        bound = (state["verdict"][rows] == Verdict.DUPLICATE) & (distances != 0) & (state["minor"][rows] == 0)
        too_long = passes & bound & (lengths > 1 + measure.longer_min + ROUNDING)
        framed = (state["frame"][rows] > 0) | (state["frame"][originals] > 0)
        ledger.findings.leave_out("lengths of pages in the frames of hosts, which do not count", too_long & framed)
        ledger.check("longer", rows, too_long & ~framed, "is too long to be dropped for", originals)
        too_new = (new_max < 1) & bound & measure.of_shingles & (news > new_max + ROUNDING)
        ledger.check("new-text", rows, too_new, "has too much new text to be dropped for", originals)


def _shown(distance: int, by_similarity: bool) -> str:
    if distance == NO_DISTANCE:
        return "none"
    return f"similarity {minhash.similarity_of(distance)}" if by_similarity else f"distance {distance}"
