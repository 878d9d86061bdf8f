"""The rule: from matches to verdicts. Pure; touches no storage.

A NEAR document is a duplicate of the nearest entry within the distance, the earliest on ties. An EXACT document is a
duplicate of the earliest equal entry. Documents are decided in order; each sees the earlier ones.

With insert = "root" a match counts only if the document is also near enough to the match's root. The root is the
UNIQUE document that a duplicate resembles. The verdict then gives the distance to the root, which is the kept
document.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from index.entry import NO_DISTANCE, NO_NUMBER, Insert, Kind, Verdict, standing_for_themselves
from index.matching.distance import Matches


@dataclass(frozen=True, slots=True)
class Matched:
    """Matches of n documents of a batch.

    kinds      uint8 [n], values of `Kind`
    distances  int16 [n], distance to the nearest indexed entry, or NO_DISTANCE
    originals  uint64 [n], that entry's original, or NO_NUMBER
    pairs      matches among the NEAR rows, as `tree.Lookup.pairs`
    firsts     int64 [n], for EXACT rows the first EXACT row with an equal fingerprint; unused for others
    """

    kinds: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    originals: npt.NDArray[np.uint64]
    pairs: Matches
    firsts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Roots:
    """Roots of n rows with insert = "root".

    fingerprints  uint64 [n + r, words]: those of the n rows, then those of r roots in the index
    looks         uint8 [n + r, look bytes]
    places        int64 [n], place of the root of each row's match in the index; the row itself without a match
    compare       `Parameters.root_distances`
    apart         see `RootRule`
    """

    compare: Callable[..., npt.NDArray[np.int16]]
    apart: int
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]

    def distances(self, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Distance of rows to the roots at these places, int64 [m] twice -> int16 [m]; NO_DISTANCE if too far."""
        return self.compare(self.fingerprints[rows], self.fingerprints[places], self.looks[rows], self.looks[places])


