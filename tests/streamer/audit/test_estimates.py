"""Estimates: weights and intervals that hold, by simulation against known shares."""

import numpy as np
import pytest

from streamer.audit import estimates
from streamer.audit.estimates import Limits, at_threshold, kept_hosts_max, lost, precision, recall, wrong
from streamer.audit.interval import wilson
from streamer.audit.store import Judged

LIMITS = Limits(0.7, 0.5)


def judged(group: int, kept: float, *, named: bool = True, **changed: object) -> Judged:
    plain = Judged("p", "i", "h", group.to_bytes(8, "big"), 0.0, named, named, kept, "k", kept, kept, 0.1)
    return plain._replace(**changed)


def coverage(share: float, mean_size: int, likeness: float, *, trials: int = 150) -> float:
    """How often the interval has the share, over groups of any size and pairs of any similarity.

    likeness  correlation between two members of a group
    """
    chance = np.random.default_rng(5)
    alike, covered = 1 / likeness - 1, 0
    for _ in range(trials):
        sample = []
        for group in range(120):
            own = chance.beta(alike * share, alike * (1 - share))
            for similarity in chance.uniform(0.7, 1.0, chance.geometric(1 / mean_size)).tolist():
                named = bool(chance.random() < own)
                # The sample has a pair with the probability that is its similarity.
                sample += [judged(group, similarity, named=named)] if chance.random() < similarity else []
        found = recall(sample, 0.7)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= share <= found.high
    return covered / trials


def test_intervals_cover_the_share_in_95_cases_of_100_though_groups_enter_as_a_whole() -> None:
    covered = [
        coverage(share, mean_size, likeness)
        for share in (0.98, 0.9, 0.7)
        for mean_size, likeness in ((1, 0.05), (2, 0.05), (2, 0.5), (5, 0.05), (5, 0.3))
    ]
    # Three deviations of a share of 150 trials; and of the mean.
    assert min(covered) >= 0.95 - 0.053
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_an_interval_has_a_share_without_exception(share: float) -> None:
    found = recall([judged(group, 0.9, named=share == 1) for group in range(60) for _ in range(2)], 0.7)
    assert share in (found.low, found.high)
    assert found.low is not None
    assert found.high is not None
    # As wide as for 60 independent pairs, since all members of a group may be alike.
    assert found.high - found.low == pytest.approx(wilson(60, 60).high - wilson(60, 60).low)


def test_a_pair_counts_for_those_that_the_sample_missed() -> None:
    """Of copies with similarity 1 all are dropped, of those with .7 none: the sample holds seven of ten of the latter."""
    chance = np.random.default_rng(6)
    sample = [judged(group, 1.0) for group in range(5_000)]
    sample += [judged(10_000 + group, 0.7, named=False) for group in range(5_000) if chance.random() < 0.7]
    assert recall(sample, 0.7).estimate == pytest.approx(0.5, abs=0.01)


def test_too_few_pairs_or_groups_give_no_estimate() -> None:
    few = [judged(group, 0.9) for group in range(estimates.SEEN_MIN - 1)]
    assert recall(few, 0.7).estimate is None
    assert recall([*few, judged(99, 0.9)], 0.7).estimate == 1
    assert recall([judged(1, 0.9)] * 500, 0.7).in_words() == "not enough seen yet"


def test_precision_asks_both_limits_of_duplicates_whose_original_was_seen() -> None:
    sample = [judged(group, 0.9) for group in range(60)]
    sample += [judged(100 + group, 0.9, near=0.6, original=0.6) for group in range(20)]
    sample += [judged(200 + group, 0.9, near=0.9, original=0.4) for group in range(8)]
    sample += [judged(300 + group, 0.9, original=None) for group in range(50)]
    expected = (60 / 0.9) / (60 / 0.9 + 20 / 0.6 + 8 / 0.4)
    assert precision(sample, LIMITS).estimate == pytest.approx(expected)


def test_a_drop_that_shares_nothing_with_its_original_counts_for_as_many_as_the_sample_missed() -> None:
    """Of 160 such drops a sample of one in sixteen has ten originals, by chance."""
    sample = [judged(group, 1.0) for group in range(40)]
    sample += [judged(100 + group, 0.0, near=0.0, original=0.0) for group in range(10)]
    assert precision([each._replace(one_in=16) for each in sample], LIMITS).estimate == pytest.approx(40 / (40 + 160))
    assert precision([each._replace(one_in=1) for each in sample], LIMITS).estimate == pytest.approx(40 / 50)


