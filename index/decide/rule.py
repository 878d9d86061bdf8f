"""The rule: from candidates to verdicts. Pure; touches no storage.

A NEAR document is a duplicate of the nearest entry within the distance, the earliest on ties; an EXACT document, of the
earliest equal entry. Documents are decided in order; each sees the earlier ones.

A match counts only if its root, the UNIQUE document that it resembles, is near enough too. The verdict names the root,
and with insert = "root" its distance. A duplicate enters if its match is farther than a limit:

- "unique": never, so every entry is its own root.
- "root": farther than `RootRule.apart`.
- "all": always, and any root is near enough. A duplicate goes on as its own root once its root is lost.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_DISTANCE, Kind, Verdict
from index.kernels import minhash
from index.kernels.bands import Bands, bands_of
from index.kernels.minhash import Limits
from index.matching.candidates import ROW_ORDER, CandidateSet
from index.matching.distance import Matches, joined
from index.matching.outcome import Outcome

WATCHED = 2**15 - 1
"""Farther than any match."""


class Rows(NamedTuple):
    """What n rows may match.

    kinds      uint8 [n], `Kind` values
    documents  the rows, and the indexed documents below
    given      matches in the index that count; `numbers` are those of their roots, or roots are in `documents`. Also
               documents at the distance WATCHED: no matches, but once one is lost, its row is looked up again
    pairs      matches among the rows; `numbers` are earlier rows
    measured   indexed documents at distances that the walk measures by the frames
    hashes     uint64 [n, bands], band hashes; rows that share a band are measured too; None: no row is
    apart      bool [n], rows whose only matches are those in `given` and `pairs`
    compared   int64 [n], comparisons so far; the walk adds its own

    >>> from index.matching.distance import no_matches
    >>> candidates, none = CandidateSet(np.zeros((2, 1), np.uint64), np.empty((2, 0), np.uint8)), no_matches()
    >>> near = Matches(np.array([1]), np.array([0], np.int16), np.array([0], np.uint64))
    >>> rows = Rows(np.zeros(2, np.uint8), candidates, none, near, none, None, np.zeros(2, np.bool_), np.zeros(2, np.int64))
    >>> rows.pairs.rows.tolist(), rows.pairs.numbers.tolist()
    ([1], [0])
    """

    kinds: npt.NDArray[np.uint8]
    documents: CandidateSet
    given: Matches
    pairs: Matches
    measured: Matches
    hashes: npt.NDArray[np.uint64] | None
    apart: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.int64]


Again = Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint64]], Matches]
"""Looks rows, int64 [m], up again without lost documents, uint64 [g]; returns `Rows.given`, by m."""


class Walk:
    """Decides rows one by one: each verdict makes entries, which later rows may match.

    >>> from index.matching.distance import no_matches
    >>> from index.matching.root import limits_of
    >>> words, kinds, none = np.zeros((3, 1), np.uint64), np.zeros(3, np.uint8), no_matches()
    >>> pair = Matches(np.array([2]), np.array([1], np.int16), np.array([0], np.uint64))
    >>> candidates = CandidateSet(words, np.empty((3, 0), np.uint8))
    >>> rows = Rows(kinds, candidates, none, pair, none, None, np.zeros(3, np.bool_), np.zeros(3, np.int64))
    >>> Walk(rows, limits_of("unique", None, 3, 0)).decide(next_number=10).originals
    array([10, 11, 10], dtype=uint64)
    """

    def __init__(
        self,
        rows: Rows,
        limits: Limits,
        to_roots: Callable[..., npt.NDArray[np.int16]] | None = None,
        again: Again | None = None,
    ) -> None:
        """to_roots: `Parameters.root_distances`; None: a verdict has the distance to the match. again: if any get lost."""
        self.documents, self._to_roots, self._limits, self._again = rows.documents, to_roots, limits, again
        self._kinds, count = rows.kinds, len(rows.kinds)
        self._candidates, self._bands = self._candidates_of(rows), _bands_of(rows)
        verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
        verdicts[rows.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
        verdicts[rows.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
        distances = np.full(count, NO_DISTANCE, np.int16)
        self.rows = minhash.Verdicts(verdicts, distances, np.arange(count), verdicts == Verdict.UNIQUE, rows.compared)
        nothing = np.full_like(verdicts, minhash.BY_RULE), np.arange(count), np.full(count, minhash.NONE)
        self.versions = minhash.Versions(*nothing, distances.copy(), distances.copy(), np.zeros(count, np.bool_), False)
        """What older versions decide; nothing unless the caller sets it."""

    def _candidates_of(self, rows: Rows) -> minhash.Candidates:
        parts, of_index = joined([rows.given, rows.measured, rows.pairs]), len(rows.given) + len(rows.measured)
        places = parts.numbers.astype(np.int64)
        # A row's number among pairs is its place already; an indexed document gets a place after the rows.
        places[:of_index] = self.documents.places(parts.numbers[:of_index])
        to_roots = parts.distances.copy()
        if self._to_roots is not None:
            given = len(rows.given)
            to_roots[:given] = self._distances_of_given(rows.given, places[:given])
            to_roots[given:] = minhash.UNMEASURED
        return _by_row(len(rows.kinds), parts.rows, places, parts.distances, to_roots)

    def _distances_of_given(self, given: Matches, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        if self._to_roots is None:
            return given.distances
        distances, near = given.distances.copy(), self._kinds[given.rows] == Kind.NEAR
        roots = self.documents.columns.roots[places[near]]
        distances[near] = self.documents.distances(self._to_roots, given.rows[near], roots)
        return distances

    def decide(
        self, next_number: int, stops: npt.NDArray[np.bool_] | None = None, at_stop: Callable[[int], None] | None = None
    ) -> Outcome:
        """Decide all rows in order; entering rows get ascending numbers from `next_number`.

        `at_stop` decides, by `conclude`, rows of `stops`, bool [n], and rows that the compiled walk leaves.
        """
        row, count, at_stop = 0, len(self._kinds), at_stop or self.conclude
        stops = np.zeros(count, np.bool_) if stops is None else stops
        state = self.versions, self._candidates, self._bands, self.documents.columns, self.rows, self._limits
        while (row := minhash.walk(row, stops, *state)) < count:
            at_stop(row)
            # This may have added documents and candidates.
            state, row = (state[0], self._candidates, state[2], self.documents.columns, *state[4:]), row + 1
        verdicts, distances, named, entering, _ = self.rows
        return Outcome(verdicts, distances, entering, next_number, self.documents.columns.order[named])

    def conclude(self, row: int) -> None:
        """Decide the next row by `versions` and its candidates."""
        while True:
            state = self.documents.columns, self.rows, self._limits
            judgement = minhash.judge(row, self._candidates, self._bands, *state)
            if judgement.asks == minhash.NOTHING:
                minhash.conclude(row, judgement, self.versions, *state)
                return
            (self._measure_to_roots if judgement.asks == minhash.TO_ROOTS else self._look_up_again)(row)

    def _measure_to_roots(self, row: int) -> None:
        assert self._to_roots is not None
        begin, end = self._candidates.begins[row : row + 2].tolist()
        places, to_roots = self._candidates.places[begin:end], self._candidates.to_roots[begin:end]
        roots = self.documents.columns.roots[places]
        members = np.flatnonzero((to_roots == minhash.UNMEASURED) & (roots != places))
        to_roots[members] = self.documents.distances(self._to_roots, np.full(len(members), row), roots[members])

    def _look_up_again(self, row: int) -> None:
        """Replace `given` for this row and all later ones that it has lost documents for."""
        assert self._again is not None, "documents get lost only where they can be looked up again"
        begins, places, distances, to_roots = self._candidates
        rows = np.repeat(np.arange(len(self._kinds)), np.diff(begins))
        given = (rows >= row) & (places >= len(self._kinds)) & (distances >= 0)
        later = np.unique(rows[given & self.documents.columns.lost[places]])
        at = np.flatnonzero(given & np.isin(rows, later))
        replaced = self.documents.columns.order[self.rows.named[self.rows.verdicts == Verdict.UPDATE]]
        others = self._again(later, replaced[replaced < ROW_ORDER])
        others = replace(others, rows=later[others.rows])
        of_others = self.documents.places(others.numbers)

        def renewed(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([np.delete(old, at), new])

        self._candidates = _by_row(
            len(self._kinds),
            renewed(rows, others.rows),
            renewed(places, of_others),
            renewed(distances, others.distances),
            renewed(to_roots, self._distances_of_given(others, of_others)),
        )


def _by_row(
    count: int,
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    distances: npt.NDArray[np.int16],
    to_roots: npt.NDArray[np.int16],
) -> minhash.Candidates:
    """Candidates of `count` rows, in any order."""
    order = np.argsort(rows, kind="stable")
    begins = np.searchsorted(rows[order], np.arange(count + 1))
    to_roots = np.where(distances == WATCHED, np.int16(NO_DISTANCE), to_roots)
    return minhash.Candidates(begins, places[order], distances[order], to_roots[order])


def _bands_of(rows: Rows) -> Bands:
    """Empty chains for the rows that take part."""
    filed = (rows.kinds == Kind.NEAR) & (rows.hashes is not None)
    # A given match needs no further candidates: the row equals its root and will not enter.
    filed[rows.given.rows[~rows.apart[rows.given.rows]]] = False
    hashes = np.empty((len(filed), 0), np.uint64) if rows.hashes is None else rows.hashes
    return bands_of(hashes, filed)._replace(meets=filed & ~rows.apart)
