"""From block keys to matches: which entries of the buckets lie within the distance. Pure, and bounded in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.blocks import Buckets, buckets_of, probe_keys
from index.distance import Matches, hamming, joined, nearest, no_matches

CANDIDATES_MAX = 2**20
"""Distances computed at once: bounds a slice's arrays to about 50 MiB, however full the buckets are."""


@dataclass(frozen=True, slots=True)
class Probes:
    """What has to be looked up for n fingerprints, every key once.

    fingerprints  uint64 [n, words]
    keys          uint32 [k], distinct, ascending
    places        int64 [p], ascending: probe i wants the bucket keys[places[i]]
    rows          int64 [p], ... on behalf of fingerprint rows[i]
    """

    fingerprints: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def part(self, start: int, stop: int) -> "Probes":
        """Only the probes of keys[start:stop]; the fingerprint rows keep their numbers."""
        begin, end = np.searchsorted(self.places, [start, stop]).tolist()
        return Probes(self.fingerprints, self.keys[start:stop], self.places[begin:end] - start, self.rows[begin:end])


def probes_of(fingerprints: npt.NDArray[np.uint64], distance_max: int) -> Probes:
    """The probes that find every entry within `distance_max` of fingerprints uint64 [n, words]."""
    wanted = probe_keys(fingerprints, distance_max)
    keys, places = np.unique(wanted, return_inverse=True)
    places = places.reshape(-1)
    order = np.argsort(places, kind="stable")
    return Probes(fingerprints, keys, places[order], order // wanted.shape[1])


def verified(probes: Probes, buckets: Buckets, distance_max: int) -> Iterator[tuple[Matches, npt.NDArray[np.int64]]]:
    """Compare every probe with all entries of its bucket; a slice of at most CANDIDATES_MAX comparisons at a time.

    Gives the matches of the slice, in no promised order and a pair once per block it agrees on, and int64 [n]: the
    comparisons made for each row.
    """
    begins = np.searchsorted(buckets.keys, probes.keys, side="left")
    sizes = np.searchsorted(buckets.keys, probes.keys, side="right") - begins
    probe_sizes = sizes[probes.places]
    filled = np.flatnonzero(probe_sizes)
    rows, probe_begins, probe_sizes = probes.rows[filled], begins[probes.places[filled]], probe_sizes[filled]
    ends = np.cumsum(probe_sizes)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, CANDIDATES_MAX):
        stop = min(start + CANDIDATES_MAX, total)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        edges = np.clip(np.concatenate([[start], ends[first:last]]), start, stop)
        repeats = np.diff(edges)
        # A bucket's entries stand side by side: place = bucket's begin + how far we are into this probe.
        offsets = probe_begins[first:last] - (ends[first:last] - probe_sizes[first:last])
        candidates = np.arange(start, stop) + np.repeat(offsets, repeats)
        candidate_rows = np.repeat(rows[first:last], repeats)
        distances = hamming(probes.fingerprints[candidate_rows], buckets.fingerprints[candidates])
        near = np.flatnonzero(distances <= distance_max)
        matches = Matches(candidate_rows[near], distances[near], buckets.numbers[candidates[near]])
        yield matches, np.bincount(candidate_rows, minlength=len(probes.fingerprints))


def nearest_in(
    probes: Probes, buckets: Buckets, distance_max: int, limit: int
) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Per row the `limit` nearest of these buckets' entries, as `distance.nearest` gives them, and the comparisons."""
    best, compared = no_matches(), np.zeros(len(probes.fingerprints), np.int64)
    for matches, comparisons in verified(probes, buckets, distance_max):
        compared += comparisons
        if len(matches):
            best = nearest(joined([best, matches]), limit)
    return best, compared


def pairs_within(probes: Probes, distance_max: int, *, nearest_only: bool) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Matches among the probed fingerprints themselves: `numbers` are rows, each below the row it was found for.

    Ordered by row, distance, number. Of equal fingerprints only the first is found: whatever matches a later one
    matches the first at the same distance, and the first is the earlier. With `nearest_only` one match a row.
    Also int64 [n]: the comparisons made for each row.
    """
    count = len(probes.fingerprints)
    firsts = first_of_equals(probes.fingerprints)
    leaders = np.flatnonzero(firsts == np.arange(count))
    buckets = buckets_of(probes.fingerprints[leaders], leaders.astype(np.uint64))
    limit = 1 if nearest_only else None
    found, compared = [no_matches()], np.zeros(count, np.int64)
    for matches, comparisons in verified(probes, buckets, distance_max):
        compared += comparisons
        earlier = matches.take(matches.numbers.astype(np.int64) < matches.rows)
        found.append(nearest(earlier, limit))
    return nearest(joined(found), limit), compared


def first_of_equals(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """For every row the first row with an equal fingerprint: uint64 [n, words] -> int64 [n]."""
    if len(fingerprints) == 0:
        return np.empty(0, np.int64)
    _, firsts, inverse = np.unique(fingerprints, axis=0, return_index=True, return_inverse=True)
    return firsts[inverse.reshape(-1)]
