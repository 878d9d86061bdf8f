"""Accuracy against known truth: distances, scores, intervals."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index import EXTENDING, Entries, Kind, Longer, Parameters, RootRule, Source, Verdict, minhash, second_look
from index.tools import temporary_index
from streamer.audit.interval import Interval, wilson
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.records.relation import new_shares

DUPLICATE_MIN = 0.8
"""Minimum Jaccard similarity between a duplicate and an earlier document."""

UNIQUE_BELOW = 0.5
"""A unique document is less similar to every earlier one. The grey zone up to DUPLICATE_MIN does not count."""

BOOTSTRAP_DRAWS = 2_000
_SEED = 2026
_BATCH_DOCUMENTS = 1_000


@dataclass(frozen=True, slots=True)
class Truth:
    """Truth about n documents or pairs, bool [n] each. Rows with neither flag are in the grey zone.

    >>> score(np.array([True, True]), truth_of_labels(["dup", "neg"])).precision.value
    0.5
    """

    duplicate: npt.NDArray[np.bool_]
    different: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scores:
    """Counts of decisions against the truth, without the grey zone.

    >>> Scores(true_duplicates=9, false_duplicates=1, missed=0, true_uniques=90).precision.value
    0.9
    """

    true_duplicates: int
    false_duplicates: int
    missed: int
    true_uniques: int

    @property
    def precision(self) -> Interval:
        """Share of duplicates among flagged rows."""
        return wilson(self.true_duplicates, self.true_duplicates + self.false_duplicates)

    @property
    def recall(self) -> Interval:
        """Share of flagged rows among duplicates."""
        return wilson(self.true_duplicates, self.true_duplicates + self.missed)

    @property
    def f1(self) -> Interval:
        """Harmonic mean of precision and recall, with a bootstrap interval."""
        return bootstrap_f1(self)

    @property
    def false_per_million(self) -> float:
        """False duplicates per million different rows."""
        different = self.false_duplicates + self.true_uniques
        return self.false_duplicates / different * 1e6 if different else 0.0


def pair_distances(left: Fingerprints, right: Fingerprints, parameters: Parameters) -> npt.NDArray[np.int64]:
    """Distance in each pair, in the verdict's units: int64 [n].

    `unreachable` for different exact texts, texts without features, and pairs rejected by a second look.
    """
    apart = parameters.distances(left.fingerprints, right.fingerprints)
    both_near = (left.kinds == Kind.NEAR) & (right.kinds == Kind.NEAR)
    if parameters.look is not None:
        assert left.looks is not None
        assert right.looks is not None
        judged = parameters.look.judge(apart.astype(np.int16), left.looks, right.looks)
        apart = judged.distances
        # A look by similarity rejects through its distance.
        both_near &= judged.counts | parameters.look.by_similarity
    equal = (left.fingerprints == right.fingerprints).all(axis=1)
    both_exact = (left.kinds == Kind.EXACT) & (right.kinds == Kind.EXACT) & equal
    return np.select(
        [both_near, both_exact], [apart.astype(np.int64), np.zeros(len(apart), np.int64)], unreachable(parameters)
    )


def limit_of(parameters: Parameters) -> int:
    """A duplicate's largest distance, in the units of `pair_distances`."""
    if isinstance(parameters.look, second_look.MetadataLook):
        return minhash.distance_of(parameters.look.similarity_min)
    return parameters.distance_max


def pairs_flagged(left: Fingerprints, right: Fingerprints, parameters: Parameters) -> npt.NDArray[np.bool_]:
    """Pairs that an index flags: within the limit, and with MinHash in a common band; bool [n]."""
    flagged: npt.NDArray[np.bool_] = pair_distances(left, right, parameters) <= limit_of(parameters)
    if parameters.banding is not None:
        shared = minhash.band_keys(left.fingerprints, parameters.banding) == minhash.band_keys(
            right.fingerprints, parameters.banding
        )
        flagged &= shared.any(axis=1) | (left.kinds == Kind.EXACT)
    return flagged


def nearest_distances(fingerprints: Fingerprints, parameters: Parameters) -> npt.NDArray[np.int64]:
    """Each document's distance to its nearest earlier one, or `unreachable`: int64 [n].

    Brute force, even over pairs that no index compares: for pictures only.
    """
    nearest = np.full(len(fingerprints), unreachable(parameters), np.int64)
    for row, _, distances in _earlier_distances(fingerprints, parameters):
        nearest[row] = distances.min()
    return nearest


