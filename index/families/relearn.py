"""Learning anew: families of documents that were decided before, and come back from the outputs.

The outputs tell what a document was dropped for, and what a page of a template resembled. Relatives are looked up again.
Documents come in another order than they were decided in, so a template may be learnt from other pages than before. Pages that
come back are filed by their bands.
"""

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Verdict, standing_for_themselves
from index.families.gallery import Gallery
from index.families.table import add_relatives
from index.kernels import families
from index.matching.distance import Matches
from index.matching.minhash import DISTANCE_UNITS
from index.session import WriteSession

NONE = -1


class Relearning:
    """Votes and relatives of documents that have entered the index, or that were dropped for one that has."""

    def __init__(self, session: WriteSession) -> None:
        """Begins with what the file holds of families."""
        assert session.parameters.template is not None
        self._session, self._rule = session, session.parameters.template
        self._gallery = Gallery(session, np.empty((0, session.words), np.uint64))
        self._relatives: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []

    def learn(
        self,
        signatures: npt.NDArray[np.uint64],
        verdicts: npt.NDArray[np.uint8],
        numbers: npt.NDArray[np.uint64],
        named: npt.NDArray[np.uint64],
        resembling: Matches,
    ) -> None:
        """Learn from n NEAR documents, in order.

        signatures  uint64 [n, words]
        verdicts    uint8 [n], values of `Verdict`
        numbers     uint64 [n], number of each document that entered, else NO_NUMBER
        named       uint64 [n], visible document that a document was dropped for, or that it resembled, else NO_NUMBER
        resembling  entries that share a band with a document, at most `Parameters.reach` away, nearest and earliest first
        """
        gallery, limits = self._gallery, self._rule
        there = np.flatnonzero(named != NO_NUMBER)
        places = np.full(len(numbers), NONE, np.int64)
        places[there] = gallery.places(named[there])
        earlier = resembling.take(resembling.numbers < numbers[resembling.rows])
        of_earlier = gallery.places(earlier.numbers)
        begins = np.searchsorted(earlier.rows, np.arange(len(numbers) + 1))
        # Most documents of most streams resemble nothing.
        resembles = (places != NONE) | (np.diff(begins) > 0)
        entered = np.flatnonzero(resembles & (numbers != NO_NUMBER))
        own = np.full(len(numbers), NONE, np.int64)
        own[entered] = gallery.places(numbers[entered])
        unequal = np.zeros(len(numbers), np.bool_)
        unequal[there] = (signatures[there] != gallery.signatures[places[there]]).any(axis=1)
        gallery.of_families.columns.met[:] = NONE
        joined = families.relearnt(
            places,
            own,
            unequal,
            signatures,
            np.isin(verdicts, (Verdict.DUPLICATE, Verdict.SUSPECT)),
            standing_for_themselves(verdicts),
            verdicts == Verdict.TEMPLATE,
            families.Seen(begins, of_earlier, earlier.distances),
            gallery.columns,
            gallery.of_families.columns,
            families.Shape(limits.relatives_apart, limits.voters, gallery.bin_bits, DISTANCE_UNITS),
        )
        rows = np.flatnonzero(joined != NONE)
        heads = gallery.of_families.columns.heads[joined[rows]].astype(np.uint64)
        self._relatives.append((numbers[rows], heads))

    def store(self) -> None:
        """Store what was learnt."""
        of_families, transaction = self._gallery.of_families, self._session.transaction
        of_families.write(transaction, of_families.columns.heads[: of_families.count].astype(np.uint64))
        for numbers, heads in self._relatives:
            add_relatives(transaction, numbers, heads)