@dataclass(frozen=True, slots=True)
class Outcome:
    """Verdicts on n rows.

    verdicts   uint8 [n], values of `Verdict`
    distances  int16 [n], distance to the match, or with insert = "root" to its root, or NO_DISTANCE
    entering   bool [n], whether the row becomes an entry
    numbers    uint64 [n], number of an entering row, else NO_NUMBER
    originals  uint64 [n], number of the original; its own number for a row that is one; else NO_NUMBER
    named      uint64 [n], number of the document that a row names, if any; None: `originals` has them
    replaced   uint64 [n], number of the older version that an UPDATE replaces, else NO_NUMBER; None: no row has one
    recrawled  bool [n], UNIQUE rows that are another version of an entry; None: no row is
    minor      bool [n], versions with the same substance, or that came too often; None: no row is
    former     by UPDATE row that replaces no entry: the origin of the version it names, or its row
    returns    uint8 [n], how often an id has returned to an earlier substance; None: never
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    entering: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.uint64]
    originals: npt.NDArray[np.uint64]
    named: npt.NDArray[np.uint64] | None = None
    replaced: npt.NDArray[np.uint64] | None = None
    recrawled: npt.NDArray[np.bool_] | None = None
    minor: npt.NDArray[np.bool_] | None = None
    former: Mapping[int, tuple[str, int, int, int] | int] = field(default_factory=dict)
    returns: npt.NDArray[np.uint8] | None = None


class FrameWalk(Protocol):
    """Decides rows that resemble anything, with learnt frames: see `frames.rule.FrameRule`."""

    def decide(
        self,
        verdicts: npt.NDArray[np.uint8],
        distances: npt.NDArray[np.int16],
        originals: npt.NDArray[np.uint64],
        original_rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """See `FrameRule.decide`."""


def decide(
    matched: Matched, insert: Insert, next_number: int, roots: Roots | None = None, framed: FrameWalk | None = None
) -> Outcome:
    """Decide n rows in order; entering rows get ascending numbers from `next_number`.

    roots   with insert = "root"
    framed  with learnt frames; covers the pairs, and all matches except those equal to a root
    """
    kinds, distances, originals = matched.kinds, matched.distances.copy(), matched.originals.copy()
    verdicts = np.where(originals != NO_NUMBER, Verdict.DUPLICATE, Verdict.UNIQUE).astype(np.uint8)
    verdicts[kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    verdicts[kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
    original_rows = np.full(len(kinds), -1, np.int64)

    # EXACT fingerprints [a, b, a]: firsts is [0, 1, 0], so row 2 is a DUPLICATE of row 0.
    repeats = (kinds == Kind.EXACT) & (matched.firsts < np.arange(len(kinds))) & (verdicts == Verdict.UNIQUE)
    verdicts[repeats] = Verdict.DUPLICATE
    distances[repeats] = 0
    original_rows[repeats] = matched.firsts[repeats]

    if framed is not None:
        entering = framed.decide(verdicts, distances, originals, original_rows)
    elif roots is not None:
        entering = _decide_pairs_by_root(matched, roots, verdicts, distances, originals, original_rows)
    else:
        _decide_pairs(matched, insert, verdicts, distances, originals, original_rows)
        entering = verdicts == Verdict.UNIQUE
        if insert == "all":
            entering |= verdicts == Verdict.DUPLICATE
    numbers = np.full(len(kinds), NO_NUMBER, np.uint64)
    numbers[entering] = np.arange(next_number, next_number + np.count_nonzero(entering), dtype=np.uint64)
    originals = np.where(original_rows >= 0, numbers[original_rows], originals)
    named = originals if framed is not None else None
    originals = np.where(standing_for_themselves(verdicts), numbers, originals)
    return Outcome(verdicts, distances, entering, numbers, originals, named)


def _decide_pairs_by_root(
    matched: Matched,
    roots: Roots,
    verdicts: npt.NDArray[np.uint8],
    distances: npt.NDArray[np.int16],
    originals: npt.NDArray[np.uint64],
    original_rows: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Decide like `_decide_pairs`, with insert = "root" and distances to the roots. Returns the rows that enter, bool
    [n].

    Only earlier rows that entered are matches: UNIQUE rows, and duplicates far enough from their own match.
    """
    places = roots.places.copy()
    entering: npt.NDArray[np.bool_] = verdicts == Verdict.UNIQUE
    duplicates = np.flatnonzero((matched.kinds == Kind.NEAR) & (verdicts == Verdict.DUPLICATE))
    entering[duplicates] = distances[duplicates] > roots.apart
    # The verdict reports the distance to the root; `distances` keeps those to the matches for the comparison below.
    to_roots = distances.copy()
    to_roots[duplicates] = roots.distances(duplicates, places[duplicates])

    pairs = matched.pairs
    of_entries = distances[pairs.rows]
    pairs = pairs.take((of_entries == NO_DISTANCE) | (pairs.distances < of_entries))
    earlier = pairs.numbers.astype(np.int64)
    rows, begins = np.unique(pairs.rows, return_index=True)
    ends = np.append(begins, len(earlier))[1:]
    for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
        told = roots.distances(np.full(end - begin, row), places[earlier[begin:end]])
        counts = entering[earlier[begin:end]] & (told != NO_DISTANCE)
        if not counts.any():
            continue
        place = int(counts.argmax())
        match = int(earlier[begin + place])
        verdicts[row], to_roots[row], places[row] = Verdict.DUPLICATE, told[place], places[match]
        entering[row] = pairs.distances[begin + place] > roots.apart
        original_rows[row] = original_rows[match] if verdicts[match] == Verdict.DUPLICATE else match
        originals[row] = originals[match] if verdicts[match] == Verdict.DUPLICATE else NO_NUMBER
    distances[:] = to_roots
    return entering


def _decide_pairs(
    matched: Matched,
    insert: Insert,
    verdicts: npt.NDArray[np.uint8],
    distances: npt.NDArray[np.int16],
    originals: npt.NDArray[np.uint64],
    original_rows: npt.NDArray[np.int64],
) -> None:
    """Decide the rows that match an earlier row in the batch, in order; changes the columns in place.

    Every indexed entry precedes any row, so a matching row counts only if it is strictly nearer.
    """
    # Row 2 is 5 from an entry and 3 from row 0: row 0 wins. At 5 from row 0 the entry wins.
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
