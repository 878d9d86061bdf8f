"""Scores against worked examples, intervals against simulation, distances against brute force."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from index.matching.frame import framed_distances
from index.matching.minhash import pack_bins
from index.session import Longer
from index.storage.parameters import Parameters
from streamer.evaluation.scores import (
    Scores,
    Truth,
    admit,
    bootstrap_f1,
    entering_all,
    near_pairs,
    nearest_distances,
    pair_distances,
    pairs_decided,
    pairs_flagged,
    score,
    truth_of_labels,
    truth_of_similarities,
    unreachable,
)
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import load
from tests.support.examples import examples

TENTH = Longer(1_000)
SIMHASH = entering_all(Parameters(64, 3))
MINHASH = entering_all(parameters_for(load(None, [], {}), {}))


def fingerprints_of(
    numbers: npt.NDArray[np.uint64], kinds: Sequence[int], lengths: npt.NDArray[np.uint32] | None = None
) -> Fingerprints:
    none, counts = np.zeros(len(numbers), np.uint8), np.full(len(numbers), 9, np.int32)
    return Fingerprints(np.array(kinds, np.uint8), none, numbers, counts, lengths=lengths)


# --- scores and intervals --------------------------------------------------------------------------------------------


def test_scores_count_decisions_outside_the_grey_zone() -> None:
    truth = Truth(np.array([1, 1, 0, 0, 0], np.bool_), np.array([0, 0, 1, 1, 0], np.bool_))
    scores = score(np.array([True, False, True, False, True]), truth)
    assert scores == Scores(true_duplicates=1, false_duplicates=1, missed=1, true_uniques=1)
    assert (scores.precision.value, scores.recall.value, scores.f1.value) == (0.5, 0.5, 0.5)
    assert scores.false_per_million == 500_000


def test_the_bootstrap_interval_holds_the_truth_in_95_of_100_samples() -> None:
    """Samples of a population of known F1: 19 of 20 intervals hold it."""
    shares = np.array([0.30, 0.03, 0.06, 0.61])
    truth = 2 * shares[0] / (2 * shares[0] + shares[1] + shares[2])
    samples = np.random.default_rng(7).multinomial(400, shares, 1_000)
    held = [bootstrap_f1(Scores(*map(int, sample))) for sample in samples]
    assert 0.93 < np.mean([each.low <= truth <= each.high for each in held]) < 0.97


def test_the_interval_of_no_counts_is_everything() -> None:
    assert [getattr(bootstrap_f1(Scores(0, 0, 0, 0)), name) for name in ("value", "low", "high")] == [1.0, 0.0, 1.0]
    assert bootstrap_f1(Scores(0, 0, 0, 9)).value == 1.0
    assert bootstrap_f1(Scores(0, 0, 1, 9)).value == 0.0


# --- distances and decisions -----------------------------------------------------------------------------------------

KINDS = st.sampled_from([Kind.NEAR, Kind.NEAR, Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE])


@st.composite
def batches(draw: st.DrawFn) -> tuple[Fingerprints, Parameters]:
    """Fingerprints of either scheme, so few distinct ones that some are near each other."""
    parameters = draw(st.sampled_from([SIMHASH, entering_all(Parameters(128, 7)), MINHASH]))
    kinds = draw(st.lists(KINDS, max_size=40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    few = random.integers(0, 2**64, (4, parameters.words), np.uint64)
    numbers = few[random.integers(0, 4, len(kinds))]
    flips = random.integers(0, 2, (len(kinds), parameters.words), np.uint64) << np.uint64(int(random.integers(0, 64)))
    return fingerprints_of(numbers ^ flips, kinds), parameters


def apart(fingerprints: Fingerprints, one: int, other: int, parameters: Parameters) -> int:
    """The distance of one pair, by the definition."""
    left, right = fingerprints.fingerprints[one], fingerprints.fingerprints[other]
    kinds = fingerprints.kinds[one], fingerprints.kinds[other]
    if kinds == (Kind.EXACT, Kind.EXACT) and (left == right).all():
        return 0
    if kinds != (Kind.NEAR, Kind.NEAR):
        return unreachable(parameters)
    if parameters.banding is None:
        return sum(int(bits).bit_count() for bits in left ^ right)
    return int(framed_distances(left[None], right[None], parameters.banding.bin_bits)[0])


@examples(60)
@given(batches())
def test_the_nearest_earlier_document_is_that_of_brute_force(batch: tuple[Fingerprints, Parameters]) -> None:
    fingerprints, parameters = batch
    expected = [
        min((apart(fingerprints, row, earlier, parameters) for earlier in range(row)), default=unreachable(parameters))
        for row in range(len(fingerprints))
    ]
    assert nearest_distances(fingerprints, parameters).tolist() == expected


@examples(25)
@given(batches())
def test_near_pairs_are_all_within_the_limit_and_no_others(batch: tuple[Fingerprints, Parameters]) -> None:
    fingerprints, parameters = batch
    expected = [
        (row, earlier)
        for row in range(len(fingerprints))
        for earlier in range(row)
        if apart(fingerprints, row, earlier, parameters) <= parameters.distance_max
    ]
    assert sorted(near_pairs(fingerprints, parameters)) == expected


@examples(25)
@given(batches())
def test_a_stream_is_decided_as_by_brute_force(batch: tuple[Fingerprints, Parameters]) -> None:
    """Bands may miss a near document. Here near documents differ in at most eight of 128 bins, so none is missed."""
    fingerprints, parameters = batch
    flagged = admit(fingerprints, parameters).originals >= 0
    assert flagged.tolist() == (nearest_distances(fingerprints, parameters) <= parameters.distance_max).tolist()


@pytest.mark.parametrize("parameters", [SIMHASH, MINHASH])
@pytest.mark.parametrize("longer", [TENTH, Longer(1_000, 1_000)])
def test_pairs_are_flagged_as_by_an_index_of_one_document(parameters: Parameters, longer: Longer) -> None:
    random = np.random.default_rng(5)
    count = 60
    left = random.integers(1, 2**64, (count, parameters.words), np.uint64)
    right = left.copy()
    for row in range(count):
        # Every row differs in more words of the signature, or bits of the fingerprint, than the row before.
        if parameters.banding is None:
            right[row, 0] ^= np.uint64(2 ** (row // 4) - 1)
        else:
            right[row, : row * parameters.words // count] = random.integers(1, 2**63)
    kinds = [Kind.EXACT if row % 10 == 1 else Kind.NEAR for row in range(count)]
    lengths = random.choice(np.array([0, 1_000, 1_099, 1_100, 1_200], np.uint32), (2, count))
    one, other = fingerprints_of(left, kinds, lengths[0]), fingerprints_of(right, kinds, lengths[1])
    expected, by_length = [], []
    for row in range(count):
        both = fingerprints_of(np.stack([left[row], right[row]]), [kinds[row]] * 2, lengths[:, row].copy())
        expected.append(bool(admit(both, parameters).originals[1] == 0))
        answers = admit(both, parameters, longer)
        by_length.append((bool(answers.originals[1] == 0), bool(answers.extended[1] == 0)))
    assert pairs_flagged(one, other, parameters).tolist() == expected
    answers = pairs_decided(one, other, parameters, longer)
    assert list(zip((answers.originals >= 0).tolist(), (answers.extended >= 0).tolist(), strict=True)) == by_length
    assert all(answers.originals[answers.originals >= 0] == np.flatnonzero(answers.originals >= 0))
    assert 0 < sum(expected) < count
    assert 0 < sum(extends for _, extends in by_length) < sum(expected)


def test_near_signatures_that_share_no_band_are_not_flagged() -> None:
    """One value of each band differs: the pair is within the threshold, but shares no band."""
    assert MINHASH.banding is not None
    left = np.arange(1, 129, dtype=np.uint8)[None]
    right = left.copy()
    right[0, np.arange(MINHASH.banding.bands) * MINHASH.banding.rows] = 200
    one, other = (fingerprints_of(pack_bins(values, 8), [Kind.NEAR]) for values in (left, right))
    assert pair_distances(one, other, MINHASH)[0] < MINHASH.distance_max
    assert not pairs_flagged(one, other, MINHASH)[0]
    assert pairs_flagged(one, one, MINHASH)[0]


def test_pairs_of_different_kinds_are_unreachable() -> None:
    numbers = np.array([[5], [5], [5], [5], [5]], np.uint64)
    left = fingerprints_of(numbers, [Kind.NEAR, Kind.NEAR, Kind.EXACT, Kind.EXACT, Kind.UNDECIDABLE])
    others = np.array([[6], [5], [5], [4], [5]], np.uint64)
    right = fingerprints_of(others, [Kind.NEAR, Kind.EXACT, Kind.EXACT, Kind.EXACT, Kind.UNDECIDABLE])
    assert pair_distances(left, right, SIMHASH).tolist() == [2, 65, 0, 65, 65]
    assert pairs_flagged(left, right, SIMHASH).tolist() == [True, False, True, False, False]


def test_decisions_name_originals_and_their_cost_on_disk_and_in_time() -> None:
    numbers = np.random.default_rng(3).integers(0, 2**64, (2_500, 1), np.uint64)
    numbers[2_400] = numbers[7]
    admitted = admit(fingerprints_of(numbers, [Kind.NEAR] * 2_500), SIMHASH)
    assert np.flatnonzero(admitted.originals >= 0).tolist() == [2_400]
    assert admitted.originals[2_400] == 7
    assert 8 < admitted.bytes_per_document < 10_000
    assert admitted.cpu_seconds > 0


# --- truth -----------------------------------------------------------------------------------------------------------


def test_the_grey_zone_is_neither_duplicate_nor_different() -> None:
    truth = truth_of_similarities(np.array([0.9, 0.8, 0.79, 0.5, 0.49, 0.0]), 0.3)
    assert truth.duplicate.tolist() == [True, True, False, False, False, False]
    assert truth.different.tolist() == [False, False, False, False, True, True]
    assert truth_of_similarities(np.array([0.85, 0.6, 0.0]), 0.8).different.tolist() == [False, True, True]
    labelled = truth_of_labels(["dup", "true", "2", "3", "1", "unknown", "0.5", "neg", "false"])
    assert labelled.duplicate.tolist() == [True] * 4 + [False] * 5
    assert labelled.different.tolist() == [False] * 6 + [True] * 3
