"""Two documents compared: near, or equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Kind, Parameters, Verdict
from streamer.delivered.table import Flags, Table, Words, blobs
from streamer.verification.checks import JOINED, MINOR_REASONS

Distances = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Prints:
    """Comparable data for n entries.

    kinds         uint8 [n], NEAR or EXACT
    fingerprints  uint64 [n, words], as in the index, with its frame's words
    looks         uint8 [n, look bytes]

    >>> prints = Prints(np.zeros(2, np.uint8), np.array([[7], [8]], np.uint64), np.zeros((2, 0), np.uint8))
    >>> prints.rows(np.array([1])).fingerprints.tolist()
    [[8]]
    """

    kinds: npt.NDArray[np.uint8]
    fingerprints: Words
    looks: npt.NDArray[np.uint8]

    @classmethod
    def of_columns(cls, parameters: Parameters, kinds: Sequence[int], columns: Sequence[Sequence[Any]]) -> "Prints":
        """From kinds, and the table's columns fingerprint, frame and look."""
        fingerprints, frames, looks = columns
        words = parameters.words, parameters.stored_words - parameters.words
        parts = [blobs(each, "<u8", width) for each, width in zip((fingerprints, frames), words, strict=True)]
        return cls(np.array(kinds, np.uint8), np.hstack(parts), blobs(looks, np.uint8, parameters.look_bytes))

    def rows(self, chosen: npt.NDArray[Any]) -> "Prints":
        """Only these rows."""
        return Prints(self.kinds[chosen], self.fingerprints[chosen], self.looks[chosen])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares documents by their prints.

    >>> print_ = Prints(np.zeros(1, np.uint8), np.array([[7]], np.uint64), np.zeros((1, 0), np.uint8))
    >>> Comparison(Parameters()).compared(print_, print_)
    (array([0], dtype=int16), array([ True]))
    """

    parameters: Parameters

    def compared(self, left: Prints, right: Prints) -> tuple[Distances, Flags]:
        """Distance in each pair, int16 [n], and whether it is a near-duplicate, bool [n].

        EXACT documents compare by equality. Mixed pairs have NO_DISTANCE.
        """
        distances = np.full(len(left.kinds), NO_DISTANCE, np.int16)
        counts = (left.kinds == Kind.EXACT) & (right.kinds == Kind.EXACT)
        counts &= (left.fingerprints == right.fingerprints).all(axis=1)
        distances[counts] = 0
        near = np.flatnonzero((left.kinds == Kind.NEAR) & (right.kinds == Kind.NEAR))
        distances[near] = self.parameters.distances(left.fingerprints[near], right.fingerprints[near])
        counts[near] = distances[near] <= self.parameters.distance_max
        near = near[counts[near]]
        if self.parameters.look is not None and len(near):
            judged = self.parameters.look.judge(distances[near], left.looks[near], right.looks[near])
            distances[near], counts[near] = judged.distances, judged.counts
        return distances, counts

    def compared_to_roots(self, left: Prints, roots: Prints) -> tuple[Distances, Flags]:
        """As `compared`, for documents and their matches' roots, by any root limits."""
        distances, counts = self.compared(left, roots)
        if self.parameters.root is not None:
            near = np.flatnonzero((left.kinds == Kind.NEAR) & (roots.kinds == Kind.NEAR))
            ours, theirs = left.rows(near), roots.rows(near)
            distances[near] = self.parameters.root_distances(
                ours.fingerprints, theirs.fingerprints, ours.looks, theirs.looks
            )
            counts[near] = distances[near] != NO_DISTANCE
        return distances, counts

    def named(self, verdicts: npt.NDArray[np.uint8], left: Prints, originals: Prints) -> tuple[Distances, Flags]:
        """Distances from documents to the originals that they name, by verdict, and whether it is near enough."""
        distances, counts = self.compared_to_roots(left, originals)
        # The distance ignores frames if they kept the page.
        framed, words = verdicts == Verdict.TEMPLATE, self.parameters.words
        plain = (each.fingerprints[framed][:, :words] for each in (left, originals))
        distances[framed], counts[framed] = self.parameters.distances(*plain), True
        update = np.flatnonzero(verdicts == Verdict.UPDATE)
        distances[update] = self._distances(left.rows(update), originals.rows(update))
        return distances, counts

    def _distances(self, left: Prints, right: Prints) -> Distances:
        distances = self.parameters.distances(left.fingerprints, right.fingerprints)
        if self.parameters.look is not None and len(left.kinds):
            distances = self.parameters.look.judge(distances, left.looks, right.looks).distances
        near = (left.kinds == Kind.NEAR) & (right.kinds == Kind.NEAR)
        return np.where(near, distances, NO_DISTANCE).astype(np.int16)


def measure(table: Table, comparison: Comparison, known: str) -> None:
    """Write the distance from every document with a fingerprint to the original that it names.

    known  SQL: both have one; see `checks.JOINED`
    """
    table.execute("CREATE TABLE measured (row INTEGER PRIMARY KEY, distance INTEGER, is_near INTEGER)")
    query = f"""SELECT o.row, o.verdict, e.kind, f.kind, e.fingerprint, j.frame, e.look, f.fingerprint, k.frame, f.look {JOINED}
        AND {known} AND (o.verdict = {int(Verdict.UPDATE)} OR o.reason NOT IN {MINOR_REASONS})"""
    for portion in table.portions(query):
        rows, verdicts, kinds, others, *columns = zip(*portion, strict=True)
        left = Prints.of_columns(comparison.parameters, kinds, columns[:3])
        right = Prints.of_columns(comparison.parameters, others, columns[3:])
        distances, counts = comparison.named(np.array(verdicts, np.uint8), left, right)
        table.insert("measured", zip(rows, distances.tolist(), counts.tolist(), strict=True))
