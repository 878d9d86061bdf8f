"""SimHash: the worked examples, and the kernels against the plain definition."""

import subprocess
import sys
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.fingerprint.simhash.kernels import bit_sums
from streamer.fingerprint.simhash.simhash import WEIGHT_UNIT, count_distinct, log_weights, simhash
from tests.support.paths import ROOT
from tests.support.plain_simhash import HASHES, bounds_of, column, plain_sums


def written(sums: npt.NDArray[np.int64], bits: int) -> list[int]:
    """The sums of the low bits, the highest bit first, as on paper."""
    return sums[0, :bits][::-1].tolist()


# --- the worked examples ---------------------------------------------------------------------------------------------


def test_a_sum_of_zero_gives_a_zero_bit() -> None:
    hashes, weights, bounds = column([0b1100, 0b1010]), np.array([7, 7]), np.array([0, 2])
    assert written(bit_sums(hashes, weights, bounds), 4) == [14, 0, 0, -14]
    assert simhash(hashes, weights, bounds)[0, 0] == 0b1000


# --- against the plain definition ------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**40)), max_size=8), max_size=5),
    st.sampled_from([1, 2]),
)
def test_bit_sums_are_the_sums_of_the_definition(texts: list[list[tuple[int, int]]], lanes: int) -> None:
    flat = [feature for text in texts for feature in text]
    hashes = np.array(
        [[value >> 64 * lane & (2**64 - 1) for lane in range(lanes)] for value, _ in flat], np.uint64
    ).reshape(-1, lanes)
    sums = bit_sums(hashes, np.array([weight for _, weight in flat], np.int64), bounds_of(texts))
    for row, text in enumerate(texts):
        values = [value & (2 ** (64 * lanes) - 1) for value, _ in text]
        assert sums[row].tolist() == plain_sums(values, [weight for _, weight in text], 64 * lanes)


@pytest.mark.parametrize("count", [1, 255, 40_000])
def test_a_long_text_changes_the_sums_of_no_other(count: int) -> None:
    ones, bounds = np.full((count + 2, 1), 2**64 - 1, np.uint64), np.array([0, 1, count + 1, count + 2])
    sums = bit_sums(ones, np.full(count + 2, 3, np.int64), bounds)
    assert sums[:, 0].tolist() == [3, 3 * count, 3]
    assert (sums == sums[:, :1]).all()


@given(HASHES, st.randoms(use_true_random=False))
def test_the_order_of_features_changes_no_sum(texts: list[list[int]], random: object) -> None:
    shuffled = [random.sample(text, len(text)) for text in texts]  # type: ignore[attr-defined]
    sums = [
        bit_sums(
            column([value for text in some for value in text]), np.ones(sum(map(len, some)), np.int64), bounds_of(some)
        )
        for some in (texts, shuffled)
    ]
    assert (sums[0] == sums[1]).all()


# --- distinct features and their weights -----------------------------------------------------------------------------


@given(st.lists(st.lists(st.sampled_from([3, 3 + 2**32, 3 + 2**48, 3 + 2**63, 4, 2**63]), max_size=9), max_size=4))
def test_features_are_told_apart_even_where_their_hashes_agree_in_many_bits(texts: list[list[int]]) -> None:
    distinct = count_distinct(column([value for text in texts for value in text]), bounds_of(texts))
    for row, text in enumerate(texts):
        part = slice(distinct.bounds[row], distinct.bounds[row + 1])
        found = dict(zip(distinct.hashes[part, 0].tolist(), distinct.counts[part].tolist(), strict=True))
        assert found == Counter(text)
        assert part.stop - part.start == len(found)
        assert (distinct.texts[part] == row).all()


def test_features_that_all_collide_in_the_table_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high bits choose the slot. With a multiplier of 1 they are 0 for all these features."""
    monkeypatch.setattr("streamer.fingerprint.simhash.simhash._MULTIPLIER", np.uint64(1))
    texts = [list(range(200)) * 2, [7, 7], list(range(100, 300))]
    distinct = count_distinct(column([value for text in texts for value in text]), bounds_of(texts))
    assert distinct.bounds.tolist() == [0, 200, 201, 401]
    assert distinct.hashes[:, 0].tolist() == [*range(200), 7, *range(100, 300)]
    assert distinct.counts.tolist() == [2] * 201 + [1] * 200


def test_every_process_draws_its_own_multiplier() -> None:
    program = "from streamer.fingerprint.simhash import simhash; print(int(simhash._MULTIPLIER))"
    drawn = {int(subprocess.check_output([sys.executable, "-c", program], cwd=ROOT)) for _ in range(2)}
    assert len(drawn) == 2
    assert all(each % 2 for each in drawn)


def test_distinct_features_of_128_bits_differ_in_either_half() -> None:
    hashes = np.array([[1, 1], [1, 2], [1, 1], [2, 1]], np.uint64)
    distinct = count_distinct(hashes, np.array([0, 4]))
    assert sorted(zip(distinct.hashes.tolist(), distinct.counts.tolist(), strict=True)) == [
        ([1, 1], 2),
        ([1, 2], 1),
        ([2, 1], 1),
    ]


def test_no_logarithmic_weight_is_close_to_a_rounding_border() -> None:
    """No count up to a million is so close to a half that another machine's logarithm could round differently."""
    counts = np.arange(1, 1_000_001)
    exact = (1.0 + np.log(counts)) * WEIGHT_UNIT
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-8
    weights = log_weights(counts)
    assert weights[[0, 1, 9]].tolist() == [65_536, 110_962, 216_438]
    with localcontext(prec=40):
        for count in (2, 3, 7, 1_000, 999_983):
            assert weights[count - 1] == int(((1 + Decimal(count).ln()) * WEIGHT_UNIT).to_integral_value())
