"""Comparison of rows with versions by fingerprints and looks."""

import numpy as np
import numpy.typing as npt

from index.entry import NO_DISTANCE, Entries, Kind
from index.matching.candidates import ROW_ORDER, CandidateSet
from index.session import ReadSession
from index.storage import log
from index.versions.history import Versions

Columns = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]
"""Kinds, fingerprints and looks."""


class Texts:
    """Compares rows with each other and with indexed documents.

    >>> numbers, kinds, rows = np.array([0, 1], np.uint64), np.full(2, Kind.NEAR, np.uint8), np.zeros(2, np.bool_)
    >>> entries = Entries((), numbers, numbers, kinds, kinds, numbers[:, None], numbers, ["a", "a"])
    >>> versions = Versions(np.full(2, -1), [], [], rows[:0], rows)
    >>> opened.read(lambda session: Texts(session, entries, versions).compared(1, ROW_ORDER + 0))
    (True, 1)
    """

    def __init__(self, session: ReadSession, entries: Entries, versions: Versions) -> None:
        self._session, self._parameters = session, session.parameters
        self._kinds, self._fingerprints, self._looks = entries.kinds, entries.fingerprints, entries.look_rows
        # Most comparisons are between a row and its last or its standing version's document.
        rows_of = [(row, versions.known[key]) for row, key in enumerate(versions.of_rows.tolist()) if key >= 0]
        pairs = [
            (row, number) for row, known in rows_of for number in {each.number for each in (known or ())[:2] if each}
        ]
        self.numbers = np.array([number for _, number in pairs], np.uint64)
        """Those documents, by row."""
        rows = np.array([row for row, _ in pairs], np.int64)
        near, distances = self._comparison(rows, self._stored(self.numbers))
        self._compared = dict(zip(pairs, zip(near.tolist(), distances.tolist(), strict=True), strict=True))

    def compared(self, row: int, order: int) -> tuple[bool, int]:
        """Whether a row would match another row, or an indexed document, by its order; and at which distance."""
        if (row, order) not in self._compared:
            if order < ROW_ORDER:
                columns = self._stored(np.array([order], np.uint64))
            else:
                other = [order - ROW_ORDER]
                columns = self._kinds[other], self._fingerprints[other], self._looks[other]
            near, distances = self._comparison(np.array([row]), columns)
            self._compared[row, order] = bool(near[0]), int(distances[0])
        return self._compared[row, order]

    def _stored(self, numbers: npt.NDArray[np.uint64]) -> Columns:
        stored = log.documents(self._session.transaction, numbers, self._session.words)
        return stored.rows["kind"], stored.fingerprints, stored.looks(self._parameters.look_bytes)

    def _comparison(
        self, rows: npt.NDArray[np.int64], others: Columns
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int16]]:
        """Compare rows, int64 [m], with other texts: near bool [m], distance int16 [m], NO_DISTANCE unless both are NEAR."""
        kinds, fingerprints, looks = others
        own, own_looks = self._fingerprints[rows], self._looks[rows]
        both_near = (self._kinds[rows] == kinds) & (kinds == Kind.NEAR)
        distances = self._parameters.distances(own, fingerprints)
        near = both_near & (distances <= self._parameters.distance_max)
        judged = self._parameters.second_look.judge(distances, own_looks, looks)
        return near & judged.counts, np.where(both_near, judged.distances, NO_DISTANCE).astype(np.int16)


def add_documents(
    session: ReadSession, candidates: CandidateSet, numbers: npt.NDArray[np.uint64], *, with_texts: bool
) -> None:
    """Add logged documents, uint64 [m], as their own roots; with_texts: comparisons with them may be needed."""
    unknown = candidates.unknown(numbers)
    if not with_texts or not len(unknown):
        candidates.add(unknown)
        return
    stored, parameters = log.documents(session.transaction, unknown, session.words), session.parameters
    lengths = stored.lengths.astype(np.int64)
    candidates.add(unknown, stored.fingerprints, stored.looks(parameters.look_bytes), lengths)
