"""Learning anew: families of documents that were decided before, and come back from the outputs.

The outputs tell what a document was dropped for, and what a page of a template resembled. Relatives are looked up again.
Documents come in another order than they were decided in, so a template may be learnt from other pages than before. Pages that
come back are filed by their bands.
"""

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Verdict
from index.families.gallery import Gallery
from index.families.table import add_relatives, write_family
from index.matching.distance import Matches
from index.matching.minhash import unpack_bins
from index.session import WriteSession

NONE = -1


class Relearning:
    """Votes and relatives of documents that have entered the index, or that were dropped for one that has."""

    def __init__(self, session: WriteSession) -> None:
        """Begins with what the file holds of families."""
        assert session.parameters.template is not None
        self._session, self._rule = session, session.parameters.template
        self._gallery = Gallery(session, np.empty((0, session.words), np.uint64))
        self._relatives: list[tuple[int, int]] = []

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
        gallery = self._gallery
        pages = unpack_bins(signatures, gallery.bin_bits)
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
        for row in np.flatnonzero(resembles).tolist():
            verdict, place = int(verdicts[row]), int(own[row])
            if places[row] != NONE:
                family = int(gallery.families[places[row]])
                voting = (signatures[row] != gallery.signatures[places[row]]).any()
            else:
                families = gallery.families[of_earlier[begins[row] : begins[row + 1]]]
                family = NONE if place == NONE else self._relative_of(place, families)
                voting = family != NONE
            if family == NONE:
                continue
            chosen = gallery.of_families[family]
            if voting and not gallery.known[family]:
                gallery.vote(family, pages[row], self._rule.voters)
                chosen.count(dropped=int(verdict in (Verdict.DUPLICATE, Verdict.SUSPECT)))
            if place != NONE and Verdict(verdict).stands_for_itself and chosen.stored is not None:
                gallery.families[place] = family
                chosen.count(relatives=1, made_unique=int(verdict == Verdict.TEMPLATE))
                self._relatives.append((int(numbers[row]), chosen.head))

    def _relative_of(self, place: int, families: npt.NDArray[np.int64]) -> int:
        gallery, own = self._gallery, int(self._gallery.families[place])
        distinct, firsts = np.unique(families, return_index=True)
        for family in distinct[np.argsort(firsts)].tolist():
            reference = gallery.reference(family)
            if family != own and reference is not None:
                apart = gallery.distances_to(place, reference, np.zeros(1, np.int64))[0]
                if apart <= self._rule.relatives_apart:
                    return int(family)
        return NONE

    def store(self) -> None:
        """Store what was learnt."""
        for family in self._gallery.of_families:
            if (stored := family.to_store()) is not None:
                write_family(self._session.transaction, family.head, stored)
        relatives = np.array(self._relatives, np.uint64).reshape(-1, 2)
        add_relatives(self._session.transaction, relatives[:, 0], relatives[:, 1])