def near_pairs(fingerprints: Fingerprints, parameters: Parameters) -> list[tuple[int, int]]:
    """Rows of every later and earlier document within the limit, whether an index compares them or not. Brute force."""
    limit = limit_of(parameters)
    return [
        (row, earlier)
        for row, rows, distances in _earlier_distances(fingerprints, parameters)
        for earlier in rows[distances <= limit].tolist()
    ]


def _earlier_distances(
    fingerprints: Fingerprints, parameters: Parameters
) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Each comparable row that has earlier ones of its kind, those rows, and the distances to them."""
    for kind in (Kind.NEAR, Kind.EXACT):
        rows = np.flatnonzero(fingerprints.kinds == kind)
        for place in range(1, len(rows)):
            repeated = np.full(place, rows[place])
            earlier = rows[:place]
            distances = pair_distances(fingerprints.rows(repeated), fingerprints.rows(earlier), parameters)
            yield int(rows[place]), earlier, distances


def longer_rows(left: Fingerprints, right: Fingerprints, longer: Longer | None) -> npt.NDArray[np.bool_]:
    """Pairs whose right side has another fingerprint and is that much longer by letters: bool [n]; None: no pair."""
    if longer is None or left.lengths is None or right.lengths is None:
        return np.zeros(len(left), np.bool_)
    unlike: npt.NDArray[np.bool_] = (left.fingerprints != right.fingerprints).any(axis=1)
    return unlike & longer.exceeded(right.lengths, left.lengths)


def rows_with_new_text(
    left: Fingerprints, right: Fingerprints, parameters: Parameters, longer: Longer | None
) -> npt.NDArray[np.bool_]:
    """MinHash pairs whose right side has another fingerprint and more new text than `longer` allows: bool [n]."""
    if longer is None or parameters.banding is None or left.lengths is None or right.lengths is None:
        return np.zeros(len(left), np.bool_)
    unlike = (left.fingerprints != right.fingerprints).any(axis=1) & (left.lengths > 0) & (right.lengths > 0)
    similarities = minhash.similarities_of(pair_distances(left, right, parameters).astype(np.int16))
    news = new_shares(np.maximum(similarities, 0), np.maximum(right.lengths, 1) / np.maximum(left.lengths, 1))
    found: npt.NDArray[np.bool_] = unlike & (news * minhash.DISTANCE_UNITS > longer.new_max)
    return found


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions on n documents: a stream in order, or each pair's right side after its left side.

    originals  int64 [n], a duplicate's original; -1 for others
    extended   int64 [n], the shorter original that an EXTENDS names; -1 for others

    Originals are rows in the stream, or in the left sides.

    >>> decided = Decided(originals=np.array([-1, 0, -1]), extended=np.array([-1, -1, 0]))
    >>> np.flatnonzero(decided.originals >= 0), np.flatnonzero(decided.extended >= 0)
    (array([1]), array([2]))
    """

    originals: npt.NDArray[np.int64]
    extended: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Admitted(Decided):
    """A temporary index's decisions on a stream, and their cost.

    bytes_per_document  used bytes of the index file, divided by n; larger indexes need less

    >>> nothing = np.full(4, -1)
    >>> admitted = Admitted(nothing, nothing, bytes_per_document=250.0, cpu_seconds=0.5)
    >>> admitted.bytes_per_document * len(admitted.originals)
    1000.0
    """

    bytes_per_document: float
    cpu_seconds: float


def entering_all(parameters: Parameters) -> Parameters:
    """Parameters by which a document's match may be any earlier one, as in a stream's truth.

    Duplicates enter unless they equal their match, and a root may be at any distance. No frames are learnt.

    >>> entering_all(Parameters(distance_max=3)).root
    RootRule(distance_max=64, member_distance_min=0)
    """
    anywhere = RootRule(parameters.comparison.farthest, member_distance_min=0)
    return replace(parameters, insert="root", root=anywhere, frames=None)


def pairs_decided(left: Fingerprints, right: Fingerprints, parameters: Parameters, longer: Longer | None) -> Decided:
    """Decide each pair as an index that holds the left side alone."""
    rows = np.where(pairs_flagged(left, right, parameters), np.arange(len(left)), -1)
    extends = longer_rows(left, right, longer) | rows_with_new_text(left, right, parameters, longer)
    return Decided(np.where(extends, -1, rows), np.where(extends, rows, -1))


