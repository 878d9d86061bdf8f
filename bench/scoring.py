"""The index's decisions by their definition, brute force over all pairs, and the truth of each insert policy. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bench.named_settings import Policy
from index.entry import Kind
from index.matching.frame import framed_distances
from index.matching.minhash import Banding
from index.matching.second_look import Look
from streamer.evaluation.scores import DUPLICATE_MIN
from streamer.fingerprint.fingerprints import Fingerprints

_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of documents by row number, the later row first; sorted by later row, then value's rank, then earlier row.

    values  distances (nearest first) or similarities (any order)
    """

    later: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def counting(pairs: Pairs, prints: Fingerprints, distance_max: int, look: Look | None) -> Pairs:
    """Pairs within the distance that a second look lets count, at the distances that it measures. EXACT pairs stay."""
    near = pairs.values <= distance_max
    later, earlier, values = pairs.later[near], pairs.earlier[near], pairs.values[near]
    if look is not None:
        assert prints.looks is not None
        judged = look.judge(values.astype(np.int16), prints.looks[later], prints.looks[earlier])
        exact = prints.kinds[later] == Kind.EXACT
        counts, values = judged.counts | exact, np.where(exact, values, judged.distances).astype(np.float64)
        later, earlier, values = later[counts], earlier[counts], values[counts]
    order = np.lexsort((earlier, values, later))
    return Pairs(later[order], earlier[order], values[order])


def near_pairs(prints: Fingerprints, distance_max: int, banding: Banding | None = None) -> Pairs:
    """Every pair that may match: NEAR rows within `distance_max`, EXACT rows with equal fingerprints. Brute force.

    banding  shape of MinHash signatures, None for SimHash; pairs are found whether they share a band or not
    """
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for kind, limit in ((Kind.NEAR, distance_max), (Kind.EXACT, 0)):
        rows = np.flatnonzero(prints.kinds == kind)
        of_kind = prints.fingerprints[rows]
        for begin in range(0, len(rows), _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, len(rows))
            apart = _table(of_kind[begin:end], of_kind[:end], banding if kind is Kind.NEAR else None)
            high, low = np.nonzero(apart <= limit)
            earlier = low < high + begin
            high, low = high[earlier], low[earlier]
            parts.append((rows[high + begin], rows[low], apart[high, low].astype(np.int64)))
    later = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
    earlier_rows = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.int64)
    values = np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.int64)
    order = np.lexsort((earlier_rows, values, later))
    return Pairs(later[order], earlier_rows[order], values[order].astype(np.float64))


def _table(
    some: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], banding: Banding | None
) -> npt.NDArray[np.int16]:
    """Distances of some fingerprints to others, int16 [some, others]."""
    apart = np.zeros((len(some), len(others)), np.int16)
    if banding is None:
        for one, other in zip(some.T, np.ascontiguousarray(others.T), strict=True):
            apart += np.bitwise_count(one[:, None] ^ other[None, :])
    else:
        for row, one in enumerate(some):
            apart[row] = framed_distances(np.broadcast_to(one, others.shape), others, banding.bin_bits)
    return apart


def decide(pairs: Pairs, count: int, distance_max: int, insert: Policy) -> npt.NDArray[np.int64]:
    """Decisions by the index's definition: row of each row's original, -1 where it is no duplicate.

    A row's match is the nearest entry, and the earliest of equally near ones. Its original is the unique row at the root.
    """
    originals = np.full(count, -1, np.int64)
    entered = np.ones(count, np.bool_)
    within = pairs.values <= distance_max
    later, earlier = pairs.later[within], pairs.earlier[within]
    for begin, end in _runs(later):
        candidates = earlier[begin:end]
        candidates = candidates[entered[candidates]]
        if len(candidates):
            match, row = candidates[0], later[begin]
            originals[row] = originals[match] if originals[match] >= 0 else match
            entered[row] = insert == "all"
    return originals


def policy_similarities(pairs: Pairs, count: int, insert: Policy) -> npt.NDArray[np.float64]:
    """Largest exact similarity of each row with an earlier document that this policy would have kept.

    With `unique` those that are themselves below DUPLICATE_MIN; with `all`, and so with `root`, which may find less, every
    earlier document.
    """
    largest = np.zeros(count)
    for begin, end in _runs(pairs.later):
        kept = (
            np.ones(end - begin, np.bool_) if insert != "unique" else largest[pairs.earlier[begin:end]] < DUPLICATE_MIN
        )
        largest[pairs.later[begin]] = pairs.values[begin:end].max(initial=0.0, where=kept)
    return largest


def _runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of equal neighbours."""
    borders = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    return pairwise(borders)
