"""Compiled loops over sampled documents' features; `audit.features` defines the result."""

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, inner


@inner
def _shared(some: npt.NDArray[np.uint32], others: npt.NDArray[np.uint32]) -> np.int64:
    """How many values two ascending columns share. Without a branch on values, which are random."""
    shared, place, other = np.int64(0), 0, 0
    while place < len(some) and other < len(others):
        value, theirs = some[place], others[other]
        shared += value == theirs
        place += value <= theirs
        other += theirs <= value
    return shared


@compiled
def overlaps(
    values: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], bases: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """How many features each of n documents shares with one, and how many it has: int64 [2, n].

    values  the one's features, then what is stored for the documents, then their bases, each ascending
    bounds  int64 [n + bases + 2], the one has values[bounds[0]:bounds[1]], document i begins at bounds[i + 1]
    bases   int64 [n], each one's base as a place in `bounds`; -1: its features are stored as they are
    """
    own = values[bounds[0] : bounds[1]]
    found = np.empty((2, len(bases)), np.int64)
    for row in range(len(bases)):
        stored = values[bounds[row + 1] : bounds[row + 2]]
        shared, size = _shared(own, stored), np.int64(len(stored))
        if bases[row] >= 0:
            base = values[bounds[bases[row]] : bounds[bases[row] + 1]]
            # A stored value is what the document has and its base lacks, or the other way round.
            lost, ours, theirs = np.int64(0), 0, 0
            shared = _shared(own, base)
            for value in stored:
                while theirs < len(base) and base[theirs] < value:
                    theirs += 1
                while ours < len(own) and own[ours] < value:
                    ours += 1
                is_lost = theirs < len(base) and base[theirs] == value
                lost += is_lost
                if ours < len(own) and own[ours] == value:
                    shared += -1 if is_lost else 1
            size += len(base) - 2 * lost
        found[0, row], found[1, row] = shared, size
    return found
