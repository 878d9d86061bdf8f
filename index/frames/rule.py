"""The rule with learnt frames: from a row's candidates to its verdict, in order.

It decides like insert = "root" (see `decide.rule`) by the distance of `matching.frame`, with two differences:

- A row is TEMPLATE if it has no match, but would have one by the plain distance. It is delivered as unique, and names
  the nearest such document.
- A duplicate enters if it is far enough from its match by the plain distance: in another frame it may match documents
  that its match does not.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import Verdict
from index.frames.gallery import ROW_ORDER, Gallery
from index.kernels import minhash
from index.matching.distance import Matches
from index.matching.frame import OWN_LIMITS
from index.matching.minhash import DISTANCE_UNITS
from index.session import ReadSession

NONE = minhash.NONE


class Rows(NamedTuple):
    """Rows to decide.

    fingerprints  uint64 [n, words]
    near          bool [n], NEAR rows; others take no part
    hashes        uint64 [n, bands], NEAR rows' band hashes; None: decide each row as if it came alone
    sharing       bool [n], rows that share a band with an earlier one
    """

    fingerprints: npt.NDArray[np.uint64]
    near: npt.NDArray[np.bool_]
    hashes: npt.NDArray[np.uint64] | None
    sharing: npt.NDArray[np.bool_]


class FrameRule:
    """Decides a portion's rows."""

    def __init__(self, session: ReadSession, rows: Rows, matches: Matches) -> None:
        """Start with `matches`, the visible indexed candidates, by row."""
        parameters, count = session.parameters, len(rows.fingerprints)
        assert parameters.banding is not None
        assert parameters.root is not None
        self.gallery = Gallery(session, rows.fingerprints)
        self.compared: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self._rows = rows
        self._matched = np.zeros(count, np.bool_)
        self._matched[matches.rows] = True
        self._seen = minhash.Seen(
            np.searchsorted(matches.rows, np.arange(count + 1)), self.gallery.places(matches.numbers)
        )
        self._standing = np.zeros(count, np.bool_)
        self._in_bands = None if rows.hashes is None else _rows_in_bands(rows.hashes)
        self._filed_to = 0
        self._limits = minhash.Limits(
            parameters.distance_max,
            parameters.root.distance_max,
            parameters.root.apart,
            parameters.banding.bin_bits,
            DISTANCE_UNITS,
            OWN_LIMITS,
            int(Verdict.DUPLICATE),
            int(Verdict.TEMPLATE),
        )

    def decide(
        self,
        verdicts: npt.NDArray[np.uint8],
        distances: npt.NDArray[np.int16],
        originals: npt.NDArray[np.uint64],
        original_rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Decide, in order, the UNIQUE rows with candidates; changes the columns and returns the rows that enter, bool
        [n].

        originals      uint64 [n], number of the indexed document that a row names, else NO_NUMBER
        original_rows  int64 [n], row that it names instead, else -1
        """
        count = len(verdicts)
        entering: npt.NDArray[np.bool_] = verdicts == Verdict.UNIQUE
        roots = np.arange(count)
        self._standing[:] = entering & self._rows.near
        asked = np.flatnonzero((self._rows.sharing | self._matched) & entering)
        told = minhash.Verdicts(verdicts, distances, roots, entering, self._standing, self.compared)
        if self._in_bands is not None:
            minhash.decided(asked, self._seen, self._in_bands, self.gallery.columns, told, self._limits)
        else:
            for row in asked.tolist():
                self._decide_alone(row, told)
        naming = np.flatnonzero(roots != np.arange(count))
        of_rows = roots[naming] < count
        original_rows[naming[of_rows]] = roots[naming[of_rows]]
        originals[naming[~of_rows]] = self.gallery.columns.order[roots[naming[~of_rows]]]
        return entering

    def _decide_alone(self, row: int, told: minhash.Verdicts) -> None:
        sight = self.look(row)
        named = sight.match if sight.match != NONE else sight.failed
        if named != NONE:
            told.roots[row], told.distances[row] = self.gallery.columns.roots[named], sight.told
            told.verdicts[row] = Verdict.DUPLICATE if sight.match != NONE else Verdict.TEMPLATE
        told.entering[row] = self.enters(sight)

    def look(self, row: int) -> minhash.Sight:
        """Judge a row's candidates, after all earlier rows are concluded."""
        of_index = self._seen.places[slice(*self._seen.begins[row : row + 2])]
        places = np.empty(len(of_index) + row, np.int64)
        places[: len(of_index)], found = of_index, 0
        if self._in_bands is not None:
            of_batch = places[len(of_index) :]
            found = minhash.earlier_rows(row, self._filed_to, self._standing, self._in_bands, of_batch)
            self._filed_to = row
            self.compared[row] += found
        return minhash.judged(row, places, len(of_index) + found, self.gallery.columns, self._limits)

    def enters(self, sight: minhash.Sight) -> bool:
        """Whether a row becomes an entry."""
        return sight.match == NONE or sight.plain > self._limits.root_apart

    def conclude(self, row: int, root: int, *, entering: bool) -> None:
        """Make a decided row available to later rows; root: place of its root."""
        self.gallery.columns.roots[row] = root
        self._standing[row] = entering and self._in_bands is not None

    def retire(self, row: int, number: int) -> None:
        """Exclude a row (or, if row is NONE, an indexed document) and its members from further matches."""
        self.gallery.lose(number if row == NONE else ROW_ORDER + row)

    def forget(self) -> None:
        """Make all documents count again."""
        self.gallery.regain()


def _rows_in_bands(hashes: npt.NDArray[np.uint64]) -> minhash.RowsInBands:
    """Empty chains for rows with these hashes."""
    count, bands = hashes.shape
    slots = 1 << (2 * count).bit_length()
    heads, following = np.full((bands, slots), -1, np.int32), np.empty((count, bands), np.int32)
    return minhash.RowsInBands(hashes, heads, following, np.full(count, -1, np.int64))
