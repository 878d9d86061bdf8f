"""Comparison of two documents: near, or equal."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Kind, Parameters
from streamer.verification.position_table import Flags, Rows
from streamer.verification.texts import Prints


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of ledger rows by their fingerprints.

    >>> prints = Prints.blank(folder, rows=2, parameters=Parameters())
    >>> Comparison(prints, Parameters()).are_known(np.arange(2))
    array([False, False])
    """

    prints: Prints
    parameters: Parameters

    def are_known(self, rows: Rows) -> Flags:
        """Whether each row has a fingerprint, and a look if needed: bool [n]."""
        known: Flags = np.isin(self.prints.kinds[rows], (Kind.NEAR, Kind.EXACT))
        return known if self.parameters.look is None else known & self.prints.read[rows]

    def compared(self, left: Rows, right: Rows) -> tuple[npt.NDArray[np.int16], Flags]:
        """Distance in each pair, int16 [n], and whether it is a near-duplicate, bool [n].

        EXACT documents compare by equality. Mixed pairs have NO_DISTANCE.
        """
        kinds, others = self.prints.kinds[left], self.prints.kinds[right]
        ours, theirs = self.prints.fingerprints[left], self.prints.fingerprints[right]
        distances = np.full(len(left), NO_DISTANCE, np.int16)
        counts = np.zeros(len(left), np.bool_)
        equal = (kinds == Kind.EXACT) & (others == Kind.EXACT) & (ours == theirs).all(axis=1)
        distances[equal], counts[equal] = 0, True
        near = np.flatnonzero((kinds == Kind.NEAR) & (others == Kind.NEAR))
        distances[near] = self.parameters.distances(ours[near], theirs[near])
        counts[near] = distances[near] <= self.parameters.distance_max
        near = near[counts[near]]
        if self.parameters.look is not None and len(near):
            looks = self.prints.looks
            judged = self.parameters.look.judge(distances[near], looks[left[near]], looks[right[near]])
            distances[near], counts[near] = judged.distances, judged.counts
        return distances, counts

    def plain_distances(self, left: Rows, right: Rows) -> npt.NDArray[np.int16]:
        """Distance in each NEAR pair, ignoring frames: int16 [n]."""
        ours, theirs = (self.prints.fingerprints[rows, : self.prints.words] for rows in (left, right))
        return self.parameters.distances(ours, theirs)

    def distances(self, left: Rows, right: Rows) -> npt.NDArray[np.int16]:
        """Distance in each pair, int16 [n], by any second look; NO_DISTANCE unless NEAR."""
        prints = self.prints
        distances = self.parameters.distances(prints.fingerprints[left], prints.fingerprints[right])
        if self.parameters.look is not None and len(left):
            distances = self.parameters.look.judge(distances, prints.looks[left], prints.looks[right]).distances
        near = (prints.kinds[left] == Kind.NEAR) & (prints.kinds[right] == Kind.NEAR)
        return np.where(near, distances, NO_DISTANCE).astype(np.int16)

    def compared_to_roots(self, rows: Rows, roots: Rows) -> tuple[npt.NDArray[np.int16], Flags]:
        """As `compared`, for documents and their matches' roots, by any root limits."""
        if self.parameters.root is None:
            return self.compared(rows, roots)
        distances, counts = self.compared(rows, roots)
        near = np.flatnonzero((self.prints.kinds[rows] == Kind.NEAR) & (self.prints.kinds[roots] == Kind.NEAR))
        of_rows, of_roots, prints = rows[near], roots[near], self.prints
        looks = prints.looks
        distances[near] = self.parameters.root_distances(
            prints.fingerprints[of_rows], prints.fingerprints[of_roots], looks[of_rows], looks[of_roots]
        )
        counts[near] = distances[near] != NO_DISTANCE
        return distances, counts
