"""The rule: from matches to verdicts. Pure; touches no storage.

A NEAR document is a duplicate of the nearest entry within the distance, the earliest among equally near ones. An EXACT
document is a duplicate of the earliest equal entry. Documents are decided in order; each sees the ones before it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.entry import NO_DISTANCE, NO_NUMBER, Insert, Kind, Verdict
from index.matching.distance import Matches


@dataclass(frozen=True, slots=True)
class Matched:
    """Matches of n documents of a batch.

    kinds           uint8 [n], values of `Kind`
    distances       int16 [n], distance to the nearest entry of the index, NO_DISTANCE where there is none
    originals       uint64 [n], original of that entry, NO_NUMBER where there is none
    pairs           matches among the NEAR rows, as `tree.Lookup.pairs` gives them
    firsts          int64 [n], for EXACT rows the first EXACT row with an equal fingerprint; not read elsewhere
    """

    kinds: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    originals: npt.NDArray[np.uint64]
    pairs: Matches
    firsts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Verdicts on n rows.

    verdicts   uint8 [n], values of `Verdict`
    distances  int16 [n], distance to the match, NO_DISTANCE where there is none
    entering   bool [n], whether the row becomes an entry
    numbers    uint64 [n], number of an entering row, else NO_NUMBER
    originals  uint64 [n], number of the original; a UNIQUE row's own number; else NO_NUMBER
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    entering: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.uint64]
    originals: npt.NDArray[np.uint64]


def decide(matched: Matched, insert: Insert, next_number: int) -> Outcome:
    """Decide n rows in order; entering rows get ascending numbers from `next_number`."""
    kinds, distances, originals = matched.kinds, matched.distances.copy(), matched.originals.copy()
    verdicts = np.where(originals != NO_NUMBER, Verdict.DUPLICATE, Verdict.UNIQUE).astype(np.uint8)
    verdicts[kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    verdicts[kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
    original_rows = np.full(len(kinds), -1, np.int64)

    repeats = (kinds == Kind.EXACT) & (matched.firsts < np.arange(len(kinds))) & (verdicts == Verdict.UNIQUE)
    verdicts[repeats] = Verdict.DUPLICATE
    distances[repeats] = 0
    original_rows[repeats] = matched.firsts[repeats]

    _decide_pairs(matched, insert, verdicts, distances, originals, original_rows)

    entering = verdicts == Verdict.UNIQUE
    if insert == "all":
        entering |= verdicts == Verdict.DUPLICATE
    numbers = np.full(len(kinds), NO_NUMBER, np.uint64)
    numbers[entering] = np.arange(next_number, next_number + np.count_nonzero(entering), dtype=np.uint64)
    originals = np.where(original_rows >= 0, numbers[original_rows], originals)
    originals = np.where(verdicts == Verdict.UNIQUE, numbers, originals)
    return Outcome(verdicts, distances, entering, numbers, originals)


def _decide_pairs(
    matched: Matched,
    insert: Insert,
    verdicts: npt.NDArray[np.uint8],
    distances: npt.NDArray[np.int16],
    originals: npt.NDArray[np.uint64],
    original_rows: npt.NDArray[np.int64],
) -> None:
    """Decide the rows that match an earlier row of the batch, in order; changes the columns in place.

    Every entry of the index is earlier than any row, so a matching row counts only if it is strictly nearer.
    """
    pairs = matched.pairs
    of_entries = distances[pairs.rows]
    counts = (of_entries == NO_DISTANCE) | (pairs.distances < of_entries)
    if insert == "unique":
        counts &= verdicts[pairs.numbers.astype(np.int64)] == Verdict.UNIQUE
    pairs = pairs.take(counts)
    if len(pairs) == 0:
        return
    earlier = pairs.numbers.astype(np.int64)
    rows, begins = np.unique(pairs.rows, return_index=True)
    ends = np.append(begins[1:], len(earlier))
    for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
        place = begin
        if insert == "unique":
            still_unique = verdicts[earlier[begin:end]] == Verdict.UNIQUE
            place += int(still_unique.argmax())
            if not still_unique[place - begin]:
                continue
        match = earlier[place]
        verdicts[row] = Verdict.DUPLICATE
        distances[row] = pairs.distances[place]
        # A match that is itself a duplicate (insert = "all") passes its original on.
        passed_on = verdicts[match] == Verdict.DUPLICATE
        original_rows[row] = original_rows[match] if passed_on else match
        originals[row] = originals[match] if passed_on else NO_NUMBER
