"""Hamming distance between columns, and the nearest among many matches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a row and an entry within a distance.

    rows       int64 [m], row in the batch
    distances  int16 [m]
    numbers    uint64 [m], the entry's document number

    >>> Matches(np.array([0, 3]), np.array([2, 1], np.int16), np.array([5, 9], np.uint64)).take(np.array([1])).rows
    array([3])
    """

    rows: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int16]
    numbers: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Matches":
        """Only these places: a mask bool [m], or indices."""
        return Matches(self.rows[places], self.distances[places], self.numbers[places])


Portion = tuple[Matches, npt.NDArray[np.int64]]
"""Matches of n rows, and the comparisons for each row, int64 [n]."""


def no_matches() -> Matches:
    """Matches of length 0."""
    return Matches(np.empty(0, np.int64), np.empty(0, np.int16), np.empty(0, np.uint64))


def joined(parts: Sequence[Matches]) -> Matches:
    """Join parts, at least one."""
    return Matches(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.numbers for part in parts]),
    )


def hamming(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
    """Differing bits, row by row: uint64 [n, words] twice, or broadcast to it -> int16 [n].

    >>> hamming(np.array([[0b1011]], np.uint64), np.array([[0b0001]], np.uint64))
    array([2], dtype=int16)
    """
    total: npt.NDArray[np.int16] = np.bitwise_count(left[..., 0] ^ right[..., 0]).astype(np.int16)
    for word in range(1, left.shape[-1]):
        total += np.bitwise_count(left[..., word] ^ right[..., word])
    return total


def nearest(matches: Matches, limit: int | None) -> Matches:
    """Each row's `limit` nearest entries (None: all), each once, ordered by row, distance, number.

    A pair that agrees on several blocks may come repeatedly. On ties the lower number, the earlier entry, is nearer.

    >>> nearest(Matches(np.array([0, 0]), np.array([2, 1], np.int16), np.array([5, 9], np.uint64)), 1).numbers
    array([9], dtype=uint64)
    """
    if len(matches) == 0:
        return matches
    ordered = matches.take(np.lexsort((matches.numbers, matches.distances, matches.rows)))
    again = (ordered.rows[1:] == ordered.rows[:-1]) & (ordered.numbers[1:] == ordered.numbers[:-1])
    if again.any():
        ordered = ordered.take(np.concatenate([[True], ~again]))
    if limit is None:
        return ordered
    row_starts = np.searchsorted(ordered.rows, ordered.rows, side="left")
    return ordered.take(np.arange(len(ordered)) - row_starts < limit)
