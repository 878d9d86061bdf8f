"""Matches among the rows of one batch. Pure, and bounded in memory."""

import numpy as np
import numpy.typing as npt

from index.blocks import BLOCK_BITS, ringed
from index.distance import Matches
from index.overlay import Overlay


def pairs_within(
    fingerprints: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint32], distance_max: int, *, nearest_only: bool
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Matches among fingerprints uint64 [n, words]: `numbers` are rows, each below the row it was found for.

    Ordered by row, distance, number. Of equal fingerprints only the first is found: whatever matches a later one
    matches the first at the same distance, and the first is the earlier. With `nearest_only` one match a row.
    Also int64 [n]: the comparisons made for each row. `keys` are `blocks.probe_keys` of the fingerprints.
    """
    rows = np.arange(len(fingerprints))
    leaders = np.flatnonzero(first_of_equals(fingerprints) == rows)
    overlay = Overlay(fingerprints.shape[1])
    overlay.add(fingerprints[leaders], leaders.astype(np.uint64))
    best = np.full(len(fingerprints), distance_max, np.int16)
    compared = np.zeros(len(fingerprints), np.int64)
    filtered = ringed(fingerprints.shape[1] * 64 // BLOCK_BITS, distance_max)
    limit = 1 if nearest_only else None
    ends = np.searchsorted(leaders, rows)
    return overlay.matches(fingerprints, keys, filtered, best, compared, limit, ends=ends), compared


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """For every row the first row with an equal fingerprint: uint64 [n, words] -> int64 [n]."""
    if len(fingerprints) == 0:
        return np.empty(0, np.int64)
    # Equal rows stand side by side, in order: sorting is stable.
    order = np.lexsort(fingerprints.T)
    ordered = fingerprints[order]
    begins = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    firsts = np.empty(len(order), np.int64)
    firsts[order] = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    return firsts