def test_documents_of_a_coarser_sample_stand_for_more() -> None:
    """Half of the stream was sampled at one in 4 and dropped, half at one in 16 and kept: each half counts the same."""
    sample = [judged(group, 1.0)._replace(one_in=4) for group in range(160)]
    sample += [judged(1_000 + group, 1.0, named=False, original=None)._replace(one_in=16) for group in range(40)]
    assert recall(sample, 0.7).estimate == pytest.approx(0.5)
    assert at_threshold(sample, 0.7, LIMITS).dropped.estimate == pytest.approx(1)
    lossy = [judged(group, 1.0, new_share=0.0)._replace(one_in=4) for group in range(100)]
    lossy += [judged(1_000 + group, 1.0, new_share=0.5)._replace(one_in=16) for group in range(40)]
    assert lost(lossy)["p50"] == 0.5
    wrong_drops = [each._replace(original=0.1, near=0.1, one_in=16) for each in lossy[100:]]
    expected = 400 / (400 + 40 * 16 / (0.1 + 0.9 / 16))
    assert precision([*lossy[:100], *wrong_drops], LIMITS).estimate == pytest.approx(expected)


def test_nearer_documents_that_the_sample_lacks_take_nothing_from_precision() -> None:
    """A nearer document confirms each of a hundred drops, and the sample has it in four cases of five."""
    sample = [judged(group, 0.6, original=0.6, near=0.8, nearer_chance=0.8) for group in range(80)]
    sample += [judged(100 + group, 0.6, original=0.6, near=0.6) for group in range(20)]
    assert precision(sample, LIMITS).estimate == pytest.approx(1)


def test_lost_text_is_a_weighted_percentile() -> None:
    sample = [judged(group, 1.0, new_share=group / 100) for group in range(100)]
    assert lost(sample) == {"p50": pytest.approx(0.49, abs=0.011), "p95": pytest.approx(0.94, abs=0.011)}
    assert lost(sample[:5]) == {"p50": None, "p95": None}


def test_another_threshold_drops_more_or_less_and_is_measured_by_the_one_in_force() -> None:
    sample = [judged(group, kept) for group, kept in enumerate(([0.0] * 10 + [0.6] * 3 + [0.8] * 4 + [1.0] * 3) * 10)]
    low, same, high = (at_threshold(sample, similarity_min, LIMITS) for similarity_min in (0.5, 0.7, 0.9))
    wanted = [
        (same, {"dropped": 8 / 20, "recall": 1, "precision": 1}),
        (low, {"dropped": 13 / 20, "recall": 1, "precision": 8 / 13}),
        (high, {"dropped": 3 / 20, "recall": 3 / 8, "precision": 1}),
    ]
    for row, shares in wanted:
        for name, share in shares.items():
            measured = getattr(row, name)
            assert measured.estimate == pytest.approx(share)
            assert measured.low is not None
            assert measured.high is not None
            assert measured.low < share <= measured.high
            assert measured.high - measured.low < 0.25
    assert at_threshold(sample[:20], 0.7, LIMITS).recall.in_words() == "not enough seen yet"


def test_wrong_verdicts_come_worst_first() -> None:
    missed, worse = judged(1, 0.75, named=False, original=None), judged(2, 0.95, named=False, original=None)
    taken = judged(3, 0.1, near=0.2, original=0.1)
    right = judged(4, 0.9)
    assert wrong([missed, right, taken, worse], LIMITS) == [("kept", worse), ("dropped", taken), ("kept", missed)]


def test_an_article_that_many_hosts_brought_and_that_was_kept_is_counted_by_hosts() -> None:
    kept = [judged(1, 0.9, named=False, host=f"{number}.example") for number in range(20)]
    dropped = [judged(2, 0.9, host=f"{number}.example") for number in range(30)]
    assert kept_hosts_max([*kept, *kept, *dropped], 0.7) == 20
    assert kept_hosts_max([], 0.7) == 0