def admit(fingerprints: Fingerprints, parameters: Parameters, longer: Longer | None = None) -> Admitted:
    """Admit documents to a temporary index, in the service's batches. None: no document is too long for a duplicate."""
    source, count = Source("evaluation", 0), len(fingerprints)
    duplicates, extended = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    named = {Verdict.DUPLICATE: duplicates} | dict.fromkeys(EXTENDING, extended)
    begun = time.process_time()
    with temporary_index(parameters, map_bytes_max=2**40, longer=longer) as index:
        for begin in range(0, count, _BATCH_DOCUMENTS):
            rows = range(begin, min(begin + _BATCH_DOCUMENTS, count))
            decisions = index.admit(entries_of(fingerprints, rows, source), {source: rows.stop})
            for verdict, originals in named.items():
                for place in np.flatnonzero(decisions.verdicts == verdict).tolist():
                    originals[rows[place]] = int(decisions.original_ids[place] or -1)
        bytes_per_document = index.statistics().used_bytes / max(count, 1)
        seconds = time.process_time() - begun
        return Admitted(duplicates, extended, bytes_per_document, seconds)


def entries_of(fingerprints: Fingerprints, rows: range, source: Source) -> Entries:
    """Entries for these rows, with row numbers as offsets and ids."""
    chosen = fingerprints.rows(slice(rows.start, rows.stop))
    return Entries(
        sources=(source,),
        source_numbers=np.zeros(len(rows), np.uint32),
        offsets=np.arange(rows.start, rows.stop, dtype=np.uint64),
        kinds=chosen.kinds,
        reasons=chosen.reasons,
        fingerprints=chosen.fingerprints,
        times_ms=np.zeros(len(rows), np.int64),
        ids=list(map(str, rows)),
        looks=chosen.looks,
        digests=chosen.digests,
        lengths=chosen.lengths,
    )


def unreachable(parameters: Parameters) -> int:
    """The largest distance plus one, which no pair has."""
    return (minhash.DISTANCE_UNITS if parameters.by_similarity else parameters.bits) + 1


def truth_of_similarities(similarities: npt.NDArray[np.float64], floor: float) -> Truth:
    """Truth from each document's largest Jaccard similarity to an earlier one.

    similarities  float64 [n], unknown below `floor`

    With `floor` above UNIQUE_BELOW, all rows below it differ, and precision is a lower bound.
    """
    return Truth(similarities >= DUPLICATE_MIN, similarities < max(UNIQUE_BELOW, floor))


def truth_of_labels(labels: Sequence[str]) -> Truth:
    """Truth from labels: `dup`, `true`, 2, 3 are duplicates; `neg`, `false`, 0.5 differ; all others are grey.

    >>> truth_of_labels(["dup", "neg", "maybe"]).duplicate.tolist()
    [True, False, False]
    """
    return Truth(
        np.array([label in ("dup", "true", "2", "3") for label in labels], np.bool_),
        np.array([label in ("neg", "false", "0.5") for label in labels], np.bool_),
    )


def score(flagged: npt.NDArray[np.bool_], truth: Truth) -> Scores:
    """Count decisions, bool [n], against the truth."""
    return Scores(
        true_duplicates=int((flagged & truth.duplicate).sum()),
        false_duplicates=int((flagged & truth.different).sum()),
        missed=int((~flagged & truth.duplicate).sum()),
        true_uniques=int((~flagged & truth.different).sum()),
    )


def bootstrap_f1(scores: Scores) -> Interval:
    """F1 and its 95% bootstrap interval, by draws with replacement (Efron 1979).

    F1 depends on four counts only, so one multinomial draw replaces a draw of all documents.
    """
    counts = np.array([scores.true_duplicates, scores.false_duplicates, scores.missed, scores.true_uniques])
    total = int(counts.sum())
    if total == 0:
        return Interval(1.0, 0.0, 1.0)
    draws = np.random.default_rng(_SEED).multinomial(total, counts / total, BOOTSTRAP_DRAWS)
    low, high = np.quantile(_f1(draws), [0.025, 0.975])
    return Interval(float(_f1(counts[None, :])[0]), float(low), float(high))


def _f1(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """2 TP / (2 TP + FP + FN) by row; 1 for 0 / 0."""
    doubled = 2 * counts[:, 0]
    whole = doubled + counts[:, 1] + counts[:, 2]
    return np.where(whole == 0, 1.0, doubled / np.maximum(whole, 1))
